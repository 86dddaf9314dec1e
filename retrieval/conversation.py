"""Retrieval in the middle of a conversation, without a language model: the default retriever.

One dense search with one vector, the sum of what the turn can mean: the message alone, the message as the last answer
colours it (`retrieval.views`), its rewrites, and a little of the earlier answers. Beside it BM25 over the message and
its rewrites, fused by z-scores. Weights are few, the same for every turn, and were chosen on two domains together; what
was tried and what each try brought is in docs/retrieval.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from corpora.types import Message, Passage
from retrieval.fusion import FusedRow, RankedList, fuse, fuse_nested
from retrieval.index import Index
from retrieval.search import DEPTH, BM25Leg, DenseLeg, Leg, hits_of
from retrieval.types import Found, Hit, Query

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

WHOLE = "conversation"
"""The list that the one vector finds."""
COSINE = "dense"
BM25_WEIGHT = 0.3
ANSWERS_WEIGHT = 0.6
"""Of the earlier answers together, beside 1 each for the message, the message in context, and its rewrites."""
ANSWER_DECAY = 0.7
"""What the answer before an answer counts, beside 1 for that."""
MOST_ANSWERS = 8


class ConversationalRetriever:
    """See the module; and `retrieval.types.Retriever`.

    Args:
        weight: of BM25 beside 1 for the dense list; the message has half of it, its rewrites together the other half.
        depth: how many rows of each list are fused.
        more: further ways to find the message and its rewrites, each with its weight, shared as BM25's is.
    """

    def __init__(
        self,
        name: str,
        index: Index,
        *,
        weight: float = BM25_WEIGHT,
        depth: int = DEPTH,
        more: Sequence[tuple[Leg, float]] = (),
    ) -> None:
        self.name, self.index, self._depth = name, index, depth
        self._dense = DenseLeg(index)
        self._legs: list[tuple[Leg, float]] = [(BM25Leg(index), weight), *more]

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`.

        A nested query is searched once for each of its texts, each in the same conversation.
        """
        asked = [one for query in queries for one in _apart(query)]
        depth = max(k, self._depth)
        vectors, alone = self._vectors(asked)
        lists, texts = iter(self._lists(asked, vectors, depth)), iter(alone)
        answers, meant = [], []
        for query in queries:
            own = [next(lists) for _ in _apart(query)]
            meant.append([vector for _ in own for vector in next(texts)])
            if query.fusion == "nested":
                own = [_numbered(some, number) for number, some in enumerate(own)]
                answers.append(fuse_nested(own, list(query.texts().values()), "zscore", k))
            else:
                answers.append(fuse(own[0], "zscore", k))
        return self._hits(meant, answers)

    def heard(self, answer: str) -> None:
        """Embed an answer when it is given, so that the next turn need not wait for it."""
        self.index.views.heard(answer)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """All passages of the same document, in reading order."""
        return self.index.neighbours(passage)

    def _hits(
        self, meant: Sequence[Sequence[NDArray[np.float32]]], answers: Sequence[Sequence[FusedRow]]
    ) -> list[list[Hit]]:
        """The hits, each with the cosine that the message or one of its rewrites has with it as the list `dense`.

        That is what decisions are made by: the one vector that is searched with is like much that was said before.

        Args:
            meant: for each query the vectors of its message and rewrites.
        """
        passages = [self.index.store.by_rows([one.row for one in rows]) for rows in answers]
        ids = {
            one.row: passage.id
            for rows, own in zip(answers, passages, strict=True)
            for one, passage in zip(rows, own, strict=True)
        }
        places, vectors = self._of_rows(ids)
        return [
            hits_of(own, _with_cosines(rows, texts, places, vectors))
            for own, rows, texts in zip(passages, answers, meant, strict=True)
        ]

    def _of_rows(self, ids: Mapping[int, str]) -> tuple[dict[int, int], NDArray[np.float32]]:
        """The vectors of some rows, and which of them is a row's, of those that are there.

        Args:
            ids: row -> id of its passage.
        """
        import numpy as np

        if self.index.manifest.exact:
            return {row: at for at, row in enumerate(ids)}, self.index.exact.of(list(ids))
        found = self.index.vectors.get(list(ids.values()))
        there = [row for row, name in ids.items() if name in found]
        vectors = [found[ids[row]] for row in there]
        return {row: at for at, row in enumerate(there)}, np.asarray(vectors, dtype=np.float32)

    def _lists(self, queries: Sequence[Query], vectors: NDArray[np.float32], depth: int) -> list[list[RankedList]]:
        """The lists of each query, to be fused; all are searched as one batch."""
        dense = self._dense.nearest(vectors, queries, depth)
        texts = [list(query.texts()) for query in queries]
        owners = [query for query, some in zip(queries, texts, strict=True) for _ in some]
        flat = [text for some in texts for text in some]
        legs = [(leg.name, weight, iter(leg.lists(flat, owners, depth))) for leg, weight in self._legs]
        found = []
        for rows, some in zip(dense, texts, strict=True):
            lists = [RankedList(WHOLE, rows)]
            for name, weight, own in legs:
                rewrites = len(some) - 1
                message = weight / 2 if rewrites else weight
                lists.append(RankedList(name, next(own), message))
                lists += [RankedList(f"{name}+{n}", next(own), weight / 2 / rewrites) for n in range(1, rewrites + 1)]
            found.append(lists)
        return found

    def _vectors(self, queries: Sequence[Query]) -> tuple[NDArray[np.float32], list[list[NDArray[np.float32]]]]:
        """One vector of length 1 for each query; and those of its texts alone. All are embedded as one batch."""
        import numpy as np

        answers = [_answers(query.history) for query in queries]
        said: list[tuple[str, str]] = []
        for query, earlier in zip(queries, answers, strict=True):
            message, *others = query.texts()
            said += [("", message), (earlier[-1] if earlier else "", message), *(("", text) for text in others)]
        spoken = iter(self.index.views.of(said))
        plain = iter(self.index.views.plain([text for earlier in answers for text in earlier]))
        made, own = [], []
        for query, earlier in zip(queries, answers, strict=True):
            alone, coloured = next(spoken).vector, next(spoken).vector
            rewrites = [next(spoken).vector for _ in list(query.texts())[1:]]
            vector = alone + coloured + (np.mean(rewrites, axis=0) if rewrites else alone)
            if earlier:
                weights = ANSWER_DECAY ** np.arange(len(earlier) - 1, -1, -1)
                vector = vector + ANSWERS_WEIGHT * np.average([next(plain) for _ in earlier], axis=0, weights=weights)
            made.append(vector / max(float(np.linalg.norm(vector)), 1e-9))
            own.append([alone, *rewrites])
        return np.asarray(made, dtype=np.float32), own


def _with_cosines(
    rows: Sequence[FusedRow],
    texts: Sequence[NDArray[np.float32]],
    places: Mapping[int, int],
    vectors: NDArray[np.float32],
) -> list[FusedRow]:
    """Fused rows told as found by `COSINE`, too: the best cosine that one of the texts has with each.

    Args:
        texts: vectors of length 1.
        places: row -> its place among the vectors; what has none is as it was.
    """
    import numpy as np

    known = [at for at, one in enumerate(rows) if one.row in places]
    if not known:
        return list(rows)
    own = vectors[[places[rows[at].row] for at in known]]
    cosines = (own @ np.stack(texts).T).max(axis=1)
    told = list(rows)
    for rank, place in enumerate(np.argsort(-cosines, kind="stable").tolist(), 1):
        one = rows[known[place]]
        told[known[place]] = replace(one, found={**one.found, COSINE: Found(rank=rank, score=float(cosines[place]))})
    return told


def _numbered(lists: Sequence[RankedList], number: int) -> list[RankedList]:
    """The lists of one text, named after its number, since no two lists of a query may have one name."""
    return [replace(one, name=f"{one.name}+{number}") for one in lists] if number else list(lists)


def _apart(query: Query) -> list[Query]:
    """The queries whose lists are fused on their own: the query itself, or one for each text where it is nested."""
    if query.fusion == "flat":
        return [query]
    plain = {"variants": (), "variant_weights": (), "fusion": "flat"}
    first, *others = [query.model_copy(update={"text": text, **plain}) for text in query.texts()]
    return [first, *(other.model_copy(update={"term_weights": {}}) for other in others)]


def _answers(history: Sequence[Message]) -> list[str]:
    """The last answers that were given, oldest first."""
    said = [turn.content for turn in history if turn.role == "assistant" and turn.content.strip()]
    return said[-MOST_ANSWERS:]
