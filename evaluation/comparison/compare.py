"""A comparison as a whole: all that the tables, the page and `--json` show.

Folders of `eval all` are compared too: one pipeline a folder, over the parts that all of them ran.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation.comparison import loading
from turnmark.evaluation.comparison.figures import Compared, Figures, Place, Slice
from turnmark.evaluation.comparison.judges import Judges, judges_of
from turnmark.evaluation.comparison.loading import Reason, Run, facts_together, load_all
from turnmark.evaluation.records import DataUsed, Sample
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import Stored, read_run, samples
from turnmark.evaluation.summary import Facts

MOST_CHANGED = 5
"""Samples shown in each direction, for each run."""
ROLES = ("retriever", "generator")
PIPELINE_ROLES = (*ROLES, "judge")


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
    loading.check(runs)
    first = runs[0]
    shared = [name for name in first.domains if all(name in run.domains for run in runs)]
    ids = [name for name in shared if not any(name in run.skipped for run in runs)]
    facts = facts_together(runs, ids)
    figures = Figures(runs, ids, facts)
    headline = figures.headline()
    lead = _lead(runs, headline)
    reasons = loading.reasons(runs)
    return Comparison(
        benchmark=first.manifest.benchmark,
        task=first.manifest.task,
        data=first.manifest.data,
        runs=tuple(map(_side, runs)),
        comparable=not reasons,
        why=tuple(reasons),
        differs=loading.compared(runs),
        n=len(ids),
        clusters=len({facts[name].cluster for name in ids}),
        metrics=headline,
        breakdowns=figures.breakdowns(),
        ranking=figures.ranking(),
        lead=lead,
        changed=_changed(runs, ids, facts, lead),
        judges=judges_of(runs, ids),
        warnings=tuple(_warnings(runs)),
        notes=tuple(_notes(runs, len(shared) - len(ids))),
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
    picked: list[tuple[Run, str, tuple[float, float]]] = []
    for run in runs[1:]:
        changes: list[tuple[float, str, tuple[float, float]]] = []
        for name in ids:
            cells = [side.cells[metric].get(name) for side in (first, run)]
            before, after = (cell.value if cell else None for cell in cells)
            if before is not None and after is not None and before != after and facts[name].headline:
                changes.append((round(after - before, 9), name, (before, after)))
        changes.sort(key=lambda change: (-abs(change[0]), change[1]))
        gained = [change for change in changes if change[2][1] > change[2][0]][:MOST_CHANGED]
        worse = [change for change in changes if change[2][1] < change[2][0]][:MOST_CHANGED]
        picked += [(run, name, values) for _, name, values in (*gained, *worse)]
    samples_of = {run.letter: _written(run, {name for _, name, _ in picked}) for run in runs}
    changed_samples = []
    for run, name, values in picked:
        mine, theirs = (samples_of[side.letter].get(name) for side in (first, run))
        changed_samples.append(
            Changed(
                id=name,
                run=run.letter,
                metric=metric,
                values=values,
                difference=values[1] - values[0],
                domain=mine.domain if mine else None,
                query=(mine.query if mine else None) or (theirs.query if theirs else None),
                answers=(_answer(mine), _answer(theirs)),
            )
        )
    return tuple(changed_samples)


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


def _notes(runs: Sequence[Run], skipped: int) -> list[str]:
    first, notes = runs[0], list[str]()
    if skipped:
        notes.append(f"{skipped} samples were not tried in some run and are left out")
    for run in runs[1:]:
        for side, other_run in ((first, run), (run, first)):
            if alone := len(side.domains.keys() - other_run.domains.keys()):
                notes.append(f"{alone} samples of {side.letter} are not in {other_run.letter} and are left out")
        if run.manifest.repeat != first.manifest.repeat:
            times = f"{first.manifest.repeat} in {first.letter}, {run.manifest.repeat} in {run.letter}"
            notes.append(f"repeats of a task: {times}; a sample counts once, by its mean")
    notes += loading.versions(runs)
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


# --- pipelines -------------------------------------------------------------------------------------------------------


class Pipeline(Record):
    """A folder of `eval all`."""

    letter: str
    name: str
    run: str
    specs: dict[str, str] = Field(description="those that any of its runs names, by role")


class Pipelines(Record):
    """Several pipelines over the same parts."""

    pipelines: tuple[Pipeline, ...]
    parts: dict[str, Comparison] = Field(description="part -> its runs compared, each with the first")
    left_out: dict[str, str] = Field(description="part -> why it is not compared")


def compare_all(paths: Sequence[Path]) -> Comparison | Pipelines:
    """Compare finished runs, or folders of `eval all`, with the first of them.

    Raises:
        RequestError: every reason why they cannot be compared at all.
    """
    kinds = {path: _several(path) for path in dict.fromkeys(paths)}
    if len({kind for kind in kinds.values() if kind is not None}) > 1:
        folders = ", ".join(str(path) for path, kind in kinds.items() if kind)
        raise RequestError(
            f"RUN: {folders}: a folder of `eval all` is compared with others of its kind, not with a run"
        )
    return compare_pipelines(paths) if any(kinds.values()) else compare(paths)


def _several(path: Path) -> bool | None:
    """Whether it is a folder of `eval all`; None where it cannot be read."""
    try:
        return read_run(path).several
    except RequestError:
        return None


def compare_pipelines(paths: Sequence[Path]) -> Pipelines:
    """Compare the parts that all of these folders have.

    Raises:
        RequestError: a folder cannot be read, one is named twice, or no part can be compared.
    """
    errors = ErrorCollector()
    if len(paths) < 2:
        errors.add("RUN: one pipeline alone has nothing to be compared with; name two or more")
    if len({os.path.realpath(path) for path in paths}) < len(paths):
        errors.add("RUN: a folder is named twice; a pipeline is not compared with itself")
    read_folders = [errors.collect(read_run, path) for path in paths]
    errors.raise_all()
    stored = [folder for folder in read_folders if folder is not None]
    part_names = dict.fromkeys(run.path.name for folder in stored for run in folder.runs)
    parts: dict[str, Comparison] = {}
    left_out: dict[str, str] = {}
    for name in part_names:
        without = [str(folder.path) for folder in stored if name not in {run.path.name for run in folder.runs}]
        if without:
            left_out[name] = f"not in {', '.join(without)}"
            continue
        try:
            parts[name] = compare([folder.path / name for folder in stored])
        except RequestError as error:
            left_out[name] = "; ".join(error.problems)
    if not parts:
        raise RequestError([f"{name}: {why}" for name, why in left_out.items()] or ["RUN: there is no finished part"])
    letters = [side.letter for side in next(iter(parts.values())).runs]
    names = [folder.path.resolve().name for folder in stored]
    pipelines = (
        Pipeline(letter=letter, name=name, run=str(folder.path), specs=_specs(folder))
        for letter, name, folder in zip(letters, names, stored, strict=True)
    )
    return Pipelines(pipelines=tuple(pipelines), parts=parts, left_out=left_out)


def _specs(stored: Stored) -> dict[str, str]:
    specs_by_role: dict[str, dict[str, None]] = {}
    for run in stored.runs:
        for role, spec in run.summary.specs.items():
            if role in PIPELINE_ROLES and spec:
                specs_by_role.setdefault(role, {})[spec] = None
    return {role: " | ".join(specs) for role, specs in specs_by_role.items()}
