"""How far scores agree with people, and people with each other: rank correlation, shared ratings, judge and label.

A figure that there is nothing for (ranks that do not vary, a denominator of 0) is None, never 0 and never NaN.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from turnmark.evaluation.metrics.decisions import Detection
from turnmark.evaluation.stats import in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation, -1..1. None if either side does not vary."""
    from scipy.stats import spearmanr

    if len(set(first)) < 2 or len(set(second)) < 2:
        return None
    return float(spearmanr(first, second).statistic)


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
    """Count a judge's labels against the true ones; labels sorted, those that either uses. None if there are none.

    Kappa is Cohen's; None if both use the same single label throughout.
    """
    from sklearn.metrics import accuracy_score, cohen_kappa_score, multilabel_confusion_matrix

    names = sorted({*truth, *judged})
    if not names:
        return None
    tables = multilabel_confusion_matrix(truth, judged, labels=names)
    counts = {name: [int(cell) for cell in table.ravel()] for name, table in zip(names, tables, strict=True)}
    return Classified(
        n=len(truth),
        accuracy=float(accuracy_score(truth, judged)),
        kappa=float(cohen_kappa_score(truth, judged)) if len(names) > 1 else None,
        labels={name: Detection(tp, fp, fn, tn) for name, (tn, fp, fn, tp) in counts.items()},
    )


def _mean(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return sum(numbers) / len(numbers) if numbers else None


Level = Literal["nominal", "interval"]


def krippendorff_alpha(units: Iterable[Sequence[float | str | None]], level: Level) -> float | None:
    """The reliability of the values that several judges gave to the same units, 1 at most.

    Args:
        units: for each unit what the judges said, None if one said nothing.
        level: `nominal` for labels, `interval` for numbers.

    Returns:
        None if it is not defined: no unit has two values, or all values are the same.
    """
    import numpy as np

    said = [[value for value in unit if value is not None] for unit in units]
    comparable = [values for values in said if len(values) > 1]
    domain = sorted({value for values in comparable for value in values})
    if len(domain) < 2:
        return None
    counts = np.array([[values.count(value) for value in domain] for values in comparable], dtype=float)
    per_unit = counts / (counts.sum(axis=1, keepdims=True) - 1)
    coincidences = counts.T @ per_unit - np.diag(per_unit.sum(axis=0))
    totals = coincidences.sum(axis=0)
    same = np.eye(len(domain))
    distances = 1 - same if level == "nominal" else np.subtract.outer(domain, domain).astype(float) ** 2
    expected = (np.outer(totals, totals) * distances).sum() / (totals.sum() - 1)
    return float(1 - (coincidences * distances).sum() / expected)


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
