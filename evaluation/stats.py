"""Intervals: a seeded bootstrap of whole clusters (conversations), because the turns of one are not independent.

Clusters are drawn with replacement, as many as there are, `RESAMPLES` times; a figure is worked out over each draw, and
the 2.5th and 97.5th percentile of those figures are its interval. A draw is a row of counts, how often each cluster was
drawn, so a resampled mean is a product of that row with the clusters' sums. Rows are drawn in blocks, and every figure
that is asked for at once and has as many clusters shares them: memory does not grow with resamples times clusters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from turnmark.evaluation.metrics.decisions import auroc

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]

RESAMPLES = 2000
MULTINOMIAL_UP_TO = 10_000  # clusters; above it, drawing each cluster by its number is ten times as fast
_CELLS = 1 << 21  # numbers in a block; 2000 draws of 1000 clusters are one block


class Figure(Protocol):
    """What can be worked out over clusters drawn with replacement."""

    @property
    def value(self) -> float:
        """The figure over all clusters, each once; finite."""
        ...

    @property
    def clusters(self) -> int:
        """How many there are; 1 at least."""
        ...

    @property
    def fixed(self) -> bool:
        """Whether no draw can give anything but `value`."""
        ...

    def over(self, draws: Floats) -> Floats:
        """The figure over each row of `draws` that has one; rows without (a denominator of 0) are left out.

        Args:
            draws: how often each cluster is drawn: whole numbers, (draws, clusters).
        """
        ...


@dataclass(frozen=True, eq=False)
class Mean:
    """sum(weight * value) / sum(weight), a ratio of sums, since clusters differ in size."""

    value: float
    clusters: int
    fixed: bool
    sums: Floats
    weights: Floats

    @classmethod
    def of(cls, values: Floats, clusters: Ints, weights: Floats) -> Mean:
        """A mean to be resampled.

        Args:
            values: one at least, finite.
            clusters: a number for the cluster of each value; they are taken in the order in which they first occur.
            weights: of each value; above 0 and finite.
        """
        import numpy as np

        products = values * weights
        number, count = in_order(clusters)
        return cls(
            # One after the other, as the sum over a list of them would be: the same figure to the last bit.
            value=sum(products.tolist()) / sum(weights.tolist()),
            clusters=count,
            fixed=count == 1 or bool(values.min() == values.max()),
            sums=np.bincount(number, weights=products).astype(float),
            weights=np.bincount(number, weights=weights).astype(float),
        )

    def over(self, draws: Floats) -> Floats:
        """The mean over each draw."""
        import numpy as np

        # Products with one column each: with all figures in one matrix the last bit would depend on how many there are.
        even = self.weights.min() == self.weights.max()  # then every draw weighs the same, for a row sums to `clusters`
        totals = np.full(len(draws), self.weights[0] * self.clusters) if even else draws @ self.weights
        weighted = totals > 0
        means: Floats = (draws @ self.sums)[weighted] / totals[weighted]
        return means


@dataclass(frozen=True, eq=False)
class Auroc:
    """The area under the ROC curve of samples in clusters (`turnmark.evaluation.metrics.decisions.auroc`)."""

    value: float
    clusters: int
    positive: Ints
    negative: Ints
    below: Ints
    not_above: Ints

    @classmethod
    def of(cls, positive: NDArray[np.bool_], scores: Floats, clusters: Ints) -> Auroc | None:
        """An area to be resampled; None where there is no positive or no negative.

        Args:
            scores: higher means more likely positive; no NaN.
            clusters: a number for the cluster of each sample; they are taken in the order in which they first occur.
        """
        import numpy as np

        value = auroc(positive.tolist(), scores.tolist())
        if value is None:
            return None
        number, count = in_order(clusters)
        by_score = np.argsort(scores, kind="stable")
        positives, negatives = by_score[positive[by_score]], by_score[~positive[by_score]]
        return cls(
            value=value,
            clusters=count,
            positive=number[positives],
            negative=number[negatives],
            below=np.searchsorted(scores[negatives], scores[positives], side="left"),
            not_above=np.searchsorted(scores[negatives], scores[positives], side="right"),
        )

    @property
    def fixed(self) -> bool:
        """Whether there is but one cluster."""
        return self.clusters == 1

    def over(self, draws: Floats) -> Floats:
        """The area over each draw that has both classes."""
        import numpy as np

        rows = max(1, _CELLS // (len(self.positive) + len(self.negative)))
        return np.concatenate([self._areas(draws[at : at + rows]) for at in range(0, len(draws), rows)])

    def _areas(self, draws: Floats) -> Floats:
        import numpy as np

        positive = draws[:, self.positive]
        negative = np.zeros((len(draws), len(self.negative) + 1))  # how many negatives are among the i lowest
        np.cumsum(draws[:, self.negative], axis=1, out=negative[:, 1:])
        pairs = positive.sum(axis=1) * negative[:, -1]
        won = np.einsum("ij,ij->i", positive, negative[:, self.below])
        won += np.einsum("ij,ij->i", positive, negative[:, self.not_above])
        valid = pairs > 0
        areas: Floats = won[valid] / 2 / pairs[valid]
        return areas


def intervals(figures: Sequence[Figure], seed: int, resamples: int = RESAMPLES) -> list[tuple[float, float]]:
    """The 95% percentile interval of each figure: `(low, high)`, finite, low <= high.

    The same seed gives the same interval, whichever figures are asked for beside it. With a single cluster there is
    nothing to resample, and the interval is the figure itself.
    """
    import numpy as np

    draws_of: list[list[Floats]] = [[] for _ in figures]
    sizes = dict.fromkeys(figure.clusters for figure in figures if not figure.fixed)
    for clusters in sizes:
        group = [i for i, figure in enumerate(figures) if figure.clusters == clusters and not figure.fixed]
        for draws in _draws(clusters, seed, resamples):
            for i in group:
                draws_of[i].append(figures[i].over(draws))
    bounds: list[tuple[float, float]] = []
    for figure, parts in zip(figures, draws_of, strict=True):
        if sum(map(len, parts)):
            low, high = np.percentile(np.concatenate(parts), [2.5, 97.5])
            bounds.append((float(low), float(high)))
        else:
            bounds.append((figure.value, figure.value))
    return bounds


def _draws(clusters: int, seed: int, resamples: int) -> Iterator[Floats]:
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


def in_order(clusters: Ints) -> tuple[Ints, int]:
    """Clusters numbered from 0 in the order in which they first occur, and how many there are."""
    import numpy as np

    _, first, inverse = np.unique(clusters, return_index=True, return_inverse=True)
    number = np.empty(len(first), dtype=np.int64)
    number[np.argsort(first)] = np.arange(len(first))
    return number[inverse], len(first)
