"""Several ranked lists become one.

A list holds the best rows of one way of finding with its own scores. `rrf` looks at ranks only (Cormack, Clarke and
Büttcher, SIGIR 2009); `zscore` at how far a score stands above its list's mean, in standard deviations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from corpora.types import Record
from retrieval.types import Found

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Scored = tuple[NDArray[np.int64], NDArray[np.float64]]

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
    rows, scores = _scored(lists, method)
    return _shown(rows[:k], scores[:k], lists)


def _scored(lists: Sequence[RankedList], method: Method) -> Scored:
    """Every row of the lists with its fused score, best first, equal scores by row."""
    import numpy as np

    own = [_arrays(ranked.rows) for ranked in lists]
    if not own:
        return np.zeros(0, dtype=np.int64), np.zeros(0)
    rows = np.unique(np.concatenate([some for some, _ in own]))
    fused = np.zeros(len(rows))
    for ranked, (some, scores) in zip(lists, own, strict=True):
        at = np.searchsorted(rows, some)
        if len(lists) == 1:
            fused[at] = scores
        elif method == "rrf":
            fused[at] += ranked.weight / (RRF_K + np.arange(1, len(some) + 1))
        elif len(some):
            above = np.full(len(rows), scores.min())
            above[at] = scores
            fused += ranked.weight * (above - scores.mean()) / _spread(scores)
    order = np.lexsort((rows, -fused))
    return rows[order], fused[order]


def _spread(scores: NDArray[np.float64]) -> float:
    """The standard deviation; 1 where all are equal, so that each is 0 above the mean."""
    return float(scores.std()) if scores.max() > scores.min() else 1.0


def _arrays(rows: Sequence[tuple[int, float]]) -> Scored:
    import numpy as np

    return (
        np.fromiter((row for row, _ in rows), dtype=np.int64, count=len(rows)),
        np.fromiter((score for _, score in rows), dtype=np.float64, count=len(rows)),
    )


def _shown(rows: NDArray[np.int64], scores: NDArray[np.float64], lists: Sequence[RankedList]) -> list[FusedRow]:
    found = _places(lists, (best := [int(row) for row in rows]))
    return [FusedRow(row=row, score=float(score), found=found[row]) for row, score in zip(best, scores, strict=True)]


def _places(lists: Sequence[RankedList], rows: Iterable[int]) -> dict[int, dict[str, Found]]:
    """For each of the rows, where each list had it."""
    found: dict[int, dict[str, Found]] = {row: {} for row in rows}
    for ranked in lists:
        for rank, (row, score) in enumerate(ranked.rows, 1):
            if row in found:
                found[row][ranked.name] = Found(rank=rank, score=score)
    return found


def fuse_nested(
    groups: Sequence[Sequence[RankedList]], weights: Sequence[float], method: Method, k: int
) -> list[FusedRow]:
    """The `k` best rows over groups of lists, best first, equal scores by row: nested reciprocal rank fusion.

    The lists of each group are fused by `method`, whole, as `fuse` does; the one list that each group becomes is then
    fused with the others by RRF, with the group's weight. One group alone is fused as by `fuse`.

    Args:
        groups: a text's lists each, in the order of the texts; no two lists have one name.
        weights: one a group; of a group that weighs 0, no row is taken.

    Returns:
        Rows whose `found` names every list that had them, and beside several lists of a text what they became together:
        `fused` for the first text, `fused+1` and so on for the others.
    """
    weighed = [(n, group, weight) for n, (group, weight) in enumerate(zip(groups, weights, strict=True)) if weight]
    if len(weighed) == 1:
        return fuse(weighed[0][1], method, k)
    outer: list[RankedList] = []
    shown: list[RankedList] = []
    for number, group, weight in weighed:
        rows, scores = _scored(group, method)
        own = list(zip(rows.tolist(), scores.tolist(), strict=True))
        name = f"fused+{number}" if number else "fused"
        outer.append(RankedList.model_construct(name=name, weight=weight, rows=own))
        shown += [*group, *(outer[-1:] if len(group) > 1 else ())]
    rows, scores = _scored(outer, "rrf")
    return _shown(rows[:k], scores[:k], shown)
