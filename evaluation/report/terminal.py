"""A summary on the terminal: headline, breakdowns, and the published figures beside ours. Works at 80 columns.

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

from corpora.console import shown as inert
from evaluation.records import Summary
from evaluation.report import beside, tables
from evaluation.report.kiwi_tables import kiwi_tables
from evaluation.report.mtrag_answers import settings_together
from evaluation.report.mtrag_tables import retrieval_tables, runs_together
from evaluation.report.overview import named, warnings
from evaluation.report.stored import Stored, why_not_done
from evaluation.report.tables import Table

_WIDE = 110  # columns from which on a third metric has room
_COMPACT = 3  # metrics of a benchmark in the table of all benchmarks


def plain(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show(summary: Summary, run: Path, console: Console) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
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
        tables.breakdowns(summary, tables.chosen(summary.metrics, most)),
        *(kiwi_tables(summary) or retrieval_tables(summary, alone=True) or (beside.short(summary, most),)),
        tables.usage(summary),
    ):
        draw(table, console)
    for note in tables.notes(summary):
        console.print(plain(f"- {note}"))
    console.print(plain(f"run: {run}   report: {run / 'report.html'}"), soft_wrap=True)


def draw(table: Table, console: Console) -> None:
    """Print a table, and the lines under it."""
    if table.rows:
        drawn = _empty(table.title, table.tight, 1 if table.narrow else 2)
        for column in table.columns:
            # What has a name may be folded; figures are never cut in two.
            # A variant's mark on a line of its own: a long head over figures would take the room of the names.
            drawn.add_column(
                _lines(*column.name.replace("[", "\n[", 1).split("\n")) if column.number else plain(column.name),
                justify="right" if column.number else "left",
                overflow="fold",
                no_wrap=column.number,
            )
        for number, row in enumerate(table.rows):
            heads = row.kind in ("group", "ours")
            if heads and number:
                drawn.add_row() if table.tight else drawn.add_section()
            named, *cells = row.cells
            first = plain(named, "bold" if heads else "")
            # Padded, so that the second line of a long name is as far in as the first.
            indented = Padding(first, (0, 0, 0, 2)) if row.kind == "below" else first
            drawn.add_row(indented, *map(plain, cells))
        console.print(drawn)
    for line in table.lines:
        console.print(plain(f"  {line}" if table.rows else line))


def _empty(title: str, tight: bool, apart: int = 2) -> Drawn:
    drawn = Drawn(title=plain(title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    drawn.padding = (0, 1, 0, 0)
    if tight:
        drawn.box, drawn.padding = None, (0, apart, 0, 0)
    return drawn


def show_together(stored: Sequence[Stored], console: Console) -> None:
    """Print the runs of several folders side by side: a compact table, and of retrieval runs all their figures."""
    runs = named(stored)
    for first in warnings(stored):
        console.print(plain(first, "bold"))
    console.print(_compact("All runs", "run", runs))
    for name, why in ((name, why) for folder in stored for name, why in folder.left_out.items()):
        console.print(plain(f"{name}: no figures: {why}"))
    for together in (runs_together(runs), settings_together(runs)):
        if together is not None:
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
        drawn.add_row(*_compact_row(name, summary))
        drawn.add_row()
    return drawn


def _compact_row(name: str, summary: Summary) -> Iterable[Text]:
    shown = tables.chosen(summary.metrics, _COMPACT)
    yield _lines(name, f"on {tables.data_name(summary)}")
    yield _lines(summary.task, *filter(None, [summary.setting]))
    yield plain(summary.n)
    yield plain(summary.failed)
    yield _lines(*shown)
    yield _lines(*(tables.mean(metric, summary.metrics[metric]) for metric in shown))
    yield _lines(*(tables.interval(metric, summary.metrics[metric]) for metric in shown))


def _lines(*texts: str) -> Text:
    return Text("\n").join(map(plain, texts))
