"""The linear layers of a converted model as products of 8-bit integers.

Each layer's inputs are rounded by one range, found on texts, after the input channels are evened out as SmoothQuant
does (arXiv:2211.10438).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnmark.retrieval.openvino_import import openvino

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The share of a channel's range that moves into the weights: of 0, .5, .6, .7, .75, .8 and .85, .8 kept the bundled
# model's vectors closest. Over 600 ClapNQ passages the least cosine is .9934, the mean .9981.
SMOOTHING = 0.8

Ranges = Mapping[bytes, tuple["NDArray[np.float32]", "NDArray[np.float32]"]]


def input_ranges(model: Any, texts: Sequence[str], encode: Callable[[Any, Sequence[str]], Any]) -> Ranges:
    """The least and the greatest input of each channel of each linear layer, by the digest of the layer's weights.

    Args:
        model: as it was loaded, in fp32.
        encode: lets the model read texts.
    """
    import numpy as np
    import torch

    found: dict[bytes, tuple[NDArray[np.float32], NDArray[np.float32]]] = {}

    def watch(key: bytes) -> Callable[[Any, Any], None]:
        def hook(_: Any, inputs: Any) -> None:
            rows = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).numpy()
            low, high = rows.min(axis=0), rows.max(axis=0)
            before = found.get(key, (low, high))
            found[key] = np.minimum(before[0], low), np.maximum(before[1], high)

        return hook

    layers = [layer for layer in model[0].auto_model.modules() if isinstance(layer, torch.nn.Linear)]
    hooks = [layer.register_forward_pre_hook(watch(_digest(layer.weight.detach().numpy()))) for layer in layers]
    try:
        # One by one: padding has inputs too, and its ranges are of no interest.
        for text in texts:
            encode(model, [text])
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _digest(weights: NDArray[np.float32]) -> bytes:
    return hashlib.sha256(weights.tobytes()).digest()


def quantise(converted: Any, ranges: Ranges) -> bool:
    """Let the linear layers of an OpenVINO model multiply 8-bit integers; False where none is known by its weights."""
    import numpy as np

    sharing: dict[tuple[str, int], list[tuple[Any, NDArray[np.float32], bytes]]] = {}
    for node in converted.get_ordered_ops():
        weights = _linear_weights(node)
        if weights is not None and (key := _digest(weights)) in ranges:
            source = node.input_value(0)
            at = source.get_node().get_friendly_name(), source.get_index()
            sharing.setdefault(at, []).append((node, weights, key))
    for layers in sharing.values():
        # Layers with one input (query, key and value) share its rounding.
        low, high = ranges[layers[0][2]]
        reach = np.maximum(np.abs(low), np.abs(high)).clip(1e-3)
        heaviest = np.max([np.abs(weights).max(axis=0) for _, weights, _ in layers], axis=0).clip(1e-3)
        scale = (reach**SMOOTHING / heaviest ** (1 - SMOOTHING)).astype(np.float32)
        rounded = _rounded_input(
            layers[0][0].input_value(0), scale, float((low / scale).min()), float((high / scale).max())
        )
        for node, weights, _ in layers:
            node.input(0).replace_source_output(rounded)
            node.input(1).replace_source_output(_rounded_weights(weights * scale))
    return bool(sharing)


def _linear_weights(node: Any) -> NDArray[np.float32] | None:
    """The weights of a product with a constant (outputs, inputs); None for any other operation."""
    import numpy as np

    if node.get_type_name() != "MatMul" or not node.get_attributes()["transpose_b"]:
        return None
    constant = node.input_value(1).get_node()
    if constant.get_type_name() != "Constant" or len(constant.shape) != 2:
        return None
    return np.ascontiguousarray(constant.data, dtype=np.float32)


def _rounded_input(source: Any, scale: NDArray[np.float32], low: float, high: float) -> Any:
    """The input over `scale`, rounded to 256 levels from `low` to `high`, which include zero."""
    import numpy as np

    operations = openvino().opset13
    low, high = min(low, 0.0), max(high, 0.0)
    even = operations.multiply(source, operations.constant((1 / scale).reshape(1, 1, -1)))
    bounds = [operations.constant(np.float32(bound)) for bound in (low, high, low, high)]
    return operations.fake_quantize(even, *bounds, 256).output(0)


def _rounded_weights(weights: NDArray[np.float32]) -> Any:
    """Weights as 8-bit integers with one factor an output."""
    import numpy as np

    operations = openvino().opset13
    step = np.abs(weights).max(axis=1, keepdims=True).clip(1e-8) / 127
    integers = operations.constant(np.round(weights / step).astype(np.int8))
    return operations.multiply(
        operations.convert(integers, "f32"), operations.constant(step.astype(np.float32))
    ).output(0)
