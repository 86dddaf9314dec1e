"""Several ranked lists become one.

A list holds the best rows of one way of finding with its own scores. `rrf` looks at ranks only (Cormack, Clarke and
Büttcher, SIGIR 2009); `zscore` at how far a score stands above its list's mean, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, pstdev
from typing import Literal

from pydantic import Field

from corpora.types import Record
from retrieval.types import Found

Method = Literal["rrf", "zscore"]
RRF_K = 60


class RankedList(Record):
    """One list to fuse: its name for explanations, its weight, and (row, score), best first."""

    name: str
    weight: float = Field(default=1.0, ge=0)
    rows: Sequence[tuple[int, float]]


class FusedRow(Record):
    """A row after fusion: its fused score, and where each list had it."""

    row: int
    score: float
    found: dict[str, Found]


def fuse(lists: Sequence[RankedList], method: Method, k: int) -> list[FusedRow]:
    """The `k` best rows over all lists, best first, equal scores by row.

    One list alone keeps its own scores. A row that a list lacks gets nothing from it (rrf), or that list's lowest
    score (zscore), since all that is known is that it stands no higher.
    """
    found: dict[int, dict[str, Found]] = {}
    for ranked in lists:
        for rank, (row, score) in enumerate(ranked.rows, 1):
            found.setdefault(row, {})[ranked.name] = Found(rank=rank, score=score)
    if len(lists) == 1:
        scores = dict(lists[0].rows)
    elif method == "rrf":
        scores = dict.fromkeys(found, 0.0)
        for ranked in lists:
            for rank, (row, _) in enumerate(ranked.rows, 1):
                scores[row] += ranked.weight / (RRF_K + rank)
    else:
        scores = _zscores(lists, found)
    best = sorted(found, key=lambda row: (-scores[row], row))[:k]
    return [FusedRow(row=row, score=scores[row], found=found[row]) for row in best]


def _zscores(lists: Sequence[RankedList], rows: Iterable[int]) -> dict[int, float]:
    scores = dict.fromkeys(rows, 0.0)
    for ranked in lists:
        values = [score for _, score in ranked.rows]
        if not values:
            continue
        mean, spread = fmean(values), pstdev(values) or 1.0
        own = dict(ranked.rows)
        lowest = min(values)
        for row in scores:
            scores[row] += ranked.weight * (own.get(row, lowest) - mean) / spread
    return scores
