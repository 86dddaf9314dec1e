"""Finished runs compared with the first of them: all that the tables, the page and `--json` show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.figures import Figures, MetricComparison
from turnmark.evaluation.comparison.loading import (
    ComparedRun,
    Reason,
    find_reasons,
    list_differences,
    load_runs,
    merge_facts,
)
from turnmark.evaluation.metric_info import Figured
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.summary import no_interval

MOST_CHANGED = 5
"""Samples shown in each direction, for each run."""


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
