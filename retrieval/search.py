"""Searching an index: one or more legs (ways of finding), each over the message and its variants, fused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from corpora.types import Passage
from retrieval.fusion import FusedRow, Method, RankedList, fuse
from retrieval.index import Index, where_clause
from retrieval.types import Hit, Query

# How deep each list goes into a fusion.
DEPTH = 1000
HYBRID_BM25_WEIGHT = 0.3

# A list found with a rewrite counts twice: the rewrite says what the message means. On the MTRAG pools (hybrid, the
# embedded rewrite) weights 0, 1 and 2 give nDCG@5 .384, .419 and .437 on ClapNQ, .274, .275 and .274 on FiQA.
VARIANT_WEIGHT = 2.0

Rows = list[tuple[int, float]]


class Leg(Protocol):
    """One way of finding rows."""

    name: str

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[Rows]:
        """The `k` best rows for each text, best first; `queries[i]` is the query that `texts[i]` belongs to."""
        ...


class BM25Leg:
    """Finds by terms."""

    name = "bm25"

    def __init__(self, index: Index) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[Rows]:
        """See `Leg.lists`."""
        import numpy as np

        found = []
        for text, query in zip(texts, queries, strict=True):
            mask = None
            if query.where:
                mask = np.zeros(self._index.bm25.rows, dtype=np.bool_)
                mask[self._index.store.rows_where(query.where)] = True
            weights = query.term_weights if text == query.text else None
            found.append(self._index.bm25.top(text, k, weights, mask))
        return found


class DenseLeg:
    """Finds by the cosine of embeddings."""

    name = "dense"

    def __init__(self, index: Index) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[Rows]:
        """See `Leg.lists`. Texts are embedded as one batch; those under one filter are searched as one."""
        vectors = self._index.embedder.encode(texts, "query")
        found: list[Rows] = [[] for _ in texts]
        filters: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for at, query in enumerate(queries):
            filters.setdefault(tuple(sorted(query.where.items())), []).append(at)
        for where, places in filters.items():
            if any(not values for values in self._index.store.matching(dict(where)).values()):
                continue
            nearest = self._index.vectors.query(vectors[places], k, where_clause(self._index, dict(where)))
            rows = self._index.store.rows_of([identifier for one in nearest for identifier, _ in one])
            for at, one in zip(places, nearest, strict=True):
                found[at] = [(rows[identifier], cosine) for identifier, cosine in one]
        return found


class FusedRetriever:
    """A retriever made of weighted legs; see `retrieval.types.Retriever`.

    Args:
        legs: each with its weight in the fusion.
        depth: how many rows of each list are fused; a single list of a single text is not fused.
    """

    def __init__(
        self,
        name: str,
        index: Index,
        legs: Sequence[tuple[Leg, float]],
        *,
        fusion: Method = "zscore",
        depth: int = DEPTH,
    ) -> None:
        self.name, self.index = name, index
        self._legs, self._fusion, self._depth = list(legs), fusion, depth

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`."""
        texts = [text for query in queries for text in _texts(query)]
        owners = [query for query in queries for _ in _texts(query)]
        depth = k if len(self._legs) == 1 and len(texts) == len(queries) else max(k, self._depth)
        found = [(leg.name, weight, iter(leg.lists(texts, owners, depth))) for leg, weight in self._legs]
        answers = []
        for query in queries:
            lists = [
                _ranked(leg, number, weight, next(rows))
                for number, _ in enumerate(_texts(query))
                for leg, weight, rows in found
            ]
            answers.append(self._hits(fuse(lists, self._fusion, k)))
        return answers

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, in reading order."""
        return self.index.neighbours(passage)

    def _hits(self, rows: Sequence[FusedRow]) -> list[Hit]:
        passages = self.index.store.by_rows([row.row for row in rows])
        return [Hit(passage=p, score=r.score, found=r.found) for p, r in zip(passages, rows, strict=True)]


def _ranked(leg: str, number: int, weight: float, rows: Rows) -> RankedList:
    """A leg's list for the message (number 0) or for a variant of it, named and weighted as such."""
    if number == 0:
        return RankedList.model_construct(name=leg, weight=weight, rows=rows)
    return RankedList.model_construct(name=f"{leg}+{number}", weight=weight * VARIANT_WEIGHT, rows=rows)


def _texts(query: Query) -> list[str]:
    """The message first, then its variants, none twice."""
    return list(dict.fromkeys([query.text, *query.variants]))
