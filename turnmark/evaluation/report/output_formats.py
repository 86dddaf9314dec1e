"""Render report sections on the terminal and as Markdown, and their tables as CSV and LaTeX.

The output fits a terminal of 80 columns. Texts of the data are escaped: they cannot add markup, control characters,
Markdown or HTML.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from turnmark.core.home import write_atomic
from turnmark.core.untrusted import escape_cell, escape_latex, one_line, rich_line
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.overview import MAX_METRICS_ON_SCREEN, ReportSection, describe_run
from turnmark.evaluation.report.plots import load_template
from turnmark.evaluation.report.tables import Column, ReportRow, Table

_STYLES = {"group": "bold", "ours": "bold", "dim": "dim"}
_NAME_WIDTHS = (16, 10)
"""Width limits of a column of names, in characters; longer words are folded. The second limit is tried if the values
do not fit next to the first."""

MARKER = "<!-- turnmark report -->"
"""Last line of our Markdown files; identifies a file as ours before it is overwritten."""


def show_run(summary: Summary, run: Path, console: Console, full: bool = True) -> None:
    """Print a summary.

    Args:
        run: folder of the run; its predictions, if present, tell why samples failed.
        full: include the breakdowns and every table of the paper; False: only the first table of the paper.
    """
    show_report(describe_run(summary, run, MAX_METRICS_ON_SCREEN, full), console)


def show_report(document: ReportSection, console: Console) -> None:
    """Print a section of a report."""
    for line in (*document.warnings, document.title, *document.verdict):
        console.print(rich_line(line, "bold"))
    if document.specs:
        console.print(rich_line(document.specs))
    for line in document.reasons:
        console.print(rich_line(line))
    for table in document.tables:
        draw(table, console)
    for note in document.notes:
        console.print(rich_line(f"- {note}"))
    if document.run is not None:
        console.print(rich_line(f"run: {document.run}   report: {document.run / 'report.html'}"), soft_wrap=True)


def draw(table: Table, console: Console) -> None:
    """Print a table and the lines beneath it; a table that is too wide is split into several."""
    if table.rows:
        pieces = [table]
        if table.tight:
            # Printed separately, since the table may be narrower than its title.
            console.print()
            console.print(rich_line(table.title, "bold"))
            pieces = _split(table, console.width)
        for number, piece in enumerate(pieces):
            if number:
                console.print()
            console.print(_grid(piece))
    for line in table.lines:
        console.print(rich_line(f"  {line}" if table.rows else line))


def _grid(table: Table) -> Grid:
    grid = Grid(
        title=None if table.tight else rich_line(table.title),
        title_justify="left",
        title_style="bold",
        box=None if table.tight else box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, _gap(table), 0, 0),
    )
    for column, previous in zip(table.columns, (None, *table.columns), strict=False):
        # Names may be folded; values never.
        grid.add_column(
            _head(column, previous) if column.number else rich_line(column.name),
            justify="right" if column.number else "left",
            overflow="fold",
            no_wrap=column.number,
        )
    for number, row in enumerate(table.rows):
        if row.kind == "group" and number:
            grid.add_row() if table.tight else grid.add_section()
        first, *cells = map(rich_line, row.cells)
        # Padding indents the second line of a folded name, too.
        indented = Padding(first, (0, 0, 0, 2)) if row.kind == "below" else first
        grid.add_row(indented, *cells, style=_STYLES.get(row.kind))
    return grid


def _gap(table: Table) -> int:
    return 2 if table.tight and not table.narrow else 1


def _split(table: Table, width: int) -> list[Table]:
    """Return the table, or several with the same names and as many values as fit the width."""
    gap = _gap(table)
    name_columns = [index for index, column in enumerate(table.columns) if not column.number]
    number_columns = [index for index, column in enumerate(table.columns) if column.number]
    widths = {index: _value_width(table, index) + gap for index in number_columns}
    names_widths = (sum(_name_width(table, index, limit) + gap for index in name_columns) for limit in _NAME_WIDTHS)
    rooms = [width - names_width + gap for names_width in names_widths]
    if any(sum(widths.values()) <= room for room in rooms):
        return [table]
    room = rooms[0]
    pieces: list[list[int]] = [[]]
    left = room
    for group in _columns_by_heading(table):
        group_width = sum(widths[index] for index in group)
        if group_width > left and pieces[-1]:
            pieces.append([])
            left = room
        for index in group:
            if widths[index] > left and pieces[-1]:
                pieces.append([])
                left = room
            pieces[-1].append(index)
            left -= widths[index]
    return [_only(table, name_columns, piece) for piece in pieces]


def _columns_by_heading(table: Table) -> Iterator[list[int]]:
    """Yield the indices of the columns of values; columns under a shared heading in one group."""
    values = [index for index, column in enumerate(table.columns) if column.number]
    for _, columns in groupby(values, key=lambda index: table.columns[index].over or index):
        yield list(columns)


def _value_width(table: Table, index: int) -> int:
    head_lines = _head(table.columns[index], None).plain.split("\n")
    cells = [one_line(row.cells[index]) for row in table.rows if row.kind != "group"]
    return max(map(cell_len, [*head_lines, *cells]))


def _name_width(table: Table, index: int, limit: int) -> int:
    """Return the minimum width of a column of names, folded between words and, beyond the limit, within them."""
    widths = (_longest_word(row.cells[index]) + 2 * (row.kind == "below") for row in table.rows)
    return min(limit, max([_longest_word(table.columns[index].name), *widths]))


def _longest_word(text: str) -> int:
    return max(map(cell_len, one_line(text).split()), default=0)


def _only(table: Table, name_columns: Sequence[int], number_columns: Sequence[int]) -> Table:
    """Return the table with some of its values; if every row has a name, rows without these values are dropped."""
    indices = [*name_columns, *number_columns]
    all_named = all(row.cells[0] for row in table.rows)
    rows: list[ReportRow] = []
    for row in table.rows:
        # "-" counts as a value in rows of the kind "below". In all other rows it stands for a missing value.
        blank = ("",) if row.kind == "below" else ("", "-")
        has_value = any(row.cells[index] not in blank for index in number_columns)
        if has_value or row.kind == "group" or not all_named:
            rows.append(replace(row, cells=tuple(row.cells[index] for index in indices)))
    return replace(table, columns=tuple(table.columns[index] for index in indices), rows=tuple(rows))


def _head(column: Column, previous: Column | None) -> Text:
    """Return the head of a column of values: a shared heading only once, the variant on a separate line."""
    lines = column.name.replace("[", "\n[", 1).split("\n")
    if column.over:
        lines.insert(0, "" if previous is not None and previous.over == column.over else column.over)
    return Text("\n").join(map(rich_line, lines))


# --- Markdown --------------------------------------------------------------------------------------------------------

# Marks of emphasis, code, links, cells, struck-out text, headings, formulas, and of addresses that would become links.
_LIST_MARK = re.compile(r"^(\d{0,9})([-+.)])(?=\s|$)")
_RULE = re.compile(r"^(?=[-=]+$)")


def markdown(documents: Iterable[ReportSection]) -> str:
    """Return the content of a Markdown file with these sections; ends with a newline."""
    filters = {"cell": escape_cell, "line": _line, "cells": _cells}
    return load_template("report.md.j2", filters).render(documents=list(documents), marker=MARKER)


def _cells(row: ReportRow) -> list[str]:
    """Return the cells of a row as Markdown."""
    cells = list(map(escape_cell, row.cells))
    if row.kind in ("group", "ours"):
        return [cell and f"**{cell}**" for cell in cells]
    if row.kind == "below":
        cells[0] = f"&emsp;{cells[0]}"
    return cells


def _line(text: object) -> str:
    """Escape a value for the beginning of a line: like `escape_cell`, and so that it begins neither a list nor a
    rule."""
    return _RULE.sub(r"\\", _LIST_MARK.sub(r"\1\\\2", escape_cell(text)))


# --- files -----------------------------------------------------------------------------------------------------------


def write_tables(
    documents: Iterable[ReportSection], folder: Path, suffix: str, form: Callable[[Table, str], str]
) -> Iterator[Path]:
    """Write each table to a file `NN-title.SUFFIX`, numbered in the order of the report; yield the paths.

    Args:
        form: makes a file's content from a table and the name of its run (empty: a table of several runs).
    """
    tables = [(table, document.name) for document in documents for table in document.tables if table.rows]
    for number, (table, run) in enumerate(tables, 1):
        slug = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:60].rstrip("-") or "table"
        path = folder / f"{number:02}-{slug}.{suffix}"
        write_atomic(path, form(table, run))
        yield path


def as_csv(table: Table, run: str = "") -> str:
    """Return a table as CSV: heads in the first line; each row repeats its run, group and name."""
    grouped = any(row.kind == "group" for row in table.rows)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*["run"] * bool(run), *[table.groups] * grouped, *_csv_heads(table)])
    group = ""
    above = [""] * len(table.columns)
    for row in table.rows:
        if row.kind == "group":
            group = row.full or row.cells[0]
            above = [""] * len(table.columns)
        else:
            named = zip([row.full or row.cells[0], *row.cells[1:]], table.columns, above, strict=True)
            above = [cell if cell or column.number else over for cell, column, over in named]  # a blank name repeats it
            writer.writerow([*[run] * bool(run), *[group] * grouped, *above])
    return text.getvalue()


def _csv_heads(table: Table) -> Iterator[str]:
    """Yield the heads of the columns; a head that repeats is prefixed with that of the metric before it."""
    titles = [column.title for column in table.columns]
    metric = ""
    for title in titles:
        if titles.count(title) > 1:
            yield f"{metric} {title}".strip()
        else:
            metric = title
            yield title or "value"


def as_latex(table: Table, run: str = "") -> str:
    """Return a table as a LaTeX `tabular` with booktabs rules; the lines beneath the table are in the caption.

    Args:
        run: name of the run, for the caption; empty for a table of several runs.
    """
    width = len(table.columns)
    alignment = "".join("r" if column.number else "l" for column in table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{alignment}}}"]
    lines += [r"\toprule", _latex_row(column.title for column in table.columns), r"\midrule"]
    for number, row in enumerate(table.rows):
        if row.kind == "group":
            if number:
                lines.append(r"\midrule")
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escape_latex(row.cells[0])}}}}} \\")
        else:
            lines.append(_latex_row(row.cells, r"\textbf{%s}" if row.kind == "ours" else "%s"))
    title = f"{table.title} ({run})" if run else table.title
    caption = " ".join([title, *table.lines])
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape_latex(caption)}}}", r"\end{table}", ""]
    return "\n".join(lines)


def _latex_row(cells: Iterable[str], form: str = "%s") -> str:
    row = " & ".join(form % escape_latex(cell) if cell else "" for cell in cells)
    if row.startswith(("[", "*")):
        # Without the braces, the previous row or rule would read this sign as the start of its argument.
        row = "{}" + row
    return row + r" \\"
