"""The figures of a comparison: means over the samples that all runs have, and differences to the first.

Everything is over the same samples: those that are scored in every run. If a metric is a ratio of counts that a
system's own behaviour decides (the precision of its "I don't know"), these are the samples that failed in no run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.loading import ComparedRun, metric_reason
from turnmark.evaluation.metric_info import Figured
from turnmark.evaluation.summary import Facts

if TYPE_CHECKING:
    from turnmark.evaluation.stats import Bools, Difference, Floats, Ints

SEED = 0
"""Of all draws: the same two runs give the same figures, whichever comes first and whatever else is compared."""
LEVEL = 0.05
_BASELINES = ("[lead]", "[always-unknown]")
_RATIOS = frozenset(("precision", "recall", "f1"))


class Change(Record):
    """A run against the first, in one metric."""

    run: str = Field(description="its letter")
    difference: float = Field(description="its mean minus that of the first")
    ci95: tuple[float, float] | None = Field(description="bootstrap, both runs by the same draws; None: of one cluster")
    p: float = Field(description="two-sided permutation test over clusters")
    p_holm: float | None = Field(description="corrected over all tests of the headline; None in a breakdown")


class MetricComparison(Figured):
    """A metric over a set of samples."""

    n: int = Field(description="samples that count in every run")
    clusters: int
    left_out: int = Field(description="samples that failed in a run, or have a figure in some of the runs alone")
    means: tuple[float | None, ...] = Field(description="of each run, over these samples")
    changes: tuple[Change, ...] = Field(description="of each run but the first; empty if nothing can be compared")
    why: str | None = Field(default=None, description="why there are no changes")


class _Paired(NamedTuple):
    """A metric of all runs over all samples. What a sample adds to a mean does not grow with its repeats.

    Attributes:
        counts: whether a sample counts in every run; of `known`, whether it was measured in one at least.
        sums: of value * weight, (runs, samples); as `weights`.
        why: why it is not the same metric in all runs, if it is not.
    """

    counts: Bools
    known: Bools
    sums: Floats
    weights: Floats
    why: str | None


class Figures:
    """Computes the figures of runs over the samples that have facts."""

    def __init__(self, runs: Sequence[ComparedRun], facts: Mapping[str, Facts]) -> None:
        import numpy as np

        # In the order of their clusters' names, so that no run's order matters.
        self._ids = sorted(facts, key=lambda name: (facts[name].cluster, name))
        self._runs, self._facts = runs, [facts[name] for name in self._ids]
        self._clusters: Ints = np.unique([known.cluster for known in self._facts], return_inverse=True)[1]
        names = [name for name in runs[0].metrics() if not name.endswith(_BASELINES)]
        self._metrics = {
            name: self._pair(name)
            for name in names
            if all(name in run.by and name in run.summary.metrics for run in runs)
        }
        self.headline: Bools = np.array([known.headline for known in self._facts], dtype=bool)

    def _pair(self, metric: str) -> _Paired:
        import numpy as np

        is_ratio = metric.partition("[")[0].rpartition(".")[2] in _RATIOS
        cells = [run.cells.loc[metric].reindex(self._ids, fill_value=0) for run in self._runs]
        divisors = [side["counted"] if is_ratio else side["weight"] for side in cells]
        counts = np.logical_and.reduce([side["counted" if is_ratio else "scored"] > 0 for side in cells])
        return _Paired(
            counts=counts,
            known=np.logical_or.reduce([side["scored"] + side["failed"] > 0 for side in cells]),
            sums=np.array([side["total"] / by.where(by > 0, 1) for side, by in zip(cells, divisors, strict=True)]),
            weights=np.array([side["weight"] / by.where(by > 0, 1) for side, by in zip(cells, divisors, strict=True)]),
            why=metric_reason(self._runs, metric),
        )

    def compare(self, chosen: Bools, corrected: bool = False) -> dict[str, MetricComparison]:
        """Every metric over the chosen samples; p corrected over all of these tests, if that is asked."""
        from turnmark.evaluation.stats import holm, intervals, permutation_tests

        pairs = [
            (metric, run.letter, difference)
            for metric, paired in self._metrics.items()
            if paired.why is None
            for index, run in enumerate(self._runs[1:], 1)
            if (difference := self._subtract(paired, chosen, index)) is not None
        ]
        differences = [difference for _, _, difference in pairs]
        tests = permutation_tests(differences, SEED)
        adjusted: Sequence[float | None] = holm(tests) if corrected else [None] * len(tests)
        changes: dict[str, list[Change]] = {}
        tested = zip(pairs, intervals(differences, SEED), tests, adjusted, strict=True)
        for (metric, letter, difference), interval, p, p_holm in tested:
            change = Change(run=letter, difference=difference.value, ci95=interval, p=p, p_holm=p_holm)
            changes.setdefault(metric, []).append(change)
        return {metric: self._describe(metric, chosen, tuple(changes.get(metric, ()))) for metric in self._metrics}

    def _describe(self, metric: str, chosen: Bools, changes: tuple[Change, ...]) -> MetricComparison:
        paired = self._metrics[metric]
        counted = chosen & paired.counts
        n = int(counted.sum())
        nothing = "a run has no figure over these samples" if n else "no sample has a figure in every run"
        return MetricComparison(
            n=n,
            clusters=len(set(self._clusters[counted].tolist())),
            left_out=int((chosen & ~paired.counts & paired.known).sum()),
            means=tuple(self._means(paired, chosen)),
            changes=changes,
            why=paired.why or (None if changes else nothing),
            shown=self._runs[0].summary.metrics[metric].shown,
        )

    def _means(self, paired: _Paired, chosen: Bools) -> list[float | None]:
        """The mean of each run."""
        counted = chosen & paired.counts
        sums, weights = (side[:, counted].sum(axis=1).tolist() for side in (paired.sums, paired.weights))
        return [total / weight if weight else None for total, weight in zip(sums, weights, strict=True)]

    def _subtract(self, paired: _Paired, chosen: Bools, run: int) -> Difference | None:
        """A run minus the first."""
        from turnmark.evaluation.stats import difference_figure

        counted = chosen & paired.counts
        sums, weights = paired.sums[:, counted], paired.weights[:, counted]
        return difference_figure(sums[0], weights[0], sums[run], weights[run], self._clusters[counted])

    def break_down(self) -> dict[str, dict[str, dict[str, MetricComparison]]]:
        """Dimension -> value -> metrics, over all samples that have the value; values sorted."""
        import numpy as np

        dimensions = dict.fromkeys(dimension for known in self._facts for dimension in known.labels)
        labels = {name: [known.labels.get(name, ()) for known in self._facts] for name in dimensions}
        return {
            dimension: {
                value: self.compare(np.array([value in values for values in mine]))
                for value in sorted({value for values in mine for value in values})
            }
            for dimension, mine in labels.items()
        }
