"""Searching an index: rankers, each over the message and its variants, fused; and the default retriever.

The default searches with one vector, the sum of what the turn can mean: the message alone, the message as the last
answer colours it (`turnmark.retrieval.views`), its rewrites, and a little of the earlier answers. Beside it BM25 over
the message and its rewrites, fused by z-scores. Weights are few, the same for every turn, and were chosen on two
domains together; what was tried and what each try brought is in docs/measured.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.fusion import Fused, RankedList, TopK, fuse, top_k_of
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

    def sure_from(self) -> float | None:
        """The confidence from which an answer without a model is sure, as its index was measured."""
        return self.index.manifest.sure_from


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


# --- in the middle of a conversation ---------------------------------------------------------------------------------

ONE_VECTOR = "conversation"
"""The list that the one vector finds."""
COSINE = "dense"
BM25_WEIGHT = 0.3
ANSWERS_WEIGHT = 0.6
"""Of the earlier answers together; 1 each for the message, the message in context, and its rewrites."""
ANSWER_DECAY = 0.7
"""What the answer before an answer counts, where that counts 1."""
MOST_ANSWERS = 8
CLEAR = 0.65
"""Cosine of the nearest passage from which a message that can be understood alone is searched for without its
conversation."""


class ConversationalRetriever(IndexRetriever):
    """The default retriever, without a language model; see above.

    Args:
        weight: of BM25, where the dense list has 1; the message has half of it, its rewrites together the other half.
        more_rankers: further ways to find the message and its rewrites, each with its weight, shared as BM25's is.
    """

    def __init__(
        self, name: str, index: Index, weight: float, more_rankers: Sequence[tuple[Ranker, float]] = ()
    ) -> None:
        super().__init__(name, index)
        self._dense = DenseRanker(index)
        self._rankers: list[tuple[Ranker, float]] = [(BM25Ranker(index), weight), *more_rankers]

    def ranked(self, queries: Sequence[Query], k: int) -> list[Fused]:
        queries = self._by_evidence(queries)
        vectors, texts = self._vectors(queries)
        lists = self._lists(queries, vectors, max(k, DEPTH))
        return self._with_cosines(texts, [fuse(own_lists, k) for own_lists in lists])

    def note_answer(self, answer: str) -> None:
        """Embed an answer when it is given, so that the next turn need not wait for it."""
        self.index.views.note_answer(answer)

    def _with_cosines(
        self, query_vectors: Sequence[Sequence[NDArray[np.float32]]], answers: Sequence[Fused]
    ) -> list[Fused]:
        """What was found, in the list `dense` too: the cosine that the message or a rewrite of it has with a row.

        That is what decisions are made by: the one vector that is searched with is like much that was said before."""
        with_cosines = []
        for texts, answer, (rows, vectors) in zip(query_vectors, answers, self._of_rows(answers), strict=True):
            cosines = (vectors @ np.stack(texts).T).max(axis=1)
            with_cosines.append(replace(answer, lists=(*answer.lists, RankedList(COSINE, top_k_of(rows, cosines)))))
        return with_cosines

    def _of_rows(self, answers: Sequence[Fused]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
        """Of each answer's rows those whose vectors are there, and the vectors."""
        if self.index.manifest.exact:
            yield from ((answer.rows.rows, self.index.flat.of(answer.rows.rows)) for answer in answers)
            return
        rows = list({row: None for answer in answers for row in answer.rows.rows.tolist()})
        ids = self.index.store.ids_of(rows)
        stored = self.index.chroma.get(list(ids.values()))
        for answer in answers:
            rows_known = [row for row in answer.rows.rows.tolist() if ids[row] in stored]
            vectors = np.array([stored[ids[row]] for row in rows_known], dtype=np.float32)
            yield np.array(rows_known, dtype=np.int64), vectors.reshape(len(rows_known), self.index.embedder.dimension)

    def _by_evidence(self, queries: Sequence[Query]) -> list[Query]:
        """The queries; one that is clear alone, and finds something, without its conversation and rewrites."""
        positions = [
            position for position, query in enumerate(queries) if query.standalone and (query.history or query.variants)
        ]
        if not positions:
            return list(queries)
        vectors = np.stack(
            [view.vector for view in self.index.views.of([("", queries[position].text) for position in positions])]
        )
        nearest = self._dense.nearest(vectors, [queries[position] for position in positions], 1)
        plain = {"history": (), "variants": ()}
        alone = {
            position: queries[position].model_copy(update=plain)
            for position, rows in zip(positions, nearest, strict=True)
            if len(rows.rows) and float(rows.scores[0]) >= CLEAR
        }
        return [alone.get(position, query) for position, query in enumerate(queries)]

    def _lists(self, queries: Sequence[Query], vectors: NDArray[np.float32], depth: int) -> list[list[RankedList]]:
        """The lists of each query, to be fused; all are searched as one batch."""
        dense = self._dense.nearest(vectors, queries, depth)
        texts = [list(query.texts()) for query in queries]
        owners = [query for query, own_texts in zip(queries, texts, strict=True) for _ in own_texts]
        flat = [text for own_texts in texts for text in own_texts]
        rankers = [(ranker.name, weight, iter(ranker.lists(flat, owners, depth))) for ranker, weight in self._rankers]
        lists_by_query = []
        for rows, own_texts in zip(dense, texts, strict=True):
            lists = [RankedList(ONE_VECTOR, rows)]
            for name, weight, results in rankers:
                rewrites = len(own_texts) - 1
                message = weight / 2 if rewrites else weight
                lists.append(RankedList(name, next(results), message))
                lists += [
                    RankedList(f"{name}+{n}", next(results), weight / 2 / rewrites) for n in range(1, rewrites + 1)
                ]
            lists_by_query.append(lists)
        return lists_by_query

    def _vectors(self, queries: Sequence[Query]) -> tuple[NDArray[np.float32], list[list[NDArray[np.float32]]]]:
        """One vector of length 1 for each query; and those of its texts alone. All are embedded as one batch."""
        answers = [_answers(query.history) for query in queries]
        messages: list[tuple[str, str]] = []
        for query, earlier in zip(queries, answers, strict=True):
            message, *rewritten = query.texts()
            messages += [("", message), (earlier[-1] if earlier else "", message), *(("", text) for text in rewritten)]
        spoken = iter(self.index.views.of(messages))
        plain = iter(self.index.views.plain([text for earlier in answers for text in earlier]))
        vectors, text_vectors = [], []
        for query, earlier in zip(queries, answers, strict=True):
            alone, coloured = next(spoken).vector, next(spoken).vector
            rewrites = [next(spoken).vector for _ in list(query.texts())[1:]]
            vector = alone + coloured + (np.mean(rewrites, axis=0) if rewrites else alone)
            if earlier:
                weights = ANSWER_DECAY ** np.arange(len(earlier) - 1, -1, -1)
                vector = vector + ANSWERS_WEIGHT * np.average([next(plain) for _ in earlier], axis=0, weights=weights)
            vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
            text_vectors.append([alone, *rewrites])
        return np.asarray(vectors, dtype=np.float32), text_vectors


def _answers(history: Sequence[Message]) -> list[str]:
    """The last answers that were given, oldest first."""
    answers = [turn.content for turn in history if turn.role == "assistant" and turn.content.strip()]
    return answers[-MOST_ANSWERS:]
