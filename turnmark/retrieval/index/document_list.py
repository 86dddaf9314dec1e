"""The table of the documents of an index, for `turnmark documents` and `/documents` of the chat."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from turnmark.core.untrusted import one_line
from turnmark.corpora.text.languages import language_name
from turnmark.retrieval.storage.passage_store import DocumentMatch


def document_table(documents: Sequence[DocumentMatch]) -> Table:
    """Return a table of documents for the terminal."""
    table = Table("title", "path", "date", "passages", "language", box=None, pad_edge=False)
    for column in table.columns[:2]:
        column.overflow = "fold"
    table.columns[3].justify = "right"
    for each in documents:
        path = "" if each.path == each.document else each.path
        cells = (each.title, path or each.document, each.date, str(each.passages), language_name(each.language))
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    return table
