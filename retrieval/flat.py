"""The flat index: the vectors in one file, in the order of the rows, each compared with a query.

Up to some tens of thousands of passages, comparing all is faster than a walk through Chroma's graph for the long lists
that fusion wants, needs no ids turned into rows, gains from batches, and misses nothing. Larger indexes, and those on a
server, have their vectors in Chroma (`turnmark.retrieval.chroma`). What it costs is in docs/retrieval.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.retrieval.checkpoint import unpacked
from turnmark.retrieval.cores import by_cores
from turnmark.retrieval.top_k import TopK, top_k

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FILE = "vectors.npy"
FLAT_LIMIT = 100_000
"""Passages up to which an index has the file: 150 MB for 384 dimensions, read whole for each query."""
_AT_ONCE = 32
"""Queries that are compared as one product: of 100,000 passages, 13 MB of scores."""
_APIECE = 4096
"""Rows from which another core takes some of them."""
_DIGITS = 6
"""Cosines are rounded to so many, as one vector's product differs in the last digits with its place in a batch."""


def write_vectors(folder: Path, pages: Iterable[Sequence[bytes]], rows: int, dimension: int) -> None:
    """Write the file, a page of vectors (float32, of length 1) at a time, as they are: a rebuild reads them again."""
    import numpy as np

    folder.mkdir(parents=True)
    file = np.lib.format.open_memmap(folder / FILE, mode="w+", dtype=np.float32, shape=(rows, dimension))
    start = 0
    for page in pages:
        file[start : start + len(page)] = unpacked(page)
        start += len(page)
    file.flush()


class FlatVectors:
    """The file, opened for searching. It is mapped: only the pages that the system has room for are in memory.

    Raises:
        OSError, ValueError: it is missing or damaged.
    """

    def __init__(self, folder: Path) -> None:
        import numpy as np

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
        import numpy as np

        return np.asarray(self._vectors[np.asarray(rows, dtype=np.int64)])

    def nearest(self, vectors: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None = None) -> list[TopK]:
        """For each vector of length 1 the `k` nearest rows with their cosines; `mask`: True where one may be found."""
        import numpy as np

        nearest = []
        for at in range(0, len(vectors), _AT_ONCE):
            some = vectors[at : at + _AT_ONCE]
            # One vector alone: the product with a matrix of one column would copy what is mapped.
            scores = self._alone(some[0])[None] if len(some) == 1 else some @ self._vectors.T
            nearest += [top_k(row, k, mask) for row in np.round(scores, _DIGITS)]
        return nearest

    def _alone(self, vector: NDArray[np.float32]) -> NDArray[np.float32]:
        """One vector's products, each core with rows of its own, since memory is what is waited for."""
        import numpy as np

        products = np.empty(len(self._vectors), dtype=np.float32)
        by_cores(len(products), lambda part: np.dot(self._vectors[part], vector, products[part]), apiece=_APIECE)
        return products
