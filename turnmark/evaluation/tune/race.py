"""The race of contenders against the default search of an index, on the questions that choose.

A contender is first measured on some of these questions, and dropped if even its best configuration is worse there than
the default beyond doubt. Only the others are measured on all of them, and only the best two on the test half.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.tune.contenders import MAX_BUILT_PASSAGES, Contender, find_contenders, forecast_builds
from turnmark.evaluation.tune.rankings import SearchChoice
from turnmark.evaluation.tune.verdict import FIRST_SHARE, TriedSearch, compare_searches
from turnmark.retrieval.search.opened_index import StoredIndex

if TYPE_CHECKING:
    import numpy as np

    from turnmark.evaluation.scores.cluster_statistics import Bools, Floats

MAX_FINALISTS = 2
"""Number of contenders that are compared on the test half."""

Measure = Callable[[Contender, "Bools"], "tuple[Sequence[SearchChoice], Floats]"]
"""A function that returns the configurations of a contender, and their gains for the questions of a mask."""


class RacePlan(Record):
    """The contenders of an index, which a resumed run finds again."""

    contenders: tuple[Contender, ...]
    left_out: str = Field(default="", description="a sentence that says why others were not compared")
    seconds: float = Field(default=0, description="forecast of building and measuring them, if it was needed")


def plan_race(index: StoredIndex, retriever: str, has_limit: bool) -> RacePlan:
    """Choose the contenders of an index and its retriever.

    Args:
        has_limit: whether there is a time limit, so that a large index may be built again as far as it allows.
    """
    contenders, left_out = find_contenders(index, retriever)
    if not has_limit and index.manifest.passages > MAX_BUILT_PASSAGES:
        contenders = [contender for contender in contenders if not contender.needs_build]
        left_out = left_out or (
            f"{index.name} has more than {MAX_BUILT_PASSAGES:,} passages, so other builds are compared only if they "
            "fit into --minutes N."
        )
    return RacePlan(contenders=tuple(contenders), left_out=left_out)


def fit_into(race: RacePlan, index: StoredIndex, measuring: Sequence[float], limit: float) -> RacePlan:
    """Return a race with its forecast, and without the contenders that do not fit into a time limit.

    Args:
        measuring: the seconds that measuring each contender takes.
        limit: seconds for building and measuring.
    """
    total, fitting = 0.0, []
    for contender, building, asking in zip(
        race.contenders, forecast_builds(index, race.contenders), measuring, strict=True
    ):
        if total + building + asking <= limit:
            total += building + asking
            fitting.append(contender)
    left, count = len(race.contenders) - len(fitting), len(race.contenders)
    unfit = f"{left} of {count} other builds and rerankers do not fit into --minutes." if left else ""
    return RacePlan(contenders=tuple(fitting), left_out=race.left_out or unfit, seconds=round(total, 1))


def drawn_first(units: Sequence[str], seed: int) -> Bools:
    """Return for each question whether contenders are measured on it before the others, by its unit."""
    import numpy as np

    def share(unit: str) -> float:
        return hashlib.sha256(f"{seed} first\0{unit}".encode("utf-8", "surrogatepass")).digest()[0] / 256

    return np.array([share(unit) < FIRST_SHARE for unit in units], dtype=np.bool_)


def run_race(
    contenders: Sequence[Contender], default: Floats, searched: Bools, units: np.ndarray, seed: int, measure: Measure
) -> list[TriedSearch]:
    """Measure contenders on the questions that choose, and return each with its best configuration.

    Args:
        default: the gain of the default for each question.
        searched: whether a question chooses.
        units: the unit of each question.
    """

    def compare(contender: Contender, asked: Bools) -> TriedSearch:
        choices, gains = measure(contender, asked)
        best = int(gains.mean(axis=1).argmax())
        found = [(contender, choices[best], gains[best])]
        return compare_searches(found, default[asked], units[asked].tolist(), seed, is_test=False)[0]

    first = searched & drawn_first(units.tolist(), seed)
    tried = []
    for contender in contenders:
        one = compare(contender, first) if first.any() else None
        if one is not None and one.is_worse:
            tried.append(one.model_copy(update={"is_dropped": True}))
        else:
            tried.append(compare(contender, searched))
    return tried


def choose_contenders(tried: Sequence[TriedSearch], gain: float) -> list[TriedSearch]:
    """Return the best two contenders that were not dropped.

    Args:
        gain: the best gain of the present index on the questions that choose; no contender is chosen below it.
    """
    better = [one for one in tried if not one.is_dropped and one.gain > gain]
    return sorted(better, key=lambda one: -one.gain)[:MAX_FINALISTS]
