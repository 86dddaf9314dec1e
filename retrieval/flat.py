"""The flat index: the vectors in one file, in the order of the rows, each compared with a query.

Up to some tens of thousands of passages, comparing all is faster than a walk through Chroma's graph for the long lists
that fusion wants, needs no ids turned into rows, gains from batches, and misses nothing. Larger indexes, and those on a
server, have their vectors in Chroma (`turnmark.retrieval.chroma`). What it costs is in docs/measured.md.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.fusion import TopK, top_k
from turnmark.retrieval.store import stack_vectors

FILE = "vectors.npy"
FLAT_LIMIT = 100_000
"""Passages up to which an index has the file: 150 MB for 384 dimensions, read for each query."""
_AT_ONCE = 32
"""Queries that are compared as one product: of 100,000 passages, 13 MB of scores."""
_APIECE = 4096
"""Rows from which another core takes some of them."""
_DIGITS = 6
"""Cosines are rounded to so many, as one vector's product differs in the last digits with its position in a batch."""


def write_vectors(folder: Path, pages: Iterable[Sequence[bytes]], rows: int, dimension: int) -> None:
    """Write the file, a page of vectors (float32, of length 1) at a time, as they are: a rebuild reads them again."""
    folder.mkdir(parents=True)
    file = np.lib.format.open_memmap(folder / FILE, mode="w+", dtype=np.float32, shape=(rows, dimension))
    start = 0
    for page in pages:
        file[start : start + len(page)] = stack_vectors(page)
        start += len(page)
    file.flush()


class FlatVectors:
    """The file, opened for searching. It is mapped: only the pages that the system has room for are in memory.

    Raises:
        OSError, ValueError: it is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        self._vectors: NDArray[np.float32] = np.load(folder / FILE, mmap_mode="r", allow_pickle=False)
        if self._vectors.ndim != 2 or self._vectors.dtype != np.float32:
            raise ValueError(f"{FILE} holds no rows of vectors")

    @property
    def shape(self) -> tuple[int, int]:
        """(rows, dimension)."""
        rows, dimension = self._vectors.shape
        return rows, dimension

    def of(self, rows: Sequence[int] | NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of some rows, of shape (len(rows), dimension)."""
        return np.asarray(self._vectors[np.asarray(rows, dtype=np.int64)])

    def nearest(self, vectors: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None = None) -> list[TopK]:
        """For each vector of length 1 the `k` nearest rows with their cosines; `mask`: True where one may be found."""
        nearest = []
        for start in range(0, len(vectors), _AT_ONCE):
            batch = vectors[start : start + _AT_ONCE]
            # One vector alone: the product with a matrix of one column would copy what is mapped.
            scores = self._alone(batch[0])[None] if len(batch) == 1 else batch @ self._vectors.T
            nearest += [top_k(row, k, mask) for row in np.round(scores, _DIGITS)]
        return nearest

    def _alone(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """One vector's products, each core with other rows, since memory is what is waited for."""
        products = np.empty(len(self._vectors), dtype=np.float32)
        by_cores(len(products), lambda part: np.dot(self._vectors[part], vector, products[part]), apiece=_APIECE)
        return products


_MOST = 4
"""Cores that memory keeps busy when vectors are compared; two were all that token products were tried with."""


def by_cores(rows: int, work: Callable[[slice], object], *, apiece: int, step: int = 1) -> None:
    """`work` on stretches of rows that together are all of them, each on another core; ends when all have ended.

    OpenBLAS's own threads win nothing on such work, and spin for a while afterwards, on the cores on which the next
    message is embedded: a query took half as long again. So each stretch has one.

    Args:
        work: is given a stretch; called from several threads at once, and must not call this again.
        apiece: rows from which another core takes some of them.
        step: stretches begin at multiples of it.
    """
    pool, cores = _pool()
    parts = min(cores, rows // apiece + 1)
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
    """Linear algebra in one thread while at least one caller is inside: how many it has holds for the process."""

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
    """Threads for rows, and how many cores may share them."""
    cores = min(os.cpu_count() or 1, _MOST)
    return ThreadPoolExecutor(cores, thread_name_prefix="rows"), cores
