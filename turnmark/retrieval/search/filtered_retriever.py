"""A retriever under a filter: nothing outside of it is searched, read, counted or computed with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.passage_store import DocumentEntry
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper


class FilteredRetriever(RetrieverWrapper):
    """A retriever that adds a filter to every query, and knows only the documents under it.

    A section that a passage under the filter begins is still read as a whole.
    """

    def __init__(self, inner: Retriever, where: Where) -> None:
        super().__init__(inner)
        self._where = where

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return self.inner.search(
            [query.model_copy(update={"where": (*self._where, *query.where)}) for query in queries], top_k
        )

    def collection(self) -> Collection | None:
        collection = self.inner.collection()
        return collection and replace(collection, where=(*collection.where, *self._where))

    @cached_property
    def _documents(self) -> dict[str, DocumentEntry]:
        collection = self.collection()
        return {entry.document: entry for entry in collection.documents()} if collection else {}

    def titles(self) -> list[str]:
        largest = sorted(self._documents.values(), key=lambda entry: (-entry.passages, entry.document))
        return list(dict.fromkeys(entry.title for entry in largest if entry.title))

    def neighbors(self, passage: Passage) -> list[Passage]:
        return self.inner.neighbors(passage) if passage.document in self._documents else []

    def tables(self) -> TableStore | None:
        store = self.inner.tables()
        return store and store.under(self._where)
