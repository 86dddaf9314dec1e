"""A document (`turnmark.evaluation.report.overview`) on the terminal, as Markdown, and its tables as CSV and LaTeX.

The terminal works at 80 columns. Every text of the data stays text: no markup, no control characters, and in Markdown
no Markdown and no HTML.
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

from turnmark.core.console import inert
from turnmark.core.home import write_atomic
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.overview import ON_SCREEN, ReportSection, describe_run
from turnmark.evaluation.report.tables import Column, Row, Table

_STYLES = {"group": "bold", "ours": "bold", "dim": "dim"}
_NAMES = (16, 10)
"""Characters that a column of names may demand of a narrow terminal, and where all figures fit then; longer words are
folded."""

MARKER = "<!-- turnmark report -->"
"""Last line of a Markdown file of ours."""


def one_line(text: object, style: str = "") -> Text:
    """Any value as one line of inert text: no markup, no escape sequences, no control characters."""
    return Text(inert(text), style=style)


def show_run(summary: Summary, run: Path, console: Console, full: bool = True) -> None:
    """Print a summary.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
        full: with the breakdowns, and with every table of the paper rather than the first.
    """
    show_report(describe_run(summary, run, ON_SCREEN, full), console)


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
    """Print a table, and the lines under it; one that is too wide in several parts, beneath each other."""
    if table.rows:
        if table.tight:  # the table may be narrower than its title
            console.print()
            console.print(one_line(table.title, "bold"))
        for number, part in enumerate(_parts(table, console.width) if table.tight else [table]):
            if number:
                console.print()
            console.print(_grid(part))
    for line in table.lines:
        console.print(one_line(f"  {line}" if table.rows else line))


def _grid(table: Table) -> Grid:
    grid = Grid(
        title=None if table.tight else one_line(table.title),
        title_justify="left",
        title_style="bold",
        box=None if table.tight else box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, _gap(table), 0, 0),
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
    return grid


def _gap(table: Table) -> int:
    """Spaces between two columns."""
    return 2 if table.tight and not table.narrow else 1


def _parts(table: Table, width: int) -> list[Table]:
    """The table or, where its figures would be cut, several with the same names and as many figures as fit."""
    names = [index for index, column in enumerate(table.columns) if not column.number]
    gap = _gap(table)
    figures = sum(_figure_width(table, index) + gap for index, column in enumerate(table.columns) if column.number)
    rooms = [width - sum(_name_width(table, index, limit) + gap for index in names) + gap for limit in _NAMES]
    if any(figures <= room for room in rooms):
        return [table]
    room = rooms[0]
    parts: list[list[int]] = [[]]
    left = room
    for together in _neighbours(table):
        needed = [_figure_width(table, index) + gap for index in together]
        if sum(needed) > left and parts[-1]:
            parts.append([])
            left = room
        for index, its_width in zip(together, needed, strict=True):
            if its_width > left and parts[-1]:
                parts.append([])
                left = room
            parts[-1].append(index)
            left -= its_width
    return [_only(table, names, part) for part in parts]


def _neighbours(table: Table) -> Iterator[list[int]]:
    """The columns of figures; those that share a heading together."""
    figures = [index for index, column in enumerate(table.columns) if column.number]
    for over, columns in groupby(figures, key=lambda index: table.columns[index].over):
        together = list(columns)
        yield from [together] if over else [[index] for index in together]


def _figure_width(table: Table, index: int) -> int:
    """The width of a column of figures, none of which is cut."""
    cells = [inert(row.cells[index]) for row in table.rows if row.kind != "group"]
    return max(cell_len(line) for line in (*_head(table.columns[index], None).plain.split("\n"), *cells))


def _name_width(table: Table, index: int, limit: int) -> int:
    """The least width of a column of names, which may be folded between words and, beyond the limit, within them."""
    indents = {"below": 2}
    names = [(table.columns[index].name, 0), *((row.cells[index], indents.get(row.kind, 0)) for row in table.rows)]
    longest = max(cell_len(word) + indent for name, indent in names for word in inert(name).split() or [""])
    return min(limit, longest)


def _only(table: Table, names: Sequence[int], figures: Sequence[int]) -> Table:
    """The table with some of its figures; rows without any of them go, where each row is named."""
    indices = [*names, *figures]
    named = all(row.cells[0] for row in table.rows)
    rows = [
        replace(row, cells=tuple(row.cells[index] for index in indices))
        for row in table.rows
        if not named
        or row.kind == "group"
        or any(row.cells[index] not in ("", "-" * (row.kind != "below")) for index in figures)
    ]
    return replace(table, columns=tuple(table.columns[index] for index in indices), rows=tuple(rows))


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


# --- files -----------------------------------------------------------------------------------------------------------

_SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "†": r"\dag{}", "●": r"$\bullet$", "○": r"$\circ$",
    "◐": r"$\circ\!\bullet$", "<": r"\textless{}", ">": r"\textgreater{}",
}  # fmt: skip


def write_tables(
    documents: Iterable[ReportSection], folder: Path, suffix: str, form: Callable[[Table, str], str]
) -> list[Path]:
    """A file for each table, `NN-title.SUFFIX`, in the order of the report; returns what was written.

    Args:
        form: a table and the name of its run (empty: it is of several) -> the content of its file.
    """
    written: list[Path] = []
    tables = [(table, document.name) for document in documents for table in document.tables if table.rows]
    for number, (table, run) in enumerate(tables, 1):
        slug = re.sub(r"[^a-z0-9]+", "-", table.title.lower()).strip("-")[:60].rstrip("-") or "table"
        written.append(folder / f"{number:02}-{slug}.{suffix}")
        write_atomic(written[-1], form(table, run))
    return written


def as_csv(table: Table, run: str = "") -> str:
    """Heads in the first line, then rows each of which can be read alone: its run, group, name and counts are in it."""
    grouped = any(row.kind == "group" for row in table.rows)
    counted = any(row.counting for row in table.rows)
    figures = [index for index, column in enumerate(table.columns) if counted and column.number and column.name != "n"]
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    counts = [f"{table.columns[index].title} n" for index in figures]
    writer.writerow([*["run"] * bool(run), *[table.groups] * grouped, *_csv_heads(table), *counts])
    group, above = "", [""] * len(table.columns)
    for row in table.rows:
        if row.kind == "group":
            group, above = row.full or row.cells[0], [""] * len(table.columns)
        elif not row.counting:
            cells = [row.full or row.cells[0], *row.cells[1:]]
            # A name that a reader finds in the row above.
            above = [
                before if not cell and not column.number else cell
                for cell, before, column in zip(cells, above, table.columns, strict=True)
            ]
            writer.writerow([*[run] * bool(run), *[group] * grouped, *above, *(row.counts[index] for index in figures)])
    return text.getvalue()


def _csv_heads(table: Table) -> Iterator[str]:
    """The heads of the columns; one that several have, with the column before them that it belongs to."""
    titles = [column.title for column in table.columns]
    metric = ""
    for title in titles:
        if titles.count(title) > 1:
            yield f"{metric} {title}".strip()
        else:
            metric = title
            yield title or "value"


def as_latex(table: Table, run: str = "") -> str:
    """A `tabular` with booktabs' rules; what is said beneath the table is its caption's second part.

    Args:
        run: the name of its run, which the caption says; empty: it is of several.
    """
    width = len(table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\begin{{tabular}}{{{''.join('lr'[c.number] for c in table.columns)}}}"]
    lines += [r"\toprule", _latex_row(column.title for column in table.columns), r"\midrule"]
    for number, row in enumerate(table.rows):
        if row.kind == "group":
            lines += [r"\midrule"] * bool(number)
            lines.append(rf"\multicolumn{{{width}}}{{l}}{{\textbf{{{escape_latex(row.cells[0])}}}}} \\")
        else:
            bold = row.kind == "ours"
            lines.append(_latex_row(row.cells, r"\textbf{%s}" if bold else "%s"))
    caption = " ".join([f"{table.title} ({run})" if run else table.title, *table.lines])
    lines += [r"\bottomrule", r"\end{tabular}", rf"\caption{{{escape_latex(caption)}}}", r"\end{table}", ""]
    return "\n".join(lines)


def escape_latex(text: str) -> str:
    """A text that LaTeX sets as it is."""
    return "".join(_SPECIAL.get(char, char) for char in " ".join(text.split()))


def _latex_row(cells: Iterable[str], form: str = "%s") -> str:
    row = " & ".join(form % escape_latex(cell) if cell else "" for cell in cells)
    # What the rule or row before would take for its argument.
    return ("{}" if row.startswith(("[", "*")) else "") + row + r" \\"
