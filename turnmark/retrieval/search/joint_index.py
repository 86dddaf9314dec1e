"""Joins the passages and scores of several indexes that are searched together, as if they were one.

Rows are numbered consecutively: those of the second index follow those of the first. Retrievers therefore work on
several indexes unchanged. Each list contains rows of all indexes and is fused once, so the scores in a list must be
comparable:

- Vectors and SPLADE terms: the same models made all indexes, so cosines and products are comparable.
- BM25 and late interaction: each index stores its own term scores, which are weighted by the idf over all indexes. Only
  the mean passage length is not shared: each index uses its own.

Two indexes may contain documents with the same id. Here `Passage.id` and `Passage.document` begin with `INDEX:`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.text.analysis import unite
from turnmark.corpora.types import Passage
from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.ranking.bm25 import BM25, TermScores, lucene_idf
from turnmark.retrieval.ranking.vectors import TokenIndex, TokenVectors
from turnmark.retrieval.storage.filters import Where, in_index
from turnmark.retrieval.storage.passage_store import DocumentEntry, Passages, StoredText


def first_rows(counts: Iterable[int]) -> list[int]:
    """Return the first row of each index, given their numbers of rows, followed by the total number of rows."""
    return list(accumulate(counts, initial=0))


class JointStore(Passages):
    """The passages of several indexes."""

    def __init__(self, names: Sequence[str], stores: Sequence[Passages]) -> None:
        self._names, self._stores = list(names), stores
        self._starts = first_rows(store.count() for store in stores)

    def _parts(self) -> Iterator[tuple[str, Passages, int]]:
        """Yield name, store and first row of each index."""
        return zip(self._names, self._stores, self._starts, strict=False)

    def _named(self, document: str) -> tuple[str, Passages, str] | None:
        """Return the index of a document, its store, and the document's id there."""
        name, _, part_document = document.partition(":")
        return (name, self._stores[self._names.index(name)], part_document) if name in self._names else None

    def _split(self, rows: Sequence[int]) -> Iterator[tuple[str, Passages, int, list[int]]]:
        """Yield name, store and first row of each index that has some of the rows, with these as it numbers them."""
        for number, (name, store, start) in enumerate(self._parts()):
            part_rows = [row - start for row in rows if start <= row < self._starts[number + 1]]
            if part_rows:
                yield name, store, start, part_rows

    def count(self) -> int:
        return self._starts[-1]

    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        passages: dict[int, Passage] = {}
        for name, store, start, part_rows in self._split(rows):
            for row, passage in zip(part_rows, store.by_rows(part_rows), strict=True):
                passages[start + row] = _of_index(name, passage)
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
        entries = []
        for name, store, part_where in self._under(where):
            for entry in store.documents(part_where):
                entries.append(entry.model_copy(update={"document": f"{name}:{entry.document}"}))
        return entries

    @cached_property
    def document_count(self) -> int:
        return sum(store.document_count for store in self._stores)

    def documents_of(self, rows: Sequence[int]) -> list[str]:
        documents: list[str] = []
        for name, store, _, part_rows in self._split(rows):
            documents += [f"{name}:{document}" for document in store.documents_of(part_rows)]
        return documents

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

    def _under(self, where: Where) -> Iterator[tuple[str, Passages, Where]]:
        """Yield name, store and filter of each index in which passages may match a filter."""
        for name, store, _ in self._parts():
            part_where = in_index(where, name, self._names)
            if part_where is not None:
                yield name, store, part_where


def _of_index(name: str, passage: Passage) -> Passage:
    names = {"index": name, "id": f"{name}:{passage.id}", "document": f"{name}:{passage.document}"}
    return passage.model_copy(update=names)


class JointBM25(TermScores):
    """BM25 over several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[BM25]) -> None:
        super().__init__(unite([part.analyze for part in parts]), sum(part.rows for part in parts))
        self._parts = list(parts)

    def scores(self, text: str) -> NDArray[np.float32]:
        totals = [np.zeros(part.rows, dtype=np.float32) for part in self._parts]
        for term in self.query_terms(text):
            counts = [part.frequency(term) for part in self._parts]
            idf = lucene_idf(self.rows, sum(counts))
            for part, count, total in zip(self._parts, counts, totals, strict=True):
                if count:
                    part.add_scores(term, idf / lucene_idf(part.rows, count), total)
        return np.concatenate(totals)

    def frequency(self, term: str) -> int:
        return sum(part.frequency(term) for part in self._parts)

    def terms(self) -> Collection[str]:
        return frozenset().union(*(part.terms() for part in self._parts))

    def highest(self, term: str) -> float:
        counts = [part.frequency(term) for part in self._parts]
        idf = lucene_idf(self.rows, sum(counts))
        pairs = zip(self._parts, counts, strict=True)
        return max(
            (part.highest(term) * idf / lucene_idf(part.rows, count) for part, count in pairs if count), default=0.0
        )

    def rows_with(self, text: str) -> list[int]:
        starts = first_rows(part.rows for part in self._parts)
        return [start + row for start, part in zip(starts, self._parts, strict=False) for row in part.rows_with(text)]


class JointTokens(TokenVectors):
    """The token vectors of several indexes, with the idf over all of them."""

    def __init__(self, parts: Sequence[TokenIndex]) -> None:
        self._parts = list(parts)
        self._offsets = first_rows(part.rows for part in parts)

    @property
    def rows(self) -> int:
        return self._offsets[-1]

    def document_frequencies(self, ids: TokenIds) -> NDArray[np.int64]:
        frequencies = np.zeros(len(ids), dtype=np.int64)
        for part in self._parts:
            frequencies += part.document_frequencies(ids)
        return frequencies

    def best(self, rows: Sequence[int] | NDArray[np.int64], tokens: FloatArray) -> FloatArray:
        rows = np.asarray(rows, dtype=np.int64)
        cosines = np.zeros((len(rows), len(tokens)), dtype=np.float32)
        for number, part in enumerate(self._parts):
            positions = np.flatnonzero((rows >= self._offsets[number]) & (rows < self._offsets[number + 1]))
            cosines[positions] = part.best(rows[positions] - self._offsets[number], tokens)
        return cosines
