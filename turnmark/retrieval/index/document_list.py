"""The list of the documents of an index, for `turnmark documents`, `/documents` of the chat, and MCP."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from pydantic import Field
from rich.table import Table
from rich.text import Text

from turnmark.core.errors import RequestError
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.text.languages import language_name
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.passage_store import DocumentEntry

MAX_WORDS_CHARACTERS = 80
"""Length to which words are cut in a message."""


class DocumentMatch(DocumentEntry):
    """A document in a list."""

    matches: int | None = Field(
        default=None,
        description="number of its passages and rows of large tables that contain all of the words; "
        "null: no words were given",
    )


def list_documents(index: Index, words: str = "", where: Where = ()) -> list[DocumentMatch]:
    """Return the documents of an index under a filter, by id, or those with a passage that contains all of the words,
    most first."""
    index.check_where(where)
    entries = index.store.documents(index.only(where))
    if not words.strip():
        return [DocumentMatch(**entry.model_dump()) for entry in entries]
    if not index.bm25.analyze(words):
        shown = ellipsize(one_line(words), MAX_WORDS_CHARACTERS)
        raise RequestError(f"words: {shown!r} contains only words that are too common; use rarer ones")
    counts = Counter(index.store.documents_of(index.bm25.rows_with(words)))
    for finder in index.row_finders:
        counts.update(finder.counts(words))
    matching = [
        DocumentMatch(**entry.model_dump(), matches=counts[entry.document])
        for entry in entries
        if entry.document in counts
    ]
    return sorted(matching, key=lambda match: (-(match.matches or 0), match.document))


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
