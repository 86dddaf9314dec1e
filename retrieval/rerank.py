"""Reordering what a retriever found by a second, slower look at each passage, fused with the first order.

A hit's new score is the z-score of its first score plus that of the reranker's, both over the query's hits that were
reranked; `Hit.found` has the reranker's own rank and score. Hits beyond the depth follow in their first order, scored
on from the last.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.specs import Entry, Registry, Spec, check_options, parse_spec
from turnmark.retrieval.fusion import Fused, RankedList, TopK, deviation, top_k, top_k_of
from turnmark.retrieval.models import load_model, weights_digest
from turnmark.retrieval.search import IndexRetriever
from turnmark.retrieval.types import Found, Hit, Query, Retriever, RetrieverWrapper, note_answer
from turnmark.retrieval.views import Spoken

RERANKERS = Registry(
    "reranker",
    {
        "late": Entry(
            "turnmark.retrieval.rerank:LateReranked", "late interaction of the embedder's own tokens; no other model"
        ),
        "cross": Entry(
            "turnmark.retrieval.rerank:open_cross", "cross:MODEL, a cross-encoder; the retriever takes rerank_depth"
        ),
    },
)  # fmt: skip

DEPTH = 50
LATE_DEPTH = 200
"""Hits that are reranked: on the FiQA pool more than 20, 50 or 100 find, and 300 no more; elsewhere it matters less."""
BATCH = 16
"""Pairs are longer than passages alone; 16 at once as in embedding."""


def reordered(first: NDArray[np.float64], scores: NDArray[np.float64]) -> TopK:
    """The positions of what was found in their new order, with their new scores.

    Args:
        first: the first scores, best first.
        scores: the reranker's, of the first of them.
    """
    if not len(scores):
        return TopK(np.arange(len(first)), first)
    scored, beyond = first[: len(scores)], first[len(scores) :]
    fused = top_k(_above_mean(scored) + _above_mean(scores), len(scores))
    scores_beyond = fused.scores[-1] + (beyond - scored[-1]) / deviation(scored)
    positions = np.concatenate([fused.rows, np.arange(len(scores), len(first))])
    return TopK(positions, np.concatenate([fused.scores, scores_beyond]))


def _above_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """How far each value is above their mean, in standard deviations."""
    above: NDArray[np.float64] = (values - values.mean()) / deviation(values)
    return above


# --- hits of any retriever -------------------------------------------------------------------------------------------


class Reranker(Protocol):
    """Scores passages that were found.

    `name` is its spec; what comes before the first ':' is what `Hit.found` calls it.
    """

    name: str

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> Sequence[Sequence[float]]:
        """For each query one finite score for each of its hits, in their order; higher is better."""
        ...


class Reranked(RetrieverWrapper):
    """A retriever whose `depth` best hits are reordered; see `turnmark.retrieval.types.Retriever`."""

    def __init__(self, name: str, retriever: Retriever, reranker: Reranker, depth: int = DEPTH) -> None:
        super().__init__(retriever, name)
        self._reranker, self._depth = reranker, depth

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        found = super().search(queries, max(k, self._depth))
        answers = self._reranker.scores(queries, [hits[: self._depth] for hits in found])
        return [self._fused(hits, scores)[:k] for hits, scores in zip(found, answers, strict=True)]

    def _fused(self, hits: Sequence[Hit], answer: Sequence[float]) -> list[Hit]:
        """A query's hits in their new order."""
        scores = np.asarray(answer, dtype=np.float64)
        if len(scores) != min(len(hits), self._depth) or not np.isfinite(scores).all():
            raise TurnmarkError(f"reranker {self._reranker.name!r} did not give every passage one finite score")
        label = self._reranker.name.partition(":")[0]
        found: dict[int, dict[str, Found]] = {
            position: {label: Found(rank=rank, score=score)}
            for rank, (position, score) in enumerate(top_k(scores, len(scores)), 1)
        }
        return [
            hits[position].model_copy(
                update={"score": score, "found": {**hits[position].found, **found.get(position, {})}}
            )
            for position, score in reordered(np.array([hit.score for hit in hits]), scores)
        ]


class CrossReranker:
    """A CrossEncoder of sentence-transformers over (the message, the passage as it is indexed).

    The scores are the model's raw ones: a sigmoid would flatten the differences among the best.

    Args:
        spec: `cross:MODEL`; MODEL is a folder or a hub name.
    """

    def __init__(self, spec: Spec) -> None:
        self.name = str(spec)
        self._model: Any = load_model("CrossEncoder", spec.argument, f"reranker {self.name!r}")
        self._lock = threading.Lock()
        if (labels := self._model.num_labels) != 1:
            raise RequestError(f"reranker {self.name!r} gives {labels} scores a pair; a model with one is needed")

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
    check_options(spec, {}, "reranker")
    if spec.name == "cross" and not spec.argument:
        raise RequestError("reranker 'cross' needs a model: cross:MODEL, a folder or a hub name")
    if spec.name == "late" and spec.argument:
        raise RequestError(f"reranker 'late' takes no model, and {spec.argument!r} is given; write rerank=late")
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
    """`cross:MODEL`."""
    return _cross(str(spec))


@lru_cache(maxsize=2)
def _cross(spec: str) -> CrossReranker:
    return CrossReranker(parse_spec(spec))


# --- rows of an index, by late interaction ---------------------------------------------------------------------------


class LateReranked(IndexRetriever):
    """A retriever over an index whose `depth` best rows are reordered by late interaction.

    A passage's score for a text is the mean over the text's tokens, weighted by idf, of the best cosine among the
    passage's tokens; for a query half the message's, half the mean of its variants'. Passages are fetched for the hits
    that are shown, and for no others.
    """

    def __init__(self, name: str, retriever: IndexRetriever, depth: int = LATE_DEPTH) -> None:
        super().__init__(name, retriever.index)
        self._retriever, self._depth = retriever, depth
        _ = self.index.tokens  # an index without says so now

    def ranked(self, queries: Sequence[Query], k: int) -> list[Fused]:
        found = self._retriever.ranked(queries, max(k, self._depth))
        # Most of them are remembered from that search.
        spoken = iter(self.index.views.of([("", text) for query in queries for text in query.texts()]))
        answers = []
        for query, fused in zip(queries, found, strict=True):
            rows = fused.rows.rows
            scores = self._scores([next(spoken) for _ in query.texts()], rows[: self._depth]).astype(np.float64)
            order = reordered(fused.rows.scores, scores)
            late = RankedList("late", top_k_of(rows[: len(scores)], scores))
            answers.append(Fused(TopK(rows[order.rows[:k]], order.scores[:k]), (*fused.lists, late)))
        return answers

    def note_answer(self, answer: str) -> None:
        """Tell the retriever of an answer that was given."""
        note_answer(self._retriever, answer)

    def _scores(self, spoken: Sequence[Spoken], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Of each row, for a message and its variants."""
        tokens = self.index.tokens
        best = tokens.best(rows, np.concatenate([message.tokens for message in spoken]))
        variants = len(spoken) - 1
        weights = [0.5, *[0.5 / variants] * variants] if variants else [1.0]
        total, start = np.zeros(len(rows), dtype=np.float32), 0
        for message, weight in zip(spoken, weights, strict=True):
            end = start + len(message.ids)
            if end > start:
                rare = tokens.idf(message.ids)
                total += weight * (best[:, start:end] @ (rare / rare.sum()))
            start = end
        return total
