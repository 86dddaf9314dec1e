"""A document (`turnmark.evaluation.report.overview`) on the terminal and as GitHub Markdown: the same tables.

The terminal works at 80 columns. Every text of the data stays text: no markup, no control characters, and in Markdown
no Markdown and no HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from rich import box
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from turnmark.corpora.console import inert
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.overview import ReportSection, describe_run
from turnmark.evaluation.report.tables import Column, Row, Table

WIDE = 110
"""Columns of a terminal from which on one more metric has room."""
_STYLES = {"group": "bold", "ours": "bold", "dim": "dim"}

MARKER = "<!-- turnmark report -->"
"""Last line of a Markdown file of ours."""
BREAKDOWN_METRICS = 3


def one_line(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show_run(summary: Summary, run: Path, console: Console, full: bool = True) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
        full: with the breakdowns, and with every table of the paper rather than the first.
    """
    show_report(describe_run(summary, run, breakdown_metrics(console), full), console)


def breakdown_metrics(console: Console) -> int:
    """How many metrics the breakdowns of a run have room for."""
    return 3 if console.width >= WIDE else 2


def show_report(document: ReportSection, console: Console) -> None:
    """Print a document."""
    for line in (*document.warnings, document.title, *document.verdict):
        console.print(one_line(line, "bold"))
    for line in (*filter(None, [document.specs]), *document.reasons):
        console.print(one_line(line))
    for table in document.tables:
        draw(table, console)
    for note in document.notes:
        console.print(one_line(f"- {note}"))
    if document.run is not None:
        console.print(one_line(f"run: {document.run}   report: {document.run / 'report.html'}"), soft_wrap=True)


def draw(table: Table, console: Console) -> None:
    """Print a table, and the lines under it."""
    if table.rows:
        if table.tight:  # the table may be narrower than its title
            console.print()
            console.print(one_line(table.title, "bold"))
        grid = Grid(
            title=None if table.tight else one_line(table.title),
            title_justify="left",
            title_style="bold",
            box=None if table.tight else box.SIMPLE_HEAD,
            pad_edge=False,
            padding=(0, 2 if table.tight and not table.narrow else 1, 0, 0),
        )
        for column, previous in zip(table.columns, (None, *table.columns), strict=False):
            # What has a name may be folded; figures are never cut in two.
            grid.add_column(
                _head(column, previous) if column.number else one_line(column.name),
                justify="right" if column.number else "left",
                overflow="fold",
                no_wrap=column.number,
            )
        for number, row in enumerate(table.rows):
            if row.kind == "group" and number:
                grid.add_row() if table.tight else grid.add_section()
            first, *cells = map(one_line, row.cells)
            # Padded, so that the second line of a long name is as far in as the first.
            indented = Padding(first, (0, 0, 0, 2)) if row.kind == "below" else first
            grid.add_row(indented, *cells, style=_STYLES.get(row.kind))
        console.print(grid)
    for line in table.lines:
        console.print(one_line(f"  {line}" if table.rows else line))


def _head(column: Column, previous: Column | None) -> Text:
    """A head over figures: what it shares with its neighbours appears once, a variant's mark on a separate line."""
    lines = column.name.replace("[", "\n[", 1).split("\n")
    if column.over:
        lines = ["" if previous and previous.over == column.over else column.over, *lines]
    return Text("\n").join(map(one_line, lines))


# --- Markdown --------------------------------------------------------------------------------------------------------

# Emphasis, code, links, cells, struck-out text, headings, formulas; and what turns a bare address into a link.
_MARKS = re.compile(r"[\\`*_\[\]|~#$]|(?<=www)\.|:(?=//)")
# A metric such as recall@5 is neither an address nor somebody's name.
_HTML = re.compile(r"[&<>]|@(?!\d{1,3}(?![\w.]))")
_HARMLESS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@<!-- -->"}
_LIST_MARK = re.compile(r"^(\d{0,9})([-+.)])(?=\s|$)")
_RULE = re.compile(r"^(?=[-=]+$)")


def markdown(documents: Iterable[ReportSection]) -> str:
    """A file with a section for each document; ends with a line end."""
    return "\n".join([*(line for document in documents for line in _section(document)), MARKER, ""])


def _section(document: ReportSection) -> Iterator[str]:
    for warning in document.warnings:
        yield from (f"**{escape_cell(warning)}**", "")
    yield from (f"## {escape_cell(document.title)}", "")
    for line in document.verdict:
        yield from (f"**{escape_cell(line)}**", "")
    if document.specs:
        yield from (_line(document.specs), "")
    if document.reasons:
        yield from (*(f"- {_line(reason)}" for reason in document.reasons), "")
    for table in document.tables:
        yield from table_lines(table)
    if document.notes:
        yield from ("### Notes", "", *(f"- {_line(note)}" for note in document.notes), "")
    if document.run is not None:
        yield from (f"Run: {escape_cell(document.run)}", "")


def table_lines(table: Table) -> Iterator[str]:
    """A table as lines of Markdown; none where it holds nothing."""
    if not table.rows and not table.lines:
        return
    yield from (f"### {escape_cell(table.title)}", "")
    if table.rows:
        yield _row([escape_cell(column.title) for column in table.columns])
        yield _row(["---:" if column.number else "---" for column in table.columns])
        for row in table.rows:
            yield _row(_cells(row))
        yield ""
    for line in table.lines:
        yield from (_line(line), "")


def _cells(row: Row) -> list[str]:
    cells = list(map(escape_cell, row.cells))
    if row.kind in ("group", "ours"):
        return [cell and f"**{cell}**" for cell in cells]
    return [f"&emsp;{cells[0]}", *cells[1:]] if row.kind == "below" else cells


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def escape_cell(text: object) -> str:
    """Any value as one line of Markdown that reads as the value does, in a cell of a table or within a line."""
    line = _MARKS.sub(lambda mark: f"\\{mark.group()}", " ".join(inert(text).split()))
    return _HTML.sub(lambda mark: _HARMLESS[mark.group()], line)


def _line(text: object) -> str:
    """`escape_cell`, for the beginning of a line: it begins no list, and is no rule."""
    return _RULE.sub(r"\\", _LIST_MARK.sub(r"\1\\\2", escape_cell(text)))
