"""Late interaction: how well each token of a question finds a like one in a passage, with the embedder's own tokens.

ColBERT's score (Khattab and Zaharia, SIGIR 2020) without ColBERT: the token vectors are those of the very model that
made the passage vectors, no other model is needed. A question's tokens count by how rare they are.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import Spec, check_options
from turnmark.retrieval.index import Index
from turnmark.retrieval.types import Hit, Query
from turnmark.retrieval.views import Spoken

DEPTH = 200
"""Hits that are reranked: on the FiQA pool more than 20, 50 or 100 find, and 300 no more; elsewhere it matters less."""


class LateReranker:
    """See the module; and `turnmark.retrieval.rerank.Reranker`.

    A passage's score for a text is the mean over the text's tokens, weighted by idf, of the best cosine among the
    passage's tokens; for a query half the message's, half the mean of its variants' (nested: as they are weighted).
    """

    name = "late"

    def __init__(self, index: Index) -> None:
        self._index = index
        _ = index.tokens  # an index without says so now

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        """See `turnmark.retrieval.rerank.Reranker.scores`.

        Raises:
            RequestError: a hit is no passage of the index.
        """
        return [
            scores.tolist()
            for scores in self.scores_of_rows(queries, [self._rows(hits_of_query) for hits_of_query in hits])
        ]

    def scores_of_rows(self, queries: Sequence[Query], rows: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float32]]:
        spoken = iter(self._index.views.of([("", text) for query in queries for text in query.texts()]))
        return [
            self._scored(query, [next(spoken) for _ in query.texts()], rows_of_query)
            for query, rows_of_query in zip(queries, rows, strict=True)
        ]

    def _scored(self, query: Query, spoken: Sequence[Spoken], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        best = self._index.tokens.best(rows, np.concatenate([message.tokens for message in spoken]))
        total, at = np.zeros(len(rows), dtype=np.float32), 0
        for message, weight in zip(spoken, _weights(query), strict=True):
            if len(message.ids):
                rare = self._index.tokens.idf(message.ids)
                total += weight * _mean(best[:, at : at + len(message.ids)], rare)
            at += len(message.ids)
        return total

    def _rows(self, hits: Sequence[Hit]) -> NDArray[np.int64]:
        """The rows of some hits."""
        rows = self._index.store.rows_of([hit.passage.id for hit in hits])
        foreign = [hit.passage.id for hit in hits if hit.passage.id not in rows]
        if foreign:
            raise RequestError(
                f"rerank=late knows the passages of the index {self._index.manifest.name!r} only, and the retriever "
                f"found others, such as {foreign[0]!r}; leave rerank=late out"
            )
        return np.array([rows[hit.passage.id] for hit in hits], dtype=np.int64)


def _mean(best: NDArray[np.float32], weights: NDArray[np.float32]) -> NDArray[np.float32]:
    mean: NDArray[np.float32] = best @ (weights / weights.sum())
    return mean


def _weights(query: Query) -> list[float]:
    """What the score of each text counts; they sum to 1."""
    weights = list(query.texts().values())
    if query.fusion == "flat" and len(weights) > 1:
        return [0.5, *(0.5 / (len(weights) - 1) for _ in weights[1:])]
    return [weight / sum(weights) for weight in weights]


def open_late(spec: Spec, index: Index) -> LateReranker:
    """`late`, over an index that holds token vectors."""
    check_options(spec, {}, "reranker")
    return LateReranker(index)
