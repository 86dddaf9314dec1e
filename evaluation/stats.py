"""Intervals and tests over clusters (conversations), because the turns of one are not independent.

Intervals are a seeded bootstrap: clusters are drawn with replacement, as many as there are, `RESAMPLES` times; a figure
is computed over each draw, and the 2.5th and 97.5th percentile are its interval. A draw is a row of counts, how often
each cluster was drawn, so a resampled mean is a product of that row with the clusters' sums. Rows are drawn in blocks,
and all figures with as many clusters share them: memory does not grow with resamples times clusters.

Tests swap the two systems cluster by cluster: how often does a difference as large come about when chance decides, for
each cluster, which of the two systems gave which of its two sets of answers?
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]
    Bools = NDArray[np.bool_]

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
    """sum(weight * value) / sum(weight), a ratio of sums, since clusters differ in size.

    Args:
        values: one at least, finite.
        clusters: a number for the cluster of each value; they are taken in the order in which they first occur.
        weights: of each value; above 0 and finite.
    """
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
    """P(a positive scores above a negative) + P(they tie) / 2; None if there is no positive or no negative.

    Args:
        scores: higher means more likely positive; no NaN.
        clusters: a number for the cluster of each sample; they are taken in the order in which they first occur.
    """
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
        clusters: a number for the cluster of each sample; they are taken in the order in which they first occur.
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
