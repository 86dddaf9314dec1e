"""Retrievers over an index: fused rankings of the message and its variants, and the default retriever.

The default retriever searches with one vector per turn. It is a weighted sum of these vectors: the message alone, the
message read in the context of the last answer (`turnmark.retrieval.ranking.conversation_queries`), its rewrites, and
the earlier answers. BM25 ranks by the message and its rewrites, and the lists are fused by z-scores. The weights are
the same for every turn. They were chosen on two domains together (docs/measured.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from turnmark.core.grouping import group_pairs
from turnmark.corpora.chunking import Tokenizer
from turnmark.corpora.text.function_words import content_words, language_of
from turnmark.corpora.text.languages import ENGLISH
from turnmark.corpora.text.segmentation import words
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.embedding.embedders import DEFAULT_EMBEDDER, open_embedder
from turnmark.retrieval.ranking.fusion import FusedRanking, RankedList, RankedRows, fuse, top_k_of
from turnmark.retrieval.ranking.respelling import spell_codes, spell_words
from turnmark.retrieval.search.opened_index import SearchableIndex
from turnmark.retrieval.search.row_hits import search_depth, with_rows
from turnmark.retrieval.storage.picture_store import PictureStore
from turnmark.retrieval.tables.table_store import TableStore
from turnmark.retrieval.types import Hit, Query, Retriever

FUSION_DEPTH = 1000
"""Number of rows of each list that are fused."""
VARIANT_WEIGHT = 2.0
"""Weight of a list found with a rewrite, relative to the message's list: a rewrite states what the message means. On
the MTRAG pools (hybrid, the embedded rewrite) weights 0, 1 and 2 give nDCG@5 .384, .419 and .437 on ClapNQ, and .274,
.275 and .274 on FiQA."""


OCCURRENCES_READ = 50
"""Maximum passages that are read to see whether a word occurs in them."""


class Ranker(Protocol):
    """One way of finding rows, such as BM25 or dense vectors."""

    name: str

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[RankedRows]:
        """Return the `k` best rows for each text, best first; `queries[i]` is the query that `texts[i]` belongs to."""
        ...


MIN_ALONE_WORDS = 3
"""Minimum content words of a message that a retriever without conversations searches alone."""


class IndexRetriever(Retriever):
    """A retriever over an index that ranks rows before it fetches their passages."""

    def __init__(self, name: str, index: SearchableIndex) -> None:
        self.name, self.index = name, index

    def resolve(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries with the history and variants that are searched: a short one also has its context."""
        short = [query.in_context and len(content_words(query.text)) < MIN_ALONE_WORDS for query in queries]
        return [
            query.model_copy(update={"variants": (*query.variants, query.in_context), "in_context": ""})
            if is_short
            else query
            for query, is_short in zip(queries, short, strict=True)
        ]

    def ranked(self, queries: Sequence[Query], k: int) -> list[FusedRanking]:
        """Return the `k` best rows for each of some resolved queries, in their order."""
        raise NotImplementedError

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        for where in {query.where for query in queries}:
            self.index.check_where(where)
        depth, queries = search_depth(self.index, top_k), self.resolve(queries)
        hit_lists = self.hits(self.ranked(queries, depth))
        return [with_rows(self.index, query, hits, top_k) for query, hits in zip(queries, hit_lists, strict=True)]

    def hits(self, fused_lists: Sequence[FusedRanking]) -> list[list[Hit]]:
        """Fetch the passages of ranked rows and return them as hits."""
        hit_lists = []
        for fused in fused_lists:
            passages = self.index.store.by_rows(fused.rows.rows.tolist())
            scored = zip(passages, fused.rows.scores.tolist(), fused.provenance(), strict=True)
            hit_lists.append([Hit(passage=passage, score=score, found=found) for passage, score, found in scored])
        return hit_lists

    def neighbors(self, passage: Passage) -> list[Passage]:
        return self.index.neighbors(passage)

    def titles(self) -> list[str]:
        return self.index.titles

    def collection(self) -> Collection:
        return Collection(self.index.store, tuple(self.index.row_finders))

    def tables(self) -> TableStore | None:
        return self.index.tables

    def pictures(self) -> PictureStore | None:
        return self.index.pictures

    def sure_from(self) -> float | None:
        return self.index.manifest.sure_from

    def word_shares(self, texts: Sequence[str]) -> list[float]:
        shares = [self.index.bm25.best_share(text) for text in texts]
        for finder in self.index.row_finders:
            shares = [max(share, finder.best_share(text)) for share, text in zip(shares, texts, strict=True)]
        return shares

    def respell(self, text: str) -> str:
        languages = tuple(self.index.manifest.languages) or (ENGLISH,)
        if ENGLISH not in languages or (language_of(text, languages) or languages[0]) != ENGLISH:
            return spell_codes(text, self.index.bm25)  # a form of a word that no document has is no typing error
        return spell_words(spell_codes(text, self.index.bm25), self.index.bm25, self._words_with, self._exists)

    def _words_with(self, word: str) -> frozenset[str]:
        """Return the words of the first passages that have the stem of a word."""
        rows = self.index.bm25.rows_with(word)[:OCCURRENCES_READ]
        passages = self.index.store.by_rows(rows)
        return frozenset(each for passage in passages for each in words(f"{passage.heading} {passage.text}"))

    def _exists(self, word: str) -> bool:
        """Return whether a word is in a row of a large table, or is a word of English.

        The vocabulary of the bundled model is the list of English words, whatever the index is embedded with.
        """
        return any(finder.knows(word) for finder in self.index.row_finders) or len(self._tokenize(word)) == 1

    @cached_property
    def _tokenize(self) -> Tokenizer:
        return open_embedder(DEFAULT_EMBEDDER).tokenizer()


class BM25Ranker:
    """Ranks by BM25."""

    name = "bm25"

    def __init__(self, index: SearchableIndex) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[RankedRows]:
        pairs = zip(texts, queries, strict=True)
        return [self._index.bm25.top(text, k, self._index.mask(query.where)) for text, query in pairs]


class DenseRanker:
    """Ranks by the cosine of embeddings."""

    name = "dense"

    def __init__(self, index: SearchableIndex) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[RankedRows]:
        """See `Ranker.lists`. Texts are embedded as one batch."""
        return self.nearest(self._index.embedder.encode(texts, "query"), queries, k)

    def nearest(self, vectors: NDArray[np.float32], queries: Sequence[Query], k: int) -> list[RankedRows]:
        """Return the `k` nearest rows of each vector with their cosines; `vectors[i]` belongs to `queries[i]`.

        Vectors under one filter are searched as one batch.
        """
        results = [RankedRows.from_pairs(())] * len(queries)
        for where, positions in group_pairs((query.where, at) for at, query in enumerate(queries)).items():
            nearest_rows = self._index.nearest(vectors[positions], k, where)
            for position, rows in zip(positions, nearest_rows, strict=True):
                results[position] = rows
        return results


class FusedRetriever(IndexRetriever):
    """A retriever that fuses weighted rankers. If there is only one list, its scores stay as they are."""

    def __init__(self, name: str, index: SearchableIndex, rankers: Sequence[tuple[Ranker, float]]) -> None:
        super().__init__(name, index)
        self._rankers = list(rankers)

    def ranked(self, queries: Sequence[Query], k: int) -> list[FusedRanking]:
        owners = [query for query in queries for _ in query.texts()]
        texts = [text for query in queries for text in query.texts()]
        depth = k if len(self._rankers) == 1 and len(texts) == len(queries) else max(k, FUSION_DEPTH)
        by_ranker = [
            (ranker.name, weight, iter(ranker.lists(texts, owners, depth))) for ranker, weight in self._rankers
        ]
        answers = []
        for query in queries:
            lists = [
                _name_list(ranker, number, weight, next(rows))
                for number, _ in enumerate(query.texts())
                for ranker, weight, rows in by_ranker
            ]
            answers.append(fuse(lists, k))
        return answers


def _name_list(ranker: str, number: int, weight: float, rows: RankedRows) -> RankedList:
    """Return a ranker's list with its name and weight, for the message (number 0) or for a variant."""
    if number == 0:
        return RankedList(ranker, rows, weight)
    return RankedList(f"{ranker}+{number}", rows, weight * VARIANT_WEIGHT)


# --- in the middle of a conversation ---------------------------------------------------------------------------------

CONVERSATION_LIST = "conversation"
"""Name of the list found with the search vector."""
COSINE_LIST = "dense"
"""Name of the list with the best cosine of the message or a rewrite."""
BM25_WEIGHT = 0.3
ANSWERS_WEIGHT = 0.6
"""Total weight of the earlier answers. The message, the message in context and its rewrites have weight 1 each."""
ANSWER_DECAY = 0.35
"""Weight of an answer relative to the answer after it."""
MAX_ANSWERS = 8
"""Maximum number of earlier answers in the search vector."""
MIN_STANDALONE_COSINE = 0.65
"""Minimum cosine of the nearest passage with which a standalone message is searched without its conversation."""
MIN_OWN_COSINE, COSINE_PER_WORD = 0.75, 0.07
"""A standalone message finds little if the cosine of its nearest passage, plus `COSINE_PER_WORD` for each content word,
is below `MIN_OWN_COSINE`. Both were chosen on labels for MTRAG's later turns, and on MTRAG's retrieval."""


class ConversationalRetriever(IndexRetriever):
    """The default retriever, without a language model; see the module's description.

    Args:
        weight: BM25's weight; the dense list has 1. The message gets one half, and its rewrites share the other half.
        more_rankers: further rankers and their weights, which are divided in the same way.
        answers: weight of the earlier answers in the search vector.
    """

    def __init__(
        self,
        name: str,
        index: SearchableIndex,
        weight: float,
        more_rankers: Sequence[tuple[Ranker, float]] = (),
        answers: float = ANSWERS_WEIGHT,
    ) -> None:
        super().__init__(name, index)
        self._answers = answers
        self._dense = DenseRanker(index)
        self._rankers: list[tuple[Ranker, float]] = [(BM25Ranker(index), weight), *more_rankers]

    def ranked(self, queries: Sequence[Query], k: int) -> list[FusedRanking]:
        vectors, texts = self._vectors(queries)
        lists = self._lists(queries, vectors, max(k, FUSION_DEPTH))
        return self._with_cosines(texts, [fuse(query_lists, k) for query_lists in lists])

    def lists(self, queries: Sequence[Query]) -> list[list[RankedList]]:
        """Return the lists that are fused for each of some resolved queries."""
        return self._lists(queries, self._vectors(queries)[0], FUSION_DEPTH)

    def note_answer(self, answer: str) -> None:
        """Embed the answer in advance, so that the next turn is faster."""
        self.index.views.note_answer(answer)

    def _with_cosines(
        self, query_vectors: Sequence[Sequence[NDArray[np.float32]]], answers: Sequence[FusedRanking]
    ) -> list[FusedRanking]:
        """Add the list `dense` to each result: the best cosine of the message or a rewrite with each row.

        Decisions use these cosines, because the search vector is also close to passages about earlier turns.
        """
        if not self.index.manifest.trusts_cosines():
            return list(answers)
        with_cosines = []
        stored = self.index.vectors_of([answer.rows.rows for answer in answers])
        for texts, answer, (rows, vectors) in zip(query_vectors, answers, stored, strict=True):
            cosines = (vectors @ np.stack(texts).T).max(axis=1)
            with_cosines.append(
                replace(answer, lists=(*answer.lists, RankedList(COSINE_LIST, top_k_of(rows, cosines))))
            )
        return with_cosines

    def resolve(self, queries: Sequence[Query]) -> list[Query]:
        """Return the queries, without history and variants for standalone queries that have a close passage.

        A standalone query that finds little keeps its history, and is searched in its context if that is nearer.
        """
        positions = [
            position
            for position, query in enumerate(queries)
            if query.standalone and (query.history or query.variants or query.in_context)
        ]
        if not positions or not self.index.manifest.trusts_cosines():
            return list(queries)
        standalone = [queries[position] for position in positions]
        texts = [[query.text, query.in_context or query.text] for query in standalone]
        views = self.index.views.of([("", text) for pair in texts for text in pair])
        owners = [query for query in standalone for _ in range(2)]
        nearest = self._dense.nearest(np.stack([view.vector for view in views]), owners, 1)
        cosines = [float(rows.scores[0]) if len(rows.rows) else 0.0 for rows in nearest]
        result = list(queries)
        for position, query, alone, together in zip(positions, standalone, cosines[::2], cosines[1::2], strict=True):
            own = alone + COSINE_PER_WORD * len(content_words(query.text))
            update: dict[str, object] = {"standalone": False, "in_context": ""}
            if together > alone and own < MIN_OWN_COSINE:
                update["variants"] = (*query.variants, query.in_context)
            elif alone >= MIN_STANDALONE_COSINE:
                update |= {"history": (), "variants": ()}
            result[position] = query.model_copy(update=update)
        return result

    def _lists(self, queries: Sequence[Query], vectors: NDArray[np.float32], depth: int) -> list[list[RankedList]]:
        """Search all queries in one batch, and return the ranked lists of each query for the fusion."""
        dense = self._dense.nearest(vectors, queries, depth)
        owners = [query for query in queries for _ in query.texts()]
        texts = [text for query in queries for text in query.texts()]
        rankers = [(ranker.name, weight, iter(ranker.lists(texts, owners, depth))) for ranker, weight in self._rankers]
        lists_by_query = []
        for rows, query in zip(dense, queries, strict=True):
            lists = [RankedList(CONVERSATION_LIST, rows, self.index.manifest.share_of(COSINE_LIST))]
            rewrites = len(list(query.texts())) - 1
            for name, weight, results in rankers:
                message = weight / 2 if rewrites else weight
                lists.append(RankedList(name, next(results), message))
                lists += [
                    RankedList(f"{name}+{n}", next(results), weight / 2 / rewrites) for n in range(1, rewrites + 1)
                ]
            lists_by_query.append(lists)
        return lists_by_query

    def _vectors(self, queries: Sequence[Query]) -> tuple[NDArray[np.float32], list[list[NDArray[np.float32]]]]:
        """Return a search vector of length 1 for each query, and the vectors of its texts.

        All texts are embedded as one batch.
        """
        answers = [_answers(query.history) for query in queries]
        messages: list[tuple[str, str]] = []
        for query, earlier in zip(queries, answers, strict=True):
            message, *rewritten = query.texts()
            messages += [("", message), (earlier[-1] if earlier else "", message), *(("", text) for text in rewritten)]
        spoken = iter(self.index.views.of(messages))
        plain = iter(self.index.views.plain([text for earlier in answers for text in earlier]))
        vectors, text_vectors = [], []
        for query, earlier in zip(queries, answers, strict=True):
            alone, in_context = next(spoken).vector, next(spoken).vector
            rewrites = [next(spoken).vector for _ in list(query.texts())[1:]]
            vector = alone + in_context + (np.mean(rewrites, axis=0) if rewrites else alone)
            if earlier:
                weights = ANSWER_DECAY ** np.arange(len(earlier) - 1, -1, -1)
                vector = vector + self._answers * np.average([next(plain) for _ in earlier], axis=0, weights=weights)
            vectors.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
            text_vectors.append([alone, *rewrites])
        return np.asarray(vectors, dtype=np.float32), text_vectors


def _answers(history: Sequence[Message]) -> list[str]:
    """Return the last answers in a history, oldest first."""
    answers = [turn.content for turn in history if turn.role == "assistant" and turn.content.strip()]
    return answers[-MAX_ANSWERS:]
