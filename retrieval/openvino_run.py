"""Runs a converted model.

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
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from turnmark.core.record import Record
from turnmark.retrieval.arrays import FloatArray, TokenIds


def openvino() -> Any:
    """Import the `openvino` package without its telemetry; ImportError or OSError if it cannot be loaded.

    OpenVINO reports its import to its makers unless its telemetry package is missing, so that is hidden meanwhile.
    """
    telemetry = "openvino_telemetry"
    before = sys.modules.get(telemetry)
    sys.modules[telemetry] = None  # type: ignore[assignment]
    try:
        import openvino as ov

        # Imported here, while the telemetry is out of the way: this is where it would report from.
        import openvino.tools.ovc
    finally:
        if before is None:
            del sys.modules[telemetry]
        else:
            sys.modules[telemetry] = before
    return ov


FULL, INT8, ABOUT, TOKENIZER = "model.xml", "int8.xml", "about.json", "tokenizer.json"


class About(Record):
    """Settings stored with a converted model, so that it runs without loading the original."""

    dimension: int
    max_tokens: int
    pooling: str
    pad: int
    packs: bool  # whether several texts can share a row, with the position and the text's number of each token
    int8_cosine: float  # lowest cosine over the checked texts; 0: no 8-bit form


def read_about(folder: Path) -> About:
    """Read the settings of the converted model in `folder`."""
    return About.model_validate_json((folder / ABOUT).read_text(encoding="utf-8"))


T = TypeVar("T")

# Tokens of a batch, padding included: of 512 to 4096, this many were the fastest.
BATCH_TOKENS = 1024
# Rows are a multiple of so many tokens long, and a text begins in a row at such a multiple. With 16 a vector
# register holds the same tokens of a text wherever it begins, so that sums come out the same to the bit. With 8 one
# vector in 50 was off by a step of the 8-bit rounding, a cosine of up to .0004.
STEP = 16
LIKE = 0.75
# Up to so many tokens texts become one row: attention grows with the square of its length, but a message, the message
# in context and its rewrite (86 tokens in the middle) take a quarter less.
PACKED_TOKENS = 256
# Up to so many tokens all cores work on one batch, a third of a second on two slow cores.
QUICK_TOKENS = 4096
# Cores beyond which one batch is not done much sooner.
THREADS = 4


class Runner:
    """A converted model at one precision (`fp32`, `bf16`, `int8`). Safe to call from many threads.

    A text has the same vector, to the bit, alone and among others, where the model's limit is a multiple of `STEP`.
    """

    def __init__(self, folder: Path, precision: str) -> None:
        from tokenizers import Tokenizer as Fast

        self.about = read_about(folder)
        self._tokenizer = Fast.from_file(str(folder / TOKENIZER))
        self._tokenizer.enable_truncation(self.about.max_tokens)
        self._tokenizer.no_padding()
        self._path, self._precision = folder / (INT8 if precision == "int8" else FULL), precision
        self._forms: dict[bool, _Compiled] = {}
        self._lock = threading.Lock()

    def encode(self, texts: Sequence[str]) -> FloatArray:
        """Return unit vectors of shape (len(texts), dimension), in the order of `texts`."""
        return self._encode(texts, None)[0]

    def encode_both(self, texts: Sequence[str]) -> tuple[FloatArray, list[FloatArray], list[TokenIds]]:
        """Return unit vectors, and the unit token vectors and token ids of each text, special tokens included."""
        tokens: list[Any] = [None] * len(texts)
        vectors, ids = self._encode(texts, tokens)
        return vectors, tokens, ids

    def _encode(self, texts: Sequence[str], tokens: list[Any] | None) -> tuple[FloatArray, list[TokenIds]]:
        vectors = np.zeros((len(texts), self.about.dimension), dtype=np.float32)
        encodings = self._tokenizer.encode_batch(list(texts))
        ids = [np.asarray(encoding.ids, dtype=np.int32) for encoding in encodings]
        lengths = [len(token_ids) for token_ids in ids]
        packed = self.about.packs and sum(_rounded_up(length) for length in lengths) <= PACKED_TOKENS
        compiled = self._compiled(sum(lengths))

        def run(batch: list[int]) -> None:
            batch_ids = [ids[i] for i in batch]
            inputs, spans = in_one_row(batch_ids, self.about) if packed else in_rows(batch_ids, self.about)
            hidden = compiled.run(inputs)
            for (row, span), i in zip(spans, batch, strict=True):
                token_vectors = hidden[row, span]
                vectors[i] = token_vectors[0] if self.about.pooling == "cls" else token_vectors.mean(axis=0)
                if tokens is not None:
                    tokens[i] = _unit(token_vectors)

        compiled.spread(run, [list(range(len(ids)))] if packed and ids else list(_batches(lengths)))
        return _unit(vectors), ids

    def _compiled(self, tokens: int) -> _Compiled:
        """Return the compiled model for a number of tokens, compiled on first use, since each form takes memory."""
        quick = tokens <= QUICK_TOKENS
        with self._lock:
            if quick not in self._forms:
                sample = [np.full(1, self.about.pad, dtype=np.int32)]
                self._forms[quick] = _Compiled(self._path, self._precision, quick, in_rows(sample, self.about)[0])
            return self._forms[quick]


class _Compiled:
    """A model compiled for this processor."""

    def __init__(self, path: Path, precision: str, quick: bool, inputs: Sequence[Any]) -> None:
        ov = openvino()
        settings: dict[str, Any] = {
            "PERFORMANCE_HINT": "LATENCY" if quick else "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            # A pinned thread waits for its core while another program has it.
            "ENABLE_CPU_PINNING": False,
        }
        if quick:
            settings["NUM_STREAMS"] = max(1, (os.cpu_count() or 1) // THREADS)
        compiled = ov.Core().compile_model(path, "CPU", settings)
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
            # A copy: the request's own memory is another batch's as soon as it is given back.
            return np.array(request.infer(list(inputs), share_inputs=True, share_outputs=True)[0])
        finally:
            self._requests.put(request)


Laid = tuple[list[NDArray[np.int64]], list[tuple[int, slice]]]
"""The inputs of a model, arrays of one shape (`openvino_export._traceable`); and each text's row and tokens."""


def in_rows(ids: Sequence[TokenIds], about: About) -> Laid:
    """Lay out the texts as one row each."""
    longest = max(map(len, ids))
    # A model that numbers the tokens itself has no numbers beyond its limit, not even for padding.
    length = _rounded_up(longest) if about.packs else min(_rounded_up(longest), max(longest, about.max_tokens))
    padded = np.full((len(ids), length), about.pad, dtype=np.int64)
    mask = np.zeros((len(ids), length), dtype=np.int64)
    for row, token_ids in enumerate(ids):
        padded[row, : len(token_ids)] = token_ids
        mask[row, : len(token_ids)] = 1
    inputs = [padded, mask]
    if about.packs:
        inputs.insert(1, np.arange(length) * mask)
    return inputs, [(row, slice(0, len(token_ids))) for row, token_ids in enumerate(ids)]


def in_one_row(ids: Sequence[TokenIds], about: About) -> Laid:
    """Lay out all texts in one row, each beginning at a multiple of `STEP`; for a model that packs."""
    length = sum(_rounded_up(len(token_ids)) for token_ids in ids)
    padded = np.full((1, length), about.pad, dtype=np.int64)
    positions, numbers = np.zeros((2, 1, length), dtype=np.int64)
    spans, start = [], 0
    for number, token_ids in enumerate(ids, 1):
        span = slice(start, start + len(token_ids))
        padded[0, span], positions[0, span], numbers[0, span] = token_ids, np.arange(len(token_ids)), number
        spans.append((0, span))
        start += _rounded_up(len(token_ids))
    return [padded, positions, numbers], spans


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Yield batches of positions of texts of similar length, the longest first, so that no core is left with a long
    one.
    """
    batch: list[int] = []
    for position in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[(batch or [position])[0]]
        full = (len(batch) + 1) * _rounded_up(longest) > BATCH_TOKENS
        # Among a few texts, padding a short one costs more than another batch, and another core may take that.
        if batch and (full or lengths[position] < longest * LIKE - STEP):
            yield batch
            batch = []
        batch.append(position)
    if batch:
        yield batch


def _rounded_up(length: int) -> int:
    return -(-length // STEP) * STEP


def _unit(vectors: FloatArray) -> FloatArray:
    """Return the rows scaled to length 1; a row of zeros stays."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: FloatArray = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
