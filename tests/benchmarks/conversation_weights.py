"""How much the default retriever's three weights owe to the data on which they were chosen.

Every combination of a small grid is scored; then weights are chosen on other domains than they are scored on, or on
other conversations.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.conversation_rank import Setup, as_lists, candidates, reranked
from tests.benchmarks.conversation_sets import Turns

ANSWERS = (0.0, 0.3, 0.6, 0.9)
BM25 = (0.15, 0.3, 0.45, 0.6)
LATE = (0.0, 0.5, 1.0, 1.5, 2.0)
METRIC = "ndcg@5"
FOLDS, SEED = 5, 0

Weights = tuple[float, float, float]
"""Of earlier answers, BM25 and late interaction."""
GRID: tuple[Weights, ...] = tuple(product(ANSWERS, BM25, LATE))
Values = NDArray[np.float64]


def product_weights() -> Weights:
    """Those of the default retriever."""
    setup = Setup()
    return setup.answers, setup.bm25, setup.late


def grid_values(turns: Turns) -> Values:
    """nDCG@5 of each query under each combination of `GRID`: shape (combinations, queries)."""
    found: dict[Weights, Values] = {}
    for answers, bm25 in product(ANSWERS, BM25):
        setup = replace(Setup(), answers=answers, bm25=bm25)
        first = candidates(turns, setup)
        for late in LATE:
            lists = as_lists(turns.pool, *reranked(turns, replace(setup, late=late), *first))
            found[answers, bm25, late] = turns.measured(lists)[METRIC]
    return np.stack([found[weights] for weights in GRID])


@dataclass(frozen=True)
class Honest:
    """Figures of one set, nDCG@5: what the product's weights reach, and weights that never saw what they are scored on.

    Attributes:
        elsewhere, elsewhere_weights: chosen on the other domains; None where there is no other.
        folded, folded_default: each of the conversations' folds scored with the weights chosen on the rest, and with
            the product's; mean over the queries and standard deviation over the folds. None with one conversation.
        spread: least, median and most of all combinations.
        best_weights: of the most.
    """

    default: float
    elsewhere: float | None
    elsewhere_weights: Weights | None
    folded: tuple[float, float] | None
    folded_default: tuple[float, float] | None
    folded_weights: Mapping[Weights, int]
    spread: tuple[float, float, float]
    best_weights: Weights


def honest(turns: Turns, values: Values, others: Sequence[Values]) -> Honest:
    """See `Honest`.

    Args:
        values: of `grid_values`.
        others: the same of the sets on which weights may be chosen; each counts the same.
    """
    means, default = values.mean(axis=1), values[GRID.index(product_weights())]
    chosen = chosen_row(np.mean([other.mean(axis=1) for other in others], axis=0)) if others else None
    folds = conversation_folds(turns.conversations)
    rows = [chosen_row(values[:, ~fold].mean(axis=1)) for fold in folds]
    return Honest(
        default=float(default.mean()),
        elsewhere=None if chosen is None else float(means[chosen]),
        elsewhere_weights=None if chosen is None else GRID[chosen],
        folded=_over_folds([values[row][fold] for row, fold in zip(rows, folds, strict=True)]),
        folded_default=_over_folds([default[fold] for fold in folds]),
        folded_weights=Counter(GRID[row] for row in rows),
        spread=(float(means.min()), float(np.median(means)), float(means.max())),
        best_weights=GRID[chosen_row(means)],
    )


def chosen_row(means: Values) -> int:
    """The best combination; the first of equal ones."""
    return int(np.argmax(means))


def conversation_folds(conversations: Sequence[str]) -> list[NDArray[np.bool_]]:
    """Which queries are in each fold; those of one conversation are in one fold. One conversation makes none."""
    names = list(dict.fromkeys(conversations))
    if len(names) < 2:
        return []
    shuffled = np.random.default_rng(SEED).permutation(len(names))
    parts = np.array_split(shuffled, min(FOLDS, len(names)))
    number = np.array([names.index(name) for name in conversations])
    return [np.isin(number, part) for part in parts]


def _over_folds(values: Sequence[Values]) -> tuple[float, float] | None:
    if not values:
        return None
    return float(np.concatenate(values).mean()), float(np.std([one.mean() for one in values], ddof=1))
