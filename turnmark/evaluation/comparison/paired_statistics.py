"""Compute a comparison: the means of runs, and the tested difference of each run and the first one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.comparison.comparable_runs import ComparedRun, ScoreSums, metric_reason
from turnmark.evaluation.metric_style import LEAD_MARGIN_SUFFIX, StyledRecord
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    Bools,
    Difference,
    Floats,
    Ints,
    difference_statistic,
    holm,
    intervals,
    permutation_tests,
)
from turnmark.evaluation.scores.score_tally import Facts

PERMUTATION_SEED = 0
"""Random seed of all draws: two runs give the same results in any order and next to any other runs."""
MissingPolicy = Literal["leave-out", "zero"]
_BASELINE_SUFFIXES = ("[lead]", "[always-unknown]")
_RATIO_NAMES = frozenset(("precision", "recall", "f1"))


class Change(Record):
    """The change of one metric from the first run to another."""

    run: str = Field(description="letter of the other run")
    n: int = Field(description="samples that count in both runs")
    clusters: int
    left_out: int = Field(description="samples that failed in one of the two, or are measured in only one of them")
    means: tuple[float, float] = Field(description="of the first run and of this one, over these samples")
    difference: float = Field(description="mean of this run minus mean of the first run")
    ci95: tuple[float, float] | None = Field(
        description="95% interval, the same draws for both runs, or None if there are too few clusters"
    )
    p: float | None = Field(
        description="two-sided permutation test over clusters, or None if there are too few clusters"
    )
    p_holm: float | None = Field(
        description="p corrected (Holm) over all tests of the headline or, in a breakdown, over those of this metric"
    )
    detectable: float | None = Field(
        default=None, description="smallest difference that such a comparison finds four times in five"
    )


class MetricComparison(StyledRecord):
    """A metric over a set of samples, in all runs."""

    n: int = Field(description="samples that count in every run")
    clusters: int
    left_out: int = Field(description="samples that failed in a run, or are measured in only some of the runs")
    means: tuple[float | None, ...] = Field(description="mean of each run over the samples that count in every run")
    changes: tuple[Change, ...] = Field(
        description="of each run but the first, over the samples that count in it and in the first; runs that cannot "
        "be compared are missing"
    )
    why: str | None = Field(default=None, description="why changes are missing")


class _Cells(NamedTuple):
    """A metric of all runs over all samples. Each sample counts once, by the mean of its repeats.

    Attributes:
        counts: (runs, samples), whether a sample counts.
        known: (runs, samples), whether a sample was measured, or failed.
        sums: (runs, samples), value * weight.
        weights: (runs, samples).
    """

    counts: Bools
    known: Bools
    sums: Floats
    weights: Floats


class _PairedMetric(NamedTuple):
    """A metric of the first run and another one over all samples.

    Attributes:
        letter: letter of the other run.
        counted: (samples,), whether a sample counts in both runs.
        left_out: (samples,), whether a sample that both runs tried does not count.
        sums: (2, samples), value * weight.
        weights: (2, samples).
        is_share: whether values lie between 0 and 1.
    """

    letter: str
    counted: Bools
    left_out: Bools
    sums: Floats
    weights: Floats
    is_share: bool

    def subtract(self, chosen: Bools, clusters: Ints) -> Difference | None:
        """Return the other run minus the first one, or None if one of them has no value over the chosen samples."""
        counted = chosen & self.counted
        sums, weights = self.sums[:, counted], self.weights[:, counted]
        return difference_statistic(sums[0], weights[0], sums[1], weights[1], clusters[counted], self.is_share)


class PairedStatistics:
    """Computes the statistics of runs over the samples that have facts.

    Args:
        facts: sample id -> cluster, labels and whether the sample is in the headline.
        missing: `zero`: a sample that one of two runs lacks, or failed on, counts as 0 in that run. Metrics of which 0
            is not the worst value, and ratios of counts, leave it out in any case.
    """

    def __init__(
        self, runs: Sequence[ComparedRun], facts: Mapping[str, Facts], missing: MissingPolicy = "leave-out"
    ) -> None:
        # Sorted by cluster name, so that the order of the runs does not matter.
        self.ids = sorted(facts, key=lambda name: (facts[name].cluster, name))
        self._runs = runs
        self._missing = missing
        self._facts = [facts[name] for name in self.ids]
        cluster_names = [sample_facts.cluster for sample_facts in self._facts]
        self._clusters: Ints = np.unique(cluster_names, return_inverse=True)[1]
        tried = [[name in run.domains and name not in run.skipped for name in self.ids] for run in runs]
        self._tried: Bools = np.array(tried, dtype=bool)
        self._metrics = {name: self._cells(name) for name in self._shared_metrics()}
        self._pairs = {name: list(self._pairs_of(name)) for name in self._metrics}
        self.headline: Bools = np.array([sample_facts.headline for sample_facts in self._facts], dtype=bool)

    def _shared_metrics(self) -> Iterator[str]:
        first, *other_runs = self._runs
        for name in first.metrics():
            shared = first.measures(name) and any(run.measures(name) for run in other_runs)
            if shared and not name.endswith(_BASELINE_SUFFIXES):
                yield name

    def _cells(self, metric: str) -> _Cells:
        rows = []
        for run, tried in zip(self._runs, self._tried, strict=True):
            sums_by_id = run.sums[metric] if run.measures(metric) else {}
            table = np.array([sums_by_id.get(name, ScoreSums()) for name in self.ids], dtype=float)
            total, weight, scored, counted, failed = table.reshape(-1, len(ScoreSums._fields)).T
            counted_as, divided_by = (counted, counted) if _is_ratio(metric) else (scored, weight)
            divisor = np.where(divided_by > 0, divided_by, 1)
            known = tried & (scored + failed > 0)
            rows.append((tried & (counted_as > 0), known, total / divisor, weight / divisor))
        counts, known, sums, weights = (np.array(column) for column in zip(*rows, strict=True))
        return _Cells(counts, known, sums, weights)

    def compare(self, chosen: Bools) -> dict[str, MetricComparison]:
        """Compare every metric over the chosen samples, (samples,); `correct` adds the corrected p."""
        tested = [
            (metric, pair, difference)
            for metric, pairs in self._pairs.items()
            for pair in pairs
            if (difference := pair.subtract(chosen, self._clusters)) is not None
        ]
        differences = [difference for _, _, difference in tested]
        tests = permutation_tests(differences, PERMUTATION_SEED)
        changes: dict[str, list[Change]] = {}
        results = zip(tested, intervals(differences, PERMUTATION_SEED), tests, strict=True)
        for (metric, pair, difference), interval, p in results:
            counted = chosen & pair.counted
            first, mean = _means(pair.sums, pair.weights, counted)
            assert first is not None, "a difference has two means"
            assert mean is not None, "a difference has two means"
            change = Change(
                run=pair.letter,
                n=int(counted.sum()),
                clusters=difference.clusters,
                left_out=int((chosen & pair.left_out).sum()),
                means=(first, mean),
                difference=difference.value,
                ci95=interval,
                p=p if difference.clusters >= MIN_CLUSTERS else None,
                p_holm=None,
                detectable=_detectable(interval),
            )
            changes.setdefault(metric, []).append(change)
        return {metric: self._describe(metric, chosen, tuple(changes.get(metric, ()))) for metric in self._metrics}

    def _pairs_of(self, metric: str) -> Iterator[_PairedMetric]:
        """Yield a metric of the first run and each other one that has it, measured by the same instruments."""
        first = self._runs[0]
        for index, run in enumerate(self._runs[1:], 1):
            if not run.measures(metric) or metric_reason([first, run], metric) is not None:
                continue
            rows = [0, index]
            cells = self._metrics[metric]
            counts, known, tried = cells.counts[rows], cells.known[rows], self._tried[rows]
            sums, weights = cells.sums[rows], cells.weights[rows]
            if self._missing == "zero" and self._has_worst_zero(metric):
                # Others do not have the metric at all, such as samples without passages.
                lacking = np.logical_or.reduce((known & ~counts) | ~tried)
                here = lacking & np.logical_or.reduce(counts) & ~counts
                sums, weights = np.where(here, 0.0, sums), np.where(here, weights[::-1], weights)
                counts = counts | here
            counted = np.logical_and.reduce(counts)
            left_out = np.logical_or.reduce(known) & np.logical_and.reduce(tried) & ~counted
            is_share = run.summary.metrics[metric].shown.fraction
            yield _PairedMetric(run.letter, counted, left_out, sums, weights, is_share)

    def _has_worst_zero(self, metric: str) -> bool:
        """Return whether 0 is the worst value of a metric. It is none of a count, a rate or a difference of metrics."""
        shown = self._runs[0].summary.metrics[metric].shown
        is_share = shown.fraction and shown.direction == "higher" and not metric.endswith(LEAD_MARGIN_SUFFIX)
        return is_share and not _is_ratio(metric)

    def _describe(self, metric: str, chosen: Bools, changes: tuple[Change, ...]) -> MetricComparison:
        cells = self._metrics[metric]
        counts = cells.counts.all(axis=0)
        counted = chosen & counts
        n = int(counted.sum())
        reasons = [metric_reason([self._runs[0], run], metric) for run in self._runs[1:]]
        why = "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or None
        if why is None and not changes:
            why = "a run has no figure over these samples" if n else "no sample has a figure in both runs"
        return MetricComparison(
            n=n,
            clusters=len(set(self._clusters[counted].tolist())),
            left_out=int((chosen & ~counts & self._tried.all(axis=0) & cells.known.any(axis=0)).sum()),
            means=tuple(_means(cells.sums, cells.weights, counted)),
            changes=changes,
            why=why,
            shown=self._runs[0].summary.metrics[metric].shown,
        )

    def break_down(self) -> dict[str, dict[str, dict[str, MetricComparison]]]:
        """Return dimension -> value -> metrics; values sorted.

        A value is over its samples in the headline or, if it has none there (CONVERSATIONAL), over all of them, as in
        the summary of a run.
        """
        dimensions = dict.fromkeys(dimension for sample_facts in self._facts for dimension in sample_facts.labels)
        breakdowns: dict[str, dict[str, dict[str, MetricComparison]]] = {}
        for dimension in dimensions:
            values_of = [sample_facts.labels.get(dimension, ()) for sample_facts in self._facts]
            breakdowns[dimension] = {}
            for value in sorted(set[str]().union(*values_of)):
                chosen: Bools = np.array([value in values for values in values_of])
                in_headline = chosen & self.headline
                breakdowns[dimension][value] = self.compare(in_headline if in_headline.any() else chosen)
        rows = [(dimension, value) for dimension, values in breakdowns.items() for value in values]
        for metric in self._metrics:
            family = {f"{row}": breakdowns[row[0]][row[1]][metric] for row in rows}
            for row, compared in zip(rows, correct(family).values(), strict=True):
                breakdowns[row[0]][row[1]][metric] = compared
        return breakdowns


def correct(compared: Mapping[str, MetricComparison]) -> dict[str, MetricComparison]:
    """Return comparisons with their p corrected over all of their tests (Holm)."""
    adjusted = iter(holm([change.p for one in compared.values() for change in one.changes if change.p is not None]))

    def corrected(change: Change) -> Change:
        return change if change.p is None else change.model_copy(update={"p_holm": next(adjusted)})

    return {
        name: one.model_copy(update={"changes": tuple(map(corrected, one.changes))}) for name, one in compared.items()
    }


def _detectable(interval: tuple[float, float] | None) -> float | None:
    """Return the difference that a test at .05 finds with a probability of .8, from the width of a 95% interval.

    Source: J. Cohen, Statistical Power Analysis (1988): (1.960 + 0.842) standard errors, of which 1.960 are half a
    width. None if the width is 0.
    """
    if interval is None or interval[0] == interval[1]:
        return None
    return (interval[1] - interval[0]) / 2 * (1.960 + 0.842) / 1.960


def _is_ratio(metric: str) -> bool:
    return metric.partition("[")[0].rpartition(".")[2] in _RATIO_NAMES


def _means(sums: Floats, weights: Floats, counted: Bools) -> list[float | None]:
    """Return the mean of each run over the counted samples.

    Args:
        sums: (runs, samples), value * weight.
        weights: (runs, samples).
    """
    totals = ([float(row[counted].sum()) for row in of_run] for of_run in zip(sums, weights, strict=True))
    return [total / weight if weight else None for total, weight in totals]
