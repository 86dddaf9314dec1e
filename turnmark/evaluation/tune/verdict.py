"""Which configuration is better beyond doubt: chosen on one half of the documents, and tested once on the other."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    Difference,
    difference_statistic,
    holm,
    intervals,
    permutation_tests,
)
from turnmark.evaluation.tune.contenders import PRESENT, Contender
from turnmark.evaluation.tune.questions import TuneQuestion
from turnmark.evaluation.tune.rankings import SearchChoice

if TYPE_CHECKING:
    import numpy as np

    from turnmark.evaluation.scores.cluster_statistics import Bools, Floats

MIN_QUESTIONS = 20
"""Minimum number of questions in each half."""
FIRST_SHARE = 1 / 3
"""Share of the search half on which everything is measured; the rest is only for what is not clearly worse on it."""
MAX_P = 0.05
"""Largest corrected p of a configuration that is proposed."""
MIN_DOCUMENTS = 20
"""Number of documents below which their stretches are the units of the split and of the test."""
STRETCH_CHARACTERS = 20_000


class GainComparison(Record):
    """A configuration's gain, and its difference from the default."""

    gain: float = Field(description="mean gain over the questions, 0 to 1")
    difference: float = Field(description="difference of the mean gain from the default")
    ci95: tuple[float, float] | None
    p_holm: float | None = Field(default=None, description="p of the permutation test, corrected by Holm; of finalists")

    @property
    def is_better(self) -> bool:
        """Whether it is better than the default beyond doubt."""
        return self.ci95 is not None and self.ci95[0] > 0 and self.p_holm is not None and self.p_holm < MAX_P

    @property
    def is_worse(self) -> bool:
        """Whether it is clearly worse, so that it is not measured further."""
        return self.ci95 is not None and self.ci95[1] < 0


Compared = TypeVar("Compared", bound=GainComparison)


def best_of(compared: Iterable[Compared]) -> Compared | None:
    """Return the one that gains most of those that are better beyond doubt, or None if none is."""
    return max((one for one in compared if one.is_better), key=lambda one: one.difference, default=None)


class TriedSearch(GainComparison):
    """A configuration of the search over the present index or another build of it, compared with the default."""

    contender: Contender = PRESENT
    choice: SearchChoice
    questions: int = Field(description="number of questions that it was measured on")
    is_dropped: bool = Field(default=False, description="whether a contender was clearly worse on the first of them")


def units_of(questions: Sequence[TuneQuestion]) -> list[str]:
    """Return the unit that each question belongs to: its document, or a stretch of it if there are few documents."""
    if len({question.document for question in questions}) >= MIN_DOCUMENTS:
        return [question.document for question in questions]
    return [f"{question.document}\0{question.gold[0].start // STRETCH_CHARACTERS}" for question in questions]


def in_search_half(unit: str, seed: int) -> bool:
    """Return whether the questions about a unit choose the configuration; the others test it."""
    return hashlib.sha256(f"{seed}\0{unit}".encode("utf-8", "surrogatepass")).digest()[0] % 2 == 0


def choose_finalists(choices: Sequence[SearchChoice], gains: Floats, default: int) -> list[int]:
    """Return up to three configurations with the best means: of all, of the means of their neighbors, and of those
    that change one setting.

    Args:
        gains: the gain of each configuration for each question of the search half, (configurations, questions).
        default: number of the default configuration.
    """
    import numpy as np

    means = gains.mean(axis=1)
    settings = np.array([list(choice.model_dump().values()) for choice in choices])
    ranks = np.stack([np.unique(column, return_inverse=True)[1] for column in settings.T], axis=1)
    near = (np.abs(ranks[:, None] - ranks[None]) <= 1).all(axis=2)
    smooth = np.where(near, means, 0).sum(axis=1) / near.sum(axis=1)
    single = (settings != settings[default]).sum(axis=1) == 1
    best = [int(np.argmax(means)), int(np.argmax(smooth)), int(np.argmax(np.where(single, means, -1)))]
    return [number for number in dict.fromkeys(best) if means[number] > means[default]]


def compare_choices(
    choices: Sequence[SearchChoice],
    gains: Floats,
    default: int,
    numbers: Sequence[int],
    units: Sequence[str],
    seed: int,
    is_test: bool = True,
) -> list[TriedSearch]:
    """Compare some configurations of the present index, by their numbers, with the default; see `compare_gains`."""
    found = [(PRESENT, choices[number], gains[number]) for number in numbers]
    return compare_searches(found, gains[default], units, seed, is_test)


def compare_searches(
    found: Sequence[tuple[Contender, SearchChoice, Floats]],
    default: Floats,
    units: Sequence[str],
    seed: int,
    is_test: bool = True,
) -> list[TriedSearch]:
    """Compare configurations of any builds, by their gains, with the default; see `compare_gains`."""
    import numpy as np

    gains = np.array([gains for _, _, gains in found]).reshape(-1, len(units))
    return [
        TriedSearch(contender=contender, choice=choice, questions=len(units), **dict(one))
        for (contender, choice, _), one in zip(found, compare_gains(default, gains, units, seed, is_test), strict=True)
    ]


def compare_gains(
    default: Floats, others: Floats, units: Sequence[str], seed: int, is_test: bool = True
) -> list[GainComparison]:
    """Compare the gains of some configurations with those of the default.

    Args:
        default: its gain for each question.
        others: the gains of the other configurations, (configurations, questions).
        units: the unit of each question, see `units_of`.
        is_test: whether these are the questions that test, so that there is a p, corrected over the configurations.
    """
    import numpy as np

    clusters = np.unique(units, return_inverse=True)[1]
    statistics = [_difference(default, gains, clusters) for gains in others]
    corrected = holm(permutation_tests(statistics, seed)) if is_test else [None] * len(statistics)
    return [
        GainComparison(
            gain=float(gains.mean()),
            difference=statistic.value,
            ci95=interval,
            p_holm=p if statistic.clusters >= MIN_CLUSTERS else None,
        )
        for gains, statistic, interval, p in zip(
            others, statistics, intervals(statistics, seed), corrected, strict=True
        )
    ]


def _difference(default: Floats, other: Floats, clusters: np.ndarray) -> Difference:
    import numpy as np

    ones = np.ones(len(default))
    statistic = difference_statistic(default, ones, other, ones, clusters, share=True)
    assert statistic is not None, "every question has weight 1"
    return statistic


def halves(units: Sequence[str], seed: int) -> Bools:
    """Return for each question whether it is in the search half."""
    import numpy as np

    return np.array([in_search_half(unit, seed) for unit in units], dtype=np.bool_)
