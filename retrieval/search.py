"""Searching an index: rankers, each over the message and its variants, fused."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Passage
from turnmark.retrieval.fusion import Fused, RankedList, TopK, fuse
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import rebuild_command
from turnmark.retrieval.types import Hit, Query

# How deep each list goes into a fusion.
DEPTH = 1000
# A list found with a rewrite counts twice: the rewrite says what the message means. On the MTRAG pools (hybrid, the
# embedded rewrite) weights 0, 1 and 2 give nDCG@5 .384, .419 and .437 on ClapNQ, .274, .275 and .274 on FiQA.
VARIANT_WEIGHT = 2.0


class Ranker(Protocol):
    """One way of finding rows."""

    name: str

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        """The `k` best rows for each text, best first; `queries[i]` is the query that `texts[i]` belongs to."""
        ...


class IndexRetriever:
    """A retriever over an index that says which rows it found before their passages are fetched.

    See `turnmark.retrieval.types.Retriever`.
    """

    def __init__(self, name: str, index: Index) -> None:
        self.name, self.index = name, index

    def ranked(self, queries: Sequence[Query], k: int) -> list[Fused]:
        """The `k` best rows for each query, in the order of the queries."""
        raise NotImplementedError

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return self.hits(self.ranked(queries, k))

    def hits(self, fused_lists: Sequence[Fused]) -> list[list[Hit]]:
        """What was found, with its passages."""
        hit_lists = []
        for fused in fused_lists:
            passages = self.index.store.by_rows(fused.rows.rows.tolist())
            scored = zip(passages, fused.rows.scores.tolist(), fused.provenance(), strict=True)
            hit_lists.append([Hit(passage=passage, score=score, found=found) for passage, score, found in scored])
        return hit_lists

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, in reading order."""
        return self.index.neighbours(passage)

    def titles(self) -> list[str]:
        """The titles of its documents."""
        return self.index.titles


class BM25Ranker:
    """Finds by terms."""

    name = "bm25"

    def __init__(self, index: Index) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        pairs = zip(texts, queries, strict=True)
        return [self._index.bm25.top(text, k, self._index.mask(query.where)) for text, query in pairs]


class DenseRanker:
    """Finds by the cosine of embeddings."""

    name = "dense"

    def __init__(self, index: Index) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        """See `Ranker.lists`. Texts are embedded as one batch."""
        return self.nearest(self._index.embedder.encode(texts, "query"), queries, k)

    def nearest(self, vectors: NDArray[np.float32], queries: Sequence[Query], k: int) -> list[TopK]:
        """The `k` nearest rows of each vector with their cosines; `queries[i]` is the query that `vectors[i]` is for.

        Vectors under one filter are searched as one batch.
        """
        results = [TopK.from_pairs(())] * len(queries)
        filters: dict[tuple[tuple[str, str], ...], list[int]] = {}
        for position, query in enumerate(queries):
            filters.setdefault(tuple(sorted(query.where.items())), []).append(position)
        for condition, positions in filters.items():
            nearest_rows = self._under(dict(condition), vectors[positions], k)
            for position, rows in zip(positions, nearest_rows, strict=True):
                results[position] = rows
        return results

    def _under(self, where: Mapping[str, str], vectors: NDArray[np.float32], k: int) -> Iterable[TopK]:
        """The nearest rows of each vector under one filter."""
        if self._index.manifest.exact:
            return self._index.flat.nearest(vectors, k, self._index.mask(where))
        matching = self._index.store.matching(where)
        if not all(matching.values()):
            return [TopK.from_pairs(())] * len(vectors)
        nearest = self._index.chroma.query(vectors, k, _clause(matching))
        rows = self._index.store.rows_of(
            found := [identifier for neighbours in nearest for identifier, _ in neighbours]
        )
        if foreign := next((identifier for identifier in found if identifier not in rows), None):
            manifest = self._index.manifest
            raise TurnmarkError(
                f"Chroma holds {foreign!r}, which is no passage of the index {manifest.name!r}: they do not belong "
                f"together; build it again: {rebuild_command(manifest)}"
            )
        return (
            TopK.from_pairs((rows[identifier], cosine) for identifier, cosine in neighbours) for neighbours in nearest
        )


class FusedRetriever(IndexRetriever):
    """A retriever made of rankers, each with its weight in the fusion; a single list of a single text is not fused."""

    def __init__(self, name: str, index: Index, rankers: Sequence[tuple[Ranker, float]]) -> None:
        super().__init__(name, index)
        self._rankers = list(rankers)

    def ranked(self, queries: Sequence[Query], k: int) -> list[Fused]:
        texts = [text for query in queries for text in query.texts()]
        owners = [query for query in queries for _ in query.texts()]
        depth = k if len(self._rankers) == 1 and len(texts) == len(queries) else max(k, DEPTH)
        by_ranker = [
            (ranker.name, weight, iter(ranker.lists(texts, owners, depth))) for ranker, weight in self._rankers
        ]
        answers = []
        for query in queries:
            lists = [
                _ranked(ranker, number, weight, next(rows))
                for number, _ in enumerate(query.texts())
                for ranker, weight, rows in by_ranker
            ]
            answers.append(fuse(lists, k))
        return answers


def _ranked(ranker: str, number: int, weight: float, rows: TopK) -> RankedList:
    """A ranker's list for the message (number 0) or for a variant of it, named and weighted as such."""
    if number == 0:
        return RankedList(ranker, rows, weight)
    return RankedList(f"{ranker}+{number}", rows, weight * VARIANT_WEIGHT)


def _clause(matching: Mapping[str, Sequence[str]]) -> dict[str, Any] | None:
    """Chroma's filter for the stored values that each field may have."""
    clauses = [{key: {"$in": values}} for key, values in matching.items()]
    return {"$and": clauses} if len(clauses) > 1 else clauses[0] if clauses else None
