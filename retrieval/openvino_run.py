"""Running a converted model: sorted by length, a batch a core, no texts padded much beyond their own length."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from retrieval.openvino_export import FULL, INT8, TOKENIZER, openvino, read_about

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]
    Ids = NDArray[np.int32]

# Tokens of a batch, padding included: of 512 to 4096, this many were the fastest; so were lengths in steps of 8, since
# OpenVINO prepares itself for each shape that it meets.
BATCH_TOKENS, STEP = 1024, 8
LIKE = 0.75
# Texts that are cut into tokens as one piece of work.
TOKENIZED = 64


def supports_bf16() -> bool:
    """True where the processor multiplies bf16 in hardware."""
    return "BF16" in openvino().Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")


class Runner:
    """A converted model at one precision. May be called from many threads.

    Args:
        folder: where `openvino_export.export` kept it.
        precision: `fp32`, `bf16` or `int8`.
    """

    def __init__(self, folder: Path, precision: str) -> None:
        from tokenizers import Tokenizer as Fast

        self.about = read_about(folder)
        self._tokenizer = Fast.from_file(str(folder / TOKENIZER))
        self._tokenizer.enable_truncation(self.about.max_tokens)
        self._tokenizer.no_padding()
        ov = openvino()
        settings = {
            "PERFORMANCE_HINT": "THROUGHPUT",
            "INFERENCE_PRECISION_HINT": "bf16" if precision == "bf16" else "f32",
            # A pinned thread waits for its core while another program has it.
            "ENABLE_CPU_PINNING": False,
        }
        compiled = ov.Core().compile_model(folder / (INT8 if precision == "int8" else FULL), "CPU", settings)
        self._streams = int(compiled.get_property("OPTIMAL_NUMBER_OF_INFER_REQUESTS"))
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(self._streams):
            self._requests.put(compiled.create_infer_request())
        self._pool = ThreadPoolExecutor(self._streams, thread_name_prefix="openvino")
        # Once in this thread: the first arrays that OpenVINO's binding hands to NumPy make two threads at once wait for
        # each other for ever.
        self._last_layer(self._ids(["."]))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Unit vectors of shape (len(texts), dimension), in the order of `texts`."""
        return self._encode(texts, None)[0]

    def encode_both(self, texts: Sequence[str]) -> tuple[Floats, list[Floats], list[Ids]]:
        """Unit vectors, and of each text its tokens' unit vectors and ids, special tokens included."""
        tokens: list[Any] = [None] * len(texts)
        vectors, ids = self._encode(texts, tokens)
        return vectors, tokens, ids

    def _encode(self, texts: Sequence[str], tokens: list[Any] | None) -> tuple[Floats, list[Ids]]:
        import numpy as np

        vectors = np.zeros((len(texts), self.about.dimension), dtype=np.float32)
        pieces = [texts[at : at + TOKENIZED] for at in range(0, len(texts), TOKENIZED)]
        ids = [one for piece in self._spread(self._ids, pieces) for one in piece]

        def run(batch: list[int]) -> None:
            hidden, mask = self._last_layer([ids[i] for i in batch])
            vectors[batch] = _unit(_pool(hidden, mask, self.about.pooling))
            if tokens is not None:
                for row, i in zip(hidden, batch, strict=True):
                    tokens[i] = _unit(row[: len(ids[i])])

        for _ in self._spread(run, list(_batches([len(one) for one in ids]))):
            pass
        return vectors, ids

    def _spread(self, work: Any, pieces: Sequence[Any]) -> Iterator[Any]:
        """`work` on each piece, over the cores; a single piece in the thread that asks."""
        return map(work, pieces) if len(pieces) < 2 else self._pool.map(work, pieces)

    def _ids(self, texts: Sequence[str]) -> list[Ids]:
        import numpy as np

        return [np.asarray(one.ids, dtype=np.int32) for one in self._tokenizer.encode_batch(list(texts))]

    def _last_layer(self, ids: Sequence[Ids]) -> tuple[Floats, Floats]:
        """The last layer's output (texts, tokens, dimension); and 1 where there is a token, 0 where there is none."""
        import numpy as np

        length = _rounded_up(max(map(len, ids)), self.about.max_tokens)
        padded = np.full((len(ids), length), self.about.pad, dtype=np.int64)
        mask = np.zeros((len(ids), length), dtype=np.int64)
        for row, one in enumerate(ids):
            padded[row, : len(one)] = one
            mask[row, : len(one)] = 1
        with self._request() as request:
            # A copy: the request's own memory is another batch's as soon as it is given back.
            hidden = np.array(request.infer([padded, mask], share_inputs=True, share_outputs=True)[0])
        return hidden, mask.astype(np.float32)

    @contextmanager
    def _request(self) -> Iterator[Any]:
        request = self._requests.get()
        try:
            yield request
        finally:
            self._requests.put(request)


class Runners:
    """The runners of one converted model, each made when it is first needed."""

    def __init__(self, folder: Path) -> None:
        self.about = read_about(folder)
        self._folder = folder
        self._made: dict[str, Runner] = {}
        self._lock = threading.Lock()

    def at(self, precision: str) -> Runner:
        """The one at this precision."""
        with self._lock:
            if precision not in self._made:
                self._made[precision] = Runner(self._folder, precision)
            return self._made[precision]


def _batches(lengths: Sequence[int]) -> Iterator[list[int]]:
    """Positions of texts in batches of like length, the longest first, so that no core has a long one at the end."""
    batch: list[int] = []
    for at in sorted(range(len(lengths)), key=lambda i: -lengths[i]):
        longest = lengths[(batch or [at])[0]]
        full = (len(batch) + 1) * _rounded_up(longest, longest + STEP) > BATCH_TOKENS
        # Among a few texts, padding a short one costs more than another batch, and another core may take that.
        if batch and (full or lengths[at] < longest * LIKE - STEP):
            yield batch
            batch = []
        batch.append(at)
    if batch:
        yield batch


def _rounded_up(length: int, most: int) -> int:
    return min(-(-length // STEP) * STEP, max(most, length))


def _pool(hidden: Floats, mask: Floats, pooling: str) -> Floats:
    """One vector a text: of its first token, or the mean over its tokens."""
    import numpy as np

    if pooling == "cls":
        return hidden[:, 0]
    mean: Floats = np.einsum("btd,bt->bd", hidden, mask) / mask.sum(axis=1, keepdims=True)
    return mean


def _unit(vectors: Floats) -> Floats:
    """Rows made of length 1; a row of zeros stays."""
    import numpy as np

    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    unit: Floats = np.divide(vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0)
    return unit
