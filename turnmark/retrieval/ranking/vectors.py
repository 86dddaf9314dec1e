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
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.embedding.embedders import Embedder, TextRole
from turnmark.retrieval.ranking.fusion import RankedRows, top_k_of

CANDIDATES, MIN_CANDIDATES = 4, 4000
"""Number of candidates for each row that is wanted, and the minimum number. An index with fewer rows is searched
exactly."""
_MIN_SHARED_ROWS = 4096
"""Minimum number of rows or tokens for which several cores are used."""
_BLOCK_ROWS = 1024
"""Number of vectors that are converted to floats at a time, so that they stay in a core's own cache."""
_COSINE_DIGITS = 6
"""Decimals of a cosine. Further decimals depend on the vector's position in a batch."""
_MAX_COMPONENT = 127

VECTORS_FILE, SIGNS_FILE = "exact/vectors.i8", "exact/signs.u8"


def sign_bytes(vectors: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the signs of vectors of shape (n, dimension), as bits in whole groups of 8 bytes."""
    bits = np.packbits(vectors > 0, axis=1)
    return np.pad(bits, ((0, 0), (0, -bits.shape[1] % 8)))


def vector_type(dimension: int) -> np.dtype[Any]:
    """Return the type of a stored vector: 8-bit components, and the factor that gives them length 1."""
    return np.dtype([("factor", "<f4"), ("components", "i1", (dimension,))])


def round_vectors(vectors: NDArray[np.float32]) -> NDArray[Any]:
    """Return vectors of shape (n, dimension) as they are stored. Rounding them again changes nothing."""
    rounded = np.zeros(len(vectors), vector_type(vectors.shape[1]))
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    components = np.rint(vectors / np.where(largest > 0, largest, 1) * _MAX_COMPONENT)
    rounded["components"] = components
    rounded["factor"] = 1 / np.maximum(np.linalg.norm(components, axis=1), 1)
    return rounded


def mapped(path: Path, kind: Any, rows: int) -> NDArray[Any]:
    """Map the first rows of a file that builds append to; raise ValueError if it is shorter."""
    kind = np.dtype(kind)
    if path.stat().st_size < rows * kind.itemsize:
        raise ValueError(f"{path.name} is shorter than its rows")
    return np.memmap(path, kind, "r", shape=(rows,)) if rows else np.zeros(rows, kind)


class FlatVectors:
    """The memory-mapped vectors of the passages of an index, opened for searching.

    Args:
        folder: the generation's folder.
        slots: the position of each row's vector in the file, or -1 for a row without one.
    """

    def __init__(self, folder: Path, slots: NDArray[np.int64], dimension: int) -> None:
        used = int(slots.max(initial=-1)) + 1
        self._vectors = mapped(folder / VECTORS_FILE, vector_type(dimension), used)
        self._signs: NDArray[np.uint64] = mapped(folder / SIGNS_FILE, ("<u8", (-(-dimension // 64),)), used)
        self._slots = slots

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> FloatArray:
        """Return the vectors of rows that have one, of shape (len(rows), dimension)."""
        return self._in(self._slots[np.asarray(rows, dtype=np.int64)])

    def _in(self, slots: NDArray[np.int64] | int) -> FloatArray:
        """Return the vectors in some slots."""
        stored = self._vectors[slots]
        return np.asarray(stored["components"].astype(np.float32) * stored["factor"][..., None])

    def known(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that have a vector."""
        return rows[self._slots[rows] >= 0]

    def in_slots(self, slots: Sequence[int]) -> dict[int, FloatArray]:
        """Return the vectors in some slots; slots that were filled later are left out."""
        return {slot: self._in(slot) for slot in slots if slot < len(self._vectors)}

    def nearest(self, vectors: FloatArray, k: int, mask: NDArray[np.bool_] | None = None) -> list[RankedRows]:
        """Return, for each vector of length 1, the `k` nearest rows with their cosines.

        Args:
            mask: True for each row that may be returned.
        """
        rows = self.known(np.arange(len(self._slots)) if mask is None else np.flatnonzero(mask))
        wanted = max(MIN_CANDIDATES, CANDIDATES * k)
        if len(rows) <= wanted:
            return [top_k_of(rows, cosines, k) for cosines in self._cosines(rows, vectors)]
        candidates = (self._candidates(vector, rows, wanted) for vector in vectors)
        return [
            top_k_of(some, self._cosines(some, vector[None])[0], k)
            for some, vector in zip(candidates, vectors, strict=True)
        ]

    def _candidates(self, vector: FloatArray, rows: NDArray[np.int64], wanted: int) -> NDArray[np.int64]:
        """Return the rows whose vectors have the most signs in common with a vector, ascending."""
        signs = sign_bytes(vector[None]).view("<u8")[0]
        different = np.zeros(len(self._signs), dtype=np.uint16)

        def count(block: slice) -> None:
            for word, own in zip(self._signs[block].T, signs, strict=True):
                different[block] += np.bitwise_count(word ^ own)

        run_on_cores(len(different), count, block=_BLOCK_ROWS)
        distances = different[self._slots[rows]]
        return np.sort(rows[np.argpartition(distances, wanted - 1)[:wanted]])

    def _cosines(self, rows: NDArray[np.int64], vectors: FloatArray) -> FloatArray:
        """Return the cosines of vectors with those of some rows, of shape (vectors, rows)."""
        slots = self._slots[rows]
        cosines = np.empty((len(slots), len(vectors)), dtype=np.float32)

        def multiply(block: slice) -> None:
            np.matmul(self._in(slots[block]), vectors.T, out=cosines[block])

        run_on_cores(len(slots), multiply, block=_BLOCK_ROWS)
        return np.asarray(np.round(cosines, _COSINE_DIGITS).T)


_MAX_CORES = 4
"""Maximum number of cores. More cores do not help, because memory access is the bottleneck."""


def run_on_cores(
    rows: int, work: Callable[[slice], object], *, block: int, min_shared_rows: int = _MIN_SHARED_ROWS
) -> None:
    """Run `work` on each block of rows, on several cores if there are many rows, and wait for all of them.

    `turnmark.core.home.quiet_libraries` limits linear algebra to one thread for each core. OpenBLAS's own threads gain
    nothing here. They also keep spinning afterwards on the cores that embed the next message, which made a query take
    half as long again.

    Args:
        work: called with the slice of a block, from several threads at once; must not call `run_on_cores`.
        block: number of rows in a block; only the last one may be shorter.
        min_shared_rows: minimum number of rows for which several cores are used.
    """
    blocks = [slice(first, min(first + block, rows)) for first in range(0, rows, block)]
    for _ in _pool().map(work, blocks) if rows >= min_shared_rows else map(work, blocks):
        pass


@cache
def _pool() -> ThreadPoolExecutor:
    """Return the thread pool for blocks of rows."""
    return ThreadPoolExecutor(min(os.cpu_count() or 1, _MAX_CORES), thread_name_prefix="rows")


# --- tokens ----------------------------------------------------------------------------------------------------------

BITS_FILE, IDS_FILE, ENDS_FILE = "tokens/bits.u8", "tokens/ids.u16", "tokens/ends.i64"
END_TYPE = np.dtype(("<i8", (2,)))
"""Type of the ends of a text in the other two files: of its token vectors, and of the ids."""
TOKENS_PER_VECTOR = 3
"""Number of tokens of a text for each vector that is stored: similar ones are pooled."""
PooledTokens = tuple[NDArray[np.uint8], NDArray[Any]]
"""The tokens of a text as they are stored: packed signs of shape (vectors, dimension / 8 rounded up), distinct ids."""
ID_COUNT = 65_536
"""Number of token ids that are told apart, in two bytes. In larger vocabularies a few tokens share an id."""
_SLOTS_COUNTED_AT_ONCE = 10_000
# Number of values per block. A block fits in a core's own cache and is large enough that threads seldom wait for Python
# between blocks. 512 tokens of 384 dimensions were as fast as 256, and a third faster than 72 or 4096.
_BLOCK_VALUES = 200_000


def frame(embedder: Embedder, role: TextRole) -> tuple[int, int]:
    """Return how many tokens precede and follow those of a text: special tokens, and the prompt of the role."""
    _, _, ids = embedder.encode_both([""], role)
    around = len(ids[0])
    trailing = min(1, around)
    return around - trailing, trailing


def pool_tokens(vectors: FloatArray, ids: TokenIds) -> PooledTokens:
    """Return the tokens of a text, with vectors of shape (tokens, dimension) and as many ids, as they are stored."""
    signs = pool_signs(np.packbits(vectors > 0, axis=1), vectors.shape[1])
    return signs, np.unique(ids % ID_COUNT).astype("<u2")


def pool_signs(signs: NDArray[np.uint8], dimension: int) -> NDArray[np.uint8]:
    """Return fewer vectors: similar ones are clustered, and a cluster has the sign that most of its vectors have.

    Clustering token vectors by Ward's method is from Clavié, Chaffin and Adams, "Reducing the Footprint of Multi-Vector
    Retrieval with Minimal Performance Impact via Token Pooling" (2024).

    Args:
        signs: packed signs of shape (tokens, dimension / 8 rounded up).
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    wanted = -(-len(signs) // TOKENS_PER_VECTOR)
    if wanted == len(signs):
        return signs
    values = np.unpackbits(signs, axis=1, count=dimension).astype(np.float32) * 2 - 1
    different = 1 - values @ values.T / dimension
    merges = linkage(np.sqrt(2 * different[np.triu_indices(len(signs), 1)]), "ward")
    clusters = fcluster(merges, wanted, "maxclust") - 1
    sums = np.zeros((clusters.max() + 1, dimension), np.float32)
    np.add.at(sums, clusters, values)
    return np.packbits(sums > 0, axis=1)


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
        ends = np.concatenate([np.zeros((1, 2), np.int64), mapped(folder / ENDS_FILE, END_TYPE, used)])
        self._starts, self._id_starts = np.ascontiguousarray(ends.T)
        self._bits = mapped(folder / BITS_FILE, ("u1", (-(-dimension // 8),)), int(self._starts[-1]))
        self._ids = mapped(folder / IDS_FILE, "<u2", int(self._id_starts[-1]))

    @property
    def rows(self) -> int:
        return len(self._slots)

    def pooled(self, slot: int) -> PooledTokens:
        """Return the tokens in a slot."""
        signs = self._bits[self._starts[slot] : self._starts[slot + 1]]
        return signs, self._ids[self._id_starts[slot] : self._id_starts[slot + 1]]

    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        return self._frequencies[ids % ID_COUNT]

    @cached_property
    def _frequencies(self) -> NDArray[np.int64]:
        """In how many passages each token id occurs; the ids are read in blocks."""
        counts = np.zeros(ID_COUNT, dtype=np.int64)
        passages = np.bincount(self._slots[self._slots >= 0], minlength=len(self._starts) - 1)
        for start in range(0, len(passages), _SLOTS_COUNTED_AT_ONCE):
            starts = self._id_starts[start : start + _SLOTS_COUNTED_AT_ONCE + 1]
            times = np.repeat(passages[start : start + _SLOTS_COUNTED_AT_ONCE], np.diff(starts))
            counts += np.bincount(self._ids[starts[0] : starts[-1]], times, ID_COUNT).astype(np.int64)
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

        def multiply(block: slice) -> None:
            bits = np.unpackbits(packed[block], axis=1, count=self.dimension).astype(np.float32)
            np.matmul(bits, query_matrix, out=products[block])

        run_on_cores(len(packed), multiply, block=max(16, _BLOCK_VALUES // self.dimension))
        products -= tokens.sum(axis=1) * scale
        starts = np.concatenate([[0], np.cumsum(lengths[filled])[:-1]])
        cosines[filled] = np.maximum.reduceat(products, starts, axis=0)
        return cosines


def pool_tokens_of(embedder: Embedder, texts: Sequence[str]) -> tuple[FloatArray, list[PooledTokens]]:
    """Return the vectors and the tokens of texts, as they are stored, from one pass of the model."""
    vectors, tokens, ids = embedder.encode_both(texts, "passage")
    leading, trailing = frame(embedder, "passage")
    pooled = []
    for token_vectors, token_ids in zip(tokens, ids, strict=True):
        own = slice(leading, len(token_ids) - trailing)
        pooled.append(pool_tokens(token_vectors[own], token_ids[own]))
    return vectors, pooled
