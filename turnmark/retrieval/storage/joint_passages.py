"""The passages of several indexes as one store. Rows of the second index follow those of the first.

Two indexes may contain documents with the same id. Here `Passage.id` and `Passage.document` begin with `INDEX:`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain

from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import Where, in_index
from turnmark.retrieval.storage.passage_store import DocumentEntry, PassageStore, StoredText


class JointStore:
    """The passages of several indexes."""

    def __init__(self, names: Sequence[str], stores: Sequence[PassageStore]) -> None:
        self._names, self._stores = list(names), stores
        self._starts = list(accumulate((store.count() for store in stores), initial=0))

    def _parts(self) -> Iterator[tuple[str, PassageStore, int]]:
        """Yield name, store and first row of each index."""
        return zip(self._names, self._stores, self._starts, strict=False)

    def _named(self, document: str) -> tuple[str, PassageStore, str] | None:
        """Return the index of a document, its store, and the document's id there."""
        name, _, part_document = document.partition(":")
        return (name, self._stores[self._names.index(name)], part_document) if name in self._names else None

    def _split(self, rows: Sequence[int]) -> Iterator[tuple[str, PassageStore, int, list[int]]]:
        """Yield name, store and first row of each index that has some of the rows, with these as it numbers them."""
        for number, (name, store, start) in enumerate(self._parts()):
            part_rows = [row - start for row in rows if start <= row < self._starts[number + 1]]
            if part_rows:
                yield name, store, start, part_rows

    def count(self) -> int:
        return self._starts[-1]

    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        passages = {
            start + row: _of_index(name, passage)
            for name, store, start, part_rows in self._split(rows)
            for row, passage in zip(part_rows, store.by_rows(part_rows), strict=True)
        }
        return [passages[row] for row in rows]

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        rows: dict[str, int] = {}
        for name, store, start in self._parts():
            part_ids = [identifier.removeprefix(f"{name}:") for identifier in ids if identifier.startswith(f"{name}:")]
            rows |= {f"{name}:{identifier}": start + row for identifier, row in store.rows_of(part_ids).items()}
        return rows

    def of_document(self, document: str) -> list[Passage]:
        named = self._named(document)
        if named is None:
            return []
        name, store, part_document = named
        return [_of_index(name, passage) for passage in store.of_document(part_document)]

    def documents(self, where: Where = ()) -> list[DocumentEntry]:
        return [
            entry.model_copy(update={"document": f"{name}:{entry.document}"})
            for name, store, part_where in self._under(where)
            for entry in store.documents(part_where)
        ]

    @cached_property
    def document_count(self) -> int:
        return sum(store.document_count for store in self._stores)

    def documents_of(self, rows: Sequence[int]) -> list[str]:
        split = self._split(rows)
        return [f"{name}:{document}" for name, store, _, part in split for document in store.documents_of(part)]

    def titles(self) -> list[str]:
        return list(dict.fromkeys(chain.from_iterable(store.titles() for store in self._stores)))

    def texts(self, where: Where = (), size: int = 2000) -> Iterator[StoredText]:
        for name, store, part_where in self._under(where):
            for text in store.texts(part_where, size):
                yield text._replace(id=f"{name}:{text.id}", document=f"{name}:{text.document}")

    def pages(self, size: int = 1000) -> Iterator[list[tuple[int, str, Passage]]]:
        for name, store, start in self._parts():
            for page in store.pages(size):
                yield [(start + row, content, _of_index(name, passage)) for row, content, passage in page]

    def _under(self, where: Where) -> Iterator[tuple[str, PassageStore, Where]]:
        """Yield name, store and filter of each index in which passages may match a filter."""
        for name, store, _ in self._parts():
            part_where = in_index(where, name, self._names)
            if part_where is not None:
                yield name, store, part_where


def _of_index(name: str, passage: Passage) -> Passage:
    names = {"index": name, "id": f"{name}:{passage.id}", "document": f"{name}:{passage.document}"}
    return passage.model_copy(update=names)


Passages = PassageStore | JointStore
"""The passages of one or several indexes, to be read."""
