"""Compare finished runs with the first of them, for the tables, the page and `--json`.

All figures are over the same samples: those that are scored in every run. A metric that is a ratio of counts, such as
the precision of "I don't know", is over the samples that failed in no run, since each system's answers decide which
samples it counts.
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
from turnmark.evaluation.metric_style import Figured
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.scores.summary import Facts
from turnmark.evaluation.tasks.benchmark import no_interval

if TYPE_CHECKING:
    from turnmark.evaluation.scores.stats import Bools, Difference, Floats, Ints

SEED = 0
"""Random seed of all draws: two runs give the same figures in any order and next to any other runs."""
SIGNIFICANCE_LEVEL = 0.05
"""Significance level."""
_BASELINE_SUFFIXES = ("[lead]", "[always-unknown]")
_RATIO_NAMES = frozenset(("precision", "recall", "f1"))
MAX_CHANGED_SAMPLES = 5
"""Maximum samples shown in each direction, for each run."""


class Change(Record):
    """The change of one metric from the first run to another."""

    run: str = Field(description="letter of the other run")
    difference: float = Field(description="mean of this run minus mean of the first run")
    ci95: tuple[float, float] | None = Field(
        description="bootstrap interval, the same draws for both runs; None: a single cluster"
    )
    p: float = Field(description="two-sided permutation test over clusters")
    p_holm: float | None = Field(description="p corrected over all tests of the headline; None in a breakdown")


class MetricComparison(Figured):
    """A metric over a set of samples, in all runs."""

    n: int = Field(description="samples that count in every run")
    clusters: int
    left_out: int = Field(description="samples that failed in a run, or are measured in only some of the runs")
    means: tuple[float | None, ...] = Field(description="mean of each run over these samples")
    changes: tuple[Change, ...] = Field(description="of each run but the first; empty if nothing can be compared")
    why: str | None = Field(default=None, description="why there are no changes")


class _Paired(NamedTuple):
    """A metric of all runs over all samples. Each sample counts once, by the mean of its repeats.

    Attributes:
        counts: (samples,), whether a sample counts in every run.
        known: (samples,), whether a sample was measured in at least one run.
        sums: (runs, samples), value * weight.
        weights: (runs, samples).
        why: why the metric is not the same in all runs; None: it is the same.
    """

    counts: Bools
    known: Bools
    sums: Floats
    weights: Floats
    why: str | None


class Side(Record):
    """One of the compared runs."""

    letter: str
    name: str
    run: str = Field(description="folder of the run")
    setting: str | None
    specs: dict[str, str]
    n: int
    failed: int
    skipped: int


class ChangedSample(Figured):
    """A sample on which a run scores much better or worse than the first run."""

    id: str
    run: str
    metric: str
    values: tuple[float, float] = Field(description="of the first run and of this one; means over repeats")
    difference: float
    domain: str | None = None
    query: str | None = None
    answers: tuple[str | None, str | None] = Field(description="of the first run and of this one, in the first repeat")


class RunComparison(Record):
    """The result of `turnmark compare`."""

    benchmark: str
    task: str
    data: DataUsed
    runs: tuple[Side, ...]
    comparable: bool = Field(description="False: something other than the systems differs, see `why`")
    why: tuple[Reason, ...]
    differs: dict[str, list[str]] = Field(description="field of the manifest -> its value in each run")
    n: int = Field(description="samples that all runs have and tried")
    clusters: int
    metrics: dict[str, MetricComparison]
    breakdowns: dict[str, dict[str, dict[str, MetricComparison]]]
    lead: tuple[str, ...] = Field(description="headline metrics, the most important first")
    changed: tuple[ChangedSample, ...]
    judges: tuple[JudgePair, ...] = Field(default=(), description="each two judges of a metric")
    warnings: tuple[str, ...] = Field(description="lines before the figures, each with the letter of its run")
    notes: tuple[str, ...]


def compare_runs(paths: Sequence[Path]) -> RunComparison:
    """Compare finished runs with the first of them.

    Raises:
        RequestError: a folder is no finished run, or the runs have nothing in common to compare.
    """
    runs = load_runs(paths)
    first = runs[0]
    shared = [name for name in first.domains if all(name in run.domains for run in runs)]
    tried = [name for name in shared if not any(name in run.skipped for run in runs)]
    facts = merge_facts(runs, tried)
    figures = Figures(runs, facts)
    metrics = figures.compare(figures.headline, corrected=True)
    lead = _choose_lead(first, metrics)
    reasons = tuple(find_reasons(runs))
    clusters = len({sample_facts.cluster for sample_facts in facts.values()})
    notes = list(_notes(runs, len(shared) - len(facts), lead))
    if clusters == 1:
        notes.insert(0, no_interval(first.manifest.benchmark))
    in_headline = [name for name in facts if facts[name].headline]
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
        changed=_find_changed(runs, in_headline, lead),
        judges=compare_judges(runs, list(facts)),
        warnings=tuple(_warnings(runs)),
        notes=tuple(notes),
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
    """Return the headline metrics that have differences, chosen as in a report of the first run."""
    changed = {name: first.summary.metrics[name] for name in metrics if metrics[name].changes}
    return tuple(tables.chosen(changed, len(changed)))


def _find_changed(runs: Sequence[ComparedRun], ids: Sequence[str], lead: Sequence[str]) -> tuple[ChangedSample, ...]:
    """Return for each run the samples that gained most over the first run in the leading metric, then the losses."""
    import pandas as pd

    if not lead:
        return ()
    metric = lead[0]
    first = runs[0]
    values = pd.DataFrame({run.letter: run.values(metric) for run in runs}).reindex(sorted(ids))
    changed: list[ChangedSample] = []
    for run in runs[1:]:
        change = (values[run.letter] - values[first.letter]).dropna().round(9)
        gained = change[change > 0].sort_values(ascending=False, kind="stable")[:MAX_CHANGED_SAMPLES]
        lost = change[change < 0].sort_values(kind="stable")[:MAX_CHANGED_SAMPLES]
        names = [*gained.index, *lost.index]
        before = _read_samples(first, names)
        after = _read_samples(run, names)
        for name in names:
            old = float(values.at[name, first.letter])
            new = float(values.at[name, run.letter])
            changed.append(
                ChangedSample(
                    id=name,
                    run=run.letter,
                    metric=metric,
                    values=(old, new),
                    difference=new - old,
                    domain=before[name].domain,
                    query=before[name].query or after[name].query,
                    answers=(_answer(before[name]), _answer(after[name])),
                    shown=first.summary.metrics[metric].shown,
                )
            )
    return tuple(changed)


def _read_samples(run: ComparedRun, names: Sequence[str]) -> dict[str, Sample]:
    by_id: dict[str, Sample] = {}
    for sample in samples(run.path):
        if sample.id in names:
            by_id.setdefault(sample.id, sample)
    return by_id


def _answer(sample: Sample) -> str | None:
    """Return the answer of a sample; without one, the ids of the first retrieved passages."""
    if sample.prediction is not None:
        return sample.prediction
    documents = ", ".join(ref.document_id for ref in sample.contexts[:5])
    return f"found: {documents}" if documents else None


def _warnings(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield the note on demo data once, then the warnings of each run's report."""
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
            only_here = len(side.domains.keys() - other_run.domains.keys())
            if only_here:
                yield f"{only_here} samples of {side.letter} are not in {other_run.letter} and are left out"
        if run.manifest.repeat != first.manifest.repeat:
            times = f"{first.manifest.repeat} in {first.letter}, {run.manifest.repeat} in {run.letter}"
            yield f"repeats of a task: {times}; a sample counts once, by its mean"
        if run.manifest.version != first.manifest.version:
            yield (
                f"{first.letter} and {run.letter} were made by different versions of Turnmark "
                f"({first.manifest.version}, {run.manifest.version}); score both again to be sure of the metrics"
            )
    for run in runs:
        for name in lead[:1]:
            spread = tables.describe_repeats(run.summary.metrics[name])
            if spread:
                yield f"{run.letter}: {name} {spread}"
    yield from _metric_notes(runs)


def _metric_notes(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield a note for each metric that not all runs have, or not for single samples."""
    measured = [name for run in runs for name, metric in run.summary.metrics.items() if metric.n]
    for name in dict.fromkeys(measured):
        letters = [run.letter for run in runs if name in run.by]
        if not letters:
            figures = ", ".join(f"{run.letter} {tables.mean_text(run.summary.metrics.get(name))}" for run in runs)
            yield f"{name} is a figure of a full run, not of its samples, and is not tested: {figures}"
        elif len(letters) < len(runs):
            yield f"{name} is measured only in {', '.join(letters)}"


class Figures:
    """Computes the figures of runs over the samples that have facts.

    Args:
        facts: sample id -> cluster, labels and whether the sample is in the headline.
    """

    def __init__(self, runs: Sequence[ComparedRun], facts: Mapping[str, Facts]) -> None:
        import numpy as np

        # Sorted by cluster name, so that the order of the runs does not matter.
        self._ids = sorted(facts, key=lambda name: (facts[name].cluster, name))
        self._runs = runs
        self._facts = [facts[name] for name in self._ids]
        cluster_names = [sample_facts.cluster for sample_facts in self._facts]
        self._clusters: Ints = np.unique(cluster_names, return_inverse=True)[1]
        self._metrics: dict[str, _Paired] = {}
        for name in runs[0].metrics():
            in_all_runs = all(name in run.by and name in run.summary.metrics for run in runs)
            if in_all_runs and not name.endswith(_BASELINE_SUFFIXES):
                self._metrics[name] = self._pair(name)
        self.headline: Bools = np.array([sample_facts.headline for sample_facts in self._facts], dtype=bool)

    def _pair(self, metric: str) -> _Paired:
        import numpy as np

        is_ratio = metric.partition("[")[0].rpartition(".")[2] in _RATIO_NAMES
        counted_as = "counted" if is_ratio else "scored"
        divided_by = "counted" if is_ratio else "weight"
        counts, known, sums, weights = [], [], [], []
        for run in self._runs:
            cells = run.cells.loc[metric].reindex(self._ids, fill_value=0)
            divisor = cells[divided_by].where(cells[divided_by] > 0, 1)
            counts.append(cells[counted_as] > 0)
            known.append(cells["scored"] + cells["failed"] > 0)
            sums.append(cells["total"] / divisor)
            weights.append(cells["weight"] / divisor)
        return _Paired(
            counts=np.logical_and.reduce(counts),
            known=np.logical_or.reduce(known),
            sums=np.array(sums),
            weights=np.array(weights),
            why=metric_reason(self._runs, metric),
        )

    def compare(self, chosen: Bools, corrected: bool = False) -> dict[str, MetricComparison]:
        """Compare every metric over the chosen samples.

        Args:
            chosen: (samples,).
            corrected: correct the p for the number of tests (Holm).
        """
        from turnmark.evaluation.scores.stats import holm, intervals, permutation_tests

        pairs: list[tuple[str, str, Difference]] = []
        for metric, paired in self._metrics.items():
            if paired.why is not None:
                continue
            for index, run in enumerate(self._runs[1:], 1):
                run_difference = self._subtract(paired, chosen, index)
                if run_difference is not None:
                    pairs.append((metric, run.letter, run_difference))
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
        why = paired.why
        if why is None and not changes:
            why = "a run has no figure over these samples" if n else "no sample has a figure in every run"
        return MetricComparison(
            n=n,
            clusters=len(set(self._clusters[counted].tolist())),
            left_out=int((chosen & ~paired.counts & paired.known).sum()),
            means=tuple(self._means(paired, chosen)),
            changes=changes,
            why=why,
            shown=self._runs[0].summary.metrics[metric].shown,
        )

    def _means(self, paired: _Paired, chosen: Bools) -> list[float | None]:
        """Return the mean of each run."""
        counted = chosen & paired.counts
        sums = paired.sums[:, counted].sum(axis=1).tolist()
        weights = paired.weights[:, counted].sum(axis=1).tolist()
        return [total / weight if weight else None for total, weight in zip(sums, weights, strict=True)]

    def _subtract(self, paired: _Paired, chosen: Bools, run: int) -> Difference | None:
        """Return a run minus the first run; None if one of the runs has no figure over the chosen samples."""
        from turnmark.evaluation.scores.stats import difference_figure

        counted = chosen & paired.counts
        sums, weights = paired.sums[:, counted], paired.weights[:, counted]
        return difference_figure(sums[0], weights[0], sums[run], weights[run], self._clusters[counted])

    def break_down(self) -> dict[str, dict[str, dict[str, MetricComparison]]]:
        """Return dimension -> value -> metrics; values sorted.

        A value is over its samples in the headline or, if it has none there (CONVERSATIONAL), over all of them, as in
        the summary of a run.
        """
        import numpy as np

        dimensions = dict.fromkeys(dimension for sample_facts in self._facts for dimension in sample_facts.labels)
        breakdowns: dict[str, dict[str, dict[str, MetricComparison]]] = {}
        for dimension in dimensions:
            values_of = [sample_facts.labels.get(dimension, ()) for sample_facts in self._facts]
            breakdowns[dimension] = {}
            for value in sorted(set[str]().union(*values_of)):
                chosen: Bools = np.array([value in values for values in values_of])
                in_headline = chosen & self.headline
                breakdowns[dimension][value] = self.compare(in_headline if in_headline.any() else chosen)
        return breakdowns
