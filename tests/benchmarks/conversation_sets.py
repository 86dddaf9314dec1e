"""What the ablation of the default retriever works on: each set's queries, their vectors, and the passages as arrays.

The vectors come out of the default retriever's own search of an index (`Index.views` remembers them), so a set costs
little more than searching it. Neither reference passages nor relevance labels of any turn are an input.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from assistant.steps.retrieve import conversation_query
from corpora.types import Message
from evaluation.benchmarks.mtrag_data import RetrievalData, facts_of
from evaluation.metrics.retrieval import score_lists
from evaluation.records import ContextRef
from retrieval import conversation, views
from retrieval.index import Index
from retrieval.registry import open_retriever
from retrieval.types import Query

Floats = NDArray[np.float32]
Rows = NDArray[np.int64]
Lists = list[list[ContextRef]]

FOUND = 10
BLOCK = 32  # `Views` remembers 256 views; a query has at most three
CONTEXTS = (32, 128)  # beside `views.CONTEXT_TOKENS`
GROUPS = ("first", "standalone", "non-standalone", "later")


@dataclass(frozen=True)
class Pool:
    """A domain's passages in row order: vectors of length 1, log of the number of words, number of the document."""

    index: Index
    ids: Sequence[str]
    vectors: Floats
    lengths: Floats
    documents: Rows

    @classmethod
    def of(cls, index: Index) -> Pool:
        """All passages of an index."""
        passages = [passage for page in index.store.pages() for _, _, passage in page]
        ids = [passage.id for passage in passages]
        stored = index.vectors_of(ids)
        # A passage file has no documents, its ids have: <document>_<start>-<end>-… or <document>-<start>-<end>.
        documents = [re.sub(r"([_-]\d+)+$", "", identifier) for identifier in ids]
        return cls(
            index=index,
            ids=ids,
            vectors=np.stack([stored[identifier] for identifier in ids]),
            lengths=np.log1p([len(passage.indexed_text.split()) for passage in passages]).astype(np.float32),
            documents=np.unique(documents, return_inverse=True)[1].astype(np.int64),
        )


class Turns:
    """The queries of a benchmark over a pool, as the default retriever gets them.

    Attributes:
        queries: message, history, and the rewrite where there is one.
        vectors: by name, of shape (queries, dimension); zeros where a turn has none, such as an answer before it.
            `message`, `rewrite` and `context` are the views that the default retriever sums.
        spoken: for each query the message's and the rewrite's tokens.
        found: what the default retriever finds, with late interaction and without, by spec.
        groups: name of `GROUPS` -> which queries are in it.
    """

    def __init__(self, name: str, domain: str, data: RetrievalData, pool: Pool) -> None:
        self.name, self.domain, self.pool = name, domain, pool
        self.tasks = [data.tasks[query] for query in data.qrels[domain] if query in data.tasks]
        self.qrels: Mapping[str, Mapping[str, int]] = {task.id: data.qrels[domain][task.id] for task in self.tasks}
        self.conversations = [task.conversation for task in self.tasks]
        labels = [facts_of(data, task.id, domain).labels for task in self.tasks]
        named = [{*one["turn"], *one.get("standalone", ())} for one in labels]
        self.groups = {group: np.array([group in names for names in named]) for group in GROUPS}
        self.queries = [conversation_query(task.history, task.question) for task in self.tasks]
        self.spoken: list[tuple[views.Spoken, views.Spoken]] = []
        self.vectors: dict[str, Floats] = {}
        self.found: dict[str, Lists] = {"conversational": [], "conversational?rerank=none": []}
        self._means(self._search())
        self._other_contexts()

    def _search(self) -> list[list[Floats]]:
        """The default retriever's own search, and the views that it made; returns each query's earlier answers."""
        index, coloured, earlier = self.pool.index, list[Floats](), list[list[Floats]]()
        for at in range(0, len(self.queries), BLOCK):
            some = self.queries[at : at + BLOCK]
            for spec, lists in self.found.items():
                lists += searched(index, spec, some)
            for query in some:
                message, *others = query.texts()
                said = [("", message), ("", (others or [message])[0]), (_last(_answers(query)), message)]
                own, rewrite, context = index.views.of(said)
                self.spoken.append((own, rewrite))
                coloured.append(context.vector)
                earlier.append(index.views.plain(_answers(query)))
        self.vectors["message"] = np.stack([own.vector for own, _ in self.spoken])
        self.vectors["rewrite"] = np.stack([rewrite.vector for _, rewrite in self.spoken])
        self.vectors["context"] = np.stack(coloured)
        return earlier

    def _means(self, answers: Sequence[Sequence[Floats]]) -> None:
        """Means over the vectors of earlier answers: as the default retriever weighs them, evenly, and the last one."""
        for name, decay in (("answers", conversation.ANSWER_DECAY), ("answers evenly", 1.0), ("last answer", 0.0)):
            self.vectors[name] = np.stack([self._mean(some, decay) for some in answers])

    def _mean(self, vectors: Sequence[Floats], decay: float) -> Floats:
        if not vectors:
            return np.zeros(self.pool.vectors.shape[1], dtype=np.float32)
        weights = decay ** np.arange(len(vectors) - 1, -1, -1, dtype=float)
        return np.average(vectors, axis=0, weights=weights).astype(np.float32)

    def _other_contexts(self) -> None:
        """The message as other contexts colour it: a shorter or longer one, and questions instead of the answer."""
        last = [_last(_answers(query)) for query in self.queries]
        for tokens in CONTEXTS:
            self.vectors[f"context {tokens}"] = self._coloured(last, tokens)
        questions = [_said(query.history, "user") for query in self.queries]
        self.vectors["last question"] = self._coloured([_last(asked) for asked in questions])
        self.vectors["first question"] = self._coloured([_last(asked[:1]) for asked in questions])

    def _coloured(self, contexts: Sequence[str], tokens: int = views.CONTEXT_TOKENS) -> Floats:
        said = [(context, query.text) for context, query in zip(contexts, self.queries, strict=True)]
        with mock.patch.object(views, "CONTEXT_TOKENS", tokens):
            made = views.Views(self.pool.index.embedder).of(said)
        return np.stack([one.vector for one in made])

    @cached_property
    def bm25(self) -> dict[str, Floats]:
        """BM25's scores for the message and for the rewrite, of shape (queries, passages)."""
        scores = self.pool.index.bm25.scores
        texts = [list(query.texts()) for query in self.queries]
        return {
            "message": np.stack([scores(some[0]) for some in texts]),
            "rewrite": np.stack([scores(some[-1]) for some in texts]),
        }

    @cached_property
    def late(self) -> Late:
        """Late interaction's scores."""
        return Late(self)

    def measured(self, lists: Lists) -> dict[str, NDArray[np.float64]]:
        """nDCG@5 and recall@5 of each query."""
        found = {task.id: some for task, some in zip(self.tasks, lists, strict=True)}
        scores = score_lists(self.qrels, found)
        return {name: np.array([scores[task.id][name] for task in self.tasks]) for name in ("ndcg@5", "recall@5")}


class Late:
    """Late interaction's score of a passage for a message or its rewrite, made when it is first asked for."""

    def __init__(self, turns: Turns) -> None:
        self._turns = turns
        shape = len(turns.queries), len(turns.pool.ids)
        kinds = [(text, mean) for text in ("message", "rewrite") for mean in ("idf", "even")]
        self._kept = {kind: np.full(shape, np.nan, dtype=np.float32) for kind in kinds}

    def of(self, rows: Rows, text: str, mean: str) -> Floats:
        """The scores of some rows of each query, in their shape; the tokens' `mean` is by `idf` or `even`."""
        kept = self._kept[text, mean]
        for query, own in enumerate(rows):
            missing = own[np.isnan(kept[query, own])]
            if len(missing):
                self._make(query, missing)
        return np.take_along_axis(kept, rows, axis=1)

    def _make(self, query: int, rows: Rows) -> None:
        tokens, spoken, at = self._turns.pool.index.tokens, self._turns.spoken[query], 0
        best = tokens.best(rows.tolist(), np.concatenate([one.tokens for one in spoken]))
        for text, one in zip(("message", "rewrite"), spoken, strict=True):
            own = best[:, at : at + len(one.ids)]
            at += len(one.ids)
            rare = tokens.idf(one.ids)
            for mean, weights in (("idf", rare), ("even", np.ones_like(rare))):
                self._kept[text, mean][query, rows] = own @ (weights / weights.sum()) if len(rare) else 0.0


def searched(index: Index, spec: str, queries: Sequence[Query]) -> Lists:
    """What a retriever finds, by the product's own path."""
    retriever = open_retriever(spec, index)
    return [
        [ContextRef(document_id=hit.passage.id, score=hit.score) for hit in hits]
        for at in range(0, len(queries), BLOCK)
        for hits in retriever.search(queries[at : at + BLOCK], FOUND)
    ]


def last_turn(query: Query) -> Query:
    """The message alone."""
    return Query(text=query.text)


def all_questions(query: Query) -> Query:
    """All that the user said so far, as one text."""
    return Query(text="\n".join([*_said(query.history, "user"), query.text]))


def _said(history: Sequence[Message], role: str) -> list[str]:
    return [turn.content for turn in history if turn.role == role and turn.content.strip()]


def _answers(query: Query) -> list[str]:
    return _said(query.history, "assistant")[-conversation.MOST_ANSWERS :]


def _last(texts: Sequence[str]) -> str:
    return texts[-1] if texts else ""
