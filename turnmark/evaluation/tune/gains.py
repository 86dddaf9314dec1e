"""How early the answer is read: the gain of a question, which is comparable between passages of any size."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from turnmark.evaluation.storage.corpus_passages import Span
from turnmark.evaluation.tune.rankings import RecordedLists, SearchChoice
from turnmark.retrieval.search.opened_index import StoredIndex

BUDGET_CHARACTERS = 8000
"""Number of characters that are read of what was found; an answer after them counts as not found."""
CHARACTERS_PER_STEP = 1000
MIN_COVERED_SHARE = 0.5
"""Minimum share of the answer in a passage that answers, or of the passage in an answer that is longer."""


class PassagePlaces:
    """The places of an index's passages by row."""

    def __init__(self, index: StoredIndex) -> None:
        self.lengths: NDArray[np.int64] = np.zeros(index.manifest.passages, dtype=np.int64)
        self._rows_of: dict[str, list[tuple[int, int, int]]] = {}
        for page in index.store.pages():
            for row, _, passage in page:
                self.lengths[row] = len(passage.text)
                self._rows_of.setdefault(passage.document, []).append((row, passage.start, passage.end))

    def answering(self, gold: Sequence[Span]) -> NDArray[np.int64]:
        """Return the rows of the passages that cover most of one of some spans."""
        found = set()
        for document, start, end in gold:
            for row, first, last in self._rows_of.get(document, ()):
                needed = MIN_COVERED_SHARE * max(1, min(end - start, last - first))
                if min(end, last) - max(start, first) >= needed:
                    found.add(row)
        return np.array(sorted(found), dtype=np.int64)


def gain_of(answers: NDArray[np.bool_], lengths: NDArray[np.int64]) -> float:
    """Return 1 if the first passage answers, less the more characters are read before, and 0 after the budget.

    Args:
        answers: whether each passage answers, in their order.
        lengths: their characters.
    """
    if not answers.any():
        return 0.0
    before = float(lengths[: answers.argmax()].sum())
    return float(1 / np.log2(2 + before / CHARACTERS_PER_STEP)) if before < BUDGET_CHARACTERS else 0.0


def measure_gains(
    recorded: Sequence[RecordedLists],
    answering: Sequence[NDArray[np.int64]],
    lengths: NDArray[np.int64],
    choices: Sequence[SearchChoice],
    late_share: float,
) -> NDArray[np.float64]:
    """Return the gain of each configuration for each question, (configurations, questions).

    Args:
        answering: for each question, the rows that answer it.
        lengths: characters of each row.
        late_share: share of its weight that the reranker has in the index.
    """
    gains = np.zeros((len(choices), len(recorded)))
    late_weights = {choice.late for choice in choices}
    for question, (lists, rows) in enumerate(zip(recorded, answering, strict=True)):
        by_way: dict[tuple[float, float, int], dict[float, float]] = {}
        for number, choice in enumerate(choices):
            way = choice.weight, choice.splade, id(lists.dense[choice.answers])
            if way not in by_way:
                by_way[way] = _gains_of(lists, choice, rows, lengths, late_share, late_weights)
            gains[number, question] = by_way[way][choice.late]
    return gains


def _gains_of(
    lists: RecordedLists,
    choice: SearchChoice,
    answering: NDArray[np.int64],
    lengths: NDArray[np.int64],
    late_share: float,
    late_weights: Collection[float],
) -> dict[float, float]:
    """Return weight of the reranker -> gain, for a configuration with these other weights."""
    fused = lists.fused(choice)
    answers, characters = np.isin(fused.rows, answering), lengths[fused.rows]
    if not answers.any():
        return dict.fromkeys(late_weights, 0.0)
    orders = {late: lists.order(fused, late * late_share) for late in late_weights}
    return {late: gain_of(answers[order], characters[order]) for late, order in orders.items()}
