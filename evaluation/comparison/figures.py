"""The figures of a comparison: means over the samples that all runs have, differences to the first, rankings.

Everything is over the same samples: those that are scored in every run. Where a metric is a ratio of counts that a
system's own behaviour decides (the precision of its "I don't know"), these are the samples that failed in no run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import Cell, Run, metric_reason
from turnmark.evaluation.metric_info import metric_info
from turnmark.evaluation.summary import Facts

if TYPE_CHECKING:
    from turnmark.evaluation.paired import Difference

SEED = 0
"""Of all draws: the same two runs give the same figures, whichever comes first and whatever else is compared."""
LEVEL = 0.05
_BASELINES = ("[lead]", "[always-unknown]")
_RATIOS = frozenset(("precision", "recall", "f1"))


class Change(Record):
    """A run against the first, in one metric."""

    run: str = Field(description="its letter")
    difference: float = Field(description="its mean minus that of the first")
    ci95: tuple[float, float] = Field(description="bootstrap over clusters, both runs by the same draws")
    p: float = Field(description="two-sided permutation test over clusters")
    p_holm: float | None = Field(description="corrected over all tests of the headline; None in a breakdown")


class Compared(Record):
    """A metric over a set of samples."""

    n: int = Field(description="samples that count in every run")
    clusters: int
    left_out: int = Field(description="samples that failed in a run, or have a figure in some of the runs alone")
    means: tuple[float | None, ...] = Field(description="of each run, over these samples")
    changes: tuple[Change, ...] = Field(description="of each run but the first; empty where nothing can be compared")
    why: str | None = Field(default=None, description="where there are no changes: the reason")


class Place(Record):
    """A run in a ranking."""

    run: str
    mean: float
    told_apart: bool | None = Field(
        description="whether the one before it is better, by a corrected test of neighbours at .05; None for the first"
    )


Slice = dict[str, Compared]


class Figures:
    """Works figures out for runs whose facts are known.

    Args:
        ids: samples that all runs have and tried, in the order of the first.
    """

    def __init__(self, runs: Sequence[Run], ids: Sequence[str], facts: Mapping[str, Facts]) -> None:
        self._runs, self._ids, self._facts = runs, ids, facts
        self.metrics = [
            name for name in runs[0].cells if not name.endswith(_BASELINES) and all(name in run.cells for run in runs)
        ]
        self._why = {name: metric_reason(runs, name) for name in self.metrics}

    def headline(self) -> Slice:
        """Every metric over the samples of the headline, with p corrected over all of its tests."""
        return self._slice([name for name in self._ids if self._facts[name].headline], corrected=True)

    def breakdowns(self) -> dict[str, dict[str, Slice]]:
        """Dimension -> value -> metrics, over all samples that have the value; values sorted."""
        parts: dict[str, dict[str, list[str]]] = {}
        for name in self._ids:
            for dimension, values in self._facts[name].labels.items():
                for value in dict.fromkeys(values):
                    parts.setdefault(dimension, {}).setdefault(value, []).append(name)
        return {
            dimension: {value: self._slice(names, corrected=False) for value, names in sorted(values.items())}
            for dimension, values in parts.items()
        }

    def ranking(self) -> dict[str, tuple[Place, ...]]:
        """Metric -> the runs, best first, for metrics of which more is better; neighbours that tie keep their order."""
        ids = [name for name in self._ids if self._facts[name].headline]
        ranked = {
            metric: self._ranked(metric, ids)
            for metric in self.metrics
            if self._why[metric] is None and metric_info(metric).direction
        }
        return {metric: places for metric, places in ranked.items() if len(places) > 1}

    def _ranked(self, metric: str, ids: Sequence[str]) -> tuple[Place, ...]:
        from turnmark.evaluation.paired import holm, permutation_tests

        ids_counted, _ = self._kept(metric, ids)
        means = self._means(metric, ids_counted)
        known_means = [(mean, index) for index, mean in enumerate(means) if mean is not None]
        if len(known_means) < 2:
            return ()
        order = sorted(known_means, key=lambda pair: -pair[0])
        pairs = [self._difference(metric, ids_counted, low[1], high[1]) for high, low in pairwise(order)]
        tested = holm(permutation_tests([pair for pair in pairs if pair is not None], SEED))
        told_apart: list[bool | None] = [None, *(p < LEVEL for p in tested)]
        return tuple(
            Place(run=self._runs[index].letter, mean=mean, told_apart=significant)
            for (mean, index), significant in zip(order, told_apart, strict=True)
        )

    def _slice(self, ids: Sequence[str], corrected: bool) -> Slice:
        from turnmark.evaluation.paired import holm, permutation_tests
        from turnmark.evaluation.stats import intervals

        sample_ids = {metric: self._kept(metric, ids) for metric in self.metrics}
        pairs = [
            (metric, self._runs[index].letter, difference)
            for metric in self.metrics
            if self._why[metric] is None
            for index in range(1, len(self._runs))
            if (difference := self._difference(metric, sample_ids[metric][0], 0, index)) is not None
        ]
        differences = [difference for _, _, difference in pairs]
        tests = permutation_tests(differences, SEED)
        adjusted: Sequence[float | None] = holm(tests) if corrected else [None] * len(tests)
        changes: dict[str, list[Change]] = {}
        tested = zip(pairs, intervals(differences, SEED), tests, adjusted, strict=True)
        for (metric, letter, difference), interval, p, p_holm in tested:
            change = Change(run=letter, difference=difference.value, ci95=interval, p=p, p_holm=p_holm)
            changes.setdefault(metric, []).append(change)
        return {metric: self._compared(metric, *sample_ids[metric], changes.get(metric, ())) for metric in self.metrics}

    def _compared(self, metric: str, sample_ids: Sequence[str], left_out: int, changes: Iterable[Change]) -> Compared:
        changes_listed = tuple(changes)
        nothing = "no sample has a figure in every run" if not sample_ids else "a run has no figure over these samples"
        return Compared(
            n=len(sample_ids),
            clusters=len({self._facts[name].cluster for name in sample_ids}),
            left_out=left_out,
            means=self._means(metric, sample_ids),
            changes=changes_listed,
            why=self._why[metric] or (None if changes_listed else nothing),
        )

    def _kept(self, metric: str, ids: Sequence[str]) -> tuple[list[str], int]:
        """The samples that count in every run, and how many count in some alone."""
        ratio = _ratio(metric)
        sample_ids: list[str] = []
        left_out = 0
        for name in ids:
            cells = [run.cells[metric].get(name) for run in self._runs]
            present = [cell is not None and bool(cell.lines if ratio else cell.scored) for cell in cells]
            if all(present):
                sample_ids.append(name)
            elif any(cell is not None and (cell.scored or cell.failed) for cell in cells):
                left_out += 1
        return sample_ids, left_out

    def _means(self, metric: str, sample_ids: Sequence[str]) -> tuple[float | None, ...]:
        ratio = _ratio(metric)
        return tuple(_mean([_parts(run.cells[metric][name], ratio) for name in sample_ids]) for run in self._runs)

    def _difference(self, metric: str, sample_ids: Sequence[str], first: int, second: int) -> Difference | None:
        """Run `second` minus run `first`. Clusters are numbered by their names, so that no run's order matters."""
        import numpy as np

        from turnmark.evaluation.paired import Difference

        if not sample_ids:
            return None
        names = sorted(sample_ids, key=lambda name: (self._facts[name].cluster, name))
        numbers: dict[str, int] = {}
        clusters = np.array([numbers.setdefault(self._facts[name].cluster, len(numbers)) for name in names])
        ratio = _ratio(metric)
        sides = [
            np.array([_parts(self._runs[index].cells[metric][name], ratio) for name in names], dtype=float)
            for index in (first, second)
        ]
        return Difference.of(sides[0][:, 0], sides[0][:, 1], sides[1][:, 0], sides[1][:, 1], clusters)


def _ratio(metric: str) -> bool:
    """Whether a metric's denominator is decided by what the system does."""
    return metric.partition("[")[0].rpartition(".")[2] in _RATIOS


def _parts(cell: Cell, ratio: bool) -> tuple[float, float]:
    """What a sample adds to a sum of values and to one of weights, whatever the number of its repeats."""
    if ratio:
        return cell.total / cell.lines, cell.weight / cell.lines
    return cell.total / cell.weight, 1.0


def _mean(parts: Sequence[tuple[float, float]]) -> float | None:
    weight = sum(part[1] for part in parts)
    return sum(part[0] for part in parts) / weight if weight else None
