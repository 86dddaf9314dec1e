"""Rows of an index with their scores, best first: what one way of finding gives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TopK:
    """Best first, equal scores by row. Iterates as (row, score).

    Attributes:
        rows: of shape (n,), none twice.
        scores: of the same shape, on the scale of what found them.
    """

    rows: NDArray[np.int64]
    scores: NDArray[np.float64]

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[int, float]]) -> TopK:
        """From (row, score), in their order."""
        import numpy as np

        some = list(pairs)
        return cls(
            np.fromiter((row for row, _ in some), dtype=np.int64, count=len(some)),
            np.fromiter((score for _, score in some), dtype=np.float64, count=len(some)),
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return iter(zip(self.rows.tolist(), self.scores.tolist(), strict=True))


def top_k_of(rows: NDArray[np.int64], scores: NDArray[np.floating[Any]], k: int | None = None) -> TopK:
    """The `k` best of some rows, or all of them, best first, equal scores in their order.

    Args:
        scores: one for each of the rows.
    """
    order = top_k(scores, len(scores) if k is None else k)
    return TopK(rows[order.rows], order.scores)


def top_k(
    scores: NDArray[np.floating[Any]], k: int, mask: NDArray[np.bool_] | None = None, positive: bool = False
) -> TopK:
    """The `k` best of all rows.

    Args:
        scores: one a row.
        mask: True for each row that may be found; None: every row.
        positive: only rows with a score above 0.
    """
    import numpy as np

    if positive:
        rows = np.flatnonzero(scores > 0 if mask is None else (scores > 0) & mask)
    else:
        rows = np.arange(len(scores)) if mask is None else np.flatnonzero(mask)
    values = scores[rows]
    if len(rows) > k:
        if k <= 0:
            return TopK.from_pairs(())
        # Every row that ties with the last one is looked at, so that ties are cut by row.
        near = np.flatnonzero(values >= np.partition(values, len(values) - k)[len(values) - k])
        rows, values = rows[near], values[near]
    order = np.argsort(-values, kind="stable")[:k]
    return TopK(rows[order], values[order].astype(np.float64))
