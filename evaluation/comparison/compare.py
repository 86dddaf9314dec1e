"""A comparison as a whole: `compare` gives all that the tables, the page and `--json` show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.comparison import differing
from turnmark.evaluation.comparison.differing import Reason
from turnmark.evaluation.comparison.figures import Compared, Figures, Place, Slice
from turnmark.evaluation.comparison.judges import Judges, judges_of
from turnmark.evaluation.comparison.loading import Run, facts_together, load_all
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import samples
from turnmark.evaluation.summary import Facts

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


class Changed(Record):
    """A sample that one run does much better, or worse, than the first."""

    id: str
    run: str
    metric: str
    values: tuple[float, float] = Field(description="of the first run, and of this one; means over repeats")
    difference: float
    domain: str | None = None
    query: str | None = None
    answers: tuple[str | None, str | None] = Field(description="of the first run, and of this one; of repeat 0")


class Comparison(Record):
    """What `turnmark compare` found."""

    benchmark: str
    task: str
    data: DataUsed
    runs: tuple[Side, ...]
    comparable: bool = Field(description="False: `why` says what else differs beside the systems")
    why: tuple[Reason, ...]
    differs: dict[str, list[str]] = Field(description="field of the manifest -> its value in each run")
    n: int = Field(description="samples that all runs have and tried")
    clusters: int
    metrics: dict[str, Compared]
    breakdowns: dict[str, dict[str, dict[str, Compared]]]
    ranking: dict[str, tuple[Place, ...]]
    lead: tuple[str, ...] = Field(description="the metrics that stand for all, the most telling first")
    changed: tuple[Changed, ...]
    judges: Judges | None = Field(default=None, description="the judges beside each other; None: no metric has two")
    warnings: tuple[str, ...] = Field(description="what is said before the figures, with the letter of its run")
    notes: tuple[str, ...]


def compare(paths: Sequence[Path]) -> Comparison:
    """Compare finished runs with the first of them.

    Raises:
        RequestError: every reason why they cannot be compared at all.
    """
    runs = load_all(paths)
    differing.check(runs)
    first = runs[0]
    shared = [name for name in first.domains if all(name in run.domains for run in runs)]
    ids = [name for name in shared if not any(name in run.skipped for run in runs)]
    facts, labelled = facts_together(runs, ids)
    figures = Figures(runs, ids, facts)
    headline = figures.headline()
    lead = _lead(runs, headline)
    reasons = differing.reasons(runs)
    return Comparison(
        benchmark=first.manifest.benchmark,
        task=first.manifest.task,
        data=first.manifest.data,
        runs=tuple(map(_side, runs)),
        comparable=not reasons,
        why=tuple(reasons),
        differs=differing.compared(runs),
        n=len(ids),
        clusters=len({facts[name].cluster for name in ids}),
        metrics=headline,
        breakdowns=figures.breakdowns(),
        ranking=figures.ranking(),
        lead=lead,
        changed=_changed(runs, ids, facts, lead),
        judges=judges_of(runs, ids),
        warnings=tuple(_warnings(runs)),
        notes=tuple(_notes(runs, len(shared) - len(ids), labelled)),
    )


def _side(run: Run) -> Side:
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


def _lead(runs: Sequence[Run], headline: Slice) -> tuple[str, ...]:
    """The metrics that have differences, as a report of the first run would choose them."""
    metrics = {name: runs[0].summary.metrics[name] for name in headline if name in runs[0].summary.metrics}
    changed_metrics = {name: metric for name, metric in metrics.items() if headline[name].changes}
    return tuple(tables.chosen(changed_metrics, len(changed_metrics))) if changed_metrics else ()


def _changed(
    runs: Sequence[Run], ids: Sequence[str], facts: Mapping[str, Facts], lead: Sequence[str]
) -> tuple[Changed, ...]:
    """By the metric that stands first: what each run gained most over the first one, then what it lost most."""
    if not lead:
        return ()
    metric, first = lead[0], runs[0]
    picked: list[tuple[Run, str, float, float]] = []
    for run in runs[1:]:
        changes: list[tuple[float, str, float, float]] = []
        for name in ids:
            mine, theirs = (change.cells[metric].get(name) for change in (first, run))
            if mine is None or theirs is None or not facts[name].headline:
                continue
            if (
                (before_value := mine.value) is not None
                and (after_value := theirs.value) is not None
                and before_value != after_value
            ):
                changes.append((after_value - before_value, name, before_value, after_value))
        gained = sorted(
            (change for change in changes if change[0] > 0), key=lambda change: (-round(change[0], 9), change[1])
        )
        worse = sorted(
            (change for change in changes if change[0] < 0), key=lambda change: (round(change[0], 9), change[1])
        )
        picked += [(run, *change[1:]) for change in (*gained[:MOST_CHANGED], *worse[:MOST_CHANGED])]
    samples_of = {run.letter: _written(run, {name for _, name, *_ in picked}) for run in runs}
    return tuple(
        _one(
            metric,
            run,
            name,
            (before_value, after_value),
            samples_of[first.letter].get(name),
            samples_of[run.letter].get(name),
        )
        for run, name, before_value, after_value in picked
    )


def _one(
    metric: str, run: Run, name: str, values: tuple[float, float], mine: Sample | None, theirs: Sample | None
) -> Changed:
    return Changed(
        id=name,
        run=run.letter,
        metric=metric,
        values=values,
        difference=values[1] - values[0],
        domain=mine.domain if mine else None,
        query=(mine.query if mine else None) or (theirs.query if theirs else None),
        answers=(_answer(mine), _answer(theirs)),
    )


def _answer(sample: Sample | None) -> str | None:
    """What a sample says; of one that only searched, what it found."""
    if sample is None:
        return None
    documents = ", ".join(ref.document_id for ref in sample.contexts[:5])
    return sample.prediction if sample.prediction is not None else f"found: {documents}" if documents else None


def _written(run: Run, names: set[str]) -> dict[str, Sample]:
    return {sample.id: sample for sample in samples(run.path) if sample.id in names and not sample.repeat}


def _warnings(runs: Sequence[Run]) -> Iterator[str]:
    """That the data are the demo's, once, and what else a run's own report says first."""
    for run in runs:
        demo = run.summary.notes[:1] if run.summary.data.demo else ()
        if run is runs[0]:
            yield from demo
        yield from (f"{run.letter}: {line}" for line in tables.warnings(run.summary) if line not in demo)


def _notes(runs: Sequence[Run], skipped: int, labelled: bool) -> list[str]:
    first, notes = runs[0], list[str]()
    if not labelled:
        notes.append(
            "no run says how its samples are labelled: conversations are told by the ids alone, there are few "
            "breakdowns, and conversational turns are counted in; scoring a run again mends it"
        )
    if skipped:
        notes.append(f"{skipped} samples were not tried in some run and are left out")
    for run in runs[1:]:
        for these, other_run in ((first, run), (run, first)):
            if alone := len(these.domains.keys() - other_run.domains.keys()):
                notes.append(f"{alone} samples of {these.letter} are not in {other_run.letter} and are left out")
        if run.manifest.repeat != first.manifest.repeat:
            times = f"{first.manifest.repeat} in {first.letter}, {run.manifest.repeat} in {run.letter}"
            notes.append(f"repeats of a task: {times}; a sample counts once, by its mean")
    notes += differing.versions(runs)
    notes += _alone(runs)
    notes += [
        f"{run.unreadable} lines of scores.jsonl of {run.letter} cannot be read" for run in runs if run.unreadable
    ]
    return [note for note in notes if note]


def _alone(runs: Sequence[Run]) -> list[str]:
    """Metrics that cannot be paired: of some runs alone, or ranked over a whole run."""
    names = dict.fromkeys(name for run in runs for name, metric in run.summary.metrics.items() if metric.n)
    notes = []
    for name in names:
        have = [run.letter for run in runs if name in run.cells]
        if not have:
            figures = (f"{run.letter} {tables.mean(name, run.summary.metrics.get(name))}" for run in runs)
            notes.append(
                f"{name} is a figure of a whole run, not of its samples, and has no pairs: {', '.join(figures)}"
            )
        elif len(have) < len(runs):
            notes.append(f"{name} is measured in {', '.join(have)} alone")
    return notes
