r"""Writes the tables of Rich Text as pandoc reads them.

Pandoc ignores the widths of cells, so a cell above two columns would shift the cells right of it. It also needs a mark
in each cell (`\intbl`), which R's package r2rtf does not write.

Rich Text Format specification 1.9.1: "Table Definitions".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from turnmark.core.grouping import join_neighbors

_MARK = re.compile(r"\\\\|\\(?P<word>trowd|cellx|cell|nestcell|row|pard|intbl)(?P<number>-?\d{1,7})?(?![a-z\d]) ?")
_BETWEEN_ROWS = re.compile(r"(?:\\[a-z]+-?\d*|[\s{}])*")
_MAX_EDGE_DIFFERENCE = 60  # twips (1 mm); edges that are closer belong to the same column

Edit = tuple[re.Match[str], str]


@dataclass
class _RichTextRow:
    """A row: its marks, and the right edges of its cells in twips. Rows without edges have those of the row before."""

    edges: list[int]
    marks: list[re.Match[str]] = field(default_factory=list)

    def marks_of(self, word: str) -> list[re.Match[str]]:
        return [mark for mark in self.marks if mark["word"] == word]


def with_level_rows(text: str) -> str:
    r"""Return Rich Text whose rows have a cell for each column of their table, and whose cells have the mark `\intbl`.

    A single cell as wide as the table above or below the other rows is a paragraph, such as a note.
    """
    pieces: list[str] = []
    at = 0
    for mark, replacement in (edit for table in _tables(text) for edit in _edits(table)):
        pieces += [text[at : mark.start()], replacement]
        at = mark.end()
    return "".join(pieces) + text[at:]


def _tables(text: str) -> Iterator[list[_RichTextRow]]:
    """Yield the rows of each table. A row with tables in its cells is in no table."""
    table: list[_RichTextRow] = []
    row = _RichTextRow([])
    for mark in _MARK.finditer(text):
        word = mark["word"]
        if not word:  # an escaped backslash
            continue
        if word == "trowd" and not row.marks_of("cell"):
            row = _RichTextRow([])
        elif word == "cellx" and not row.marks_of("cell"):
            row.edges.append(int(mark["number"] or 0))
        elif word == "pard" and not row.marks_of("cell") and not row.marks_of("trowd"):
            row.marks.clear()  # a paragraph between tables
        row.marks.append(mark)
        if word != "row":
            continue
        if table and not _BETWEEN_ROWS.fullmatch(text, table[-1].marks[-1].end(), row.marks[0].start()):
            yield table
            table = []
        if len(row.marks_of("cell")) == len(row.edges) and not row.marks_of("nestcell"):
            table.append(row)
        row = _RichTextRow(row.edges)
    yield table


def _edits(table: Sequence[_RichTextRow]) -> Iterator[Edit]:
    """Yield the marks of a table that have a replacement, in their order."""
    columns = _column_edges(edge for row in table for edge in row.edges)
    if len(columns) > max((len(row.edges) for row in table), default=0):
        columns = []  # no row has all columns, as in a form
    inner = [index for index, row in enumerate(table) if len(row.edges) > 1]
    for index, row in enumerate(table):
        if inner and not inner[0] < index < inner[-1] and len(row.edges) == 1:
            yield from ((mark, {"cell": "\\par ", "pard": "\\pard "}.get(mark["word"], "")) for mark in row.marks)
            continue
        edges = iter(row.edges)
        before = min(columns, default=0) - 2 * _MAX_EDGE_DIFFERENCE
        for mark in row.marks:
            if mark["word"] == "pard":
                yield mark, "\\pard\\intbl "
            elif mark["word"] == "cell":
                edge = next(edges)
                covered = sum(before + _MAX_EDGE_DIFFERENCE < each <= edge for each in columns)
                yield mark, "\\cell " * max(1, covered)
                before = edge


def _column_edges(edges: Iterable[int]) -> list[int]:
    """Return the right edges of the columns, in twips: of edges that are closer than the limit, the leftmost."""
    return join_neighbors(sorted(edges), lambda kept, edge: kept if edge - kept <= _MAX_EDGE_DIFFERENCE else None)
