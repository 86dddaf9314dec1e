"""Stores vectors on disk in row order: one per passage, and one per token.

**Passages.** Comparing a query with all vectors is exact. For the long lists that fusion needs, it is also faster than
Chroma's graph, up to tens of thousands of passages. Larger indexes and those on a server store their vectors in Chroma
(`turnmark.retrieval.storage.chroma`). The costs are in docs/measured.md.

**Tokens,** for late interaction. Only the signs of a token vector's components are stored: one bit per dimension, as in
ColBERT's compressed forms, or 48 bytes at 384 dimensions. On the MTRAG pools this costs .002 to .006 of nDCG@5 compared
with 16-bit floats. A projection to 32 dimensions of 8 bits is about as large and costs .04.
"""

from __future__ import annotations

import json
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from turnmark.core.home import write_json
from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.embedding.embedders import Embedder, TextRole
from turnmark.retrieval.ranking.fusion import RankedRows, top_k


def stack_vectors(vectors: Sequence[bytes]) -> NDArray[np.float32]:
    """Convert checkpoint vectors to rows of an array."""
    return np.stack([np.frombuffer(vector, dtype=np.float32) for vector in vectors])


FILE = "vectors.npy"
FLAT_LIMIT = 100_000
"""Maximum passages of an index with this file: 150 MB at 384 dimensions, which are read for each query."""
_QUERIES_PER_BATCH = 32
"""Number of queries per matrix product: 13 MB of scores for 100,000 passages."""
_ROWS_PER_CORE = 4096
"""Number of rows or tokens for which another core is used."""
_COSINE_DIGITS = 6
"""Decimals of a cosine. Further decimals depend on the vector's position in a batch."""


def write_vectors(folder: Path, pages: Iterable[Sequence[bytes]], rows: int, dimension: int) -> None:
    """Write the file of vectors (float32, of length 1), one page at a time. A rebuild reads the same values again."""
    folder.mkdir(parents=True)
    with open(folder / FILE, "wb") as file:
        _write_header(file, np.dtype(np.float32), (rows, dimension))
        for page in pages:
            file.write(stack_vectors(page).tobytes())


def _write_header(file: BinaryIO, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Write the header of an .npy file; the rows follow. A memory-mapped file would stay in memory instead."""
    header = {"descr": np.lib.format.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_2_0(file, header)


class FlatVectors:
    """The memory-mapped file of vectors, opened for searching."""

    def __init__(self, folder: Path) -> None:
        self._vectors: FloatArray = np.load(folder / FILE, mmap_mode="r", allow_pickle=False)
        if self._vectors.ndim != 2 or self._vectors.dtype != np.float32:
            raise ValueError(f"{FILE} does not contain rows of vectors")

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> FloatArray:
        """Return the vectors of some rows, of shape (len(rows), dimension)."""
        return np.asarray(self._vectors[np.asarray(rows, dtype=np.int64)])

    def nearest(self, vectors: FloatArray, k: int, mask: NDArray[np.bool_] | None = None) -> list[RankedRows]:
        """Return, for each vector of length 1, the `k` nearest rows with their cosines.

        Args:
            mask: True for each row that may be returned.
        """
        nearest = []
        for start in range(0, len(vectors), _QUERIES_PER_BATCH):
            batch = vectors[start : start + _QUERIES_PER_BATCH]
            # A product with a matrix of one column would copy the mapped file.
            scores = self._alone(batch[0])[None] if len(batch) == 1 else batch @ self._vectors.T
            nearest += [top_k(row, k, mask) for row in np.round(scores, _COSINE_DIGITS)]
        return nearest

    def _alone(self, vector: FloatArray) -> FloatArray:
        """Return the products of one vector with all rows, which are divided among cores: memory is the bottleneck."""
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

_HEADER_BYTES = 8
_BITS, _IDS, _STARTS, _ABOUT = "bits.npy", "ids.npy", "starts.npy", "about.json"
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
    head = np.array([len(ids), vectors.shape[1]], dtype=np.int32).tobytes()
    return head + ids.astype(np.int32).tobytes() + np.packbits(vectors > 0, axis=1).tobytes()


def unpack_tokens(packed: bytes) -> tuple[NDArray[np.uint8], TokenIds]:
    """Decode the output of `pack_tokens`: signs of shape (tokens, dimension / 8 rounded up), and ids."""
    tokens, dimension = np.frombuffer(packed, dtype=np.int32, count=2)
    ids = np.frombuffer(packed, dtype=np.int32, count=tokens, offset=_HEADER_BYTES)
    signs = np.frombuffer(packed, dtype=np.uint8, offset=_HEADER_BYTES + 4 * int(tokens))
    return signs.reshape(int(tokens), -(-int(dimension) // 8)), ids


def write_tokens(folder: Path, pages: Callable[[], Iterable[Sequence[bytes]]]) -> None:
    """Write the token index of texts in row order, with one page in memory at a time.

    Args:
        pages: returns pages of the texts' packed tokens, all of one dimension; called twice.
    """
    folder.mkdir()
    # Converted to lists, because views would keep the bytes of all texts in memory.
    heads = np.array([np.frombuffer(packed, dtype=np.int32, count=2).tolist() for page in pages() for packed in page])
    dimension = int(heads[0, 1])
    starts = np.concatenate([[0], np.cumsum(heads[:, 0], dtype=np.int64)])
    total = int(starts[-1])
    width = -(-dimension // 8)
    rows = max(total, 1)  # an empty file cannot be mapped
    with open(folder / _BITS, "wb") as bits, open(folder / _IDS, "wb") as ids:
        _write_header(bits, np.dtype(np.uint8), (rows, width))
        _write_header(ids, np.dtype(np.int32), (rows,))
        for page in pages():
            for packed in page:
                signs, text_ids = unpack_tokens(packed)
                bits.write(signs.tobytes())
                ids.write(text_ids.tobytes())
        if not total:
            bits.write(bytes(width))
            ids.write(bytes(4))
    np.save(folder / _STARTS, starts)
    write_json(folder / _ABOUT, {"dimension": dimension})


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
    """The token vectors of one index, in memory-mapped files."""

    def __init__(self, folder: Path) -> None:
        self.dimension = int(json.loads((folder / _ABOUT).read_text(encoding="utf-8"))["dimension"])
        self._bits = np.load(folder / _BITS, mmap_mode="r", allow_pickle=False)
        self._ids = np.load(folder / _IDS, mmap_mode="r", allow_pickle=False)
        self._starts = np.load(folder / _STARTS, allow_pickle=False)
        total = max(int(self._starts[-1]), 1)
        if self._bits.shape != (total, -(-self.dimension // 8)) or len(self._ids) != total:
            raise ValueError("its files do not match")
        self._frequencies: NDArray[np.int64] | None = None

    @property
    def rows(self) -> int:
        return len(self._starts) - 1

    def packed(self, row: int) -> bytes:
        """Return a passage's tokens as `pack_tokens` encoded them."""
        start, end = self._starts[row], self._starts[row + 1]
        head = np.array([end - start, self.dimension], dtype=np.int32).tobytes()
        packed: bytes = head + self._ids[start:end].tobytes() + self._bits[start:end].tobytes()
        return packed

    def signs(self, row: int) -> NDArray[np.uint8]:
        """Return the packed signs of a passage's tokens, of shape (tokens, dimension / 8)."""
        signs: NDArray[np.uint8] = self._bits[self._starts[row] : self._starts[row + 1]]
        return signs

    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        if self._frequencies is None:
            self._frequencies = self._count()
        capped = np.minimum(ids, len(self._frequencies) - 1)
        return np.where(ids < len(self._frequencies), self._frequencies[capped], 0)

    def _count(self) -> NDArray[np.int64]:
        """Return in how many passages each token id occurs; the ids are read in blocks."""
        counts = np.zeros(1, dtype=np.int64)
        row = 0
        while row < self.rows:
            last = int(np.searchsorted(self._starts, self._starts[row] + _TOKENS_COUNTED_AT_ONCE, side="right")) - 1
            last = min(max(last, row + 1), self.rows)
            ids = np.asarray(self._ids[self._starts[row] : self._starts[last]], dtype=np.int64)
            owners = np.repeat(np.arange(last - row), np.diff(self._starts[row : last + 1]))
            new_counts = np.bincount(np.unique(ids * (last - row) + owners) // (last - row))
            if len(new_counts) > len(counts):
                counts = np.concatenate([counts, np.zeros(len(new_counts) - len(counts), dtype=np.int64)])
            counts[: len(new_counts)] += new_counts
            row = last
        return counts

    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: FloatArray) -> FloatArray:
        if not len(rows) or not len(tokens):
            return np.zeros((len(rows), len(tokens)), dtype=np.float32)
        rows = np.asarray(rows, dtype=np.int64)
        lengths = self._starts[rows + 1] - self._starts[rows]
        cosines = np.full((len(rows), len(tokens)), -1, dtype=np.float32)
        filled = np.flatnonzero(lengths)
        if not len(filled):
            return cosines
        packed = np.concatenate([self.signs(row) for row in rows[filled].tolist()])
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
