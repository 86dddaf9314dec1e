"""How far scores agree with people, and people with each other: rank correlation, shared ratings, judge and label.

A figure that there is nothing for (ranks that do not vary, a denominator of 0) is None, never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import permutations
from typing import TYPE_CHECKING, Any, Literal

from turnmark.evaluation.metrics.decisions import Detection
from turnmark.evaluation.stats import in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, -1..1, as `scipy.stats.spearmanr` gives it. None where either side does not vary.

    Raises:
        ValueError: lengths that differ, a value that is not finite.
    """
    import numpy as np

    if len(first) != len(second) or not all(map(math.isfinite, (*first, *second))):
        raise ValueError(f"{len(first)} and {len(second)} values, which have to be as many and finite")
    if not len(first):
        return None
    levels = [np.unique(np.asarray(side, dtype=float), return_inverse=True)[1] for side in (first, second)]
    correlations = rank_correlations(levels[0], levels[1], np.ones((1, len(first))))
    return float(correlations[0]) if len(correlations) else None


def rank_correlations(first: Any, second: Any, weights: Any, shares: Any = None) -> Any:
    """Spearman's correlation, Pearson's over ranks, for each row of weights that has one; ties share their mean rank.

    A row of weight 2 counts as two rows, in the ranks and in the correlation.

    Args:
        first: level of each row, from 0 and without gaps, equal where values tie; integers, (rows,). As `second`.
        weights: (draws, rows), 0 or more.
        shares: of each row in the correlation, once it is ranked; as `weights`; None: one for all.

    Returns:
        Those of the draws in which both sides vary, in their order; float64, -1..1.
    """
    import numpy as np

    total = weights.sum(axis=1)
    drawn = total > 0
    weights, total = weights[drawn], total[drawn]
    ranks = [_centred(side, weights, total) for side in (first, second)]
    if shares is not None:
        weights = weights * shares[drawn]
        means = [np.einsum("ij,ij->i", weights, rank) / weights.sum(axis=1) for rank in ranks]
        ranks = [rank - mean[:, None] for rank, mean in zip(ranks, means, strict=True)]
    squares = [np.einsum("ij,ij->i", weights * rank, rank) for rank in ranks]
    # What is left by rounding where all of the weight lies on one level is no variation.
    lowest = 1e-12 * total**2 * weights.sum(axis=1)
    varying = (squares[0] > lowest) & (squares[1] > lowest)
    products = np.einsum("ij,ij->i", weights * ranks[0], ranks[1])[varying]
    return np.clip(products / np.sqrt(squares[0][varying] * squares[1][varying]), -1, 1)


def _centred(levels: Any, weights: Any, total: Any) -> Any:
    """The rank of each row in each draw, less its mean, which is half of the weight: (draws, rows)."""
    import numpy as np

    order = np.argsort(levels, kind="stable")
    starts = np.flatnonzero(np.diff(levels[order], prepend=-1))
    on_level = np.add.reduceat(weights[:, order], starts, axis=1)
    below = np.cumsum(on_level, axis=1) - on_level / 2
    return below[:, levels] - total[:, None] / 2


def harmonic_mean(values: Sequence[float]) -> float | None:
    """n / sum(1 / value) of values that are 0 or more; 0 where one of them is. None where there are none.

    Raises:
        ValueError: a negative value.
    """
    if any(value < 0 for value in values):
        raise ValueError("a harmonic mean of a negative value")
    if not values:
        return None
    # Fractions, because 1 / value overflows where a value is tiny.
    return 0.0 if 0 in values else float(len(values) / sum(1 / Fraction(value) for value in values))


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


@dataclass(frozen=True)
class Classified:
    """A judge's labels against the true ones."""

    n: int
    accuracy: float
    kappa: float | None
    labels: dict[str, Detection]

    @property
    def mean_tpr(self) -> float | None:
        """The mean of the labels' true positive rates, over labels that occur. Source: Compound-QA, section 5."""
        return _mean(label.recall for label in self.labels.values())

    @property
    def mean_fpr(self) -> float | None:
        """The mean of the labels' false positive rates, over labels that not all rows have. Source as `mean_tpr`."""
        return _mean(label.false_positive_rate for label in self.labels.values())

    @property
    def macro_f1(self) -> float | None:
        """The mean of the labels' F1."""
        return _mean(label.f1 for label in self.labels.values())


def classified(truth: Sequence[str], judged: Sequence[str]) -> Classified | None:
    """Count a judge's labels against the true ones; labels sorted, those that either uses. None where there are none.

    Kappa is Cohen's: (agreement - chance) / (1 - chance), with chance from how often each side uses each label; None
    where both use the same single label throughout.

    Raises:
        ValueError: lengths that differ.
    """
    pairs = Counter(zip(truth, judged, strict=True))
    n = pairs.total()
    if not n:
        return None
    names = sorted({name for pair in pairs for name in pair})
    rows, columns = Counter(truth), Counter(judged)
    agreed = sum(pairs[name, name] for name in names)
    chance = sum(rows[name] * columns[name] for name in names)  # times n squared
    labels = {}
    for name in names:
        hit = pairs[name, name]
        labels[name] = Detection(hit, columns[name] - hit, rows[name] - hit, n - rows[name] - columns[name] + hit)
    kappa = None if chance == n * n else (agreed * n - chance) / (n * n - chance)
    return Classified(n=n, accuracy=agreed / n, kappa=kappa, labels=labels)


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


Level = Literal["nominal", "interval"]


def krippendorff_alpha(units: Iterable[Sequence[float | str | None]], level: Level) -> float | None:
    """The reliability of the values that several judges gave to the same units.

    Args:
        units: for each unit what the judges said, None where one said nothing. Units with fewer than two values count
            for nothing, as nothing can agree there.
        level: `nominal` for labels, `interval` for numbers (their squared differences count).

    Returns:
        1 at most; below 0 where they disagree more than chance would. None where it is not defined: no unit has two
        values, or all values are the same, so that chance would agree as well.
    """
    difference: Callable[[float | str, float | str], float] = _nominal if level == "nominal" else _interval
    weights: dict[tuple[float | str, float | str], float] = {}
    for unit in units:
        values = [value for value in unit if value is not None]
        if len(values) < 2:
            continue
        for pair in permutations(values, 2):
            weights[pair] = weights.get(pair, 0.0) + 1 / (len(values) - 1)
    totals: dict[float | str, float] = {}
    for (value, _), weight in weights.items():
        totals[value] = totals.get(value, 0.0) + weight
    n = sum(totals.values())
    observed = sum(weight * difference(*pair) for pair, weight in weights.items())
    expected = sum(
        weight * other_weight * difference(value, against)
        for value, weight in totals.items()
        for against, other_weight in totals.items()
    )
    if n <= 1 or expected <= 0:
        return None
    return 1 - (n - 1) * observed / expected


def _nominal(first: float | str, second: float | str) -> float:
    return float(first != second)


def _interval(first: float | str, second: float | str) -> float:
    return (float(first) - float(second)) ** 2


_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Correlation:
    """A metric against human scores, over rows in clusters; see `turnmark.evaluation.stats.Figure`.

    Balanced, rows are ranked as they are, and then weigh one over how often their human score, rounded up, occurs, in
    each draw anew. Of the computations that were tried this is the one that gives MTRAG's figure 4.
    """

    value: float
    clusters: int
    fixed: bool
    metric: Ints
    human: Ints
    grade: Ints | None
    number: Ints

    @classmethod
    def of(cls, metric: Floats, human: Floats, clusters: Ints, balanced: bool) -> Correlation | None:
        """A correlation to be resampled; None where one of the two does not vary.

        Args:
            metric: values, finite, (rows,); as `human`.
            clusters: a number for the cluster of each row; they are taken in the order in which they first occur.
        """
        import numpy as np

        levels = [np.unique(side, return_inverse=True)[1] for side in (metric, human)]
        grade = np.unique(np.ceil(human), return_inverse=True)[1] if balanced else None
        number, count = in_order(clusters)
        correlation = cls(0.0, count, count == 1, levels[0], levels[1], grade, number)
        values = correlation.over(np.ones((1, count)))
        return replace(correlation, value=float(values[0])) if len(values) else None

    def over(self, draws: Floats) -> Floats:
        """The correlation over each draw in which both sides vary."""
        import numpy as np

        rows = max(1, _CELLS // len(self.number))
        return np.concatenate([self._some(draws[index : index + rows]) for index in range(0, len(draws), rows)])

    def _some(self, draws: Floats) -> Floats:
        import numpy as np

        weights, shares = draws[:, self.number], None
        if self.grade is not None:
            one_hot = np.zeros((len(self.grade), int(self.grade.max()) + 1))
            one_hot[np.arange(len(self.grade)), self.grade] = 1
            often = np.maximum(weights @ one_hot, 1)  # of a score that was not drawn, no row has weight
            shares = 1 / often[:, self.grade]
        correlations: Floats = rank_correlations(self.metric, self.human, weights, shares)
        return correlations
