"""Builds the OpenVINO graph of a BERT from its weights. This takes a fraction of a second and converts no files.

The inputs of the graph are the vectors of the tokens, their positions as the model counts them, and the number of each
token's text, which is 0 for padding. A token attends only to tokens of its own text, so several texts can share a row.
The vocabulary stays outside the graph: a multilingual one is four fifths of a model, and a text needs a few rows of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.embedding.bert_files import BertConfig, NotBert, Weights
from turnmark.retrieval.embedding.openvino_runner import openvino

Ranges = dict[str, tuple[NDArray[np.float32], NDArray[np.float32]]]
"""Lowest and highest value of each channel of the inputs of linear layers, by the name of the input."""

# The share of a channel's range that moves into the weights. Of 0, .5, .6, .7, .75, .8 and .85, the value .8 changed
# the bundled model's vectors least. Over 600 ClapNQ passages the lowest cosine is .9934, the mean .9981.
SMOOTHING = 0.8


def build_graph(bert: BertConfig, weights: Weights, ranges: Ranges | None = None) -> Any:
    """Return an `openvino.Model` whose output is the last layer, of shape (rows, tokens, dimension).

    Args:
        weights: of `read_weights`. The graph uses their memory if they are in fp32.
        ranges: with these, linear layers multiply 8-bit integers.
    """
    output, inputs, _ = _build(bert, weights, ranges)
    return openvino().Model([output], inputs, "bert")


def build_watching_graph(bert: BertConfig, weights: Weights) -> tuple[Any, list[str]]:
    """Return the fp32 graph with the lowest and highest value per channel of each linear layer's input as its outputs,
    and the names of these inputs.
    """
    ops = openvino().opset13
    _, inputs, watched = _build(bert, weights, None)
    axes = ops.constant(np.array([0, 1]))
    reduced = [reduce(node, axes) for node in watched.values() for reduce in (ops.reduce_min, ops.reduce_max)]
    return openvino().Model(reduced, inputs, "bert ranges"), list(watched)


def _build(bert: BertConfig, weights: Weights, ranges: Ranges | None) -> tuple[Any, Any, Any]:
    """Return the output, the inputs, and the inputs of linear layers by name."""
    layers = _Layers(bert, weights, ranges)
    words = layers.ops.parameter([-1, -1, bert.dimension], np.float32, name="words")
    inputs = [words, *(layers.ops.parameter([-1, -1], np.int64, name=name) for name in ("positions", "numbers"))]
    try:
        return layers.encoder(*inputs), inputs, layers.watched
    except KeyError as error:
        raise NotBert(f"its weights lack {error}") from error


@dataclass
class _Layers:
    """Adds the layers of one model to a graph."""

    bert: BertConfig
    weights: Weights
    ranges: Ranges | None
    watched: dict[str, Any] = field(default_factory=dict)
    ops: Any = field(default_factory=lambda: openvino().opset13)

    def encoder(self, words: Any, positions: Any, numbers: Any) -> Any:
        """Return the output of the last layer."""
        ops = self.ops
        axis = ops.constant(np.int64(0))
        places = ops.gather(self.constant("embeddings.position_embeddings.weight"), positions, axis)
        # All tokens are of the first type.
        kind = ops.constant(self.array("embeddings.token_type_embeddings.weight")[:1].copy())
        hidden = self.normalized(ops.add(ops.add(words, kind), places), "embeddings.LayerNorm")
        same = ops.equal(ops.unsqueeze(numbers, _axes(ops, 1, 3)), ops.unsqueeze(numbers, _axes(ops, 1, 2)))
        mask = ops.select(same, ops.constant(np.float32(0)), ops.constant(np.finfo(np.float32).min))
        for number in range(self.bert.layers):
            hidden = self.layer(hidden, mask, f"encoder.layer.{number}")
        return hidden

    def layer(self, hidden: Any, mask: Any, name: str) -> Any:
        """Return the output of one transformer layer."""
        ops = self.ops
        parts = [f"{name}.attention.self.{part}" for part in ("query", "key", "value")]
        shape = ops.constant(np.array([0, 0, self.bert.heads, self.bert.dimension // self.bert.heads]))
        swapped = _axes(ops, 0, 2, 1, 3)
        query, key, value = (
            ops.transpose(ops.reshape(part, shape, True), swapped) for part in self.linear(hidden, *parts)
        )
        attended = ops.transpose(ops.scaled_dot_product_attention(query, key, value, mask), swapped)
        attended = ops.reshape(attended, ops.constant(np.array([0, 0, self.bert.dimension])), True)
        [attended] = self.linear(attended, f"{name}.attention.output.dense")
        hidden = self.normalized(ops.add(attended, hidden), f"{name}.attention.output.LayerNorm")
        [inner] = self.linear(hidden, f"{name}.intermediate.dense")
        [outer] = self.linear(ops.gelu(inner, "erf"), f"{name}.output.dense")
        return self.normalized(ops.add(outer, hidden), f"{name}.output.LayerNorm")

    def linear(self, hidden: Any, *names: str) -> list[Any]:
        """Return the outputs of the linear layers with these names, which share an input and its rounding."""
        ops = self.ops
        self.watched[names[0]] = hidden
        matrices = [self.array(f"{name}.weight") for name in names]
        if self.ranges is None:
            factors = [ops.constant(matrix, shared_memory=True) for matrix in matrices]
        else:
            low, high = self.ranges[names[0]]
            scale = _smoothing_scale(low, high, matrices)
            hidden = self.rounded(ops.multiply(hidden, ops.constant(1 / scale)), low / scale, high / scale)
            factors = [self.rounded_weights(matrix * scale) for matrix in matrices]
        products = [ops.matmul(hidden, factor, False, True) for factor in factors]
        return [ops.add(product, self.constant(f"{name}.bias")) for product, name in zip(products, names, strict=True)]

    def rounded(self, hidden: Any, low: NDArray[np.float32], high: NDArray[np.float32]) -> Any:
        """Return values rounded to 256 levels between the lowest and the highest, with zero between them."""
        lowest, highest = np.float32(min(low.min(), 0)), np.float32(max(high.max(), 0))
        bounds = [self.ops.constant(bound) for bound in (lowest, highest, lowest, highest)]
        return self.ops.fake_quantize(hidden, *bounds, 256)

    def rounded_weights(self, matrix: NDArray[np.float32]) -> Any:
        """Return weights as 8-bit integers with one factor per output."""
        step = np.abs(matrix).max(axis=1, keepdims=True).clip(1e-8) / 127
        integers = self.ops.constant(np.round(matrix / step).astype(np.int8))
        return self.ops.multiply(self.ops.convert(integers, "f32"), self.ops.constant(step.astype(np.float32)))

    def normalized(self, hidden: Any, name: str) -> Any:
        """Return the values after layer normalization."""
        even = self.ops.mvn(hidden, _axes(self.ops, -1), True, self.bert.epsilon, "inside_sqrt")
        return self.ops.add(self.ops.multiply(even, self.constant(f"{name}.weight")), self.constant(f"{name}.bias"))

    def constant(self, name: str) -> Any:
        """Return a weight as a constant that shares the memory of the array."""
        return self.ops.constant(self.array(name), shared_memory=True)

    def array(self, name: str) -> NDArray[np.float32]:
        """Return a weight in fp32."""
        return self.weights[name].astype(np.float32, copy=False)


def _axes(ops: Any, *axes: int) -> Any:
    return ops.constant(np.array(axes))


def _smoothing_scale(
    low: NDArray[np.float32], high: NDArray[np.float32], matrices: list[NDArray[np.float32]]
) -> NDArray[np.float32]:
    """Return the factor of each input channel that moves from the inputs into the weights, as in SmoothQuant
    (arXiv:2211.10438).
    """
    reach = np.maximum(np.abs(low), np.abs(high)).clip(1e-3)
    heaviest = np.max([np.abs(matrix).max(axis=0) for matrix in matrices], axis=0).clip(1e-3)
    scale: NDArray[np.float32] = (reach**SMOOTHING / heaviest ** (1 - SMOOTHING)).astype(np.float32)
    return scale
