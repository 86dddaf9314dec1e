"""Whether two systems differ: paired differences over the same clusters, a permutation test, Holm's correction.

Both systems answered the same samples, and samples of one conversation are not independent: what is drawn again, and
what is swapped between the two systems, is always a whole cluster. The test asks how often a difference as large comes
about when it is left to chance, for each cluster, which of the two systems gave which of its two sets of answers; for
means over the same samples that is to flip the sign of a cluster's differences.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnmark.evaluation.stats import in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]

PERMUTATIONS = 10_000
EXACT_UP_TO = 13
"""Clusters up to which every way to swap them is gone through, 8,192 at most, instead of drawing some."""
_CELLS = 1 << 21
_TIE = 1e-12
"""Of the two means: by how much less a difference may be, and still count as large, for sums are rounded."""


@dataclass(frozen=True, eq=False)
class Difference:
    """The mean of a second system minus that of a first, over the same clusters; a `Figure` for `stats.intervals`.

    Each mean is sum(weight * value) / sum(weight) of its own: where both weigh every sample alike, this is the mean of
    the samples' differences; where they do not (the precision of two systems that predict differently), it is the
    difference of two ratios over the same clusters.
    """

    value: float
    clusters: int
    fixed: bool
    first: Floats
    first_weights: Floats
    second: Floats
    second_weights: Floats

    @classmethod
    def of(
        cls, first: Floats, first_weights: Floats, second: Floats, second_weights: Floats, clusters: Ints
    ) -> Difference | None:
        """A difference to be resampled; None where one of the two has no weight at all.

        Args:
            first: weight * value of each sample, finite; as `second`, of the same samples in the same order.
            first_weights: 0 where the sample adds nothing to the mean; as `second_weights`.
            clusters: a number for the cluster of each sample; they are taken in the order in which they first occur.
        """
        import numpy as np

        if not first_weights.sum() > 0 or not second_weights.sum() > 0:
            return None
        number, count = in_order(clusters)

        def added(values: Floats) -> Floats:
            return np.bincount(number, weights=values, minlength=count).astype(float)

        sums, weights = added(first), added(first_weights)
        second_sums, other_weights = added(second), added(second_weights)
        identical = bool((sums == second_sums).all() and (weights == other_weights).all())
        value = second_sums.sum() / other_weights.sum() - sums.sum() / weights.sum()
        return cls(
            value=float(value),
            clusters=count,
            fixed=count == 1 or identical,
            first=sums,
            first_weights=weights,
            second=second_sums,
            second_weights=other_weights,
        )

    def over(self, draws: Floats) -> Floats:
        """See `turnmark.evaluation.stats.Figure.over`."""
        first, second = draws @ self.first_weights, draws @ self.second_weights
        weighted = (first > 0) & (second > 0)
        differences: Floats = (draws @ self.second)[weighted] / second[weighted] - (draws @ self.first)[
            weighted
        ] / first[weighted]
        return differences

    def as_large(self, swapped: Floats) -> int:
        """How many ways of swapping give a difference as large as the one that was seen, in either direction.

        One that leaves a mean without weight counts as large: it does not speak against chance.

        Args:
            swapped: 1 where a cluster's two sides are swapped, else 0; (ways, clusters).
        """
        import numpy as np

        moved = swapped @ (self.second - self.first)
        weights = swapped @ (self.second_weights - self.first_weights)
        below, above = self.first_weights.sum() + weights, self.second_weights.sum() - weights
        weighted = (below > 0) & (above > 0)
        means = (
            (self.first.sum() + moved)[weighted] / below[weighted],
            (self.second.sum() - moved)[weighted] / above[weighted],
        )
        mine = self.first.sum() / self.first_weights.sum(), self.second.sum() / self.second_weights.sum()
        threshold = abs(mine[1] - mine[0]) - _TIE * (abs(mine[0]) + abs(mine[1]))
        return int(np.count_nonzero(np.abs(means[1] - means[0]) >= threshold) + np.count_nonzero(~weighted))


def permutation_tests(differences: Sequence[Difference], seed: int, permutations: int = PERMUTATIONS) -> list[float]:
    """The two-sided p of each difference, above 0 and at most 1; 1 where the two systems are the same.

    Up to `EXACT_UP_TO` clusters p is the share of all ways to swap them; above, that of `permutations` drawn ones, the
    one that was seen counted in. The same seed gives the same p, whichever differences are asked for beside it.
    """
    large = [0] * len(differences)
    ways = dict.fromkeys(difference.clusters for difference in differences)
    ways_tried: dict[int, int] = {}
    for clusters in ways:
        group = [i for i, difference in enumerate(differences) if difference.clusters == clusters]
        for swapped in _swaps(clusters, seed, permutations):
            ways_tried[clusters] = ways_tried.get(clusters, 0) + len(swapped)
            for i in group:
                large[i] += differences[i].as_large(swapped)
    observed = {clusters: int(clusters > EXACT_UP_TO) for clusters in ways}
    return [
        (count + observed[difference.clusters]) / (ways_tried[difference.clusters] + observed[difference.clusters])
        for difference, count in zip(differences, large, strict=True)
    ]


def _swaps(clusters: int, seed: int, permutations: int) -> Iterator[Floats]:
    """Blocks of ways to swap clusters: 1 where the two sides change places; (some, clusters)."""
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
    order = sorted(range(len(values)), key=values.__getitem__)
    corrected, lowest = [0.0] * len(values), 0.0
    for place, at in enumerate(order):
        lowest = max(lowest, min(1.0, (len(values) - place) * values[at]))
        corrected[at] = lowest
    return corrected
