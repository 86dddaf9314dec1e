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
        whole = ", ".join(str(path) for path, kind in kinds.items() if kind)
        raise RequestError(f"RUN: {whole}: a folder of `eval all` is compared with others of its kind, not with a run")
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
    found = [errors.collect(read_run, path) for path in paths]
    errors.raise_all()
    stored = [one for one in found if one is not None]
    there = dict.fromkeys(run.path.name for one in stored for run in one.runs)
    parts: dict[str, Comparison] = {}
    left_out: dict[str, str] = {}
    for name in there:
        without = [str(one.path) for one in stored if name not in {run.path.name for run in one.runs}]
        if without:
            left_out[name] = f"not in {', '.join(without)}"
            continue
        try:
            parts[name] = compare([one.path / name for one in stored])
        except RequestError as error:
            left_out[name] = "; ".join(error.problems)
    if not parts:
        raise RequestError([f"{name}: {why}" for name, why in left_out.items()] or ["RUN: there is no finished part"])
    letters = [side.letter for side in next(iter(parts.values())).runs]
    names = [one.path.resolve().name for one in stored]
    pipelines = (
        Pipeline(letter=letter, name=name, run=str(one.path), specs=_specs(one))
        for letter, name, one in zip(letters, names, stored, strict=True)
    )
    return Pipelines(pipelines=tuple(pipelines), parts=parts, left_out=left_out)


def _specs(stored: Stored) -> dict[str, str]:
    found: dict[str, dict[str, None]] = {}
    for run in stored.runs:
        for role, spec in run.summary.specs.items():
            if role in (*ROLES, "judge") and spec:
                found.setdefault(role, {})[spec] = None
    return {role: " | ".join(specs) for role, specs in found.items()}


# --- as tables -------------------------------------------------------------------------------------------------------


def pipeline_tables(made: Pipelines) -> tuple[Table, ...]:
    """Which pipeline is which, and all of them side by side."""
    roles = [role for role in (*ROLES, "judge") if any(role in one.specs for one in made.pipelines)]
    rows = tuple(Row((one.letter, one.name, *(one.specs.get(role, "-") for role in roles))) for one in made.pipelines)
    who = Table("Pipelines", (Column(""), Column("folder"), *map(Column, roles)), rows)
    return who, _matrix(made)


def _matrix(made: Pipelines) -> Table:
    """The means of the first pipeline, and what each other one adds: `.3161 (-.0855*)`."""
    first, *others = made.pipelines
    columns = [Column("part"), Column("metric"), Column(first.letter, True)]
    columns += [Column(one.letter, True) for one in others] + [Column("n", True)]
    rows: list[Row] = []
    for part, comparison in made.parts.items():
        shown = (comparison.lead or tuple(comparison.metrics))[:MOST_METRICS]
        for at, name in enumerate(shown):
            metric = comparison.metrics[name]
            cells = [part if not at else "", name, *_cells(name, metric, len(others)), str(metric.n)]
            rows.append(Row(tuple(cells), "below" if at else "plain"))
    said = [f"Beside each figure: the difference to {first.letter}; * a corrected p below .05 within its part."]
    said += [f"{part}: not like for like: {why.why}" for part, one in made.parts.items() for why in one.why]
    said += [f"{part} is left out: {why}" for part, why in made.left_out.items()]
    return Table("Pipelines side by side", tuple(columns), tuple(rows), tuple(dict.fromkeys(said)))


def _cells(name: str, metric: Compared, others: int) -> list[str]:
    cells = [tables.figure(name, metric.means[0])]
    changes: list[Change | None] = [*metric.changes] or [None] * others
    for mean, change in zip(metric.means[1:], changes, strict=True):
        beside = f" ({signed(name, change.difference)}{_star(change)})" if change else ""
        cells.append(tables.figure(name, mean) + beside)
    return cells


def _star(change: Change) -> str:
    return "*" if change.p_holm is not None and change.p_holm < LEVEL else ""


def parts_tables(made: Pipelines) -> tuple[Table, ...]:
    """Every pipeline against the first, part by part, with intervals and tests, and in the tables of the papers."""
    return tuple(
        replace(table, title=f"{part}: {table.title}")
        for part, one in made.parts.items()
        for table in (*(differences(one, at) for at in range(1, len(one.runs))), *paper(one))
    )


def title(made: Pipelines) -> str:
    """One line: what is compared."""
    return f"{len(made.pipelines)} pipelines over {len(made.parts)} parts"


def warnings(made: Pipelines) -> tuple[str, ...]:
    """What the comparisons of the parts say before their figures, each once."""
    return tuple(dict.fromkeys(line for one in made.parts.values() for line in one.warnings))


def notes(made: Pipelines) -> tuple[str, ...]:
    """What they say after them, with the part."""
    return tuple(f"{part}: {note}" for part, one in made.parts.items() for note in one.notes)
