"""How far scores agree with people, and people with each other: rank correlation, shared ratings, judge and label.

A figure without a basis (ranks that do not vary, a denominator of 0) is None or NaN here, and never 0. Those of this
file are computed over draws of clusters at once (`turnmark.evaluation.stats`); scikit-learn and scipy, which give the
same for one table or one list, are their tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal

from turnmark.evaluation.stats import ClusterFigure, in_blocks, number_clusters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]

Level = Literal["nominal", "interval"]


# --- ranks -----------------------------------------------------------------------------------------------------------


def correlation_figure(metric: Floats, human: Floats, clusters: Ints, balanced: bool) -> ClusterFigure | None:
    """A metric against human scores, over rows in clusters; None if one of the two does not vary.

    Balanced, rows are ranked as they are, and then weigh one over how often their human score, rounded up, occurs, in
    each draw anew. Of the computations that were tried this is the one that gives MTRAG's figure 4.

    Args:
        metric: values, finite, (rows,); as `human`.
        clusters: a number for the cluster of each row.
    """
    import numpy as np

    first, second = (np.unique(side, return_inverse=True)[1] for side in (metric, human))
    grades, grade = np.unique(np.ceil(human), return_inverse=True)
    number, count = number_clusters(clusters)

    def over_block(draws: Floats) -> Floats:
        weights, shares = draws[:, number], None
        if balanced:
            occurrences = weights @ np.eye(len(grades))[grade]
            shares = 1 / np.maximum(occurrences, 1)[:, grade]  # a score that was not drawn has no weight anyway
        return rank_correlations(first, second, weights, shares)

    over = in_blocks(over_block, len(number))
    value = over(np.ones((1, count)))
    return ClusterFigure(float(value[0]), count, over) if len(value) else None


def rank_correlations(first: Ints, second: Ints, weights: Floats, shares: Floats | None = None) -> Floats:
    """Spearman's correlation, Pearson's over ranks, for each row of weights that has one; ties share their mean rank.

    A row of weight 2 counts as two rows, in the ranks and in the correlation.

    Args:
        first: level of each row, from 0 and without gaps, equal if values tie; integers, (rows,). As `second`.
        weights: (draws, rows), 0 or more.
        shares: of each row in the correlation, once it is ranked; as `weights`; None: one for all.

    Returns:
        Those of the draws in which both sides vary, in their order; float64, -1..1.
    """
    import numpy as np

    total = weights.sum(axis=1)
    drawn = total > 0
    weights, total = weights[drawn], total[drawn]
    ranks = [_rank(side, weights) - total[:, None] / 2 for side in (first, second)]
    if shares is not None:
        weights = weights * shares[drawn]
        means = [np.einsum("ij,ij->i", weights, rank) / weights.sum(axis=1) for rank in ranks]
        ranks = [rank - mean[:, None] for rank, mean in zip(ranks, means, strict=True)]
    squares = [np.einsum("ij,ij->i", weights * rank, rank) for rank in ranks]
    # What is left by rounding if all of the weight lies on one level is no variation.
    lowest = 1e-12 * total**2 * weights.sum(axis=1)
    varying = (squares[0] > lowest) & (squares[1] > lowest)
    products = np.einsum("ij,ij->i", weights * ranks[0], ranks[1])[varying]
    correlations: Floats = np.clip(products / np.sqrt(squares[0][varying] * squares[1][varying]), -1, 1)
    return correlations


def _rank(levels: Ints, weights: Floats) -> Floats:
    """The rank of each row in each draw, from 0 to the weight of the draw: (draws, rows)."""
    import numpy as np

    order = np.argsort(levels, kind="stable")
    starts = np.flatnonzero(np.diff(levels[order], prepend=-1))
    on_level = np.add.reduceat(weights[:, order], starts, axis=1)
    ranks: Floats = (np.cumsum(on_level, axis=1) - on_level / 2)[:, levels]
    return ranks


# --- raters ----------------------------------------------------------------------------------------------------------


def annotators_agree(ratings: Sequence[float], point: float = 1.0) -> bool | None:
    """Whether three ratings agree: all three equal, or two equal and the third one point off.

    None unless there are three. Source: MTRAG appendix E, "absolute" and "high agreement".

    Args:
        point: the step of the scale.
    """
    if len(ratings) != 3:
        return None
    low, middle, high = sorted(ratings)
    return low == high or (middle in (low, high) and math.isclose(high - low, point, rel_tol=1e-9))


def alpha_figure(
    units: Sequence[Sequence[float | str | None]], level: Level, clusters: Ints | None = None
) -> ClusterFigure | None:
    """Krippendorff's alpha: the reliability of the values that several judges gave to the same units, 1 at most.

    None if it is not defined: no unit has two values, or all values are the same.

    Args:
        units: for each unit the values of the judges, None for a judge without one.
        level: `nominal` for labels, `interval` for numbers.
        clusters: a number for the cluster of each unit; None: each is its own.
    """
    import numpy as np

    values_of_unit = [[value for value in unit if value is not None] for unit in units]
    paired = [index for index, values in enumerate(values_of_unit) if len(values) > 1]
    domain = sorted({value for index in paired for value in values_of_unit[index]})
    if len(domain) < 2:
        return None
    number, count = number_clusters((np.arange(len(units)) if clusters is None else np.asarray(clusters))[paired])
    tables = np.zeros((count, len(domain), len(domain)))  # coincidences of two values, by cluster
    for index, cluster in zip(paired, number, strict=True):
        counts = np.array([values_of_unit[index].count(value) for value in domain], dtype=float)
        tables[cluster] += (np.outer(counts, counts) - np.diag(counts)) / (counts.sum() - 1)
    scale = np.arange(len(domain)) if level == "nominal" else np.array(domain, dtype=float)
    apart = np.subtract.outer(scale, scale)
    distances = (apart != 0).astype(float) if level == "nominal" else apart**2

    def alphas(drawn: Floats) -> Floats:
        totals = drawn.sum(axis=2)
        expected = np.einsum("ij,jk,ik->i", totals, distances, totals) / (totals.sum(axis=1) - 1)
        reliabilities: Floats = 1 - (drawn * distances).sum(axis=(1, 2)) / expected
        return reliabilities

    return table_figure(tables, alphas)


# --- labels ----------------------------------------------------------------------------------------------------------


def confusion_tables(truth: Sequence[str], judged: Sequence[str], clusters: Ints) -> tuple[list[str], Floats]:
    """The labels, and how often each true one has each judged one, in each cluster: (clusters, true, judged)."""
    import numpy as np

    names = sorted({*truth, *judged})
    number, count = number_clusters(clusters)
    tables = np.zeros((count, len(names), len(names)))
    np.add.at(tables, (number, np.array([*map(names.index, truth)]), np.array([*map(names.index, judged)])), 1)
    return names, tables


def table_figure(tables: Floats, read: Callable[[Floats], Floats]) -> ClusterFigure | None:
    """A figure of tables of counts, which add up over clusters; None if their sum has none.

    Args:
        tables: of each cluster, (clusters, labels, labels).
        read: tables -> figures, not finite if a table has none.
    """
    import numpy as np

    def over_block(draws: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            values = read(np.tensordot(draws, tables, axes=1))
        return values[np.isfinite(values)]

    over = in_blocks(over_block, tables[0].size)
    value = over(np.ones((1, len(tables))))
    return ClusterFigure(float(value[0]), len(tables), over) if len(value) else None


def accuracies(tables: Floats) -> Floats:
    """Share of the rows whose judged label is the true one."""
    accuracy: Floats = tables.trace(axis1=1, axis2=2) / tables.sum(axis=(1, 2))
    return accuracy


def kappas(tables: Floats) -> Floats:
    """Cohen's; NaN if both sides use one label throughout."""
    chance = (tables.sum(axis=1) * tables.sum(axis=2)).sum(axis=1) / tables.sum(axis=(1, 2)) ** 2
    kappa: Floats = (accuracies(tables) - chance) / (1 - chance)
    return kappa


def label_rates(tables: Floats) -> dict[str, Floats]:
    """Precision, recall (TPR), FPR and F1 of each label in each table, NaN without a denominator: (tables, labels)."""
    import numpy as np

    hits = np.diagonal(tables, axis1=1, axis2=2)
    true, judged, total = tables.sum(axis=2), tables.sum(axis=1), tables.sum(axis=(1, 2))[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        return {
            "precision": hits / judged,
            "recall": hits / true,
            "fpr": (judged - hits) / (total - true),
            "f1": 2 * hits / (true + judged),
        }


def mean_rates(rate: str) -> Callable[[Floats], Floats]:
    """The mean of a rate over the labels that have one. Source of mean TPR and FPR: Compound-QA, section 5."""

    def read(tables: Floats) -> Floats:
        import numpy as np

        rates = label_rates(tables)[rate]
        means: Floats = np.nansum(rates, axis=1) / np.isfinite(rates).sum(axis=1)
        return means

    return read
