"""The ranked lists of each question, recorded once; a configuration of the search is arithmetic over them.

The lists are those that the default retriever fuses, found with weight 1, and the late-interaction scores of every row
that a configuration may rerank. `rank` fuses and reorders them with the functions that answer questions, so a
configuration ranks here as it does in the product.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from turnmark.core.record import Record
from turnmark.core.specs import Spec, parse_spec
from turnmark.retrieval.ranking.fusion import RankedList, RankedRows, fuse
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.search.rerankers import LATE_RERANK_DEPTH, LateInteractionRetriever, reorder
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.search.retriever_kinds import LATE_RERANKER, NO_RERANKER
from turnmark.retrieval.search.retrievers import (
    ANSWERS_WEIGHT,
    BM25_WEIGHT,
    CONVERSATION_LIST,
    ConversationalRetriever,
)
from turnmark.retrieval.types import Query

WEIGHTS = (0.0, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0)
"""Weights of BM25 that are tried; the dense list has 1."""
LATE_WEIGHTS = (0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 4.0)
"""Weights of late interaction that are tried; the fused list has 1."""
ANSWERS_WEIGHTS = (0.0, 0.3, ANSWERS_WEIGHT, 1.2)
"""Weights of the earlier answers that are tried."""


_OPTIONS = {"weight": "weight", "late": "rerank_weight", "answers": "answers"}
"""Setting -> the option of the retriever that has it."""


class SearchChoice(Record):
    """A configuration of the default retriever."""

    weight: float = BM25_WEIGHT
    late: float = 1.0
    answers: float = ANSWERS_WEIGHT

    def spec(self, base: str) -> str:
        """Return the spec of the retriever with this configuration.

        Args:
            base: the spec that searches the index by default, whose other options stay.
        """
        spec = parse_spec(base)
        tuned = {"weight": f"{self.weight:g}", "answers": f"{self.answers:g}"}
        tuned |= {"rerank_weight": f"{self.late:g}"} if self.late else {"rerank": NO_RERANKER}
        others = {key: value for key, value in spec.options.items() if key not in ("rerank", "rerank_weight")}
        return str(Spec("conversational", options=others | tuned))


def is_tunable(retriever: str) -> bool:
    """Return whether a retriever is the default one, with late interaction or without a reranker."""
    spec = parse_spec(retriever)
    reranker = spec.options.get("rerank", LATE_RERANKER)
    return spec.name == "conversational" and reranker in (LATE_RERANKER, NO_RERANKER)


def default_choice(retriever: str) -> SearchChoice:
    """Return the configuration in the spec of a default retriever."""
    options = parse_spec(retriever).options
    given = {name: float(options[key]) for name, key in _OPTIONS.items() if key in options}
    return SearchChoice(**given | ({"late": 0.0} if options.get("rerank") == NO_RERANKER else {}))


def all_choices(default: SearchChoice, late: bool, follow_ups: bool) -> list[SearchChoice]:
    """Return every configuration that is tried, with the default.

    Args:
        late: whether the index has token vectors.
        follow_ups: whether questions follow up on earlier answers.
    """
    weights = sorted({*WEIGHTS, default.weight})
    late_weights = sorted({*(LATE_WEIGHTS if late else (0.0,)), default.late})
    answers = sorted({*(ANSWERS_WEIGHTS if follow_ups else ()), default.answers})
    grid = product(weights, late_weights, answers)
    return [SearchChoice(weight=weight, late=each, answers=earlier) for weight, each, earlier in grid]


@dataclass(frozen=True, eq=False)
class RecordedLists:
    """The lists of one question.

    Attributes:
        shared: the lists that do not depend on the earlier answers, with weight 1.
        dense: weight of the earlier answers -> the list of the search vector, with the weight of the index.
        late_rows: rows with a late-interaction score, in order; empty without token vectors.
        late_scores: their scores.
    """

    shared: tuple[RankedList, ...]
    dense: Mapping[float, RankedList]
    late_rows: NDArray[np.int64]
    late_scores: NDArray[np.float64]

    def fused(self, weight: float, answers: float) -> RankedRows:
        """Return the fusion of the lists, as many rows as late interaction reranks."""
        weighted = [
            replace(each, weight=each.weight * (weight if each.name.startswith("bm25") else 1.0))
            for each in self.shared
        ]
        return fuse([self.dense[answers], *weighted], LATE_RERANK_DEPTH).rows

    def order(self, fused: RankedRows, late: float) -> NDArray[np.int64]:
        """Return the positions of fused rows in their order after late interaction.

        Args:
            late: weight of late interaction on the scale of the index.
        """
        if not late:
            return np.arange(len(fused))
        return reorder(fused.scores, self.late_scores[np.searchsorted(self.late_rows, fused.rows)], late).rows


def record_lists(
    index: StoredIndex, retriever: str, queries: Sequence[Query], choices: Sequence[SearchChoice]
) -> list[RecordedLists]:
    """Search for queries with the lists of a default retriever, and return what some configurations need of them."""
    weights = sorted({choice.answers for choice in choices})
    opened = [
        open_retriever(SearchChoice(weight=1.0, late=0.0, answers=each).spec(retriever), index) for each in weights
    ]
    first, *others = (one for one in opened if isinstance(one, ConversationalRetriever))
    late = LateInteractionRetriever(retriever, first) if any(choice.late for choice in choices) else None
    resolved = first.resolve(queries)
    lists = first.lists(resolved)
    following = [query for query in resolved if query.history]  # only these depend on the earlier answers
    by_weight = [iter(other.lists(following)) for other in others]
    recorded = []
    for query, found in zip(resolved, lists, strict=True):
        dense, shared = _split(found)
        more = [_split(next(each))[0] if query.history else dense for each in by_weight]
        one = RecordedLists(
            shared, dict(zip(weights, [dense, *more], strict=True)), np.empty(0, np.int64), np.empty(0, np.float64)
        )
        if late is not None:
            ways = {(choice.weight, choice.answers if query.history else weights[0]) for choice in choices}
            rows = np.unique(np.concatenate([one.fused(*way).rows for way in sorted(ways)]))
            one = replace(one, late_rows=rows, late_scores=late.scores([query], [rows])[0])
        recorded.append(one)
    return recorded


def _split(lists: Sequence[RankedList]) -> tuple[RankedList, tuple[RankedList, ...]]:
    """Return the list of the search vector, and the others."""
    (dense,) = (each for each in lists if each.name == CONVERSATION_LIST)
    return dense, tuple(each for each in lists if each.name != CONVERSATION_LIST)
