"""Compute statistics, intervals and tests over clusters (conversations), since turns of one conversation are dependent.

From `MIN_BOOTSTRAP_CLUSTERS` on, intervals are a seeded cluster bootstrap: all clusters are drawn with replacement,
`RESAMPLES` times; a statistic is computed over each draw, and the 2.5th and 97.5th percentile are its interval. A draw
is a row that counts how often each cluster was drawn, so a resampled mean is the product of that row with the clusters'
sums. Rows are drawn in blocks, which all statistics with the same number of clusters share, so that memory does not
grow with resamples times clusters.

With fewer clusters, bootstrap intervals are too narrow. In MTRAG-UN's scores (RL_F), those over 10 clusters contained
the mean of all clusters in .90 of the draws. The standard error is then that of the jackknife,
which leaves out each cluster once, and the interval is Student's t or, for a share, Wilson's with the number of samples
that this error stands for (.94). Shares of 0 and 1 have Wilson's interval over clusters in any case. Below
`MIN_CLUSTERS` there is no interval and no test.

Tests are permutation tests that swap the two systems' answers cluster by cluster, and count how often the difference is
as large as the observed one.

In this module `clusters` has the cluster number of each row; clusters are ordered by their first row. An undefined
statistic (ranks that do not vary, a denominator of 0) is None, never 0. The tests check against scipy and scikit-learn,
which are too slow for thousands of draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from turnmark.core.grouping import group_pairs

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]
Bools = NDArray[np.bool_]

Level = Literal["nominal", "interval"]
RESAMPLES = 2000
MIN_CLUSTERS = 6
"""Minimum number of clusters for an interval and a test: over five, no permutation test can give a p below .05."""
MIN_BOOTSTRAP_CLUSTERS = 30
"""Minimum number of clusters for an interval by bootstrap."""
MAX_MULTINOMIAL_CLUSTERS = 10_000  # clusters; above it, drawing each cluster by its number is ten times as fast
PERMUTATIONS = 10_000
MAX_EXACT_CLUSTERS = 13
"""Maximum clusters for the exact test over all permutations (at most 8,192); with more, permutations are drawn."""
_BLOCK_CELLS = 1 << 21  # numbers in a block; 2000 draws of 1000 clusters are one block
_TIE_TOLERANCE = 1e-12
"""Tolerance for rounding, relative to the two means, within which a smaller difference counts as large."""


@dataclass(frozen=True, eq=False)
class ClusterStatistic:
    """A statistic that can be computed over resampled clusters.

    Attributes:
        value: the statistic over all clusters, each once; finite.
        over: function from draws, (draws, clusters), to the statistic of each draw where it is defined.
        constant: True: every draw gives `value`.
        bounds: least and largest possible value.
    """

    value: float
    clusters: int
    over: Callable[[Floats], Floats]
    constant: bool = False
    bounds: tuple[float, float] = (-math.inf, math.inf)


def number_clusters(clusters: Ints) -> tuple[Ints, int]:
    """Number clusters from 0 in the order of their first row; return the numbers and the number of clusters."""
    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse], len(first)


def mean_statistic(values: Floats, clusters: Ints, weights: Floats, share: bool = False) -> ClusterStatistic:
    """Return the statistic sum(weight * value) / sum(weight), a ratio of sums, since clusters differ in size.

    Args:
        weights: above 0.
        share: whether all possible values are between 0 and 1.
    """
    products = values * weights
    number, count = number_clusters(clusters)
    sums = np.bincount(number, weights=products).astype(float)
    cluster_weights = np.bincount(number, weights=weights).astype(float)

    def over(draws: Floats) -> Floats:
        # One product for each statistic: in a common matrix the last bit would depend on the number of statistics.
        all_equal = cluster_weights.min() == cluster_weights.max()  # then every draw weighs the same
        totals = np.full(len(draws), cluster_weights[0] * count) if all_equal else draws @ cluster_weights
        means: Floats = (draws @ sums)[totals > 0] / totals[totals > 0]
        return means

    # Plain sums in the order of the rows, so that the mean is the same to the last bit as over a list.
    value = sum(products.tolist()) / sum(weights.tolist())
    bounds = (-math.inf, math.inf)
    if values.min() >= 0 and (not share or values.max() <= 1):  # counts and ratings are never negative
        bounds = (0.0, 1.0 if share else math.inf)
    return ClusterStatistic(value, count, over, bool(values.min() == values.max()), bounds)


def auroc_statistic(positive: Bools, scores: Floats, clusters: Ints) -> ClusterStatistic | None:
    """Return AUROC: P(a positive scores above a negative) + P(tie) / 2, or None if one kind is missing."""
    if positive.all() or not positive.any():
        return None
    number, count = number_clusters(clusters)
    by_score = np.argsort(scores, kind="stable")
    positives, negatives = by_score[positive[by_score]], by_score[~positive[by_score]]
    below = np.searchsorted(scores[negatives], scores[positives], side="left")
    not_above = np.searchsorted(scores[negatives], scores[positives], side="right")

    def over_block(draws: Floats) -> Floats:
        won_by = draws[:, number[positives]]
        lowest = np.zeros((len(draws), len(negatives) + 1))  # column i: drawn negatives among the i lowest
        np.cumsum(draws[:, number[negatives]], axis=1, out=lowest[:, 1:])
        pairs = won_by.sum(axis=1) * lowest[:, -1]
        won = np.einsum("ij,ij->i", won_by, lowest[:, below]) + np.einsum("ij,ij->i", won_by, lowest[:, not_above])
        areas: Floats = won[pairs > 0] / 2 / pairs[pairs > 0]
        return areas

    over = in_blocks(over_block, len(scores))
    return ClusterStatistic(float(over(np.ones((1, count)))[0]), count, over, bounds=(0.0, 1.0))


def correlation_statistic(metric: Floats, human: Floats, clusters: Ints, balanced: bool) -> ClusterStatistic | None:
    """Return Spearman's correlation of a metric with human scores, or None if one of the two does not vary.

    Args:
        balanced: weight each row, after ranking, with 1 / frequency of its human score (rounded up) in each draw. Among
            the computations that we tried, this one reproduces MTRAG's figure 4.
    """
    first = np.unique(metric, return_inverse=True)[1]
    second = np.unique(human, return_inverse=True)[1]
    grades, grade = np.unique(np.ceil(human), return_inverse=True)
    number, count = number_clusters(clusters)

    def over_block(draws: Floats) -> Floats:
        weights = draws[:, number]
        if not balanced:
            return rank_correlations(first, second, weights)
        occurrences = weights @ np.eye(len(grades))[grade]
        shares = 1 / np.maximum(occurrences, 1)[:, grade]  # a score that was not drawn has weight 0 in any case
        return rank_correlations(first, second, weights, shares)

    over = in_blocks(over_block, len(number))
    value = over(np.ones((1, count)))
    return ClusterStatistic(float(value[0]), count, over, bounds=(-1.0, 1.0)) if len(value) else None


def rank_correlations(first: Ints, second: Ints, weights: Floats, shares: Floats | None = None) -> Floats:
    """Return Spearman's correlation, Pearson's over ranks, for each draw in which both sides vary.

    Ties share their mean rank; a row of weight 2 counts as two rows, in the ranks and in the correlation.

    Args:
        first, second: level of each row, integers from 0 without gaps, equal for ties; (rows,).
        weights: (draws, rows), 0 or more.
        shares: factor of each row's weight in the correlation, after ranking; (draws, rows), or None for a factor of 1.
    """
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
    # Below this, the squares are rounding errors of a side that does not vary.
    lowest = 1e-12 * weights.sum(axis=1) ** 2 * shared.sum(axis=1)
    varying = (squares[0] > lowest) & (squares[1] > lowest)
    products = np.einsum("ij,ij->i", shared * ranks[0], ranks[1])[varying]
    correlations: Floats = np.clip(products / np.sqrt(squares[0][varying] * squares[1][varying]), -1, 1)
    return correlations


def alpha_statistic(
    units: Sequence[Sequence[float | str | None]], level: Level, clusters: Ints | None = None
) -> ClusterStatistic | None:
    """Return Krippendorff's alpha, the reliability of the values that several judges gave to the same units, at most 1.

    None if no unit has two values, or all values are the same.

    Args:
        units: for each unit the values of the judges, None for a judge without one.
        level: `nominal` for labels, `interval` for numbers.
        clusters: cluster of each unit, or None if each unit is a cluster.
    """
    values_of_unit = [[value for value in unit if value is not None] for unit in units]
    paired = [index for index, values in enumerate(values_of_unit) if len(values) > 1]
    domain = sorted({value for index in paired for value in values_of_unit[index]})
    if len(domain) < 2:
        return None
    cluster_of_unit = np.arange(len(units)) if clusters is None else np.asarray(clusters)
    number, count = number_clusters(cluster_of_unit[paired])
    tables = np.zeros((count, len(domain), len(domain)))  # coincidences of two values, by cluster
    for index, cluster in zip(paired, number, strict=True):
        counts = np.array([values_of_unit[index].count(value) for value in domain], dtype=float)
        tables[cluster] += (np.outer(counts, counts) - np.diag(counts)) / (counts.sum() - 1)
    if level == "nominal":
        distances = 1 - np.eye(len(domain))
    else:
        scale = np.array(domain, dtype=float)
        distances = np.subtract.outer(scale, scale) ** 2

    def alphas(drawn: Floats) -> Floats:
        totals = drawn.sum(axis=2)
        expected = np.einsum("ij,jk,ik->i", totals, distances, totals) / (totals.sum(axis=1) - 1)
        reliabilities: Floats = 1 - (drawn * distances).sum(axis=(1, 2)) / expected
        return reliabilities

    return table_statistic(tables, alphas)


def table_statistic(tables: Floats, read: Callable[[Floats], Floats]) -> ClusterStatistic | None:
    """Return a statistic of tables of counts, which are summed over clusters, or None if it is undefined for the total.

    Args:
        tables: one for each cluster, (clusters, labels, labels).
        read: function from tables to statistics, not finite if undefined.
    """

    def over_block(draws: Floats) -> Floats:
        with np.errstate(invalid="ignore", divide="ignore"):
            values = read(np.tensordot(draws, tables, axes=1))
        return values[np.isfinite(values)]

    over = in_blocks(over_block, tables[0].size)
    value = over(np.ones((1, len(tables))))
    return ClusterStatistic(float(value[0]), len(tables), over, bounds=(-math.inf, 1.0)) if len(value) else None


def in_blocks(over: Callable[[Floats], Floats], size: int) -> Callable[[Floats], Floats]:
    """Split the draws of a function into blocks of bounded memory, given that each draw takes `size` numbers."""

    def over_all(draws: Floats) -> Floats:
        rows = max(1, _BLOCK_CELLS // size)
        return np.concatenate([over(draws[start : start + rows]) for start in range(0, len(draws), rows)])

    return over_all


def intervals(
    statistics: Sequence[ClusterStatistic], seed: int, resamples: int = RESAMPLES
) -> list[tuple[float, float] | None]:
    """Return the finite 95% interval `(low, high)` of each statistic; None below `MIN_CLUSTERS` clusters.

    The same seed gives the same interval, independent of the other statistics.
    """
    bounds = [_small_interval(statistic) for statistic in statistics]
    resampled: list[list[Floats]] = [[] for _ in statistics]
    by_clusters = group_pairs(
        (statistic.clusters, index)
        for index, statistic in enumerate(statistics)
        if not statistic.constant and statistic.clusters >= MIN_BOOTSTRAP_CLUSTERS
    )
    for clusters, group in by_clusters.items():
        for draws in draw_clusters(clusters, seed, resamples):
            for index in group:
                resampled[index].append(statistics[index].over(draws))
    for index, blocks in enumerate(resampled):
        if sum(map(len, blocks)):
            low, high = np.percentile(np.concatenate(blocks), [2.5, 97.5])
            bounds[index] = float(low), float(high)
    return bounds


def _small_interval(statistic: ClusterStatistic) -> tuple[float, float] | None:
    """Return the interval that needs no resamples: of a constant, or of few clusters; None below `MIN_CLUSTERS`."""
    if statistic.clusters < MIN_CLUSTERS:
        return None
    is_share = statistic.bounds == (0.0, 1.0)
    if statistic.constant:
        extreme = is_share and statistic.value in statistic.bounds
        return _wilson(statistic, statistic.clusters) if extreme else (statistic.value, statistic.value)
    if statistic.clusters >= MIN_BOOTSTRAP_CLUSTERS:
        return statistic.value, statistic.value  # replaced if the statistic is defined over a draw
    error = _jackknife_error(statistic)
    if is_share and error and 0 < statistic.value < 1:
        return _wilson(statistic, statistic.value * (1 - statistic.value) / error**2)
    low, high = statistic.bounds
    margin = _quantile(statistic) * error
    return max(low, statistic.value - margin), min(high, statistic.value + margin)


def _wilson(share: ClusterStatistic, n: float) -> tuple[float, float]:
    """Return Wilson's interval of a share, with Student's quantile over clusters.

    Source: E. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22 (1927), for the
    number of independent samples with the same standard error, as in surveys (P. Kott and D. Carr, 1997).

    Args:
        n: number of independent samples.
    """
    squared = _quantile(share) ** 2
    center = (share.value + squared / (2 * n)) / (1 + squared / n)
    margin = math.sqrt(squared * (share.value * (1 - share.value) / n + squared / (4 * n * n))) / (1 + squared / n)
    return max(0.0, center - margin), min(1.0, center + margin)


def _quantile(statistic: ClusterStatistic) -> float:
    """Return the .975 quantile of Student's t over the statistic's clusters."""
    from scipy.special import stdtrit

    return float(stdtrit(statistic.clusters - 1, 0.975))


def _jackknife_error(statistic: ClusterStatistic) -> float:
    """Return the standard error from the statistics without each of the clusters, or 0 if these are undefined.

    Source: B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), section 3.
    """
    clusters = statistic.clusters
    # Every row sums to the number of clusters, as those of `draw_clusters` do.
    without = statistic.over((np.ones((clusters, clusters)) - np.eye(clusters)) * clusters / (clusters - 1))
    if len(without) < 2:
        return 0.0
    return math.sqrt((clusters - 1) / clusters * float(((without - without.mean()) ** 2).sum()))


def draw_clusters(clusters: int, seed: int, resamples: int) -> Iterator[Floats]:
    """Yield blocks of draws, how often each cluster is drawn, (draws, clusters); every row sums to `clusters`.

    The size of the blocks does not change the numbers. Up to `MAX_MULTINOMIAL_CLUSTERS` clusters a row is one
    multinomial draw; above, it counts uniform random cluster numbers.
    """
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK_CELLS // clusters)
    for start in range(0, resamples, rows):
        count = min(rows, resamples - start)
        if clusters <= MAX_MULTINOMIAL_CLUSTERS:
            yield generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=count).astype(float)
            continue
        block = np.empty((count, clusters))
        for row in block:
            row[:] = np.bincount(generator.integers(clusters, size=clusters), minlength=clusters)
        yield block


@dataclass(frozen=True, eq=False)
class Difference(ClusterStatistic):
    """The mean of a second system minus that of a first, over the same clusters.

    Each mean is sum(weight * value) / sum(weight) of one system. If both systems weigh every sample alike, the
    difference is the mean of the samples' differences; if not (the precision of two systems that predict differently),
    it is the difference of two ratios over the same clusters.

    Attributes:
        count_as_large: function from permutations, (permutations, clusters), 1 where a cluster's two sides are swapped,
            to the number of them with a difference as large as the observed one, in either direction. A permutation
            that leaves a mean without weight counts as large, which is conservative.
    """

    count_as_large: Callable[[Floats], int] = lambda _: 0


def difference_statistic(
    first: Floats,
    first_weights: Floats,
    second: Floats,
    second_weights: Floats,
    clusters: Ints,
    share: bool = False,
) -> Difference | None:
    """Return a difference that can be resampled and tested, or None if one of the two systems has no weight.

    Args:
        first, second: weight * value of each sample, finite; the same samples in the same order.
        first_weights, second_weights: weight of each sample; 0: it does not count in the mean.
        share: whether both means are between 0 and 1.
    """
    if not first_weights.sum() > 0 or not second_weights.sum() > 0:
        return None
    number, count = number_clusters(clusters)
    a, wa, b, wb = (
        np.bincount(number, weights=side, minlength=count).astype(float)
        for side in (first, first_weights, second, second_weights)
    )
    mean_a, mean_b = a.sum() / wa.sum(), b.sum() / wb.sum()
    threshold = abs(mean_b - mean_a) - _TIE_TOLERANCE * (abs(mean_a) + abs(mean_b))

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
    bounds = (-1.0, 1.0) if share else (-math.inf, math.inf)
    return Difference(float(mean_b - mean_a), count, over, identical, bounds, count_as_large)


def permutation_tests(differences: Sequence[Difference], seed: int, permutations: int = PERMUTATIONS) -> list[float]:
    """Return the two-sided p of each difference, above 0 and at most 1, or 1 if the two systems are the same.

    Up to `MAX_EXACT_CLUSTERS` clusters p is a share of all permutations; above, it is a share of `permutations` drawn
    ones and the observed one. The same seed gives the same p, independent of the other differences.
    """
    large = [0] * len(differences)
    tried: dict[int, int] = {}
    for clusters in dict.fromkeys(difference.clusters for difference in differences):
        observed = int(clusters > MAX_EXACT_CLUSTERS)
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
    """Yield blocks of permutations, (permutations, clusters), 1 where the two sides of a cluster are swapped."""
    if clusters <= MAX_EXACT_CLUSTERS:
        yield (np.arange(2**clusters)[:, None] >> np.arange(clusters) & 1).astype(float)
        return
    generator = np.random.default_rng(seed)
    rows = max(1, _BLOCK_CELLS // clusters)
    for start in range(0, permutations, rows):
        yield generator.integers(2, size=(min(rows, permutations - start), clusters)).astype(float)


def holm(values: Sequence[float]) -> list[float]:
    """Correct the p of several tests by Holm's step-down procedure; return them in the given order, at most 1.

    The k-th smallest of m is multiplied by m - k + 1, and is at least as large as the corrected one before it. Source:
    S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979).
    """
    order = np.argsort(values, kind="stable")
    steps = np.minimum(1.0, np.asarray(values, dtype=float)[order] * np.arange(len(values), 0, -1))
    corrected = np.empty(len(values))
    corrected[order] = np.maximum.accumulate(steps)
    return [float(p) for p in corrected]
