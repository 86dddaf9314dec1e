"""Finished runs compared with the first of them: all that the tables, the page and `--json` show.

Everything is over the same samples: those that are scored in every run. If a metric is a ratio of counts that a
system's own behaviour decides (the precision of its "I don't know"), these are the samples that failed in no run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.comparison.judges import JudgePair, compare_judges
from turnmark.evaluation.comparison.loading import (
    ComparedRun,
    Reason,
    find_reasons,
    list_differences,
    load_runs,
    merge_facts,
    metric_reason,
)
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.scores.metric_info import Figured
from turnmark.evaluation.scores.summary import Facts, no_interval

if TYPE_CHECKING:
    from turnmark.evaluation.scores.stats import Bools, Difference, Floats, Ints

SEED = 0
"""Of all draws: the same two runs give the same figures, whichever comes first and whatever else is compared."""
LEVEL = 0.05
_BASELINES = ("[lead]", "[always-unknown]")
_RATIOS = frozenset(("precision", "recall", "f1"))
MOST_CHANGED = 5
"""Samples shown in each direction, for each run."""


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


class Side(Record):
    """A run that takes part."""

    letter: str
    name: str
    run: str = Field(description="its folder")
    setting: str | None
    specs: dict[str, str]
    n: int
    failed: int
    skipped: int


class ChangedSample(Figured):
    """A sample that one run does much better, or worse, than the first."""

    id: str
    run: str
    metric: str
    values: tuple[float, float] = Field(description="of the first run, and of this one; means over repeats")
    difference: float
    domain: str | None = None
    query: str | None = None
    answers: tuple[str | None, str | None] = Field(description="of the first run, and of this one; of the first repeat")


class RunComparison(Record):
    """What `turnmark compare` prints."""

    benchmark: str
    task: str
    data: DataUsed
    runs: tuple[Side, ...]
    comparable: bool = Field(description="False: `why` says what else differs, apart from the systems")
    why: tuple[Reason, ...]
    differs: dict[str, list[str]] = Field(description="field of the manifest -> its value in each run")
    n: int = Field(description="samples that all runs have and tried")
    clusters: int
    metrics: dict[str, MetricComparison]
    breakdowns: dict[str, dict[str, dict[str, MetricComparison]]]
    lead: tuple[str, ...] = Field(description="the metrics that represent all, the most telling first")
    changed: tuple[ChangedSample, ...]
    judges: tuple[JudgePair, ...] = Field(default=(), description="each two judges of a metric")
    warnings: tuple[str, ...] = Field(description="what is said before the figures, with the letter of its run")
    notes: tuple[str, ...]


def compare_runs(paths: Sequence[Path]) -> RunComparison:
    """Compare finished runs with the first of them."""
    runs = load_runs(paths)
    first = runs[0]
    shared = [name for name in first.domains if all(name in run.domains for run in runs)]
    facts = merge_facts(runs, [name for name in shared if not any(name in run.skipped for run in runs)])
    figures = Figures(runs, facts)
    metrics = figures.compare(figures.headline, corrected=True)
    lead = _choose_lead(first, metrics)
    reasons = tuple(find_reasons(runs))
    clusters = len({known.cluster for known in facts.values()})
    one_cluster = [no_interval(first.manifest.benchmark)] if clusters == 1 else []
    return RunComparison(
        benchmark=first.manifest.benchmark,
        task=first.manifest.task,
        data=first.manifest.data,
        runs=tuple(map(_describe, runs)),
        comparable=not reasons,
        why=reasons,
        differs=list_differences(runs),
        n=len(facts),
        clusters=clusters,
        metrics=metrics,
        breakdowns=figures.break_down(),
        lead=lead,
        changed=_find_changed(runs, [name for name in facts if facts[name].headline], lead),
        judges=compare_judges(runs, list(facts)),
        warnings=tuple(_warnings(runs)),
        notes=(*one_cluster, *_notes(runs, len(shared) - len(facts), lead)),
    )


def _describe(run: ComparedRun) -> Side:
    summary = run.summary
    return Side(
        letter=run.letter,
        name=run.name,
        run=str(run.path),
        setting=run.manifest.setting,
        specs={role: spec for role, spec in run.manifest.specs.items() if spec},
        n=summary.n,
        failed=summary.failed,
        skipped=summary.skipped,
    )


def _choose_lead(first: ComparedRun, metrics: Mapping[str, MetricComparison]) -> tuple[str, ...]:
    """The metrics that have differences, as a report of the first run would choose them."""
    changed = {name: first.summary.metrics[name] for name in metrics if metrics[name].changes}
    return tuple(tables.chosen(changed, len(changed))) if changed else ()


def _find_changed(runs: Sequence[ComparedRun], ids: Sequence[str], lead: Sequence[str]) -> tuple[ChangedSample, ...]:
    """By the leading metric: what each run gained most over the first one, then what it lost most."""
    import pandas as pd

    if not lead:
        return ()
    metric, first = lead[0], runs[0]
    values = pd.DataFrame({run.letter: run.values(metric) for run in runs}).reindex(sorted(ids))
    changed: list[ChangedSample] = []
    for run in runs[1:]:
        change = (values[run.letter] - values[first.letter]).dropna().round(9)
        gained = change[change > 0].sort_values(ascending=False, kind="stable")[:MOST_CHANGED]
        lost = change[change < 0].sort_values(kind="stable")[:MOST_CHANGED]
        names = [*gained.index, *lost.index]
        before, after = (_read_samples(side, names) for side in (first, run))
        for name in names:
            old, new = float(values.at[name, first.letter]), float(values.at[name, run.letter])
            changed.append(
                ChangedSample(
                    id=name, run=run.letter, metric=metric, values=(old, new), difference=new - old,
                    domain=before[name].domain, query=before[name].query or after[name].query,
                    answers=(_answer(before[name]), _answer(after[name])),
                    shown=first.summary.metrics[metric].shown,
                )
            )  # fmt: skip
    return tuple(changed)


def _read_samples(run: ComparedRun, names: Sequence[str]) -> dict[str, Sample]:
    by_id: dict[str, Sample] = {}
    for sample in samples(run.path):
        if sample.id in names:
            by_id.setdefault(sample.id, sample)
    return by_id


def _answer(sample: Sample) -> str | None:
    """What a sample says; of one that only searched, what it found."""
    documents = ", ".join(ref.document_id for ref in sample.contexts[:5])
    return sample.prediction if sample.prediction is not None else f"found: {documents}" if documents else None


def _warnings(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """That the data are the demo's, once, and what else a run's own report says first."""
    for run in runs:
        demo = run.summary.notes[:1] if run.summary.data.demo else ()
        if run is runs[0]:
            yield from demo
        yield from (f"{run.letter}: {line}" for line in tables.warnings(run.summary) if line not in demo)


def _notes(runs: Sequence[ComparedRun], skipped: int, lead: Sequence[str]) -> Iterator[str]:
    first = runs[0]
    if skipped:
        yield f"{skipped} samples were not tried in some run and are left out"
    for run in runs[1:]:
        for side, other_run in ((first, run), (run, first)):
            if alone := len(side.domains.keys() - other_run.domains.keys()):
                yield f"{alone} samples of {side.letter} are not in {other_run.letter} and are left out"
        if run.manifest.repeat != first.manifest.repeat:
            times = f"{first.manifest.repeat} in {first.letter}, {run.manifest.repeat} in {run.letter}"
            yield f"repeats of a task: {times}; a sample counts once, by its mean"
        if run.manifest.version != first.manifest.version:
            yield (
                f"{first.letter} and {run.letter} were made by other versions of Turnmark ({first.manifest.version}, "
                f"{run.manifest.version}); score both again to be sure of the metrics"
            )
    for run in runs:
        for name in lead[:1]:
            if spread := tables.describe_repeats(run.summary.metrics[name]):
                yield f"{run.letter}: {name} {spread}"
    for name in dict.fromkeys(name for run in runs for name, metric in run.summary.metrics.items() if metric.n):
        letters = [run.letter for run in runs if name in run.by]
        if not letters:
            figures = ", ".join(f"{run.letter} {tables.mean_text(run.summary.metrics.get(name))}" for run in runs)
            yield f"{name} is a figure of a full run, not of its samples, and has no pairs: {figures}"
        elif len(letters) < len(runs):
            yield f"{name} is measured in {', '.join(letters)} alone"


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
        from turnmark.evaluation.scores.stats import holm, intervals, permutation_tests

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
        from turnmark.evaluation.scores.stats import difference_figure

        counted = chosen & paired.counts
        sums, weights = paired.sums[:, counted], paired.weights[:, counted]
        return difference_figure(sums[0], weights[0], sums[run], weights[run], self._clusters[counted])

    def break_down(self) -> dict[str, dict[str, dict[str, MetricComparison]]]:
        """Dimension -> value -> metrics; values sorted.

        A value is over its samples of the headline; one that no sample of the headline has (CONVERSATIONAL) over all,
        as in the summary of a run.
        """
        import numpy as np

        dimensions = dict.fromkeys(dimension for known in self._facts for dimension in known.labels)
        broken_down: dict[str, dict[str, dict[str, MetricComparison]]] = {}
        for dimension in dimensions:
            mine = [known.labels.get(dimension, ()) for known in self._facts]
            parts: dict[str, dict[str, MetricComparison]] = {}
            for value in sorted({value for values in mine for value in values}):
                chosen: Bools = np.array([value in values for values in mine])
                in_headline = chosen & self.headline
                parts[value] = self.compare(in_headline if in_headline.any() else chosen)
            broken_down[dimension] = parts
        return broken_down
