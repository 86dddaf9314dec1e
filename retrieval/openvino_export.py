"""Converts a sentence-transformers model for OpenVINO, once, into `$TURNMARK_HOME/cache`.

Two forms are kept: the model in fp32, and one whose linear layers multiply 8-bit integers, with ranges found on the
demo documents. Each layer's inputs are rounded with one range, after their channels are scaled as in SmoothQuant
(arXiv:2211.10438). Both forms are compared with PyTorch, on other pieces of the same documents and on very short texts.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.core.home import home, write_json
from turnmark.retrieval.openvino_run import ABOUT, FULL, INT8, TOKENIZER, About, Runner, openvino

FORMAT = 4

# The lowest cosine to PyTorch's vectors that each form may have, over all checked texts.
FULL_COSINE, INT8_COSINE = 0.9999, 0.99
CALIBRATION_TEXTS, CHECKED_TEXTS, TEXT_LENGTH = 40, 24, 900

POOLINGS = ("mean", "cls")
# Model types that accept token positions, counted from 0, and a mask of pairs of tokens.
PACKING = ("bert",)


class NotConvertible(TurnmarkError):
    """OpenVINO cannot run a model, or not with the same results as PyTorch; the message says why."""


def export_folder(key: str) -> Path:
    """Return the folder for the converted model with this key; it may not exist. `$TURNMARK_CACHE` moves it."""
    from importlib.metadata import version

    made_with = "|".join([key, str(FORMAT), *(version(name) for name in ("openvino", "transformers"))])
    cache = Path(os.environ.get("TURNMARK_CACHE") or home() / "cache")
    return cache / "openvino" / hashlib.sha256(made_with.encode()).hexdigest()[:24]


def export(model: Any, folder: Path, with_int8: bool) -> None:
    """Convert a loaded fp32 `SentenceTransformer`, check it, and write it to `folder`, completely or not at all.

    Args:
        with_int8: also make the 8-bit form, where the processor multiplies 8-bit integers exactly.
    """
    from filelock import FileLock

    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(folder.parent / ".lock"):
        if (folder / ABOUT).is_file():
            return  # another process has converted the model meanwhile
        part = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
        try:
            # Tracing a model warns; whether it went well is checked by its vectors.
            with _quiet():
                _write(model, part, with_int8)
            for path in part.iterdir():
                with open(path, "rb+") as file:
                    os.fsync(file.fileno())
            part.replace(folder)
        finally:
            shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence the warnings of tracing a model: the check of its vectors shows whether it went well."""
    from transformers.utils import logging as transformers_logging

    verbosity = transformers_logging.get_verbosity()
    transformers_logging.set_verbosity_error()
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        transformers_logging.set_verbosity(verbosity)


def _write(model: Any, part: Path, with_int8: bool) -> None:
    ov = openvino()
    about = _about(model)
    (part / TOKENIZER).write_text(model.tokenizer.backend_tokenizer.to_str(), encoding="utf-8")
    try:
        layer, example = _traceable(model, about)
        ov.save_model(ov.convert_model(layer, example_input=example), part / FULL, compress_to_fp16=False)
    except Exception as error:
        raise NotConvertible(f"conversion failed: {type(error).__name__}: {str(error)[:300]}") from error
    calibration, checked = _sample_texts()
    expected = _encode(model, checked)
    write_json(part / ABOUT, about.model_dump())
    worst = _least_cosine(Runner(part, "fp32"), checked, expected)
    if not worst >= FULL_COSINE:
        raise NotConvertible(f"its vectors would differ from PyTorch's (cosine {worst:.4f})")
    quantised = ov.Core().read_model(part / FULL) if with_int8 else None
    if quantised is not None and quantise(quantised, input_ranges(model, calibration)):
        ov.save_model(quantised, part / INT8, compress_to_fp16=False)
        worst = _least_cosine(Runner(part, "int8"), checked, expected)
        about = about.model_copy(update={"int8_cosine": worst if worst >= INT8_COSINE else 0.0})
        write_json(part / ABOUT, about.model_dump())


def _about(model: Any) -> About:
    """Describe a model of a plain form: a transformer, a pooling, perhaps a normalisation."""
    modules = list(model)
    kinds = [type(module).__name__ for module in modules]
    if kinds not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        raise NotConvertible(f"its modules are {', '.join(kinds)}, not Transformer, Pooling, Normalize")
    pooling = modules[1]
    if pooling.pooling_mode not in POOLINGS or not pooling.include_prompt:
        raise NotConvertible(f"its pooling is {pooling.pooling_mode!r}")
    tokenizer = model.tokenizer
    if not getattr(tokenizer, "is_fast", False):
        raise NotConvertible("its tokenizer has no tokenizer.json")
    return About(
        dimension=int(model.get_embedding_dimension()),
        max_tokens=int(model.max_seq_length or 512),
        pooling=pooling.pooling_mode,
        pad=int(tokenizer.pad_token_id or 0),
        packs=modules[0].auto_model.config.model_type in PACKING,
        int8_cosine=0.0,
    )


def _traceable(model: Any, about: About) -> tuple[Any, Any]:
    """Return the transformer as a module that outputs the last layer, and an example input with padding.

    It takes the tokens' ids; then, of a model that packs, their positions in their text and the text's number, 0 for
    padding; of any other a 1 for each token and a 0 for padding.
    """
    import torch

    ids = torch.full((2, 9), about.pad, dtype=torch.long)
    mask = torch.ones_like(ids)
    ids[:, :6], mask[1, 6:] = 5, 0

    class LastLayer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model[0].auto_model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.inner(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    class PackedLastLayer(LastLayer):
        """Lets a token attend to the tokens of its own text only."""

        def forward(  # type: ignore[override]
            self, input_ids: torch.Tensor, positions: torch.Tensor, numbers: torch.Tensor
        ) -> Any:
            same_text = numbers[:, None, :, None] == numbers[:, None, None, :]
            mask = torch.where(same_text, 0.0, torch.finfo(torch.float32).min)
            return self.inner(input_ids=input_ids, position_ids=positions, attention_mask=mask).last_hidden_state

    if about.packs:
        return PackedLastLayer().eval(), (ids, torch.arange(9).repeat(2, 1), mask)
    return LastLayer().eval(), (ids, mask)


def _sample_texts() -> tuple[list[str], list[str]]:
    """Return texts of the demo documents: some for finding ranges, and others for checking."""
    from importlib.resources import files

    from turnmark.corpora.readers import read_source
    from turnmark.corpora.types import Document

    pieces = []
    for item in read_source(Path(str(files("turnmark.corpora.demo"))) / "documents"):
        if isinstance(item, Document):
            pieces += [item.text[start : start + TEXT_LENGTH] for start in range(0, len(item.text), TEXT_LENGTH)]
    ranged, checked = pieces[::2][:CALIBRATION_TEXTS], pieces[1::2][:CHECKED_TEXTS]
    # Beginnings as long as questions; and texts of one word or none, whose vectors are the most unusual.
    short = [[text[: 10 + 7 * number % 80] for number, text in enumerate(texts)] for texts in (ranged, checked)]
    return [*ranged, *short[0], "", "a", "What?"], [*checked, *short[1], "tea", " "]


def _encode(model: Any, texts: Sequence[str]) -> NDArray[np.float32]:
    """Return the vectors of the original model, without a prompt."""
    vectors: NDArray[np.float32] = model.encode(
        list(texts), prompt="", batch_size=8, show_progress_bar=False, normalize_embeddings=True
    )
    return vectors


def _least_cosine(runner: Runner, texts: Sequence[str], expected: NDArray[np.float32]) -> float:
    """Return the lowest cosine to the expected vectors, of texts embedded as one batch and three at a time, which may
    run differently.
    """
    in_threes = [runner.encode(texts[start : start + 3]) for start in range(0, len(texts), 3)]
    return min(float((ours * expected).sum(axis=1).min()) for ours in (runner.encode(texts), np.concatenate(in_threes)))


# The share of a channel's range that moves into the weights: of 0, .5, .6, .7, .75, .8 and .85, .8 kept the bundled
# model's vectors closest. Over 600 ClapNQ passages the least cosine is .9934, the mean .9981.
SMOOTHING = 0.8

Ranges = dict[bytes, tuple["NDArray[np.float32]", "NDArray[np.float32]"]]


def input_ranges(model: Any, texts: Sequence[str]) -> Ranges:
    """Return the lowest and highest input of each channel of each linear layer, by the digest of its weights."""
    import torch

    ranges: Ranges = {}

    def watch(key: bytes) -> Callable[[Any, Any], None]:
        def hook(_: Any, inputs: Any) -> None:
            rows = inputs[0].detach().reshape(-1, inputs[0].shape[-1]).numpy()
            low, high = rows.min(axis=0), rows.max(axis=0)
            known_range = ranges.get(key, (low, high))
            ranges[key] = np.minimum(known_range[0], low), np.maximum(known_range[1], high)

        return hook

    layers = [layer for layer in model[0].auto_model.modules() if isinstance(layer, torch.nn.Linear)]
    hooks = [layer.register_forward_pre_hook(watch(_digest(layer.weight.detach().numpy()))) for layer in layers]
    try:
        # One by one, since padding would change the ranges.
        for text in texts:
            _encode(model, [text])
    finally:
        for hook in hooks:
            hook.remove()
    return ranges


def _digest(weights: NDArray[np.float32]) -> bytes:
    return hashlib.sha256(weights.tobytes()).digest()


def quantise(converted: Any, ranges: Ranges) -> bool:
    """Make the linear layers of an OpenVINO model multiply 8-bit integers; False if none of them has known ranges."""
    sharing: dict[tuple[str, int], list[tuple[Any, NDArray[np.float32], bytes]]] = {}
    for node in converted.get_ordered_ops():
        weights = _linear_weights(node)
        if weights is not None and (key := _digest(weights)) in ranges:
            source = node.input_value(0)
            output = source.get_node().get_friendly_name(), source.get_index()
            sharing.setdefault(output, []).append((node, weights, key))
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
    """Return the weights (outputs, inputs) of a product with a constant; None for any other operation."""
    if node.get_type_name() != "MatMul" or not node.get_attributes()["transpose_b"]:
        return None
    constant = node.input_value(1).get_node()
    if constant.get_type_name() != "Constant" or len(constant.shape) != 2:
        return None
    return np.ascontiguousarray(constant.data, dtype=np.float32)


def _rounded_input(source: Any, scale: NDArray[np.float32], low: float, high: float) -> Any:
    """Return the input over `scale`, rounded to 256 levels from `low` to `high`, extended to include zero."""
    operations = openvino().opset13
    low, high = min(low, 0.0), max(high, 0.0)
    even = operations.multiply(source, operations.constant((1 / scale).reshape(1, 1, -1)))
    bounds = [operations.constant(np.float32(bound)) for bound in (low, high, low, high)]
    return operations.fake_quantize(even, *bounds, 256).output(0)


def _rounded_weights(weights: NDArray[np.float32]) -> Any:
    """Return weights as 8-bit integers with one factor per output."""
    operations = openvino().opset13
    step = np.abs(weights).max(axis=1, keepdims=True).clip(1e-8) / 127
    integers = operations.constant(np.round(weights / step).astype(np.int8))
    return operations.multiply(
        operations.convert(integers, "f32"), operations.constant(step.astype(np.float32))
    ).output(0)
