"""Runs a BERT with OpenVINO.

A few texts are laid out in one row, which all cores process together. Many texts are sorted by length, to need little
padding, and each core takes a batch.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.embedding.array_types import Encoded, FloatArray, TokenIds, scale_to_unit
from turnmark.retrieval.embedding.bert_files import BertConfig, token_ids


def openvino() -> Any:
    """Import the `openvino` package without its tools; ImportError or OSError if it cannot be loaded.

    The tools convert models, which takes long to import, and report their import to OpenVINO's makers.
    """
    tools = "openvino.tools"
    before = sys.modules.get(tools)
    sys.modules[tools] = None  # type: ignore[assignment]
    try:
        import openvino as ov
    finally:
        if before is None:
            del sys.modules[tools]
        else:
            sys.modules[tools] = before
    return ov


T = TypeVar("T")

# Tokens of a batch, padding included: of 512 to 4096, this many were the fastest.
BATCH_TOKENS = 1024
# The length of a row, and the place of a text in it, are multiples of this number of tokens. With 16 a vector
# register contains the same tokens of a text wherever it begins, so that sums are the same to the bit. With 8 one
# vector in 50 was off by a step of the 8-bit rounding, a cosine of up to .0004.
STEP_TOKENS = 16
MIN_LENGTH_RATIO = 0.75
# Texts with at most this many tokens together become one row. Attention grows with the square of its length, but a
# message, the message in context and its rewrite (86 tokens in the middle) take a quarter less.
MAX_ROW_TOKENS = 256
# With at most this many tokens, all cores work on one batch, which takes a third of a second on two slow cores.
MAX_SINGLE_BATCH_TOKENS = 4096
# Number of cores beyond which one batch is hardly faster.
MAX_BATCH_THREADS = 4


class Runner:
    """A graph of a BERT (`turnmark.retrieval.embedding.bert_graph`) that is run in fp32 or bf16. Safe to call from many
    threads.

    A text has the same vector, to the bit, alone and among others.

    Args:
        words: the vectors of the vocabulary, of shape (tokens, dimension), in fp32 or fp16.
    """

    def __init__(self, graph: Any, words: NDArray[Any], config: BertConfig, precision: str) -> None:
        self._graph, self._words, self._config, self._precision = graph, words, config, precision
        self._forms: dict[bool, _CompiledGraph] = {}
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str], with_tokens: bool = False) -> Encoded:
        """Return the vectors of texts, in their order, and if asked for those of their tokens."""
        vectors = np.zeros((len(texts), self._config.dimension), dtype=np.float32)
        tokens: list[Any] = [None] * len(texts) if with_tokens else []
        ids = token_ids(self._config, texts)
        lengths = list(map(len, ids))
        packed = sum(_round_up(length) for length in lengths) <= MAX_ROW_TOKENS
        compiled = self._compiled(sum(lengths))

        def run(batch: list[int]) -> None:
            batch_ids = [ids[i] for i in batch]
            inputs, spans = (lay_in_one_row if packed else lay_in_rows)(batch_ids, self._words, self._config)
            hidden = compiled.run(inputs)
            for (row, span), i in zip(spans, batch, strict=True):
                token_vectors = hidden[row, span]
                vectors[i] = token_vectors[0] if self._config.pooling == "cls" else token_vectors.mean(axis=0)
                if with_tokens:
                    tokens[i] = scale_to_unit(token_vectors)

        compiled.spread(run, [list(range(len(ids)))] if packed and ids else list(_batches(lengths)))
        return scale_to_unit(vectors), tokens, ids if with_tokens else []

    def _compiled(self, tokens: int) -> _CompiledGraph:
        """Return the compiled model for a number of tokens, compiled on first use, since each form takes memory."""
        quick = tokens <= MAX_SINGLE_BATCH_TOKENS
        with self._lock:
            if quick not in self._forms:
                sample = [np.full(1, self._config.pad, dtype=np.int32)]
                self._forms[quick] = _CompiledGraph(
                    self._graph, self._precision, quick, lay_in_rows(sample, self._words, self._config)[0]
                )
            return self._forms[quick]


class _CompiledGraph:
    """A model compiled for this processor."""

    def __init__(self, graph: Any, precision: str, quick: bool, inputs: Sequence[Any]) -> None:
        ov = openvino()
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY" if quick else "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            # A pinned thread waits for its core while another program has it.
            "ENABLE_CPU_PINNING": False,
        }
        if quick:
            settings["NUM_STREAMS"] = max(1, (os.cpu_count() or 1) // MAX_BATCH_THREADS)
        compiled = ov.Core().compile_model(graph, "CPU", settings)
        streams = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(streams):
            self._requests.put(compiled.create_infer_request())
        self._pool = ThreadPoolExecutor(streams, thread_name_prefix="openvino")
        # Run once in this thread: two threads that receive the first arrays from OpenVINO's binding deadlock.
        self.run(inputs)

    def spread(self, work: Callable[[T], None], pieces: Sequence[T]) -> None:
        """Run `work` on each piece, spread over the streams; a single piece runs in the calling thread."""
        for _ in map(work, pieces) if len(pieces) < 2 else self._pool.map(work, pieces):
            pass

    def run(self, inputs: Sequence[Any]) -> FloatArray:
        """Return the output of the last layer, of shape (rows, tokens, dimension)."""
        request = self._requests.get()
        try:
            # Copied, because another batch uses the request's memory as soon as the request is released.
            return np.array(request.infer(list(inputs), share_inputs=True, share_outputs=True)[0])
        finally:
            self._requests.put(request)


TokenLayout = tuple[list[NDArray[Any]], list[tuple[int, slice]]]
"""The inputs of a graph, and the row and tokens of each text."""


def lay_in_rows(ids: Sequence[TokenIds], words: NDArray[Any], config: BertConfig) -> TokenLayout:
    """Lay out the texts as one row each."""
    length = _round_up(max(map(len, ids)))
    spans = [(row, slice(0, len(text_ids))) for row, text_ids in enumerate(ids)]
    return _fill_rows((len(ids), length), ids, spans, words, config), spans


def lay_in_one_row(ids: Sequence[TokenIds], words: NDArray[Any], config: BertConfig) -> TokenLayout:
    """Lay out all texts in one row, each beginning at a multiple of `STEP_TOKENS`."""
    spans, start = [], 0
    for text_ids in ids:
        spans.append((0, slice(start, start + len(text_ids))))
        start += _round_up(len(text_ids))
    return _fill_rows((1, start), ids, spans, words, config), spans


def _fill_rows(
    shape: tuple[int, int],
    ids: Sequence[TokenIds],
    spans: Sequence[tuple[int, slice]],
    words: NDArray[Any],
    config: BertConfig,
) -> list[NDArray[Any]]:
    """Return the word vectors, positions and text numbers of texts at their places, with zeros between them."""
    vectors = np.zeros((*shape, config.dimension), dtype=np.float32)
    positions, numbers = np.zeros((2, *shape), dtype=np.int64)
    for number, (text_ids, place) in enumerate(zip(ids, spans, strict=True), 1):
        vectors[place], numbers[place] = words[text_ids], number
        positions[place] = config.first_position + np.arange(len(text_ids))
    return [vectors, positions, numbers]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of positions of texts of similar length, the longest first, so that no core is left with a long
    one.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[(batch or [position])[0]]
        full = (len(batch) + 1) * _round_up(longest) > BATCH_TOKENS
        # With only a few texts, padding a short one costs more than a separate batch, which another core may process.
        if batch and (full or lengths[position] < longest * MIN_LENGTH_RATIO - STEP_TOKENS):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _round_up(length: int) -> int:
    return -(-length // STEP_TOKENS) * STEP_TOKENS
