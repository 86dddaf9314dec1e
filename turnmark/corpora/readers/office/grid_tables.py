"""The tables of sheets as data, and the description of those that are too large to be written out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from turnmark.corpora.tables.column_types import (
    MAX_COUNTED_TEXTS,
    ColumnRange,
    ColumnType,
    file_habits,
    gather_evidence,
)
from turnmark.corpora.tables.data_tables import DataRow, column_labels, data_rows, table_blocks
from turnmark.corpora.types import Document, TableData


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
    types = [column.type(habits) for column in evidence]
    ranges = [ColumnRange(kind.kind == "text") for kind in types]
    rows = 0
    for row in data_rows(data):
        rows += 1
        for at, (each, kind, text) in enumerate(zip(ranges, types, row.cells, strict=False)):
            each.add(kind.value(text, row.stored[at] if at < len(row.stored) else ""))
    lines = [
        f"A table with {rows:,} rows and {len(labels)} columns. The first {shown} rows are shown below. "
        "The other rows are found by their values.",
    ]
    columns = zip(labels, types, ranges, strict=True)
    return lines + [f"{label}: {_describe(kind, values)}" for label, kind, values in columns]


def _describe(kind: ColumnType, values: ColumnRange) -> str:
    """Describe a column in words."""
    if kind.kind == "text":
        # Without examples: a count of a value would count them, too.
        is_full = len(values.texts) > MAX_COUNTED_TEXTS
        count = f"more than {MAX_COUNTED_TEXTS:,}" if is_full else f"{len(values.texts):,}"
        return f"text, {count} different values" if values.texts else "empty"
    unit = f" ({kind.unit})" if kind.unit else ""
    return f"{'dates' if kind.kind == 'date' else 'numbers'}{unit} from {values.low} to {values.high}"
