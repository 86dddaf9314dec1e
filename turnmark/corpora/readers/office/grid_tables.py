"""The tables of sheets as data, and the description of those that are too large to be written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnmark.corpora.tables.column_types import ColumnType, file_habits, gather_evidence
from turnmark.corpora.tables.data_tables import DataRow, column_labels, data_rows, table_blocks
from turnmark.corpora.types import Document, TableData

_MAX_VALUES = 1_000  # different texts of a column that are counted


@dataclass
class GridTable:
    """A table of a sheet.

    Attributes:
        lines: number of lines of the table in the sheet as text.
        description: the paragraph that describes a large table, at the start of its stretch of the text; empty for a
            small table.
        labels: the column names; empty if the first row has none.
        columns: the positions of its columns in the sheet, counted from 0.
        packed: rows after those in `rows`, with all columns of the sheet
            (`turnmark.corpora.tables.data_tables.pack_rows`).
    """

    lines: int
    labels: list[str]
    columns: list[int]
    rows: list[DataRow]
    packed: list[str] = field(default_factory=list)
    sheet: str = ""
    description: str = ""

    def data(self, start: int, end: int, section: str) -> TableData:
        """Return the table as a part of a document."""
        has_stored = any(row.stored for row in self.rows)
        return TableData(
            sheet=self.sheet,
            section=section,
            start=start,
            end=end,
            columns=tuple(self.labels or [""] * len(self.columns)),
            rows=tuple(tuple(row.cells) for row in self.rows),
            stored=tuple(tuple(row.stored) for row in self.rows) if has_stored else (),
            numbers=tuple(row.number for row in self.rows),
            packed=tuple(self.packed),
            packed_columns=tuple(self.columns) if self.packed else (),
        )


def tables_in(document: Document, tables: Sequence[GridTable]) -> tuple[TableData, ...]:
    """Return the tables of sheets with their places in the document that was made from the sheets."""
    blocks = [(" › ".join(headings), document.blocks[at]) for at, headings in table_blocks(document)]
    found: list[TableData] = []
    next_block, end = 0, 0
    for table in tables:
        for number, (section, block) in enumerate(blocks[next_block:], next_block):
            if document.text.count("\n", block.start, block.end) + 1 == table.lines:
                start = document.text.rfind(table.description, end, block.start) if table.description else -1
                found.append(table.data(block.start if start < 0 else start, block.end, section))
                next_block, end = number + 1, block.end
                break
        else:  # its Markdown is not read as one table; the rows are kept all the same
            found.append(table.data(end, end, table.sheet))
    return tuple(found)


def description_of(table: GridTable, shown: int) -> list[str]:
    """Return lines that say what a large table contains: the number of rows, and the type and range of each column.

    Args:
        shown: number of rows that the text shows.
    """
    data = table.data(0, 0, "")
    labels = column_labels(data)
    evidence = gather_evidence(labels, ((row.cells, row.stored) for row in data_rows(data)))
    habits = file_habits(evidence, lambda: "")
    ranges = [_Range(column.type(habits)) for column in evidence]
    rows = 0
    for row in data_rows(data):
        rows += 1
        for at, (each, text) in enumerate(zip(ranges, row.cells, strict=False)):
            each.add(text, row.stored[at] if at < len(row.stored) else "")
    lines = [
        f"A table with {rows:,} rows and {len(labels)} columns. The first {shown} rows are shown below. "
        "The other rows are found by their values.",
    ]
    return lines + [f"{label}: {each.describe()}" for label, each in zip(labels, ranges, strict=True)]


class _Range:
    """The values of a column: their smallest and largest, or the number of different texts."""

    def __init__(self, kind: ColumnType) -> None:
        self._kind = kind
        self._low: float | str | None = None
        self._high: float | str | None = None
        self._texts: dict[str, None] = {}

    def add(self, text: str, stored: str) -> None:
        if self._kind.kind == "text":
            if text and len(self._texts) <= _MAX_VALUES:
                self._texts[text] = None
            return
        value = self._kind.value(text, stored)
        if value is not None:
            # All values of a column are numbers, or all are dates.
            self._low = value if self._low is None else min(self._low, value)
            self._high = value if self._high is None else max(self._high, value)

    def describe(self) -> str:
        """Describe the column in words."""
        if self._kind.kind == "text":
            # Without examples: a count of a value would count them, too.
            count = f"more than {_MAX_VALUES:,}" if len(self._texts) > _MAX_VALUES else f"{len(self._texts):,}"
            return f"text, {count} different values" if self._texts else "empty"
        unit = f" ({self._kind.unit})" if self._kind.unit else ""
        name = "dates" if self._kind.kind == "date" else "numbers"
        return f"{name}{unit} from {self._low} to {self._high}"
