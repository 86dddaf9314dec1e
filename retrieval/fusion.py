"""Several ranked lists become one.

A list holds the best rows of one way of finding with its own scores. What counts is how far a score is above its list's
mean, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.retrieval.types import Found


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
        listed = list(pairs)
        return cls(
            np.fromiter((row for row, _ in listed), dtype=np.int64, count=len(listed)),
            np.fromiter((score for _, score in listed), dtype=np.float64, count=len(listed)),
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


@dataclass(frozen=True)
class RankedList:
    """One list to fuse: its name for explanations, its rows, and its weight, 0 or more."""

    name: str
    rows: TopK
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Fused:
    """What lists became.

    Attributes:
        rows: best first, equal scores by row.
        lists: those that found rows, or scored them; no two of one name.
    """

    rows: TopK
    lists: tuple[RankedList, ...]

    def provenance(self) -> list[dict[str, Found]]:
        """Of each row, in their order, its rank and score in every list that has it."""
        found: dict[int, dict[str, Found]] = {row: {} for row in self.rows.rows.tolist()}
        for ranked in self.lists:
            top = ranked.rows
            for position in np.flatnonzero(np.isin(top.rows, self.rows.rows)).tolist():
                found[int(top.rows[position])][ranked.name] = Found(
                    rank=position + 1, score=float(top.scores[position])
                )
        return list(found.values())


def fuse(lists: Sequence[RankedList], k: int) -> Fused:
    """The `k` best rows over all lists, by the weighted sum of their z-scores; equal sums by row.

    One list alone keeps its own scores. A row that a list lacks gets that list's lowest score: all that is known is
    that it ranks no higher.
    """
    if not lists:
        return Fused(TopK.from_pairs(()), ())
    rows = np.sort(np.concatenate([ranked.rows.rows for ranked in lists]))
    # What `np.unique` gives, in a twentieth of its time.
    rows = rows[np.diff(rows, prepend=-1) > 0]
    fused = np.zeros(len(rows))
    for ranked in lists:
        own_rows, scores = ranked.rows.rows, ranked.rows.scores
        positions = np.searchsorted(rows, own_rows)
        if len(lists) == 1:
            fused[positions] = scores
        elif len(own_rows):
            above = np.full(len(rows), scores.min())
            above[positions] = scores
            fused += ranked.weight * (above - scores.mean()) / deviation(scores)
    return Fused(top_k_of(rows, fused, k), tuple(lists))


def deviation(scores: NDArray[np.float64]) -> float:
    """The standard deviation; 1 where all are equal or too near for one, so that each is 0 above the mean."""
    return (float(scores.std()) if scores.max() > scores.min() else 0.0) or 1.0
