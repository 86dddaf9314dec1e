"""A summary as GitHub Markdown: the tables of the terminal.

Every text of the data is escaped: it is read as it stands, and never as Markdown or HTML.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from turnmark.corpora.console import inert
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report import tables
from turnmark.evaluation.report.paper_tables import paper_tables
from turnmark.evaluation.report.stored import why_not_done
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
    sections: Iterable[tuple[Summary, Path]], first: Sequence[str] = (), together: Sequence[Table] = ()
) -> str:
    """A whole file: a section for each run.

    Args:
        first: what is said before anything else, where there are tables before the sections.
        together: tables of all runs.
    """
    head = [line for said in first if together for line in (f"**{escaped(said)}**", "")]
    head += [line for table in together for line in table_lines(table)]
    return "\n".join([*head, *(markdown(summary, run) for summary, run in sections), MARKER, ""])


def _section(summary: Summary, run: Path) -> Iterator[str]:
    for first in tables.warnings(summary):
        yield from (f"**{escaped(first)}**", "")
    yield from (f"## {escaped(tables.headline(summary))}", "")
    if specs := tables.specs(summary):
        yield from (_line(specs), "")
    if why := [_line(line) for line in tables.reasons(why_not_done(summary, run))]:
        yield from (*_items(why), "")
    for table in (
        tables.means(summary),
        *paper_tables([("this run", summary)]),
        tables.breakdowns(summary, tables.chosen(summary.metrics, BREAKDOWN_METRICS)),
        tables.usage(summary),
    ):
        yield from table_lines(table)
    if notes := tables.notes(summary):
        yield from ("### Notes", "", *_items(map(_line, notes)), "")
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
