"""Records of stored tables, and the files that contain them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import not_
from pathlib import Path

from pydantic import Field

from turnmark.core.record import Record
from turnmark.corpora.tables.column_types import CellValue, ColumnKind
from turnmark.corpora.tables.markdown_tables import row_markdown
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import Where

MAX_WHOLE_ROWS = 60
"""Maximum rows of a table that is shown as a whole. One with more rows is a long table."""


class TableColumn(Record):
    """A column of a stored table. What does not apply to it is left out of its JSON."""

    name: str
    """Name in SQL."""
    label: str
    """Label as displayed."""
    type: ColumnKind
    unit: str = Field(default="", exclude_if=not_)
    """Unit of the numbers, such as "%" or "€"; empty if they have none."""
    text_name: str = Field(default="", exclude_if=not_)
    """Name of the column with the cells as displayed; empty for text columns, which contain them."""
    unparsed: int = Field(default=0, exclude_if=not_)
    """Number of filled cells that are no number (or date) and therefore NULL."""
    remarks: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """What a reader of its numbers should know: which of them count as missing, several units, numbers not exact."""
    low: CellValue = Field(default=None, exclude_if=lambda value: value is None)
    """Smallest value of a column that is not text, without totals."""
    high: CellValue = Field(default=None, exclude_if=lambda value: value is None)
    """Largest value of such a column."""
    values: tuple[str, ...] = Field(default=(), exclude_if=not_)
    """All different texts of a column of text, if they are few and short; otherwise empty."""


class StoredTable(Record):
    """A table of an index, without its rows."""

    name: str = Field(description="name in SQL; if several indexes are searched together, INDEX.NAME")
    document: str = Field(description="id of its document")
    title: str = Field(description="title of the document")
    path: str = Field(default="", description="path of its file, relative to the indexed folder")
    sheet: str = Field(default="", description="name of its sheet; empty outside of workbooks")
    section: str = Field(default="", description="headings above it, joined by ' › '")
    page: int | None = Field(default=None, description="1-based page on which it starts, if there are pages")
    caption: str = Field(default="", description="the line that names it")
    columns: tuple[TableColumn, ...] = Field(description="its columns")
    rows: int = Field(description="number of its rows, including totals")
    totals: int = Field(default=0, description="number of the rows that repeat others, such as totals")
    start: int = Field(description="offset in the document of the stretch that shows or describes it")
    end: int = Field(description="offset after the stretch")
    index: str = Field(default="", description="name of its index if several are searched together")

    @property
    def head(self) -> str:
        """The line of Markdown with its labels."""
        return row_markdown([column.label for column in self.columns])

    def encloses(self, passage: Passage) -> bool:
        """Return whether a passage consists of a part of the table or of rows of it."""
        is_inside = passage.document == self.document and self.start <= passage.start and passage.end <= self.end
        return is_inside or self.has_row(passage)

    def has_row(self, passage: Passage) -> bool:
        """Return whether a passage is a row of a large table. Its offsets are after the end of the document's text."""
        if passage.document != self.document or passage.start <= self.end:
            return False
        return passage.header.startswith(f"{self.head}\n")


class CatalogEntry(StoredTable):
    """A table as the catalog of its file has it.

    Attributes:
        date: date of the document.
        first_row: number of rows before its own in the full-text index of rows; None if it is not a large table.
        first_offset: offset of its first row as a passage, after the end of the document's text.
        row_room: characters from one row to the next.
        shown_rows: number of its rows that the text of the document shows.
    """

    date: str = ""
    first_row: int | None = None
    first_offset: int = 0
    row_room: int = 0
    shown_rows: int = 0
    digest: str = ""


class Basis(Record):
    """Rows of one table that a result rests on."""

    table: str = Field(description="name of the table")
    columns: tuple[str, ...] = Field(description="labels: the number of the row, and the columns that are relevant")
    rows: tuple[tuple[CellValue, ...], ...] = Field(description="the first rows, with their cells as displayed")
    count: int = Field(description="number of all rows that the result rests on")
    totals: int = Field(default=0, description="number of them that repeat others, such as totals")


class QueryResult(Record):
    """The result of a statement."""

    columns: tuple[str, ...] = Field(description="names of the columns")
    rows: tuple[tuple[CellValue, ...], ...] = Field(description="values as SQLite returns them")
    cut: int = Field(default=0, description="number of rows that were left out because of the limits")
    last_rows: tuple[tuple[CellValue, ...], ...] = Field(default=(), description="the last of the rows left out")
    tables: tuple[StoredTable, ...] = Field(default=(), description="the tables that were read")
    basis: tuple[Basis, ...] = Field(default=(), description="the rows that the result rests on, by table")
    no_basis: str = Field(default="", description="why the rows that the result rests on are not known; else empty")


@dataclass(frozen=True)
class TablePart:
    """The file with the tables of one index.

    Attributes:
        where_in: returns the filter of this index for a filter of the search, about columns of passages, or None if
            nothing in it matches.
    """

    name: str
    path: Path
    where_in: Callable[[Where], Where | None]
