"""The default retriever's ranking with any of its parts changed, over whole arrays of scores.

With `Setup()` it is the default's own (`tests.benchmarks.conversation` prints how often the two agree): the vectors'
search is exact here and approximate there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation.records import ContextRef
from retrieval import conversation
from retrieval.fusion import RRF_K
from retrieval.late import DEPTH as LATE_DEPTH
from retrieval.rerank import WEIGHT
from retrieval.search import DEPTH
from tests.benchmarks.conversation_sets import FOUND, Floats, Lists, Pool, Rows, Turns

SHARED = 3.0
BOTH = ("message", "rewrite")


@dataclass(frozen=True)
class Setup:
    """What the ranking is made of; the defaults are the product's.

    Attributes:
        views: of `Turns.vectors`, summed for the dense search; they share a weight of 3 evenly.
        answers, answers_are: weight and name of the vector of earlier answers.
        bm25, terms: weight of BM25 and the texts it searches, which share that weight.
        late, late_depth, late_texts, late_mean: weight of late interaction, the hits it scores, for which texts, and
            how a text's tokens count.
        lean: scale by how likely a message leans on its context: nothing, the vector's parts but the message
            (`vector`), or BM25's and late interaction's texts too (`all`).
        length, document: weights of the z-score of a passage's log length, and of its document's best score.
        whiten: power of the standard deviations along the principal axes of the passages by which the axes are scaled.
    """

    views: tuple[str, ...] = ("message", "context", "rewrite")
    answers: float = conversation.ANSWERS_WEIGHT
    answers_are: str = "answers"
    bm25: float = conversation.BM25_WEIGHT
    terms: tuple[str, ...] = BOTH
    fusion: str = "zscore"
    late: float = WEIGHT
    late_depth: int = LATE_DEPTH
    late_texts: tuple[str, ...] = BOTH
    late_mean: str = "idf"
    lean: str = ""
    length: float = 0.0
    document: float = 0.0
    whiten: float = 0.0


def ranked(turns: Turns, setup: Setup, leaning: Floats | None = None) -> Lists:
    """The best passages of each query.

    Args:
        leaning: of each query, how likely its message leans on its context; for `Setup.lean`.
    """
    return as_lists(turns.pool, *reranked(turns, setup, *candidates(turns, setup, leaning), leaning))


def as_lists(pool: Pool, rows: Rows, scores: Floats) -> Lists:
    """Rows of each query, best first, as what the metrics take."""
    return [
        [ContextRef(document_id=pool.ids[row], score=float(score)) for row, score in zip(*one, strict=True)]
        for one in zip(rows[:, :FOUND], scores[:, :FOUND], strict=True)
    ]


def candidates(turns: Turns, setup: Setup, leaning: Floats | None = None) -> tuple[Rows, Floats]:
    """The rows that dense search and BM25 find together, best first, with their scores, as deep as is reranked."""
    lists = [(np.ones((1, 1), dtype=np.float32), _dense(turns, setup, leaning), False)] if setup.views else []
    lists += [(weight, turns.bm25[text], True) for text, weight in _terms(setup, leaning)]
    if len(lists) == 1:
        return best(lists[0][1], setup.late_depth)
    place = zscores if setup.fusion == "zscore" else reciprocal_ranks
    return best(_sum(weight * place(scores, positive) for weight, scores, positive in lists), setup.late_depth)


def reranked(
    turns: Turns, setup: Setup, rows: Rows, scores: Floats, leaning: Floats | None = None
) -> tuple[Rows, Floats]:
    """Candidates in their last order, with their last scores."""
    total = _z(scores)
    if setup.late:
        shares = _shares(setup.late_texts, 1.0, setup, leaning)
        total = total + setup.late * _z(_sum(w * turns.late.of(rows, text, setup.late_mean) for text, w in shares))
    if setup.length:
        total = total + setup.length * _z(turns.pool.lengths[rows])
    if setup.document:
        total = total + setup.document * np.stack(list(_best_of_documents(turns.pool.documents[rows], total)))
    order = np.argsort(-total, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(total, order, axis=1)


def _dense(turns: Turns, setup: Setup, leaning: Floats | None) -> Floats:
    weights = {name: SHARED / len(setup.views) for name in setup.views} | {setup.answers_are: setup.answers}
    vectors, passages = turns.vectors, turns.pool.vectors
    if setup.whiten:
        passages, project = whitened(passages, setup.whiten)
        vectors = {name: project(vectors[name]) for name in weights}
    total = np.zeros_like(vectors["message"])
    for name, weight in weights.items():
        scale = 2 * leaning[:, None] if setup.lean and leaning is not None and name != "message" else 1.0
        total += weight * scale * vectors[name]
    scores: Floats = total @ passages.T
    return scores


def _terms(setup: Setup, leaning: Floats | None) -> Sequence[tuple[str, Floats]]:
    return _shares(setup.terms, setup.bm25, setup, leaning) if setup.bm25 else ()


def _shares(texts: Sequence[str], weight: float, setup: Setup, leaning: Floats | None) -> list[tuple[str, Floats]]:
    """Each text's weight, a column of one for all queries or of one each."""
    if setup.lean == "all" and leaning is not None:
        of = {"message": 1 - leaning[:, None], "rewrite": leaning[:, None]}
        return [(text, np.float32(weight) * of[text]) for text in texts]
    return [(text, np.full((1, 1), weight / len(texts), dtype=np.float32)) for text in texts]


def best(scores: Floats, depth: int) -> tuple[Rows, Floats]:
    """The best rows of each query, best first, equal scores by row."""
    depth = min(depth, scores.shape[1])
    rows = np.sort(np.argpartition(-scores, depth - 1, axis=1)[:, :depth], axis=1)
    found = np.take_along_axis(scores, rows, axis=1)
    order = np.argsort(-found, axis=1, kind="stable")
    return np.take_along_axis(rows, order, axis=1).astype(np.int64), np.take_along_axis(found, order, axis=1)


def zscores(scores: Floats, positive: bool) -> Floats:
    """As `retrieval.fusion` sees a list of the best rows: what it lacks has its lowest score.

    Args:
        positive: only scores above 0 were found.
    """
    made = np.zeros_like(scores)
    for own, out in zip(scores, made, strict=True):
        depth = min(DEPTH, len(own))
        some = np.partition(own, len(own) - depth)[len(own) - depth :]
        some = some[some > 0] if positive else some
        if len(some):
            out[:] = (np.maximum(own, some.min()) - some.mean()) / (some.std() or 1.0)
    return made


def reciprocal_ranks(scores: Floats, positive: bool) -> Floats:
    """1 / (60 + rank) for the best rows, 0 for the others; for `positive` see `zscores`."""
    rows, found = best(scores, DEPTH)
    made = np.zeros_like(scores)
    worth = (1 / (RRF_K + 1 + np.arange(rows.shape[1]))).astype(np.float32)
    np.put_along_axis(made, rows, np.where(found > 0, worth, 0) if positive else np.broadcast_to(worth, rows.shape), 1)
    return made


def whitened(passages: Floats, power: float) -> tuple[Floats, Callable[[Floats], Floats]]:
    """Vectors with their principal axes scaled, and what does the same to a query's (zeros, which are none, stay)."""
    mean = passages.mean(axis=0)
    variances, axes = np.linalg.eigh(np.cov((passages - mean).T))
    scaled = (axes * np.maximum(variances, 1e-9) ** (-power / 2)).astype(np.float32)

    def project(vectors: Floats) -> Floats:
        made: Floats = (vectors - mean) @ scaled * vectors.any(axis=1, keepdims=True)
        return made

    made = project(passages)
    return made / np.linalg.norm(made, axis=1, keepdims=True), project


def _sum(arrays: Iterable[Floats]) -> Floats:
    total: Floats = np.add.reduce(list(arrays))
    return total


def _z(values: Floats) -> Floats:
    spread = values.std(axis=1, keepdims=True)
    z: Floats = (values - values.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1)
    return z


def _best_of_documents(documents: Rows, scores: Floats) -> Iterator[Floats]:
    """For each candidate the best score of the candidates of its document."""
    for own, some in zip(documents, scores, strict=True):
        _, places = np.unique(own, return_inverse=True)
        most = np.full(places.max() + 1, -np.inf, dtype=some.dtype)
        np.maximum.at(most, places, some)
        yield most[places]
