"""Finds the tables of a document and iterates over their rows."""

from __future__ import annotations

import base64
import json
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from turnmark.corpora.tables.column_types import has_no_labels, join_labels
from turnmark.corpora.tables.markdown_tables import is_caption, tables_of
from turnmark.corpora.text.segmentation import heading_text, strip_inline_markdown
from turnmark.corpora.types import Block, Document, TableData

MIN_ROWS = 5
"""Minimum number of rows of a table in a text that is stored as data. A smaller one is read as text."""
LARGE_CELLS = 40_000
"""Number of cells above which the text of a document describes a table and shows only its first rows."""
MAX_COLUMNS = 500
"""Maximum number of columns of a stored table; further columns are left out."""


class DataRow(NamedTuple):
    """A row of a table.

    Attributes:
        number: 1-based number of the row in its sheet, or in its table.
        cells: the cells as displayed.
        stored: the numbers and dates that a workbook stores for the cells; empty if there are none.
    """

    number: int
    cells: Sequence[str]
    stored: Sequence[str] = ()


def data_rows(table: TableData) -> Iterator[DataRow]:
    """Yield the rows of a table, with those that are packed."""
    for at, cells in enumerate(table.rows):
        number = table.numbers[at] if table.numbers else at + 1
        yield DataRow(number, cells, table.stored[at] if table.stored else ())
    columns = table.packed_columns
    for piece in table.packed:
        for number, cells, stored in json.loads(zlib.decompress(base64.b64decode(piece))):
            yield DataRow(number, _choose_cells(cells, columns), _choose_cells(stored, columns) if stored else ())


def column_labels(table: TableData) -> list[str]:
    """Return the names of the stored columns of a table; a column without a name is called by its number."""
    return [label or f"column {number}" for number, label in enumerate(table.columns[:MAX_COLUMNS], 1)]


def _choose_cells(cells: Sequence[str], columns: Sequence[int]) -> Sequence[str]:
    """Return the cells of some columns; all cells if no columns are given."""
    return [cells[at] if at < len(cells) else "" for at in columns] if columns else cells


def pack_rows(rows: Sequence[DataRow]) -> str:
    """Return rows as one compressed text for `TableData.packed`."""
    content = json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
    return base64.b64encode(zlib.compress(content, 1)).decode("ascii")


def tables_of_document(document: Document) -> Iterator[TableData]:
    """Yield the tables of a document that are stored as data: those of its reader, or else those in its text."""
    if document.tables:
        yield from document.tables
        return
    captions = captions_of(document)
    for at, headings in table_blocks(document):
        table = _table_of_block(document, document.blocks[at])
        if table is not None:
            section = " › ".join(title for title in headings if title != document.title)
            yield table.model_copy(update={"section": section, "caption": strip_inline_markdown(captions[at])})


def table_blocks(document: Document) -> Iterator[tuple[int, list[str]]]:
    """Yield the position of each table among the blocks of a document, and the headings above it."""
    headings: list[tuple[int, str]] = []
    for at, block in enumerate(document.blocks):
        if block.kind == "heading":
            title = heading_text(document.text[block.start : block.end])
            headings = [each for each in headings if each[0] < block.level] + [(block.level, title)]
        elif block.kind == "table":
            yield at, [title for _, title in headings if title]


def _table_of_block(document: Document, block: Block) -> TableData | None:
    found = tables_of(document.text[block.start : block.end])
    if len(found) != 1 or not found[0].names or len(found[0].rows) < MIN_ROWS:
        return None
    rows = tuple(tuple(_plain_cell(cell) for cell in row.cells) for row in found[0].rows)
    page = bisect_right(document.pages, block.start) if document.pages else None
    names = found[0].names
    if has_no_labels(names, rows):
        names, rows = ("",) * len(names), (names, *rows)
    elif joined := join_labels(names, rows):
        names, rows = tuple(joined), rows[1:]
    return TableData(page=page, start=block.start, end=block.end, columns=names, rows=rows)


def _plain_cell(cell: str) -> str:
    """Return a cell of Markdown as plain text."""
    unescaped = cell.replace("\\|", "|")
    return unescaped if unescaped.isalnum() else " ".join(strip_inline_markdown(unescaped).split())


def captions_of(document: Document) -> dict[int, str]:
    """Return the position of each table among the blocks -> the paragraph next to it that names it, or "".

    Captions are above the tables of a document, or below if its first captioned table has none above.
    """

    def caption(at: int) -> str:
        block = document.blocks[at] if 0 <= at < len(document.blocks) else None
        text = document.text[block.start : block.end].strip() if block and block.kind == "paragraph" else ""
        return text if is_caption(text) else ""

    tables = (at for at, block in enumerate(document.blocks) if block.kind == "table")
    sides = {at: (caption(at - 1), caption(at + 1)) for at in tables}
    is_below = not next((above for above, below in sides.values() if above or below), "above")
    return {at: captions[is_below] for at, captions in sides.items()}
