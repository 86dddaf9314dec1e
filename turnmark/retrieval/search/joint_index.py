"""Joins the scores of several indexes that are searched together, as if they were one.

Rows are numbered consecutively: those of the second index follow those of the first. Retrievers therefore work on
several indexes unchanged. Each list contains rows of all indexes and is fused once, so the scores in a list must be
comparable:

- Vectors and SPLADE terms: the same models made all indexes, so cosines and products are comparable.
- BM25 and late interaction: each index stores its own term scores, which are weighted by the idf over all indexes. Only
  the mean passage length is not shared: each index uses its own.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.text.analysis import unite
from turnmark.retrieval.embedding.array_types import FloatArray, TokenIds
from turnmark.retrieval.ranking.bm25 import BM25, TermScores, lucene_idf
from turnmark.retrieval.ranking.vectors import TokenIndex, TokenVectors


def first_rows(counts: Iterable[int]) -> list[int]:
    """Return the first row of each index, given their numbers of rows, followed by the total number of rows."""
    return list(accumulate(counts, initial=0))


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
