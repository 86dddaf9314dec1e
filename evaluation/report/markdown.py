"""A summary as GitHub Markdown: the tables of the terminal.

Every text of the data is escaped: it is read as it stands, and never as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from turnmark.corpora.console import inert
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.overview import run_report
from turnmark.evaluation.report.tables import Row, Table

MARKER = "<!-- turnmark report -->"
"""Last line of a file that `turnmark report` wrote."""

BREAKDOWN_METRICS = 3

# Emphasis, code, links, cells, struck-out text, headings, formulas; and what turns a bare address into a link.
_MARKS = re.compile(r"[\\`*_\[\]|~#$]|(?<=www)\.|:(?=//)")
# A metric such as recall@5 is neither an address nor somebody's name.
_HTML = re.compile(r"[&<>]|@(?!\d{1,3}(?![\w.]))")
_HARMLESS = {"&": "&amp;", "<": "&lt;", ">": "&gt;", "@": "@<!-- -->"}
_LIST_MARK = re.compile(r"^(\d{0,9})([-+.)])(?=\s|$)")
_RULE = re.compile(r"^(?=[-=]+$)")


def markdown(summary: Summary, run: Path) -> str:
    """One section, from a heading on; ends with a line end.

    Args:
        run: the folder it was written to; its predictions say why samples failed, where they are there.
    """
    return "\n".join(_section(summary, run)).rstrip("\n") + "\n"


def markdown_all(
    sections: Iterable[tuple[Summary, Path]], first: Sequence[str] = (), tables_of_all: Sequence[Table] = ()
) -> str:
    """A whole file: a section for each run.

    Args:
        first: what is said before anything else, where there are tables before the sections.
        tables_of_all: tables of all runs.
    """
    head = [line for warning in first if tables_of_all for line in (f"**{escaped(warning)}**", "")]
    head += [line for table in tables_of_all for line in table_lines(table)]
    return "\n".join([*head, *(markdown(summary, run) for summary, run in sections), MARKER, ""])


def _section(summary: Summary, run: Path) -> Iterator[str]:
    report = run_report(summary, run, BREAKDOWN_METRICS)
    for warning in report.warnings:
        yield from (f"**{escaped(warning)}**", "")
    yield from (f"## {escaped(report.headline)}", "")
    if report.specs:
        yield from (_line(report.specs), "")
    if report.reasons:
        yield from (*_items(map(_line, report.reasons)), "")
    for table in report.tables:
        yield from table_lines(table)
    if report.notes:
        yield from ("### Notes", "", *_items(map(_line, report.notes)), "")
    yield f"Run: {escaped(run)}"


def _items(texts: Iterable[str]) -> Iterator[str]:
    return (f"- {text}" for text in texts)


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
