"""A summary on the terminal: means, the paper's table with this run in it, breakdowns. Works at 80 columns.

Every text of the data is shown as text: no markup, no control characters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Drawn
from rich.text import Text

from turnmark.corpora.console import inert as inert
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.overview import named, pipelines, warnings
from turnmark.evaluation.report.paper_tables import paper_tables, tables_together
from turnmark.evaluation.report.stored import Stored, why_not_done
from turnmark.evaluation.report.tables import Column, Table

_WIDE = 110  # columns from which on a third metric has room
_LONG = 20  # characters of a name that are folded at their mark
_STYLES = {"group": "bold", "ours": "bold", "dim": "dim"}
_COMPACT = 3  # metrics of a benchmark in the table of all benchmarks


def plain(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show(summary: Summary, run: Path, console: Console, full: bool = True) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
        full: with the breakdowns, and with every table of the paper rather than the first.
    """
    for first in tables.warnings(summary):
        console.print(plain(first, "bold"))
    console.print(plain(tables.headline(summary), "bold"))
    if specs := tables.specs(summary):
        console.print(plain(specs))
    for line in tables.reasons(why_not_done(summary, run)):
        console.print(plain(line))
    most = 3 if console.width >= _WIDE else 2
    for table in (
        tables.means(summary),
        *paper_tables([("this run", summary)])[: None if full else 1],
        *([tables.breakdowns(summary, tables.chosen(summary.metrics, most))] if full else []),
        tables.usage(summary),
    ):
        draw(table, console)
    for note in tables.notes(summary):
        console.print(plain(f"- {note}"))
    console.print(plain(f"run: {run}   report: {run / 'report.html'}"), soft_wrap=True)


def draw(table: Table, console: Console) -> None:
    """Print a table, and the lines under it."""
    if table.rows:
        if table.tight:  # the table may be narrower than its title
            console.print()
            console.print(plain(table.title, "bold"))
        drawn = _empty("" if table.tight else table.title, table.tight, 1 if table.narrow else 2)
        for column, before in zip(table.columns, (None, *table.columns), strict=False):
            # What has a name may be folded; figures are never cut in two.
            drawn.add_column(
                _head(column, before) if column.number else plain(column.name),
                justify="right" if column.number else "left",
                overflow="fold",
                no_wrap=column.number,
            )
        for number, row in enumerate(table.rows):
            if row.kind == "group" and number:
                drawn.add_row() if table.tight else drawn.add_section()
            first, *cells = map(plain, row.cells)
            # Padded, so that the second line of a long name is as far in as the first.
            indented = Padding(first, (0, 0, 0, 2)) if row.kind == "below" else first
            drawn.add_row(indented, *cells, style=_STYLES.get(row.kind))
        console.print(drawn)
    for line in table.lines:
        console.print(plain(f"  {line}" if table.rows else line))


def _head(column: Column, before: Column | None) -> Text:
    """A head over figures: what it shares with its neighbours stands once, and a variant's mark on its own line."""
    lines = column.name.replace("[", "\n[", 1).split("\n")
    if column.over:
        lines = ["" if before and before.over == column.over else column.over, *lines]
    return _lines(*lines)


def _empty(title: str, tight: bool, apart: int = 2) -> Drawn:
    drawn = Drawn(
        title=plain(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    drawn.padding = (0, 1, 0, 0)
    if tight:
        drawn.box, drawn.padding = None, (0, apart, 0, 0)
    return drawn


def show_together(stored: Sequence[Stored], console: Console) -> None:
    """Print the runs of several folders side by side: a compact table, and of retrieval runs all their figures."""
    runs = named(stored)
    for first in warnings(stored):
        console.print(plain(first, "bold"))
    whole = pipelines(stored)
    if whole is not None:
        draw(whole, console)
    console.print(_compact("All runs", "run", runs))
    for name, why in ((name, why) for folder in stored for name, why in folder.left_out.items()):
        console.print(plain(f"{name}: no figures: {why}"))
    for together in tables_together(runs):
        draw(together, console)


def show_all(entries: Mapping[str, Summary | str], run: Path, console: Console) -> None:
    """Print one compact table over several benchmarks.

    Args:
        entries: benchmark -> its summary, or why there is none.
        run: the folder that holds theirs.
    """
    summaries = {name: entry for name, entry in entries.items() if isinstance(entry, Summary)}
    for first in dict.fromkeys(line for summary in summaries.values() for line in tables.warnings(summary)):
        console.print(plain(first, "bold"))
    if summaries:
        console.print(_compact("All benchmarks", "benchmark", summaries.items()))
    for name, entry in entries.items():
        if isinstance(entry, str):
            console.print(plain(f"{name}: no figures: {entry}"))
    console.print(plain(f"run: {run}   report: {run / 'report.html'}"), soft_wrap=True)


def _compact(title: str, what: str, summaries: Iterable[tuple[str, Summary]]) -> Drawn:
    """A few means of each summary, a line each."""
    drawn = _empty(title, True)
    for name in (what, "task"):
        drawn.add_column(name, overflow="fold")
    for name in ("n", "failed"):
        drawn.add_column(name, justify="right", no_wrap=True)
    drawn.add_column("metric", overflow="fold")
    for name in ("mean", "95% interval"):
        drawn.add_column(name, justify="right", no_wrap=True)
    for name, summary in summaries:
        for row in _compact_rows(name, summary):
            drawn.add_row(*(_lines(*_apart(cell)) for cell in row))
        drawn.add_row()
    return drawn


def _apart(cell: str) -> list[str]:
    """A name that has no room on one line, folded before what marks its variant."""
    head, mark, tail = cell.partition("[")
    return [head, mark + tail] if mark and len(cell) > _LONG else [cell]


def _compact_rows(name: str, summary: Summary) -> Iterable[tuple[str, ...]]:
    """A row for each metric, so that a name that is folded keeps its figures; what ran stands in the first ones."""
    shown = tables.chosen(summary.metrics, _COMPACT)
    first = [name, f"on {tables.data_name(summary)}"]
    tasks = [summary.task, *filter(None, [summary.setting])]
    for at in range(max(len(shown), len(first), len(tasks))):
        counts = ("", "") if at else (str(summary.n), str(summary.failed))
        metric = shown[at] if at < len(shown) else ""
        found = summary.metrics.get(metric)
        figures = (tables.mean(metric, found), tables.interval(metric, found)) if metric else ("", "")
        yield (*(lines[at] if at < len(lines) else "" for lines in (first, tasks)), *counts, metric, *figures)


def _lines(*texts: str) -> Text:
    return Text("\n").join(map(plain, texts))
