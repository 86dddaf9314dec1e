"""Reads vectors from files that builds append to: one per passage, and one per token.

The vector of a text has a slot, its position in the files. Passages with the same text share one.

**Passages.** Comparing a query with all vectors is exact, and up to `FLAT_LIMIT` passages it is fast. In larger indexes
the signs of the components choose candidates, whose vectors are compared. The costs are in docs/measured.md.

**Tokens,** for late interaction. Only the signs of a token vector's components are stored: one bit per dimension, as in
ColBERT's compressed forms, or 48 bytes at 384 dimensions. On the MTRAG pools this costs .002 to .006 of nDCG@5 compared
with 16-bit floats. A projection to 32 dimensions of 8 bits is about as large and costs .04.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.embedding.embedders import Embedder, TextRole
from turnmark.retrieval.ranking.fusion import RankedRows, top_k, top_k_of


def stack_vectors(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Convert checkpoint vectors to rows of an array."""
    return np.stack([np.frombuffer(vector, dtype=np.float32) for vector in vectors])


FLAT_LIMIT = 100_000
"""Number of passages up to which a query is compared with all vectors: 150 MB at 384 dimensions. Beyond it, the signs
of the vectors choose candidates."""
CANDIDATES = 20
"""Number of candidates for each row that is wanted, and `MIN_CANDIDATES` at least."""
MIN_CANDIDATES = 4000
_QUERIES_PER_BATCH = 32
"""Number of queries per matrix product: 13 MB of scores for 100,000 passages."""
_ROWS_PER_CORE = 4096
"""Number of rows or tokens for which another core is used."""
_COSINE_DIGITS = 6
"""Decimals of a cosine. Further decimals depend on the vector's position in a batch."""

VECTORS_FILE, SIGNS_FILE = "exact/vectors.f32", "exact/signs.u8"


def sign_bytes(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the signs of vectors of shape (n, dimension), as bits in whole groups of 8 bytes."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))


def mapped(path: Path, dtype: str, shape: tuple[int, int]) -> NDArray[Any]:
    """Map the first rows of a file that builds append to; raise ValueError if it is shorter."""
    size = shape[0] * shape[1] * np.dtype(dtype).itemsize
    if path.stat().st_size < size:
        raise ValueError(f"{path.name} is shorter than its rows")
    return np.memmap(path, dtype, "r", shape=shape) if size else np.zeros(shape, dtype)


class FlatVectors:
    """The memory-mapped vectors of the passages of an index, opened for searching.

    Args:
        folder: the generation's folder.
        slots: the position of each row's vector in the file, or -1 for a row without one.
    """

    def __init__(self, folder: Path, slots: NDArray[np.int64], dimension: int) -> None:
        used = int(slots.max(initial=-1)) + 1
        self._vectors: FloatArray = mapped(folder / VECTORS_FILE, "<f4", (used, dimension))
        self._slots = slots
        self._has_vector = None if len(slots) and slots.min() >= 0 else slots >= 0
        self._signs: NDArray[np.uint64] | None = None
        if len(slots) > FLAT_LIMIT:
            width = sign_bytes(np.zeros((1, dimension), np.float32)).shape[1]
            self._signs = mapped(folder / SIGNS_FILE, "u1", (used, width)).view(np.uint64)

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> FloatArray:
        """Return the vectors of rows that have one, of shape (len(rows), dimension)."""
        return np.asarray(self._vectors[self._slots[np.asarray(rows, dtype=np.int64)]])

    def known(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that have a vector."""
        return rows if self._has_vector is None else rows[self._has_vector[rows]]

    def in_slots(self, slots: Sequence[int]) -> dict[int, FloatArray]:
        """Return the vectors in some slots; slots that were filled later are left out."""
        return {slot: np.asarray(self._vectors[slot]) for slot in slots if slot < len(self._vectors)}

    def nearest(self, vectors: FloatArray, k: int, mask: NDArray[np.bool_] | None = None) -> list[RankedRows]:
        """Return, for each vector of length 1, the `k` nearest rows with their cosines.

        Args:
            mask: True for each row that may be returned.
        """
        if self._has_vector is not None:
            mask = self._has_vector if mask is None else mask & self._has_vector
        if self._signs is not None:
            return [self._nearest_of_candidates(vector, k, mask) for vector in vectors]
        nearest = []
        for start in range(0, len(vectors), _QUERIES_PER_BATCH):
            batch = vectors[start : start + _QUERIES_PER_BATCH]
            # A product with a matrix of one column would copy the mapped file.
            scores = self._alone(batch[0])[None] if len(batch) == 1 else batch @ self._vectors.T
            nearest += [top_k(self._by_row(row), k, mask) for row in np.round(scores, _COSINE_DIGITS)]
        return nearest

    def _by_row(self, of_slots: NDArray[Any]) -> NDArray[Any]:
        """Return the value of each row's slot; any value for rows without one."""
        return of_slots[self._slots] if len(of_slots) else np.zeros(len(self._slots), np.float32)

    def _nearest_of_candidates(self, vector: FloatArray, k: int, mask: NDArray[np.bool_] | None) -> RankedRows:
        """Return the nearest of the rows whose vectors have the most signs in common with a vector."""
        assert self._signs is not None, "see `nearest`"
        signs = sign_bytes(vector[None]).view(np.uint64)[0]
        different = np.empty(len(self._signs), dtype=np.uint16)

        def count(part: slice) -> None:
            np.bitwise_count(self._signs[part] ^ signs).sum(axis=1, dtype=np.uint16, out=different[part])  # type: ignore[index]

        run_on_cores(len(different), count, rows_per_core=_ROWS_PER_CORE)
        distances = self._by_row(different)
        rows = np.arange(len(distances)) if mask is None else np.flatnonzero(mask)
        wanted = max(MIN_CANDIDATES, CANDIDATES * k)
        if len(rows) > wanted:
            rows = np.sort(rows[np.argpartition(distances[rows], wanted - 1)[:wanted]])
        return top_k_of(rows, np.round(self.of(rows) @ vector, _COSINE_DIGITS), k)

    def _alone(self, vector: FloatArray) -> FloatArray:
        """Return the products of one vector with all, which are divided among cores: memory is the bottleneck."""
        products = np.empty(len(self._vectors), dtype=np.float32)
        run_on_cores(
            len(products),
            lambda part: np.dot(self._vectors[part], vector, products[part]),
            rows_per_core=_ROWS_PER_CORE,
        )
        return products


_MAX_CORES = 4
"""Maximum number of cores. More cores do not help, because memory access is the bottleneck."""


def run_on_cores(rows: int, work: Callable[[slice], object], *, rows_per_core: int, step: int = 1) -> None:
    """Divide rows into slices, run `work` on each slice on its own core, and wait for all of them.

    Each slice uses one thread of linear algebra. OpenBLAS's own threads gain nothing here. They also keep spinning
    afterwards on the cores that embed the next message, which made a query take half as long again.

    Args:
        work: called with a slice, from several threads at once; must not call `run_on_cores`.
        rows_per_core: number of rows for which another core is used.
        step: every slice begins at a multiple of this number.
    """
    pool, cores = _pool()
    parts = min(cores, rows // rows_per_core + 1)
    cuts = [*(part * rows // parts // step * step for part in range(parts)), rows]
    first, *rest_of_parts = (slice(*pair) for pair in pairwise(cuts))
    with _OneThread():
        waiting = [pool.submit(work, part) for part in rest_of_parts]
        try:
            work(first)
        finally:
            wait(waiting)
    for future in waiting:
        future.result()


class _OneThread:
    """A context that limits linear algebra to one thread, in the whole process while any caller is inside."""

    _lock = threading.Lock()
    _inside = 0
    _limit: Any = None

    def __enter__(self) -> None:
        with _OneThread._lock:
            if not _OneThread._inside:
                _OneThread._limit = _linear_algebra().limit(limits=1, user_api="blas")
            _OneThread._inside += 1

    def __exit__(self, *_: object) -> None:
        with _OneThread._lock:
            _OneThread._inside -= 1
            if not _OneThread._inside:
                _OneThread._limit.restore_original_limits()


@cache
def _linear_algebra() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@cache
def _pool() -> tuple[ThreadPoolExecutor, int]:
    """Return the thread pool for slices of rows, and its number of cores."""
    cores = min(os.cpu_count() or 1, _MAX_CORES)
    return ThreadPoolExecutor(cores, thread_name_prefix="rows"), cores


# --- tokens ----------------------------------------------------------------------------------------------------------

BITS_FILE, IDS_FILE, STARTS_FILE = "tokens/bits.u8", "tokens/ids.i32", "tokens/starts.i64"
_HEADER_BYTES = 8
_TOKENS_COUNTED_AT_ONCE = 100_000
# Number of values per block. A block fits in a core's own cache and is large enough that threads seldom wait for Python
# between blocks. 512 tokens of 384 dimensions were as fast as 256, and a third faster than 72 or 4096.
_BLOCK_VALUES = 200_000


def frame(embedder: Embedder, role: TextRole) -> tuple[int, int]:
    """Return how many tokens precede and follow those of a text: special tokens, and the prompt of the role."""
    _, _, ids = embedder.encode_both([""], role)
    around = len(ids[0])
    trailing = min(1, around)
    return around - trailing, trailing


def pack_tokens(vectors: FloatArray, ids: TokenIds) -> bytes:
    """Encode a text's tokens as bytes: vectors of shape (tokens, dimension) as signs, and ids of shape (tokens,)."""
    return pack_signs(np.packbits(vectors > 0, axis=1), ids, vectors.shape[1])


def pack_signs(signs: NDArray[np.uint8], ids: TokenIds, dimension: int) -> bytes:
    """Encode a text's tokens as bytes: packed signs of shape (tokens, dimension / 8 rounded up), and ids."""
    head = np.array([len(ids), dimension], dtype=np.int32).tobytes()
    return head + ids.astype(np.int32).tobytes() + signs.tobytes()


def unpack_tokens(packed: bytes) -> tuple[NDArray[np.uint8], TokenIds]:
    """Decode the output of `pack_tokens`: signs of shape (tokens, dimension / 8 rounded up), and ids."""
    tokens, dimension = np.frombuffer(packed, dtype=np.int32, count=2)
    ids = np.frombuffer(packed, dtype=np.int32, count=tokens, offset=_HEADER_BYTES)
    signs = np.frombuffer(packed, dtype=np.uint8, offset=_HEADER_BYTES + 4 * int(tokens))
    return signs.reshape(int(tokens), -(-int(dimension) // 8)), ids


class TokenVectors(ABC):
    """The token vectors of the passages of an index, for late interaction."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """The number of passages."""

    @abstractmethod
    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        """Return the number of passages that contain each token."""

    @abstractmethod
    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: FloatArray) -> FloatArray:
        """Return, for each passage and query token, the best cosine among the passage's tokens, estimated from signs.

        Args:
            tokens: query token vectors, of shape (query tokens, dimension).

        Returns:
            An array of shape (rows, query tokens): the dot product with the signs, divided by the square root of the
            dimension. A passage without tokens has the minimum value, -1.
        """

    def idf(self, ids: TokenIds) -> FloatArray:
        """Return the idf of tokens: ln(1 + (N + .5) / (n + .5)), where n of the N passages contain the token."""
        rare: FloatArray = np.log1p((self.rows + 0.5) / (self.document_frequencies(ids) + 0.5)).astype(np.float32)
        return rare


class TokenIndex(TokenVectors):
    """The token vectors of one index, in memory-mapped files.

    Args:
        folder: the generation's folder.
        slots: the position of each row's tokens in the files, or -1 for a row without them.
    """

    def __init__(self, folder: Path, slots: NDArray[np.int64], dimension: int) -> None:
        self.dimension, self._slots = dimension, slots
        used = int(slots.max(initial=-1)) + 1
        ends = np.asarray(mapped(folder / STARTS_FILE, "<i8", (used, 1)))[:, 0]
        self._starts = np.concatenate([[0], ends])
        total = int(self._starts[-1])
        self._bits = mapped(folder / BITS_FILE, "u1", (total, -(-dimension // 8)))
        self._ids = mapped(folder / IDS_FILE, "<i4", (total, 1)).reshape(total)
        self._frequencies: NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        return len(self._slots)

    def packed(self, slot: int) -> bytes:
        """Return the tokens in a slot as `pack_tokens` encoded them."""
        part = slice(self._starts[slot], self._starts[slot + 1])
        return pack_signs(self._bits[part], self._ids[part], self.dimension)

    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        if self._frequencies is None:
            self._frequencies = self._count()
        capped = np.minimum(ids, len(self._frequencies) - 1)
        return np.where(ids < len(self._frequencies), self._frequencies[capped], 0)

    def _count(self) -> NDArray[np.int64]:
        """Return in how many passages each token id occurs; the ids are read in blocks."""
        counts = np.zeros(1, dtype=np.int64)
        slots = len(self._starts) - 1
        passages = np.bincount(self._slots[self._slots >= 0], minlength=slots)
        slot = 0
        while slot < slots:
            last = int(np.searchsorted(self._starts, self._starts[slot] + _TOKENS_COUNTED_AT_ONCE, side="right")) - 1
            last = min(max(last, slot + 1), slots)
            ids = np.asarray(self._ids[self._starts[slot] : self._starts[last]], dtype=np.int64)
            owners = np.repeat(np.arange(last - slot), np.diff(self._starts[slot : last + 1]))
            distinct = np.unique(ids * (last - slot) + owners)
            new_counts = np.bincount(distinct // (last - slot), passages[slot + distinct % (last - slot)])
            if len(new_counts) > len(counts):
                counts = np.concatenate([counts, np.zeros(len(new_counts) - len(counts), dtype=np.int64)])
            counts[: len(new_counts)] += new_counts.astype(np.int64)
            slot = last
        return counts

    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: FloatArray) -> FloatArray:
        if not len(rows) or not len(tokens):
            return np.zeros((len(rows), len(tokens)), dtype=np.float32)
        slots = self._slots[np.asarray(rows, dtype=np.int64)]
        lengths = np.where(slots >= 0, self._starts[slots + 1] - self._starts[slots], 0)
        cosines = np.full((len(rows), len(tokens)), -1, dtype=np.float32)
        filled = np.flatnonzero(lengths)
        if not len(filled):
            return cosines
        packed = np.concatenate(
            [self._bits[self._starts[slot] : self._starts[slot + 1]] for slot in slots[filled].tolist()]
        )
        # q · sign = 2 q · bit - sum(q), with signs 1 and -1 for bits 1 and 0.
        scale = np.float32(1 / np.sqrt(self.dimension))
        query_matrix = np.ascontiguousarray(tokens.T * (2 * scale))
        products = np.empty((len(packed), len(tokens)), dtype=np.float32)
        block = max(16, _BLOCK_VALUES // self.dimension)

        def multiply(part: slice) -> None:
            for start in range(part.start, part.stop, block):
                block_rows = slice(start, min(start + block, part.stop))
                bits = np.unpackbits(packed[block_rows], axis=1, count=self.dimension).astype(np.float32)
                np.matmul(bits, query_matrix, out=products[block_rows])

        run_on_cores(len(packed), multiply, rows_per_core=_ROWS_PER_CORE, step=block)
        products -= tokens.sum(axis=1) * scale
        starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
        cosines[filled] = np.maximum.reduceat(products, starts, axis=0)
        return cosines


def pack_tokens_of(embedder: Embedder, texts: Sequence[str]) -> tuple[FloatArray, Iterator[bytes]]:
    """Return the vectors and the packed tokens of texts from one pass of the model."""
    vectors, tokens, ids = embedder.encode_both(texts, "passage")
    leading, trailing = frame(embedder, "passage")
    packed = (
        pack_tokens(vectors_of_text[leading : len(vectors_of_text) - trailing], its[leading : len(its) - trailing])
        for vectors_of_text, its in zip(tokens, ids, strict=True)
    )
    return vectors, packed
