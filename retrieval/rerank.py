"""Reordering what a retriever found by a second, slower look at each passage, fused with the first order."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence, Sized
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.corpora.specs import Entry, Registry, Spec, check_options, parse_spec
from turnmark.corpora.types import Passage
from turnmark.retrieval.fusion import Fused, RankedList, TopK, deviation, top_k, top_k_of
from turnmark.retrieval.index import Index
from turnmark.retrieval.models import load_model, precision_option, weights_digest
from turnmark.retrieval.search import IndexRetriever
from turnmark.retrieval.types import Found, Hit, Query, Retriever, neighbours_of, note_answer, titles_of
from turnmark.retrieval.views import Spoken

RERANKERS = Registry(
    "reranker",
    {
        "late": Entry(
            "turnmark.retrieval.rerank:open_late", "late interaction of the embedder's own tokens; no other model"
        ),
        "cross": Entry(
            "turnmark.retrieval.rerank:open_cross",
            "cross:MODEL, a cross-encoder; options of the retriever: rerank_depth, rerank_weight",
        ),
    },
)  # fmt: skip

DEPTH = 50
WEIGHT = 1.0

# Pairs are longer than passages alone; 16 at once as in embedding.
BATCH = 16


class Reranker(Protocol):
    """Scores passages that were found.

    `name` is its spec; what comes before the first ':' is what `Hit.found` calls it.
    """

    name: str

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> Sequence[Sequence[float]]:
        """For each query one finite score for each of its hits, in their order; higher is better."""
        ...


@runtime_checkable
class RowReranker(Protocol):
    """A reranker that can score rows of its index, whose passages nobody has fetched."""

    def scores_of_rows(
        self, queries: Sequence[Query], rows: Sequence[NDArray[np.int64]]
    ) -> Sequence[NDArray[np.float32]]:
        """As `Reranker.scores`, for each query over rows."""
        ...


class Reranked:
    """A retriever whose best hits are reordered; see `turnmark.retrieval.types.Retriever`.

    A hit's new score is the z-score of its first score plus `weight` times the z-score of the reranker's, both over the
    query's hits that were reranked; `Hit.found` has the reranker's own rank and score. Hits beyond `depth` follow in
    their first order, scored on from the last.

    Args:
        name: the full spec.
        depth: how many hits of a query are reranked.
        rows: the retriever itself, where it finds rows of the index that a `RowReranker` knows: passages are then
            fetched for the hits that are shown, and for no others.
    """

    def __init__(
        self,
        name: str,
        retriever: Retriever,
        reranker: Reranker,
        depth: int = DEPTH,
        weight: float = WEIGHT,
        rows: IndexRetriever | None = None,
    ) -> None:
        self.name, self._retriever, self._reranker, self._rows = name, retriever, reranker, rows
        self._depth, self._weight = depth, weight

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        depth = max(k, self._depth)
        if self._rows is not None and isinstance(self._reranker, RowReranker):
            ranked = self._rows.ranked(queries, depth)
            rows = [fused.rows.rows[: self._depth] for fused in ranked]
            scores = self._checked(self._reranker.scores_of_rows(queries, rows), rows)
            return self._rows.hits(
                [self._moved(fused, reranked, k) for fused, reranked in zip(ranked, scores, strict=True)]
            )
        first_hits = self._retriever.search(queries, depth)
        scored = [hits[: self._depth] for hits in first_hits]
        scores = self._checked(self._reranker.scores(queries, scored), scored)
        return [self._fused(hits, reranked, k) for hits, reranked in zip(first_hits, scores, strict=True)]

    def _checked(
        self, answers: Sequence[Sequence[float] | NDArray[np.float32]], scored: Sequence[Sized]
    ) -> list[NDArray[np.float64]]:
        """The reranker's scores, as arrays."""
        if [len(row) for row in answers] != [len(row) for row in scored]:
            raise TurnmarkError(f"reranker {self._reranker.name!r} did not score every passage once")
        scores = [np.asarray(row, dtype=np.float64) for row in answers]
        if not all(np.isfinite(row).all() for row in scores):
            raise TurnmarkError(f"reranker {self._reranker.name!r} gave a score that is not finite (NaN or infinite)")
        return scores

    def note_answer(self, answer: str) -> None:
        """Tell the retriever of an answer that was given, where it listens."""
        note_answer(self._retriever, answer)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, where the retriever knows them."""
        return neighbours_of(self._retriever, passage)

    def titles(self) -> list[str]:
        """The titles of what it searches."""
        return titles_of(self._retriever)

    def _moved(self, fused: Fused, scores: NDArray[np.float64], k: int) -> Fused:
        """The first `k` rows of a query in their new order; the reranker is one more list."""
        rows, order = fused.rows.rows, self._order(fused.rows.scores, scores)
        reranker_list = RankedList(self._label, top_k_of(rows[: len(scores)], scores))
        return Fused(TopK(rows[order.rows[:k]], order.scores[:k]), (*fused.lists, reranker_list))

    def _fused(self, hits: Sequence[Hit], scores: NDArray[np.float64], k: int) -> list[Hit]:
        """The first `k` of a query's hits in their new order."""
        found = {
            position: {self._label: Found(rank=rank, score=score)}
            for rank, (position, score) in enumerate(top_k(scores, len(scores)), 1)
        }
        return [
            Hit(
                passage=hits[position].passage,
                score=score,
                found={**hits[position].found, **found.get(position, {})},
            )
            for position, score in islice(self._order(np.array([hit.score for hit in hits]), scores), k)
        ]

    @property
    def _label(self) -> str:
        return self._reranker.name.partition(":")[0]

    def _order(self, first: NDArray[np.float64], scores: NDArray[np.float64]) -> TopK:
        """The positions of what was found in their new order, with their new scores."""
        if not len(scores):
            return TopK(np.arange(len(first)), first)
        scored, beyond = first[: len(scores)], first[len(scores) :]
        fused = top_k(_above_mean(scored) + self._weight * _above_mean(scores), len(scores))
        scores_beyond = fused.scores[-1] + (beyond - scored[-1]) / deviation(scored)
        positions = np.concatenate([fused.rows, np.arange(len(scores), len(first))])
        return TopK(positions, np.concatenate([fused.scores, scores_beyond]))


def _above_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each value is above their mean, in standard deviations."""
    above: NDArray[np.float64] = (values - values.mean()) / deviation(values)
    return above


class CrossReranker:
    """A CrossEncoder of sentence-transformers over (the message, the passage as it is indexed).

    The scores are the model's raw ones: a sigmoid would flatten the differences among the best.

    Args:
        spec: `cross:MODEL[?precision=auto|fp32|bf16]`; MODEL is a folder or a hub name.
    """

    def __init__(self, spec: Spec) -> None:
        self.name = str(spec)
        options = {"precision": "auto", **check_options(spec, {"precision": precision_option}, "reranker")}
        caller = f"reranker {self.name!r}"
        self._model: Any = load_model("CrossEncoder", spec.argument, caller, options["precision"])
        self._lock = threading.Lock()
        if self._model.num_labels != 1:
            raise RequestError(f"{caller} gives {self._model.num_labels} scores a pair; a model with one is needed")

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        """See `Reranker.scores`; the pairs of all queries are one batch."""
        import torch

        pairs = [
            (query.text, hit.passage.indexed_text)
            for query, hits_of_query in zip(queries, hits, strict=True)
            for hit in hits_of_query
        ]  # fmt: skip
        if not pairs:
            return [[] for _ in hits]
        with self._lock:
            predictions = self._model.predict(
                pairs, batch_size=BATCH, show_progress_bar=False, activation_fn=torch.nn.Identity()
            )
        remaining: Iterator[float] = (float(score) for score in predictions)
        return [list(islice(remaining, len(hits_of_query))) for hits_of_query in hits]


def check_reranker(text: str) -> Spec:
    """Parse the spec of a reranker and look at what can be known of it without loading anything."""
    spec = RERANKERS.check(text)
    if spec.url or "://" in text:
        # Not repeated: there may be a password in it.
        raise RequestError(f"reranker {spec.name!r}: no address; rerankers run here")
    errors = ErrorCollector()
    errors.collect(check_options, spec, {"precision": precision_option} if spec.name == "cross" else {}, "reranker")
    if spec.name == "cross" and not spec.argument:
        errors.add("reranker 'cross' needs a model: cross:MODEL, a folder or a hub name")
    if spec.name == "late" and spec.argument:
        errors.add(f"reranker 'late' takes no model, and {spec.argument!r} is given; write rerank=late")
    errors.raise_all()
    return spec


def reranker_weights(retriever: str) -> str:
    """Digest of the weights of the model that a retriever's `rerank=` names; empty where none is known or none there.

    No index depends on them, so its fingerprint does not change with a model's folder.
    """
    model = parse_spec(parse_spec(retriever).options.get("rerank", "none")).argument
    return weights_digest(model) if model else ""


def open_reranker(text: str, index: Any) -> Reranker:
    """The reranker that a spec names, for hits from an index."""
    spec = check_reranker(text)
    reranker: Reranker = RERANKERS.factory(spec)(spec, index=index)
    return reranker


def open_cross(spec: Spec, index: Any) -> Reranker:  # noqa: ARG001
    """`cross:MODEL[?precision=…]`."""
    return _cross(str(spec))


@lru_cache(maxsize=2)
def _cross(spec: str) -> CrossReranker:
    return CrossReranker(parse_spec(spec))


LATE_DEPTH = 200
"""Hits that are reranked: on the FiQA pool more than 20, 50 or 100 find, and 300 no more; elsewhere it matters less."""


class LateReranker:
    """See the module; and `turnmark.retrieval.rerank.Reranker`.

    A passage's score for a text is the mean over the text's tokens, weighted by idf, of the best cosine among the
    passage's tokens; for a query half the message's, half the mean of its variants'.
    """

    name = "late"

    def __init__(self, index: Index) -> None:
        self._index = index
        _ = index.tokens  # an index without says so now

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> list[list[float]]:
        """See `turnmark.retrieval.rerank.Reranker.scores`."""
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
        total, start = np.zeros(len(rows), dtype=np.float32), 0
        for message, weight in zip(spoken, _weights(query), strict=True):
            if len(message.ids):
                rare = self._index.tokens.idf(message.ids)
                total += weight * _mean(best[:, start : start + len(message.ids)], rare)
            start += len(message.ids)
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
    variants = len(query.texts()) - 1
    return [0.5, *[0.5 / variants] * variants] if variants else [1.0]


def open_late(spec: Spec, index: Index) -> LateReranker:
    """`late`, over an index that holds token vectors."""
    check_options(spec, {}, "reranker")
    return LateReranker(index)
