"""A document (`turnmark.evaluation.report.overview`) on the terminal and as GitHub Markdown: the same tables.

The terminal works at 80 columns. Every text of the data stays text: no markup, no control characters, and in Markdown
no Markdown and no HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from turnmark.corpora.console import inert
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.overview import MOST, Document, named, pipelines, run_document, warnings
from turnmark.evaluation.report.paper_tables import tables_together
from turnmark.evaluation.report.stored import Stored
from turnmark.evaluation.report.tables import Column, Row, Table

WIDE = 110
"""Columns of a terminal from which on one more metric has room."""
_LONG = 20  # characters of a name that are folded at their mark
_STYLES = {"group": "bold", "ours": "bold", "dim": "dim"}

MARKER = "<!-- turnmark report -->"
"""Last line of a Markdown file of ours."""
BREAKDOWN_METRICS = 3


def plain(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show(summary: Summary, run: Path, console: Console, full: bool = True) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
        full: with the breakdowns, and with every table of the paper rather than the first.
    """
    show_document(run_document(summary, run, 3 if console.width >= WIDE else 2, full), console)


def show_document(document: Document, console: Console) -> None:
    """Print a document."""
    for line in (*document.warnings, document.title, *document.verdict):
        console.print(plain(line, "bold"))
    for line in (*filter(None, [document.specs]), *document.reasons):
        console.print(plain(line))
    for table in document.tables:
        draw(table, console)
    for note in document.notes:
        console.print(plain(f"- {note}"))
    if document.run is not None:
        _show_place(document.run, console)


def _show_place(run: Path, console: Console) -> None:
    console.print(plain(f"run: {run}   report: {run / 'report.html'}"), soft_wrap=True)


def draw(table: Table, console: Console) -> None:
    """Print a table, and the lines under it."""
    if table.rows:
        if table.tight:  # the table may be narrower than its title
            console.print()
            console.print(plain(table.title, "bold"))
        grid = _empty("" if table.tight else table.title, table.tight, 1 if table.narrow else 2)
        for column, previous in zip(table.columns, (None, *table.columns), strict=False):
            # What has a name may be folded; figures are never cut in two.
            grid.add_column(
                _head(column, previous) if column.number else plain(column.name),
                justify="right" if column.number else "left",
                overflow="fold",
                no_wrap=column.number,
            )
        for number, row in enumerate(table.rows):
            if row.kind == "group" and number:
                grid.add_row() if table.tight else grid.add_section()
            first, *cells = map(plain, row.cells)
            # Padded, so that the second line of a long name is as far in as the first.
            indented = Padding(first, (0, 0, 0, 2)) if row.kind == "below" else first
            grid.add_row(indented, *cells, style=_STYLES.get(row.kind))
        console.print(grid)
    for line in table.lines:
        console.print(plain(f"  {line}" if table.rows else line))


def _head(column: Column, previous: Column | None) -> Text:
    """A head over figures: what it shares with its neighbours stands once, and a variant's mark on its own line."""
    lines = column.name.replace("[", "\n[", 1).split("\n")
    if column.over:
        lines = ["" if previous and previous.over == column.over else column.over, *lines]
    return _lines(*lines)


def _empty(title: str, tight: bool, spaces: int = 2) -> Grid:
    grid = Grid(
        title=plain(title) if title else None,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    grid.padding = (0, 1, 0, 0)
    if tight:
        grid.box, grid.padding = None, (0, spaces, 0, 0)
    return grid


def show_together(stored: Sequence[Stored], console: Console) -> None:
    """Print the runs of several folders side by side: a compact table, and of retrieval runs all their figures."""
    runs = named(stored)
    for first in warnings(stored):
        console.print(plain(first, "bold"))
    by_pipeline = pipelines(stored)
    if by_pipeline is not None:
        draw(by_pipeline, console)
    console.print(_compact("All runs", "run", runs))
    for name, reason in ((name, reason) for folder in stored for name, reason in folder.left_out.items()):
        console.print(plain(f"{name}: no figures: {reason}"))
    for table in tables_together(runs):
        draw(table, console)


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
    _show_place(run, console)


def _compact(title: str, first_column: str, summaries: Iterable[tuple[str, Summary]]) -> Grid:
    """A few means of each summary, a line each."""
    grid = _empty(title, True)
    for name in (first_column, "task"):
        grid.add_column(name, overflow="fold")
    for name in ("n", "failed"):
        grid.add_column(name, justify="right", no_wrap=True)
    grid.add_column("metric", overflow="fold")
    for name in ("mean", "95% interval"):
        grid.add_column(name, justify="right", no_wrap=True)
    for name, summary in summaries:
        for row in _compact_rows(name, summary):
            grid.add_row(*(_lines(*_apart(cell)) for cell in row))
        grid.add_row()
    return grid


def _apart(cell: str) -> list[str]:
    """A name that has no room on one line, folded before what marks its variant."""
    head, mark, tail = cell.partition("[")
    return [head, mark + tail] if mark and len(cell) > _LONG else [cell]


def _compact_rows(name: str, summary: Summary) -> Iterable[tuple[str, ...]]:
    """A row for each metric, so that a name that is folded keeps its figures; what ran stands in the first ones."""
    metrics = tables.chosen(summary.metrics, MOST)
    first = [name, f"on {tables.data_name(summary)}"]
    tasks = [summary.task, *filter(None, [summary.setting])]
    for index in range(max(len(metrics), len(first), len(tasks))):
        counts = ("", "") if index else (str(summary.n), str(summary.failed))
        metric = metrics[index] if index < len(metrics) else ""
        measured = summary.metrics.get(metric)
        figures = (tables.mean(metric, measured), tables.interval(metric, measured)) if metric else ("", "")
        yield (*(lines[index] if index < len(lines) else "" for lines in (first, tasks)), *counts, metric, *figures)


def _lines(*texts: str) -> Text:
    return Text("\n").join(map(plain, texts))


# --- Markdown --------------------------------------------------------------------------------------------------------

# Emphasis, code, links, cells, struck-out text, headings, formulas; and what turns a bare address into a link.
_MARKS = re.compile(r"[\\`*_\[\]|~#$]|(?<=www)\.|:(?=//)")
# A metric such as recall@5 is neither an address nor somebody's name.
_HTML = re.compile(r"[&<>]|@(?!\d{1,3}(?![\w.]))")
_HARMLESS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@<!-- -->"}
_LIST_MARK = re.compile(r"^(\d{0,9})([-+.)])(?=\s|$)")
_RULE = re.compile(r"^(?=[-=]+$)")


def markdown(summary: Summary, run: Path) -> str:
    """The section of a run, from a heading on; ends with a line end."""
    return "\n".join(_section(run_document(summary, run, BREAKDOWN_METRICS))).rstrip("\n") + "\n"


def markdown_document(document: Document) -> str:
    """A file with one document; ends with a line end."""
    return "\n".join((*_section(document), MARKER, ""))


def markdown_all(
    sections: Iterable[tuple[Summary, Path]], first: Sequence[str] = (), tables_of_all: Sequence[Table] = ()
) -> str:
    """A file with a section for each run.

    Args:
        first: what is said before anything else, where there are tables before the sections.
        tables_of_all: tables of all runs.
    """
    head = [line for warning in first if tables_of_all for line in (f"**{escaped(warning)}**", "")]
    head += [line for table in tables_of_all for line in table_lines(table)]
    return "\n".join([*head, *(markdown(summary, run) for summary, run in sections), MARKER, ""])


def _section(document: Document) -> Iterator[str]:
    for warning in document.warnings:
        yield from (f"**{escaped(warning)}**", "")
    yield from (f"## {escaped(document.title)}", "")
    for line in document.verdict:
        yield from (f"**{escaped(line)}**", "")
    if document.specs:
        yield from (_line(document.specs), "")
    if document.reasons:
        yield from (*(f"- {_line(reason)}" for reason in document.reasons), "")
    for table in document.tables:
        yield from table_lines(table)
    if document.notes:
        yield from ("### Notes", "", *(f"- {_line(note)}" for note in document.notes), "")
    if document.run is not None:
        yield f"Run: {escaped(document.run)}"


def table_lines(table: Table) -> Iterator[str]:
    """A table as lines of Markdown; none where it holds nothing."""
    if not table.rows and not table.lines:
        return
    yield from (f"### {escaped(table.title)}", "")
    if table.rows:
        yield _row([escaped(column.title) for column in table.columns])
        yield _row(["---:" if column.number else "---" for column in table.columns])
        for row in table.rows:
            yield _row(_cells(row))
        yield ""
    for line in table.lines:
        yield from (_line(line), "")


def _cells(row: Row) -> list[str]:
    cells = list(map(escaped, row.cells))
    if row.kind in ("group", "ours"):
        return [cell and f"**{cell}**" for cell in cells]
    return [f"&emsp;{cells[0]}", *cells[1:]] if row.kind == "below" else cells


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escaped(text: object) -> str:
    """Any value as one line of Markdown that reads as the value does, in a cell of a table or within a line."""
    line = _MARKS.sub(lambda mark: f"\\{mark.group()}", " ".join(inert(text).split()))
    return _HTML.sub(lambda mark: _HARMLESS[mark.group()], line)


def _line(text: object) -> str:
    """`escaped`, for what stands at the beginning of a line: it begins no list, and is no rule."""
    return _RULE.sub(r"\\", _LIST_MARK.sub(r"\1\\\2", escaped(text)))
