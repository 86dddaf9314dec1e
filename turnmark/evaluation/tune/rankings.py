"""The ranked lists of each question, recorded once; a configuration of the search is arithmetic over them.

The lists are those that the default retriever fuses, found with weight 1, and the reranker's scores of every row that
a configuration may rerank. `rank` fuses and reorders them with the functions that answer questions, so a
configuration ranks here as it does in the product.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from turnmark.core.record import Record
from turnmark.core.specs import Spec, parse_spec
from turnmark.retrieval.ranking.fusion import RankedList, RankedRows, fuse
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.rerankers import (
    LATE_RERANK_DEPTH,
    RERANK_DEPTH,
    LateInteractionRetriever,
    open_reranker,
    reorder,
)
from turnmark.retrieval.search.retriever_factory import SPLADE_WEIGHT, open_retriever
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER, NO_RERANKER
from turnmark.retrieval.search.retrievers import (
    ANSWERS_WEIGHT,
    BM25_WEIGHT,
    CONVERSATION_LIST,
    ConversationalRetriever,
)
from turnmark.retrieval.types import Hit, Query

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Weights of BM25 that are tried; the dense list has 1."""
LATE_WEIGHTS = (0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 4.0)
"""Weights of the reranker that are tried; the fused list has 1."""
SPLADE_WEIGHTS = (0.0, 0.2, SPLADE_WEIGHT, 1.0, 2.0)
"""Weights of SPLADE that are tried."""
FEW_WEIGHTS = (0.1, BM25_WEIGHT, 1.0)
"""Weights of BM25 that are tried with a cross-encoder, which reads each passage that one of them finds."""
ANSWERS_WEIGHTS = (0.0, 0.3, ANSWERS_WEIGHT, 1.2)
"""Weights of the earlier answers that are tried."""


_OPTIONS = {"weight": "weight", "late": "rerank_weight", "answers": "answers", "splade": "splade_weight"}
"""Setting -> the option of the retriever that has it."""


class SearchChoice(Record):
    """A configuration of the default retriever: its weights. `late` is that of the reranker."""

    weight: float = BM25_WEIGHT
    late: float = 1.0
    answers: float = ANSWERS_WEIGHT
    splade: float = SPLADE_WEIGHT

    def spec(self, base: str) -> str:
        """Return the spec of the retriever with this configuration.

        Args:
            base: the spec that searches the index by default, whose other options stay.
        """
        spec = parse_spec(base)
        tuned = {"weight": f"{self.weight:g}", "answers": f"{self.answers:g}"}
        tuned |= {"splade_weight": f"{self.splade:g}"} if has_splade(base) else {}
        tuned |= {"rerank_weight": f"{self.late:g}"} if self.late else {"rerank": NO_RERANKER}
        replaced = {"rerank_weight"} if self.late else {"rerank_weight", "rerank_depth", "rerank"}
        replaced |= {"rerank"} if reranker_of(base) == LATE_RERANKER else set()
        others = {key: value for key, value in spec.options.items() if key not in replaced}
        return str(Spec("conversational", options=others | tuned))


def is_tunable(retriever: str) -> bool:
    """Return whether a retriever is the default one, with late interaction or without a reranker."""
    spec = parse_spec(retriever)
    reranker = spec.options.get("rerank", LATE_RERANKER)
    return spec.name == "conversational" and reranker in (LATE_RERANKER, NO_RERANKER)


def has_splade(retriever: str) -> bool:
    """Return whether a default retriever fuses the list of a sparse encoder, too."""
    return "splade" in parse_spec(retriever).options


def reranker_of(retriever: str) -> str:
    """Return the reranker whose weight is tuned: late interaction, or the cross-encoder in the spec."""
    reranker = parse_spec(retriever).options.get("rerank", LATE_RERANKER)
    return LATE_RERANKER if reranker == NO_RERANKER else reranker


def default_choice(retriever: str) -> SearchChoice:
    """Return the configuration in the spec of a default retriever."""
    options = parse_spec(retriever).options
    given = {name: float(options[key]) for name, key in _OPTIONS.items() if key in options}
    return SearchChoice(**given | ({"late": 0.0} if options.get("rerank") == NO_RERANKER else {}))


def all_choices(
    default: SearchChoice, late: bool, follow_ups: bool, sparse: bool = False, few: bool = False
) -> list[SearchChoice]:
    """Return every configuration that is tried, with the default.

    Args:
        late: whether the index has token vectors, or there is another reranker.
        follow_ups: whether questions follow up on earlier answers.
        sparse: whether the index has the terms of a sparse encoder.
        few: whether only a few weights of BM25 are tried, because the reranker is slow.
    """
    weights = sorted({*(FEW_WEIGHTS if few else WEIGHTS), default.weight})
    late_weights = sorted({*(LATE_WEIGHTS if late else (0.0,)), default.late})
    answers = sorted({*(ANSWERS_WEIGHTS if follow_ups else ()), default.answers})
    splade = sorted({*(SPLADE_WEIGHTS if sparse else ()), default.splade})
    grid = product(weights, late_weights, answers, splade)
    return [SearchChoice(weight=w, late=each, answers=a, splade=s) for w, each, a, s in grid]


@dataclass(frozen=True, eq=False)
class RecordedLists:
    """The lists of one question.

    Attributes:
        shared: the lists that do not depend on the earlier answers, with weight 1.
        dense: weight of the earlier answers -> the list of the search vector, with the weight of the index.
        depth: number of fused rows that are reranked.
        late_rows: rows with a score of the reranker, in order; empty without a reranker.
        late_scores: their scores.
    """

    shared: tuple[RankedList, ...]
    dense: Mapping[float, RankedList]
    depth: int
    late_rows: NDArray[np.int64]
    late_scores: NDArray[np.float64]

    def fused(self, choice: SearchChoice) -> RankedRows:
        """Return the fusion of the lists with the weights of a configuration, before the reranker."""
        factors = {"bm25": choice.weight, "splade": choice.splade}
        weighted = [replace(each, weight=each.weight * factors[each.name.partition("+")[0]]) for each in self.shared]
        return fuse([self.dense[choice.answers], *weighted], LATE_RERANK_DEPTH).rows

    def order(self, fused: RankedRows, late: float) -> NDArray[np.int64]:
        """Return the positions of fused rows in their order after the reranker.

        Args:
            late: weight of the reranker; that of late interaction is on the scale of the index.
        """
        if not late:
            return np.arange(len(fused))
        scored = np.searchsorted(self.late_rows, fused.rows[: self.depth])
        return reorder(fused.scores, self.late_scores[scored], late).rows


def record_lists(
    index: StoredIndex, retriever: str, queries: Sequence[Query], choices: Sequence[SearchChoice]
) -> list[RecordedLists]:
    """Search for queries with the lists of a default retriever, and return what some configurations need of them."""
    weights = sorted({choice.answers for choice in choices})
    opened = [
        open_retriever(SearchChoice(weight=1.0, late=0.0, answers=each, splade=1.0).spec(retriever), index)
        for each in weights
    ]
    first, *others = (one for one in opened if isinstance(one, ConversationalRetriever))
    score, depth = _open_scorer(first, retriever) if any(choice.late for choice in choices) else (None, 0)
    resolved = first.resolve(queries)
    lists = first.lists(resolved)
    following = [query for query in resolved if query.history]  # only these depend on the earlier answers
    by_weight = [iter(other.lists(following)) for other in others]
    recorded = []
    for query, found in zip(resolved, lists, strict=True):
        dense, shared = _split(found)
        more = [_split(next(each))[0] if query.history else dense for each in by_weight]
        by_answers = dict(zip(weights, [dense, *more], strict=True))
        one = RecordedLists(shared, by_answers, depth, np.empty(0, np.int64), np.empty(0, np.float64))
        if score is not None:
            earlier = {} if query.history else {"answers": weights[0]}
            ways = dict.fromkeys(choice.model_copy(update={"late": 0.0, **earlier}) for choice in choices)
            rows = np.unique(np.concatenate([one.fused(way).rows[:depth] for way in ways]))
            one = replace(one, late_rows=rows, late_scores=score(query, rows))
        recorded.append(one)
    return recorded


def _open_scorer(
    first: ConversationalRetriever, retriever: str
) -> tuple[Callable[[Query, NDArray[np.int64]], NDArray[np.float64]], int]:
    """Open the reranker of a retriever, and return a function that scores rows, and how many rows it reranks."""
    name = reranker_of(retriever)
    if name == LATE_RERANKER:
        late = LateInteractionRetriever(retriever, first)
        return lambda query, rows: late.scores([query], [rows])[0], LATE_RERANK_DEPTH
    cross, store = open_reranker(name, first.index), first.index.store

    def score(query: Query, rows: NDArray[np.int64]) -> NDArray[np.float64]:
        hits = [Hit(passage=passage, score=0.0, found={}) for passage in store.by_rows(rows.tolist())]
        return np.asarray(cross.scores([query], [hits])[0], dtype=np.float64)

    return score, RERANK_DEPTH


def _split(lists: Sequence[RankedList]) -> tuple[RankedList, tuple[RankedList, ...]]:
    """Return the list of the search vector, and the others."""
    (dense,) = (each for each in lists if each.name == CONVERSATION_LIST)
    return dense, tuple(each for each in lists if each.name != CONVERSATION_LIST)
