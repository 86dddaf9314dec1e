"""Read the `paper_tables.json` of each benchmark, which defines the rows and columns of its paper's tables.

A list of rows or columns contains slots, names of `axes`, and products `{"each": …, "under": …}`, in which every slot
of the first list heads all of the second. The runs extend the axes `domains`, `queries`, `models` and `judges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.benchmark_files import benchmark_files
from turnmark.evaluation.judging.rubrics import EMBEDDED_JUDGE
from turnmark.evaluation.model_names import model_key, short_name
from turnmark.evaluation.records import Summary

VARIANTS = (EMBEDDED_JUDGE, "script")
"""Variants of a metric, as in `rl_f[embedded]`, that nobody published; their columns follow the paper's."""


class Slot(Record):
    """A row or a column of a paper's table, or a cell, which joins both."""

    label: str = Field(default="", description="as in the paper")
    over: str = Field(default="", description="a heading of several columns, or above several rows")
    metrics: tuple[str, ...] = Field(
        default=(), description="metrics of a column, the first measured one counts; `{}` is replaced by the row's key"
    )
    key: str = Field(default="", description="key of a row; if empty, its label")
    part: Mapping[str, str] = Field(default={}, description="dimension -> value of the samples; if empty, all samples")
    setting: str | None = Field(default=None, description="setting of the runs, or None for any")
    query: str | None = Field(default=None, description="query mode of the runs, or None for any")
    judge: str | None = Field(default=None, description="model that judged, or None for any")
    form: str = Field(
        default=".2f", description="format of the paper's values; the `%` of a percentage is in the head, not the cell"
    )
    variant: str = Field(default="", description="one of `VARIANTS`; if empty, the metric itself")
    ours: bool = Field(default=True, description="False: only the paper has these samples")

    def at(self, row: Slot) -> Slot:
        """Return the cell of this column in a row."""
        metrics = tuple(name.format(row.key or row.label) for name in self.metrics)
        cell = {
            "metrics": metrics,
            "part": {**row.part, **self.part},
            "query": self.query or row.query,
            "ours": self.ours and row.ours,
        }
        return self.model_copy(update=cell)

    def of(self, variant: str) -> Slot:
        """Return the column of another variant of the metrics, with the variant in its heading."""
        field = "over" if self.over else "label"
        return self.model_copy(update={field: f"{getattr(self, field)} [{variant}]", "variant": variant})


class Product(Record):
    """Slots that each head all slots of a second list."""

    each: tuple[Slot | str, ...]
    under: tuple[Slot | str, ...]


Entries = tuple[Slot | Product | str, ...]


class PaperTable(Record):
    """The shape of a printed table."""

    of: tuple[str, ...] = Field(description="`benchmark task` of the runs that the table shows")
    sources: tuple[str, ...] = Field(
        description="where the values were published: a fact's `source` up to its first comma"
    )
    title: str
    columns: Entries
    rows: Entries = (Slot(),)
    cells: Slot = Field(default=Slot(), description="fields that all columns share")
    heads: tuple[str, str] = Field(
        default=("system", ""), description="heads of the column of systems and of the column of row labels"
    )
    by_row: bool = Field(
        default=False, description="True: each row lists all systems; False: each system lists all rows"
    )
    facts: Mapping[str, str] = Field(
        default={}, description="field -> value of the published facts in the table; if empty, all facts"
    )
    published: str = Field(default="", description="name of all published rows; if empty, the names of their systems")
    baselines: tuple[str, ...] = Field(default=(), description="variants `[majority]` that the paper prints as systems")
    judged: str = Field(default="", description="metric whose judge has a column; if empty, no column")
    joined: bool = Field(default=False, description="True: runs of one system in different settings share a row")
    without: tuple[str, ...] = Field(default=(), description="settings whose runs measure something else")
    note: str = ""


class PaperTables(Record):
    """The content of a `paper_tables.json`."""

    axes: Mapping[str, tuple[Slot, ...]]
    tables: tuple[PaperTable, ...]


Shape = tuple[PaperTable, Sequence[Slot], Sequence[Slot]]
"""A table, its columns and its rows."""


@cache
def _read() -> PaperTables:
    axes: dict[str, tuple[Slot, ...]] = {}
    tables: list[PaperTable] = []
    for path in benchmark_files("paper_tables.json"):
        content = PaperTables.model_validate_json(path.read_text(encoding="utf-8"))
        axes |= content.axes
        tables += content.tables
    return PaperTables(axes=axes, tables=tuple(tables))


def shapes(summaries: Sequence[Summary]) -> Iterator[Shape]:
    """Yield the tables for runs of one benchmark and task, the most informative one first."""
    benchmark_task = f"{summaries[0].benchmark} {summaries[0].task}"
    axes = {name: list(slots) for name, slots in _read().axes.items()}
    for name, slot in _axes_of(summaries):
        if not any(_same(slot, known) for known in axes[name]):
            axes[name].append(slot)
    for table in _read().tables:
        if benchmark_task in table.of:
            columns = [_join_slots(table.cells, column) for column in _expand(table.columns, axes)]
            yield table, columns, list(_expand(table.rows, axes))


def _expand(entries: Entries, axes: Mapping[str, Sequence[Slot]]) -> Iterator[Slot]:
    for entry in entries:
        if isinstance(entry, Product):
            for head in _expand(entry.each, axes):
                for slot in _expand(entry.under, axes):
                    yield _join_slots(head, slot).model_copy(update={"over": head.label})
        elif isinstance(entry, str):
            yield from axes[entry]
        else:
            yield entry


def _join_slots(first: Slot, second: Slot) -> Slot:
    """Merge the fields that two slots set; the second wins."""
    fields = {**first.model_dump(exclude_unset=True), **second.model_dump(exclude_unset=True)}
    return Slot.model_validate({**fields, "part": {**first.part, **second.part}})


def _axes_of(summaries: Sequence[Summary]) -> Iterator[tuple[str, Slot]]:
    """Yield axis and slot of the runs' domains, models, query modes and judges."""
    for summary in summaries:
        for dimension in ("domain", "model"):
            for value in summary.breakdowns.get(dimension, {}):
                yield f"{dimension}s", Slot(label=value, part={dimension: value})
        yield "queries", Slot(label=query_of(summary), query=query_of(summary))
        for metric in ("judge_score", f"judge_score[{EMBEDDED_JUDGE}]"):
            judge = judges_of(summary, metric)
            if judge:
                variant = EMBEDDED_JUDGE if judge == EMBEDDED_JUDGE else ""
                yield "judges", Slot(label=judge, judge=judge, variant=variant)


def _same(first: Slot, second: Slot) -> bool:
    same_judge = model_key(first.judge or "") == model_key(second.judge or "")
    return same_judge and (first.part, first.query) == (second.part, second.query)


def query_of(summary: Summary) -> str:
    """Return the query mode of a run; `not said` for a run file of another system."""
    return summary.specs.get("query") or "not said"


def judges_of(summary: Summary, metric: str) -> str:
    """Return the short names of the models that judged a metric of a run; empty if the metric was not judged."""
    panel = summary.judging.get(metric)
    return ", ".join(map(short_name, panel.judges)) if panel else ""
