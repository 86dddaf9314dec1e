"""Compare finished runs with the first of them, for the tables, the page and `--json`.

Each run is compared with the first one over the samples that are scored in both. Further runs do not change these
samples. A metric that is a ratio of counts, such as the precision of "I don't know", is over the samples that failed in
neither run, since each system's answers decide which samples it counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.comparison.comparable_runs import (
    ComparedRun,
    Reason,
    find_reasons,
    list_differences,
    load_runs,
    merge_facts,
)
from turnmark.evaluation.comparison.paired_statistics import (
    MetricComparison,
    MissingPolicy,
    PairedStatistics,
    correct,
)
from turnmark.evaluation.metric_style import StyledRecord
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.finished_runs import samples
from turnmark.evaluation.scores.cluster_statistics import MIN_CLUSTERS
from turnmark.evaluation.scores.score_tally import Facts
from turnmark.evaluation.tasks.declarations import no_interval

SIGNIFICANCE_LEVEL = 0.05
"""Significance level."""
MAX_CHANGED_SAMPLES = 5
"""Maximum samples shown in each direction, for each run."""
MAX_CHANCE = 0.001
"""Maximum probability that a kind of sample is left out so often by chance, for it to be reported."""
MAX_KINDS = 3
"""Maximum kinds of samples in a note."""


class Side(Record):
    """One of the compared runs."""

    letter: str
    name: str
    run: str = Field(description="folder of the run")
    setting: str | None
    specs: dict[str, str]
    selection: str = Field(default="", description="the part of the data that ran, in words; if empty, all of it")
    n: int
    failed: int
    skipped: int


class ChangedSample(StyledRecord):
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
    warnings: tuple[str, ...] = Field(description="lines before the tables, each with the letter of its run")
    notes: tuple[str, ...]


def compare_runs(paths: Sequence[Path], missing: MissingPolicy = "leave-out") -> RunComparison:
    """Compare finished runs with the first of them.

    Args:
        missing: see `PairedStatistics`.

    Raises:
        RequestError: a folder is no finished run, or the runs have nothing in common to compare.
    """
    runs = load_runs(paths)
    first = runs[0]
    facts = merge_facts(runs, _comparable_ids(runs, missing))
    paired = PairedStatistics(runs, facts, missing)
    metrics = correct(paired.compare(paired.headline))
    changed = {name: first.summary.metrics[name] for name, metric in metrics.items() if metric.changes}
    lead = tuple(tables.choose_headline(changed, len(changed)))
    reasons = tuple(find_reasons(runs))
    shared = [name for name in facts if all(name in run.domains and name not in run.skipped for run in runs)]
    clusters = len({facts[name].cluster for name in shared})
    notes = [*_power_notes(metrics, lead[:1]), *_notes(runs, missing, lead)]
    if 0 < clusters < MIN_CLUSTERS:
        notes.insert(0, no_interval(clusters, first.manifest.benchmark))
    in_headline = [name for name in facts if facts[name].headline]
    return RunComparison(
        benchmark=first.manifest.benchmark,
        task=first.manifest.task,
        data=first.manifest.data,
        runs=tuple(map(_describe, runs)),
        comparable=not reasons,
        why=reasons,
        differs=list_differences(runs),
        n=len(shared),
        clusters=clusters,
        metrics=metrics,
        breakdowns=paired.break_down(),
        lead=lead,
        changed=_find_changed(runs, in_headline, lead),
        warnings=tuple(_warnings(runs)),
        notes=tuple(notes),
    )


def _comparable_ids(runs: Sequence[ComparedRun], missing: MissingPolicy) -> list[str]:
    """Return the ids that the first run and another one have and tried; with `zero`, those that any run has."""
    first, *other_runs = runs
    if missing == "zero":
        return list(dict.fromkeys(name for run in runs for name in run.domains))
    tried_by_others = set[str]().union(*(run.domains.keys() - run.skipped for run in other_runs))
    return [name for name in first.domains if name not in first.skipped and name in tried_by_others]


def _describe(run: ComparedRun) -> Side:
    summary = run.summary
    return Side(
        letter=run.letter,
        name=run.name,
        run=str(run.path),
        setting=run.manifest.setting,
        specs={role: spec for role, spec in run.manifest.specs.items() if spec},
        selection=summary.selection,
        n=summary.n,
        failed=summary.failed,
        skipped=summary.skipped,
    )


def _find_changed(runs: Sequence[ComparedRun], ids: Sequence[str], lead: Sequence[str]) -> tuple[ChangedSample, ...]:
    """Return for each run the samples that gained most over the first run in the leading metric, then the losses."""
    if not lead:
        return ()
    metric = lead[0]
    first = runs[0]
    old_values = first.values(metric)
    changed: list[ChangedSample] = []
    for run in runs[1:]:
        values = run.values(metric)
        shared = sorted(old_values.keys() & values.keys() & set(ids))
        change = {name: round(values[name] - old_values[name], 9) for name in shared}
        order = sorted(shared, key=change.__getitem__)
        lost = [name for name in order if change[name] < 0][:MAX_CHANGED_SAMPLES]
        gained = [name for name in sorted(shared, key=lambda name: -change[name]) if change[name] > 0]
        names = [*gained[:MAX_CHANGED_SAMPLES], *lost]
        before = _read_samples(first, names)
        after = _read_samples(run, names)
        for name in names:
            old, new = old_values[name], values[name]
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


def _notes(runs: Sequence[ComparedRun], missing: MissingPolicy, lead: Sequence[str]) -> Iterator[str]:
    first = runs[0]
    fate = "count as 0 there" if missing == "zero" else "are left out"
    for run in runs[1:]:
        yield from describe_missing_samples(first, run, fate)
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


def _power_notes(metrics: Mapping[str, MetricComparison], lead: Sequence[str]) -> Iterator[str]:
    """Yield which differences of a leading metric such a comparison misses, and why an interval has no width."""
    for name in lead:
        for change in metrics[name].changes:
            if change.detectable is not None:
                least = metrics[name].shown.text(change.detectable)
                yield f"with n {change.n}, a difference in {name} below {least} is seen less than four times in five"
    intervals = {name: [change.ci95 for change in metric.changes] for name, metric in metrics.items()}
    same = [name for name, bounds in intervals.items() if any(bound and bound[0] == bound[1] for bound in bounds)]
    if same:
        yield f"an interval without a width: every sample has the same difference in {', '.join(same)}"


def _metric_notes(runs: Sequence[ComparedRun]) -> Iterator[str]:
    """Yield a note for each metric that not all runs have, or not for single samples."""
    measured = [name for run in runs for name, metric in run.summary.metrics.items() if metric.n]
    for name in dict.fromkeys(measured):
        letters = [run.letter for run in runs if name in run.by]
        if not letters:
            means = ", ".join(f"{run.letter} {tables.mean_text(run.summary.metrics.get(name))}" for run in runs)
            yield f"{name} is a figure of a full run, not of its samples, and is not tested: {means}"
        elif len(letters) < len(runs):
            yield f"{name} is measured only in {', '.join(letters)}"


# --- the samples that a comparison leaves out -------------------------------------------------------------------------


def describe_missing_samples(first: ComparedRun, run: ComparedRun, fate: str) -> Iterator[str]:
    """Yield notes on the samples that only one of two runs has, tried or answered, and on their kinds.

    Args:
        fate: what happens to them, e.g. `are left out`.
    """
    facts = {**(run.facts or {}), **(first.facts or {})}
    shared = {name for name in first.domains if name in run.domains}
    for side, other in ((first, run), (run, first)):
        only_here = side.domains.keys() - other.domains.keys()
        if only_here:
            yield f"{len(only_here)} samples of {side.letter} are not in {other.letter} and {fate}"
            yield from _note_uneven_kinds(only_here, shared, facts)
    untried = shared & (first.skipped | run.skipped)
    if untried:
        yield f"{len(untried)} samples were not tried in {first.letter} or {run.letter} and {fate}"
        yield from _note_uneven_kinds(untried, shared - untried, facts)
    for side in (first, run):
        failed = (shared - untried) & side.failed
        if failed:
            yield f"{len(failed)} samples failed in {side.letter} and {fate}"
            yield from _note_uneven_kinds(failed, shared - untried - failed, facts)


def _note_uneven_kinds(left_out: Collection[str], kept: Collection[str], facts: Mapping[str, Facts]) -> Iterator[str]:
    """Yield a note if some kinds of samples are left out more often than chance would do it."""
    from scipy.stats import hypergeom

    here, there = _count_kinds(left_out, facts), _count_kinds(kept, facts)
    kinds: list[tuple[float, str]] = []
    for (dimension, value), count in here.items():
        kept_count = there[dimension, value]
        # The probability of at least so many of a kind in a draw without replacement.
        chance = hypergeom.sf(count - 1, len(left_out) + len(kept), count + kept_count, len(left_out))
        if chance < MAX_CHANCE:
            share = f"{count} of these {len(left_out)}, but {kept_count} of the {len(kept)} others"
            kinds.append((chance, f"{dimension} {value} ({share})"))
    if kinds:
        listed = "; ".join(text for _, text in sorted(kinds)[:MAX_KINDS])
        yield f"these samples are not spread like the rest: {listed}"


def _count_kinds(names: Collection[str], facts: Mapping[str, Facts]) -> Counter[tuple[str, str]]:
    kinds: Counter[tuple[str, str]] = Counter()
    for name in names:
        if name in facts:
            kinds.update((dimension, value) for dimension, values in facts[name].labels.items() for value in values)
    return kinds
