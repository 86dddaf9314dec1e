"""Folders of `eval all` compared: one pipeline a folder, the parts that all of them ran as the rows of one matrix."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import Field

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation.comparison.compare import Comparison, compare
from turnmark.evaluation.comparison.figures import LEVEL, Change, Compared
from turnmark.evaluation.comparison.showing import ROLES, differences, paper, signed
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.stored import Stored, read_run
from turnmark.evaluation.report.tables import Column, Row, Table

MOST_METRICS = 3
"""Metrics of a part in the matrix, those that stand for all."""


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
            if role in (*ROLES, "judge") and spec:
                specs_by_role.setdefault(role, {})[spec] = None
    return {role: " | ".join(specs) for role, specs in specs_by_role.items()}


# --- as tables -------------------------------------------------------------------------------------------------------


def pipeline_tables(pipelines: Pipelines) -> tuple[Table, ...]:
    """Which pipeline is which, and all of them side by side."""
    roles = [role for role in (*ROLES, "judge") if any(role in pipeline.specs for pipeline in pipelines.pipelines)]
    rows = tuple(
        Row((pipeline.letter, pipeline.name, *(pipeline.specs.get(role, "-") for role in roles)))
        for pipeline in pipelines.pipelines
    )
    pipelines_table = Table("Pipelines", (Column(""), Column("folder"), *map(Column, roles)), rows)
    return pipelines_table, _matrix(pipelines)


def _matrix(pipelines: Pipelines) -> Table:
    """The means of the first pipeline, and what each other one adds: `.3161 (-.0855*)`."""
    first, *other_pipelines = pipelines.pipelines
    columns = [Column("part"), Column("metric"), Column(first.letter, True)]
    columns += [Column(pipeline.letter, True) for pipeline in other_pipelines] + [Column("n", True)]
    rows: list[Row] = []
    for part, comparison in pipelines.parts.items():
        metric_names = (comparison.lead or tuple(comparison.metrics))[:MOST_METRICS]
        for at, name in enumerate(metric_names):
            metric = comparison.metrics[name]
            cells = [part if not at else "", name, *_cells(name, metric, len(other_pipelines)), str(metric.n)]
            rows.append(Row(tuple(cells), "below" if at else "plain"))
    lines = [f"Beside each figure: the difference to {first.letter}; * a corrected p below .05 within its part."]
    lines += [
        f"{part}: not like for like: {why.why}" for part, pipeline in pipelines.parts.items() for why in pipeline.why
    ]
    lines += [f"{part} is left out: {why}" for part, why in pipelines.left_out.items()]
    return Table("Pipelines side by side", tuple(columns), tuple(rows), tuple(dict.fromkeys(lines)))


def _cells(name: str, metric: Compared, count: int) -> list[str]:
    cells = [tables.figure(name, metric.means[0])]
    changes: list[Change | None] = [*metric.changes] or [None] * count
    for mean, change in zip(metric.means[1:], changes, strict=True):
        difference = f" ({signed(name, change.difference)}{_star(change)})" if change else ""
        cells.append(tables.figure(name, mean) + difference)
    return cells


def _star(change: Change) -> str:
    return "*" if change.p_holm is not None and change.p_holm < LEVEL else ""


def parts_tables(pipelines: Pipelines) -> tuple[Table, ...]:
    """Every pipeline against the first, part by part, with intervals and tests, and in the tables of the papers."""
    return tuple(
        replace(table, title=f"{part}: {table.title}")
        for part, part_runs in pipelines.parts.items()
        for table in (*(differences(part_runs, at) for at in range(1, len(part_runs.runs))), *paper(part_runs))
    )


def title(pipelines: Pipelines) -> str:
    """One line: what is compared."""
    return f"{len(pipelines.pipelines)} pipelines over {len(pipelines.parts)} parts"


def warnings(pipelines: Pipelines) -> tuple[str, ...]:
    """What the comparisons of the parts say before their figures, each once."""
    return tuple(dict.fromkeys(line for runs in pipelines.parts.values() for line in runs.warnings))


def notes(pipelines: Pipelines) -> tuple[str, ...]:
    """What they say after them, with the part."""
    return tuple(f"{part}: {note}" for part, runs in pipelines.parts.items() for note in runs.notes)
