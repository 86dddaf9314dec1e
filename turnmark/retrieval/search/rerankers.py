"""Reorders the hits of a retriever with a slower model, and fuses both orders.

A hit's new score is the sum of two z-scores over the reranked hits of the query: that of its first score and that of
the reranker's score. `Hit.found` contains the reranker's rank and score. Hits beyond the depth follow in their first
order, with scores below the last reranked hit.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.extras import is_installed
from turnmark.core.specs import Entry, Registry, Spec, check_options, parse_spec
from turnmark.retrieval.embedding.model_loading import load_model, weights_digest
from turnmark.retrieval.ranking.conversation_queries import MessageVectors
from turnmark.retrieval.ranking.fusion import (
    FusedRanking,
    RankAndScore,
    RankedList,
    RankedRows,
    deviation,
    top_k,
    top_k_of,
)
from turnmark.retrieval.search.retrievers import IndexRetriever
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

RERANKERS = Registry(
    "reranker",
    {
        "late": Entry(
            "turnmark.retrieval.search.rerankers:LateInteractionRetriever",
            "late interaction with the embedder's token vectors"
        ),
        "cross": Entry(
            "turnmark.retrieval.search.rerankers:open_cross",
            "cross:MODEL, a cross-encoder; the retriever takes rerank_depth", "torch"
        ),
    },
)  # fmt: skip

RERANK_DEPTH = 50
"""Default number of hits that a cross-encoder reranks."""
LATE_RERANK_DEPTH = 200
"""Default number of hits that late interaction reranks. 200 is better than 20, 50 and 100 on the FiQA pool; 300 is no
better."""
PAIRS_PER_BATCH = 16


def reorder(first: NDArray[np.float64], scores: NDArray[np.float64], weight: float = 1.0) -> RankedRows:
    """Return the positions of hits in their new order, with their new scores.

    Args:
        first: the first scores, best first.
        scores: the reranker's scores of the first len(scores) hits.
        weight: weight of the reranker's z-scores; the first scores have weight 1.
    """
    if not len(scores):
        return RankedRows(np.arange(len(first)), first)
    scored, beyond = first[: len(scores)], first[len(scores) :]
    fused = top_k(_z_scores(scored) + weight * _z_scores(scores), len(scores))
    scores_beyond = fused.scores[-1] + (beyond - scored[-1]) / deviation(scored)
    positions = np.concatenate([fused.rows, np.arange(len(scores), len(first))])
    return RankedRows(positions, np.concatenate([fused.scores, scores_beyond]))


def _z_scores(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the z-score of each value: its distance from the mean, in standard deviations."""
    above: NDArray[np.float64] = (values - values.mean()) / deviation(values)
    return above


# --- hits of any retriever -------------------------------------------------------------------------------------------


class Reranker(Protocol):
    """Scores passages that a retriever found.

    `name` is its spec; the part before the first ':' names its list in `Hit.found`.
    """

    name: str

    def scores(self, queries: Sequence[Query], hits: Sequence[Sequence[Hit]]) -> Sequence[Sequence[float]]:
        """Return for each query a finite score for each of its hits, in their order; higher is better."""
        ...


class RerankingRetriever(RetrieverWrapper):
    """A retriever whose `depth` best hits are reordered by a reranker."""

    def __init__(
        self, name: str, retriever: Retriever, reranker: Reranker, depth: int = RERANK_DEPTH, weight: float = 1.0
    ) -> None:
        super().__init__(retriever, name)
        self._reranker, self._depth, self._weight = reranker, depth, weight

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        candidates = super().search(queries, max(top_k, self._depth))
        answers = self._reranker.scores(queries, [hits[: self._depth] for hits in candidates])
        return [self._fused(hits, scores)[:top_k] for hits, scores in zip(candidates, answers, strict=True)]

    def _fused(self, hits: Sequence[Hit], answer: Sequence[float]) -> list[Hit]:
        """Return a query's hits in their new order."""
        scores = np.asarray(answer, dtype=np.float64)
        if len(scores) != min(len(hits), self._depth) or not np.isfinite(scores).all():
            raise TurnmarkError(f"reranker {self._reranker.name!r} did not return one finite score for every passage")
        label = self._reranker.name.partition(":")[0]
        best_first = enumerate(top_k(scores, len(scores)), 1)
        reranked = {position: RankAndScore(rank=rank, score=score) for rank, (position, score) in best_first}
        first_scores = np.array([hit.score for hit in hits])
        fused: list[Hit] = []
        for position, score in reorder(first_scores, scores, self._weight):
            found = {**hits[position].found, **({label: reranked[position]} if position in reranked else {})}
            fused.append(hits[position].model_copy(update={"score": score, "found": found}))
        return fused


class CrossReranker:
    """A CrossEncoder of sentence-transformers that scores pairs of the message and a passage's `indexed_text`.

    The scores are the model's raw outputs: a sigmoid would flatten the differences between the best hits.

    Args:
        spec: `cross:MODEL`; MODEL is a folder or a hub name.
    """

    def __init__(self, spec: Spec) -> None:
        self.name = str(spec)
        self._model: Any = load_model("CrossEncoder", spec.argument, f"reranker {self.name!r}")
        self._lock = threading.Lock()
        labels = self._model.num_labels
        if labels != 1:
            raise RequestError(f"reranker {self.name!r} returns {labels} scores per pair; use a model that returns one")

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
                pairs, batch_size=PAIRS_PER_BATCH, show_progress_bar=False, activation_fn=torch.nn.Identity()
            )
        remaining: Iterator[float] = (float(score) for score in predictions)
        return [list(islice(remaining, len(hits_of_query))) for hits_of_query in hits]


def check_reranker(text: str) -> Spec:
    """Parse the spec of a reranker and check it without loading anything."""
    spec = RERANKERS.check(text)
    check_options(spec, {}, "reranker")
    if spec.name == "cross" and not spec.argument:
        raise RequestError("reranker 'cross' needs a model: cross:MODEL, a folder or a hub name")
    if spec.name == "late" and spec.argument:
        raise RequestError(f"reranker 'late' takes no model (got {spec.argument!r}); write rerank=late")
    return spec


def present_cross_encoders() -> list[str]:
    """Return the specs of the cross-encoders in the hub's cache that return one score for each pair."""
    if not is_installed("torch"):
        return []
    from huggingface_hub.constants import HF_HUB_CACHE

    found = []
    for path in sorted(Path(HF_HUB_CACHE).glob("models--*/snapshots/*/config.json")):
        try:
            config = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        kinds, labels = config.get("architectures") or (), config.get("id2label") or {}
        if len(labels) == 1 and any(kind.endswith("ForSequenceClassification") for kind in kinds):
            name = path.parents[2].name.removeprefix("models--").replace("--", "/", 1)
            found.append(f"cross:{name}")
    return list(dict.fromkeys(found))


def reranker_weights(retriever: str) -> str:
    """Return the digest of the weights of the model in a retriever's `rerank=`; empty if there is no local model.

    The fingerprint of the index does not cover these weights.
    """
    model = parse_spec(parse_spec(retriever).options.get("rerank", "none")).argument
    return weights_digest(model) if model else ""


def open_reranker(text: str, index: Any) -> Reranker:
    """Open the reranker of a spec for the hits from an index."""
    spec = check_reranker(text)
    reranker: Reranker = RERANKERS.factory(spec)(spec, index=index)
    return reranker


def open_cross(spec: Spec, index: Any) -> Reranker:  # noqa: ARG001
    """Open `cross:MODEL`."""
    return _cross(str(spec))


@lru_cache(maxsize=2)
def _cross(spec: str) -> CrossReranker:
    return CrossReranker(parse_spec(spec))


# --- rows of an index, by late interaction ---------------------------------------------------------------------------


class LateInteractionRetriever(IndexRetriever):
    """A retriever over an index whose `depth` best rows are reordered by late interaction.

    For each token of a text, the best cosine among the passage's tokens is taken. The passage's score for the text is
    the mean of these cosines, weighted by idf. For a query, the score of the message and the mean score of its variants
    count half each. Passages are fetched only for the returned hits.
    """

    def __init__(
        self, name: str, retriever: IndexRetriever, depth: int = LATE_RERANK_DEPTH, weight: float = 1.0
    ) -> None:
        super().__init__(name, retriever.index)
        self._retriever, self._depth = retriever, depth
        self._weight = weight * self.index.manifest.share_of("dense")
        _ = self.index.tokens  # raises RequestError now if the index has none

    def resolve(self, queries: Sequence[Query]) -> list[Query]:
        return self._retriever.resolve(queries)

    def ranked(self, queries: Sequence[Query], k: int) -> list[FusedRanking]:
        candidates = self._retriever.ranked(queries, max(k, self._depth))
        row_lists = [fused.rows.rows[: self._depth] for fused in candidates]
        answers = []
        for fused, scores in zip(candidates, self.scores(queries, row_lists), strict=True):
            rows = fused.rows.rows
            order = reorder(fused.rows.scores, scores, self._weight)
            late = RankedList("late", top_k_of(rows[: len(scores)], scores))
            answers.append(FusedRanking(RankedRows(rows[order.rows[:k]], order.scores[:k]), (*fused.lists, late)))
        return answers

    def note_answer(self, answer: str) -> None:
        self._retriever.note_answer(answer)

    def scores(self, queries: Sequence[Query], row_lists: Sequence[NDArray[np.int64]]) -> list[NDArray[np.float64]]:
        """Return the scores of some rows for each query."""
        # Most of these vectors are cached by the search for the rows.
        messages = iter(self.index.views.of([("", text) for query in queries for text in query.texts()]))
        return [
            self._scores([next(messages) for _ in query.texts()], rows).astype(np.float64)
            for query, rows in zip(queries, row_lists, strict=True)
        ]

    def _scores(self, messages: Sequence[MessageVectors], rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the score of each row for a message and its variants."""
        tokens = self.index.tokens
        best = tokens.best(rows, np.concatenate([message.tokens for message in messages]))
        variants = len(messages) - 1
        weights = [0.5, *[0.5 / variants] * variants] if variants else [1.0]
        total, start = np.zeros(len(rows), dtype=np.float32), 0
        for message, weight in zip(messages, weights, strict=True):
            end = start + len(message.ids)
            if end > start:
                rare = tokens.idf(message.ids)
                total += weight * (best[:, start:end] @ (rare / rare.sum()))
            start = end
        return total
