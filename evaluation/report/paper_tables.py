"""The tables of the four papers as they are written down in `paper_tables.json`: what each row and column is of.

A list of rows or columns holds slots, names of `axes`, and products `{"each": …, "under": …}`, in which every slot of
the first list heads all of the second. To the axes `domains`, `queries`, `models` and `judges` the runs add their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.judging.judge import model_key, short_name
from turnmark.evaluation.judging.rubrics import EMBEDDED
from turnmark.evaluation.records import Summary

VARIANTS = (EMBEDDED, "script")
"""Forms of a metric, as in `rl_f[embedded]`, that nobody published: they have columns behind the paper's."""


class Slot(Record):
    """A row or a column of a paper's table. A cell is of both: its parts are joined."""

    label: str = Field(default="", description="as in the paper")
    over: str = Field(default="", description="a heading of several columns, or above several rows")
    metrics: tuple[str, ...] = Field(
        default=(), description="of a column: the first that was measured counts; `{}` stands for the row's key"
    )
    key: str = Field(default="", description="of a row; empty: its label")
    part: Mapping[str, str] = Field(default={}, description="dimension -> value: which samples; empty: all")
    setting: str | None = Field(
        default=None, description="what a figure was made in; None: in any. So are the next two"
    )
    query: str | None = None
    judge: str | None = None
    form: str = Field(
        default=".2f", description="format, as the paper prints it; of a percentage the head has the sign"
    )
    variant: str = Field(default="", description="one of `VARIANTS`")
    ours: bool = Field(default=True, description="False: only the paper has these samples")

    def at(self, row: Slot) -> Slot:
        """The cell of this column in a row."""
        metrics = tuple(name.format(row.key or row.label) for name in self.metrics)
        cell = {"metrics": metrics, "part": {**row.part, **self.part}, "query": self.query or row.query}
        return self.model_copy(update={**cell, "ours": self.ours and row.ours})

    def of(self, variant: str) -> Slot:
        """The column of another form of the metrics, named after it."""
        label, over = (self.label, f"{self.over} [{variant}]") if self.over else (f"{self.label} [{variant}]", "")
        return self.model_copy(update={"label": label, "over": over, "variant": variant})


class Product(Record):
    """Every slot of one list as the heading of all of another."""

    each: tuple[Slot | str, ...]
    under: tuple[Slot | str, ...]


Entries = tuple[Slot | Product | str, ...]


class PaperTable(Record):
    """The shape of a printed table."""

    of: tuple[str, ...] = Field(description="`benchmark task` of the runs that it shows")
    sources: tuple[str, ...] = Field(
        description="where its figures were published, up to the first comma of a `source`"
    )
    title: str
    columns: Entries
    rows: Entries = (Slot(),)
    cells: Slot = Field(default=Slot(), description="what all columns have in common")
    heads: tuple[str, str] = Field(
        default=("system", ""), description="of the column of systems, and of the one of rows"
    )
    by_row: bool = Field(
        default=False, description="a row with all systems, row after row; else a system with all rows"
    )
    facts: Mapping[str, str] = Field(
        default={}, description="field -> value of the facts that belong in it; empty: all"
    )
    published: str = Field(default="", description="what published rows are called; empty: by their systems")
    baselines: tuple[str, ...] = Field(default=(), description="forms `[majority]` that the paper prints as systems")
    judged: str = Field(default="", description="metric whose judge has a column")
    joined: bool = Field(default=False, description="runs of one system in different settings are one row")
    note: str = ""


class PaperTables(Record):
    """The file."""

    axes: Mapping[str, tuple[Slot, ...]]
    tables: tuple[PaperTable, ...]


Shape = tuple[PaperTable, Sequence[Slot], Sequence[Slot]]
"""A table, its columns and its rows."""


@cache
def _read() -> PaperTables:
    return PaperTables.model_validate_json(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def shapes(summaries: Sequence[Summary]) -> Iterator[Shape]:
    """The tables that runs of one benchmark and task belong in, the most informative one first."""
    kind = f"{summaries[0].benchmark} {summaries[0].task}"
    axes = {name: list(slots) for name, slots in _read().axes.items()}
    for name, slot in _axes_of(summaries):
        if not any(_same(slot, known) for known in axes[name]):
            axes[name].append(slot)
    for table in _read().tables:
        if kind in table.of:
            columns = [_joined(table.cells, column) for column in _expand(table.columns, axes)]
            yield table, columns, list(_expand(table.rows, axes))


def _expand(entries: Entries, axes: Mapping[str, Sequence[Slot]]) -> Iterator[Slot]:
    for entry in entries:
        if isinstance(entry, Product):
            for head in _expand(entry.each, axes):
                for slot in _expand(entry.under, axes):
                    yield _joined(head, slot).model_copy(update={"over": head.label})
        else:
            yield from axes[entry] if isinstance(entry, str) else [entry]


def _joined(first: Slot, second: Slot) -> Slot:
    """What either says; where both do, the second."""
    fields = {**first.model_dump(exclude_unset=True), **second.model_dump(exclude_unset=True)}
    return Slot.model_validate({**fields, "part": {**first.part, **second.part}})


def _axes_of(summaries: Sequence[Summary]) -> Iterator[tuple[str, Slot]]:
    """Axis and slot of what the runs have: their domains, query modes, models and judges."""
    for summary in summaries:
        for dimension in ("domain", "model"):
            for value in summary.breakdowns.get(dimension, {}):
                yield f"{dimension}s", Slot(label=value, part={dimension: value})
        yield "queries", Slot(label=query_of(summary), query=query_of(summary))
        for metric in ("judge_score", f"judge_score[{EMBEDDED}]"):
            if judge := judges_of(summary, metric):
                yield "judges", Slot(label=judge, judge=judge, variant=EMBEDDED if judge == EMBEDDED else "")


def _same(first: Slot, second: Slot) -> bool:
    judges = model_key(first.judge or "") == model_key(second.judge or "")
    return judges and (first.part, first.query) == (second.part, second.query)


def query_of(summary: Summary) -> str:
    """The query mode of a run; a run file of another system does not say."""
    return summary.specs.get("query") or "not said"


def judges_of(summary: Summary, metric: str) -> str:
    """The models that judged a metric of a run, by their short names; empty where nobody did."""
    panel = summary.judging.get(metric)
    return ", ".join(map(short_name, panel.judges)) if panel else ""
