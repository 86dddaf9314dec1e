"""Figures, intervals and tests over clusters (conversations), because the turns of one are not independent.

Intervals are a seeded bootstrap: clusters are drawn with replacement, as many as there are, `RESAMPLES` times; a figure
is computed over each draw, and the 2.5th and 97.5th percentile are its interval. A draw is a row of counts, how often
each cluster was drawn, so a resampled mean is a product of that row with the clusters' sums. Rows are drawn in blocks,
and all figures with as many clusters share them: memory does not grow with resamples times clusters.

Tests swap the two systems cluster by cluster: how often does a difference as large come about when chance decides, for
each cluster, which of the two systems gave which of its two sets of answers?

Everywhere here `clusters` is a number for the cluster of each row; clusters are taken in the order in which they first
occur. A figure without a basis (ranks that do not vary, a denominator of 0) is None, and never 0. scipy and
scikit-learn give the same for one list, and are the tests; over 1,000 draws of it they take minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]
    Bools = NDArray[np.bool_]

Level = Literal["nominal", "interval"]
RESAMPLES = 2000
MULTINOMIAL_UP_TO = 10_000  # clusters; above it, drawing each cluster by its number is ten times as fast
PERMUTATIONS = 10_000
EXACT_UP_TO = 13
"""Clusters up to which every way to swap them is counted, 8,192 at most, instead of drawing some."""
_CELLS = 1 << 21  # numbers in a block; 2000 draws of 1000 clusters are one block
_TIE = 1e-12
"""Of the two means: by how much less a difference may be, and still count as large, for sums are rounded."""


@dataclass(frozen=True, eq=False)
class ClusterFigure:
    """What can be computed over clusters drawn with replacement.

    Attributes:
        value: the figure over all clusters, each once; finite.
        over: draws, (draws, clusters), how often each cluster is drawn -> the figure of each draw that has one.
        constant: no draw can give anything but `value`.
    """

    value: float
    clusters: int
    over: Callable[[Floats], Floats]
    constant: bool = False


def number_clusters(clusters: Ints) -> tuple[Ints, int]:
    """Clusters numbered from 0 in the order in which they first occur, and how many there are."""
    import numpy as np

    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse], len(first)


def mean_figure(values: Floats, clusters: Ints, weights: Floats) -> ClusterFigure:
    """sum(weight * value) / sum(weight), a ratio of sums, since clusters differ in size; weights are above 0."""
    import numpy as np

    products = values * weights
    number, count = number_clusters(clusters)
    sums, cluster_weights = (np.bincount(number, weights=side).astype(float) for side in (products, weights))

    def over(draws: Floats) -> Floats:
        # Products with one column each: with all figures in one matrix the last bit would depend on how many there are.
        even = cluster_weights.min() == cluster_weights.max()  # then every draw weighs the same
        totals = np.full(len(draws), cluster_weights[0] * count) if even else draws @ cluster_weights
        means: Floats = (draws @ sums)[totals > 0] / totals[totals > 0]
        return means

    # One after the other, as the sum over a list of them would be: the same figure to the last bit.
    value = sum(products.tolist()) / sum(weights.tolist())
    return ClusterFigure(value, count, over, constant=bool(values.min() == values.max()))


def auroc_figure(positive: Bools, scores: Floats, clusters: Ints) -> ClusterFigure | None:
    """P(a positive scores above a negative) + P(they tie) / 2; None if there is no positive or no negative."""
    import numpy as np

    if positive.all() or not positive.any():
        return None
    number, count = number_clusters(clusters)
    by_score = np.argsort(scores, kind="stable")
    positives, negatives = by_score[positive[by_score]], by_score[~positive[by_score]]
    below = np.searchsorted(scores[negatives], scores[positives], side="left")
    not_above = np.searchsorted(scores[negatives], scores[positives], side="right")

    def over_block(draws: Floats) -> Floats:
        won_by = draws[:, number[positives]]
        lowest = np.zeros((len(draws), len(negatives) + 1))  # how many negatives are among the i lowest
        np.cumsum(draws[:, number[negatives]], axis=1, out=lowest[:, 1:])
        pairs = won_by.sum(axis=1) * lowest[:, -1]
        won = np.einsum("ij,ij->i", won_by, lowest[:, below]) + np.einsum("ij,ij->i", won_by, lowest[:, not_above])
        areas: Floats = won[pairs > 0] / 2 / pairs[pairs > 0]
        return areas

    over = in_blocks(over_block, len(scores))
    return ClusterFigure(float(over(np.ones((1, count)))[0]), count, over)


def correlation_figure(metric: Floats, human: Floats, clusters: Ints, balanced: bool) -> ClusterFigure | None:
    """Spearman's correlation of a metric with human scores; None if one of the two does not vary.

    Balanced, rows are ranked as they are, and then weigh one over how often their human score, rounded up, occurs, in
    each draw anew. Of the computations that were tried this is the one that gives MTRAG's figure 4.
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
    """Spearman's correlation, Pearson's over ranks, for each row of weights in which both sides vary.

    Ties share their mean rank; a row of weight 2 counts as two rows, in the ranks and in the correlation.

    Args:
        first: level of each row, from 0 and without gaps, equal if values tie; integers, (rows,). As `second`.
        weights: (draws, rows), 0 or more.
        shares: of each row in the correlation, once it is ranked; as `weights`; None: one for all.
    """
    import numpy as np

    drawn = weights.sum(axis=1) > 0
    weights = weights[drawn]
    shared = weights if shares is None else weights * shares[drawn]
    ranks, squares = [], []
    for levels in (first, second):
        order = np.argsort(levels, kind="stable")
        starts = np.flatnonzero(np.diff(levels[order], prepend=-1))
        on_level = np.add.reduceat(weights[:, order], starts, axis=1)
        rank = (np.cumsum(on_level, axis=1) - on_level / 2)[:, levels]
        rank -= (np.einsum("ij,ij->i", shared, rank) / shared.sum(axis=1))[:, None]
        ranks.append(rank)
        squares.append(np.einsum("ij,ij->i", shared * rank, rank))
    # What is left by rounding if all of the weight lies on one level is no variation.
    lowest = 1e-12 * weights.sum(axis=1) ** 2 * shared.sum(axis=1)
    varying = (squares[0] > lowest) & (squares[1] > lowest)
    products = np.einsum("ij,ij->i", shared * ranks[0], ranks[1])[varying]
    correlations: Floats = np.clip(products / np.sqrt(squares[0][varying] * squares[1][varying]), -1, 1)
    return correlations


def alpha_figure(
    units: Sequence[Sequence[float | str | None]], level: Level, clusters: Ints | None = None
) -> ClusterFigure | None:
    """Krippendorff's alpha: the reliability of the values that several judges gave to the same units, 1 at most.

    None if no unit has two values, or all values are the same.

    Args:
        units: for each unit the values of the judges, None for a judge without one.
        level: `nominal` for labels, `interval` for numbers.
        clusters: None: each unit is its own.
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


def in_blocks(over: Callable[[Floats], Floats], size: int) -> Callable[[Floats], Floats]:
    """The same for any number of draws, so many at once that each may take `size` numbers."""

    def over_all(draws: Floats) -> Floats:
        import numpy as np

        rows = max(1, _CELLS // size)
        return np.concatenate([over(draws[start : start + rows]) for start in range(0, len(draws), rows)])

    return over_all


def intervals(
    figures: Sequence[ClusterFigure], seed: int, resamples: int = RESAMPLES
) -> list[tuple[float, float] | None]:
    """The 95% percentile interval of each figure: `(low, high)`, finite, low <= high; None for a single cluster.

    The same seed gives the same interval, whichever other figures are asked for.
    """
    import numpy as np

    resampled: list[list[Floats]] = [[] for _ in figures]
    varying = [not figure.constant and figure.clusters > 1 for figure in figures]
    for clusters in dict.fromkeys(figure.clusters for figure, varies in zip(figures, varying, strict=True) if varies):
        group = [i for i, figure in enumerate(figures) if figure.clusters == clusters and varying[i]]
        for draws in draw_clusters(clusters, seed, resamples):
            for i in group:
                resampled[i].append(figures[i].over(draws))
    bounds: list[tuple[float, float] | None] = []
    for figure, parts in zip(figures, resampled, strict=True):
        if figure.clusters == 1:
            bounds.append(None)
        elif sum(map(len, parts)):
            low, high = np.percentile(np.concatenate(parts), [2.5, 97.5])
            bounds.append((float(low), float(high)))
        else:
            bounds.append((figure.value, figure.value))
    return bounds


def draw_clusters(clusters: int, seed: int, resamples: int) -> Iterator[Floats]:
    """Blocks of draws: how often each cluster is drawn, (some, clusters); every row sums to `clusters`.

    The blocks together are what one call for all of them would give: how they are cut changes no number. Up to
    `MULTINOMIAL_UP_TO` clusters a row is one multinomial draw; above, it counts as many uniform numbers.
    """
    import numpy as np

    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // clusters)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        if clusters <= MULTINOMIAL_UP_TO:
            yield generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=count).astype(float)
            continue
        block = np.empty((count, clusters))
        for row in block:
            row[:] = np.bincount(generator.integers(clusters, size=clusters), minlength=clusters)
        yield block


@dataclass(frozen=True, eq=False)
class Difference(ClusterFigure):
    """The mean of a second system minus that of a first, over the same clusters.

    Each mean is sum(weight * value) / sum(weight) of its own system: if both weigh every sample alike, this is the mean
    of the samples' differences; if not (the precision of two systems that predict differently), it is the difference of
    two ratios over the same clusters.

    Attributes:
        count_as_large: swaps, (ways, clusters), 1 where a cluster's two sides are swapped -> how many ways give a
            difference as large as the observed one, in either direction. One that leaves a mean without weight counts
            as large: it does not speak against chance.
    """

    count_as_large: Callable[[Floats], int] = lambda _: 0


def difference_figure(
    first: Floats, first_weights: Floats, second: Floats, second_weights: Floats, clusters: Ints
) -> Difference | None:
    """A difference to be resampled and tested; None if one of the two has no weight at all.

    Args:
        first: weight * value of each sample, finite; as `second`, of the same samples in the same order.
        first_weights: 0 where the sample adds nothing to the mean; as `second_weights`.
    """
    import numpy as np

    if not first_weights.sum() > 0 or not second_weights.sum() > 0:
        return None
    number, count = number_clusters(clusters)
    a, wa, b, wb = (
        np.bincount(number, weights=side, minlength=count).astype(float)
        for side in (first, first_weights, second, second_weights)
    )
    mean_a, mean_b = a.sum() / wa.sum(), b.sum() / wb.sum()
    threshold = abs(mean_b - mean_a) - _TIE * (abs(mean_a) + abs(mean_b))

    def over(draws: Floats) -> Floats:
        below, above = draws @ wa, draws @ wb
        weighted = (below > 0) & (above > 0)
        differences: Floats = (draws @ b)[weighted] / above[weighted] - (draws @ a)[weighted] / below[weighted]
        return differences

    def count_as_large(swaps: Floats) -> int:
        moved, weights = swaps @ (b - a), swaps @ (wb - wa)
        below, above = wa.sum() + weights, wb.sum() - weights
        weighted = (below > 0) & (above > 0)
        means = (a.sum() + moved)[weighted] / below[weighted], (b.sum() - moved)[weighted] / above[weighted]
        return int(np.count_nonzero(np.abs(means[1] - means[0]) >= threshold) + np.count_nonzero(~weighted))

    identical = bool((a == b).all() and (wa == wb).all())
    return Difference(float(mean_b - mean_a), count, over, identical, count_as_large)


def permutation_tests(differences: Sequence[Difference], seed: int, permutations: int = PERMUTATIONS) -> list[float]:
    """The two-sided p of each difference, above 0 and at most 1; 1 if the two systems are the same.

    Up to `EXACT_UP_TO` clusters p is the share of all ways to swap them; above, that of `permutations` drawn ones, the
    observed one counted in. The same seed gives the same p, whichever other differences are asked for.
    """
    large = [0] * len(differences)
    tried: dict[int, int] = {}
    for clusters in dict.fromkeys(difference.clusters for difference in differences):
        observed = int(clusters > EXACT_UP_TO)
        group = [i for i, difference in enumerate(differences) if difference.clusters == clusters]
        tried[clusters] = observed
        for i in group:
            large[i] = observed
        for swaps in _draw_swaps(clusters, seed, permutations):
            tried[clusters] += len(swaps)
            for i in group:
                large[i] += differences[i].count_as_large(swaps)
    return [count / tried[difference.clusters] for difference, count in zip(differences, large, strict=True)]


def _draw_swaps(clusters: int, seed: int, permutations: int) -> Iterator[Floats]:
    """Blocks of ways to swap clusters: 1 where the two sides are swapped; (some, clusters)."""
    import numpy as np

    if clusters <= EXACT_UP_TO:
        yield (np.arange(2**clusters)[:, None] >> np.arange(clusters) & 1).astype(float)
        return
    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // clusters)
    for start in range(0, permutations, rows):
        yield generator.integers(2, size=(min(rows, permutations - start), clusters)).astype(float)


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of the p of several tests, in their order: none below its own p, none above 1.

    The k-th smallest of m is multiplied by m - k + 1, and is at least as large as the corrected one before it. Source:
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    import numpy as np

    order = np.argsort(values, kind="stable")
    steps = np.minimum(1.0, np.asarray(values, dtype=float)[order] * np.arange(len(values), 0, -1))
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(steps)
    return [float(p) for p in corrected]
