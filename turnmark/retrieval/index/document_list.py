"""The table of the documents of an index, for `turnmark documents` and `/documents` of the chat."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.table import Table
from rich.text import Text

from turnmark.core.untrusted import one_line
from turnmark.corpora.text.languages import language_name
from turnmark.retrieval.storage.passage_store import DocumentMatch

MAX_WHOLE_WIDTH = 42
"""Width of the longest path up to which all paths stay whole; then titles are broken into lines instead."""


def document_table(documents: Sequence[DocumentMatch]) -> Table:
    """Return a table of documents for the terminal: without dates if none has one, and with whole paths if they fit."""
    columns = {
        "title": [each.title for each in documents],
        "path": [each.path or each.document for each in documents],
        "date": [each.date for each in documents],
        "passages": [str(each.passages) for each in documents],
        "language": [language_name(each.language) for each in documents],
    }
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    table = Table(*shown, box=None, pad_edge=False)
    for column, cells in zip(table.columns, shown.values(), strict=True):
        column.overflow, column.justify = "fold", "right" if column.header == "passages" else "left"
        column.no_wrap = column.header != "title" and max(map(cell_len, cells)) <= MAX_WHOLE_WIDTH
    for row in zip(*shown.values(), strict=True):
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table
