"""Spearman's correlation as a figure whose interval resamples clusters; plain, or with every human score as heavy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnmark.evaluation.metrics.agreement import rank_correlations
from turnmark.evaluation.stats import in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]

_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Correlation:
    """A metric against human scores, over rows in clusters; see `turnmark.evaluation.stats.Figure`.

    Balanced, a row weighs one over how often its human score occurs, in each draw anew: ranks and correlation are those
    of a population in which every score that people gave is as frequent as any other.
    """

    value: float
    clusters: int
    fixed: bool
    scale: float
    metric: Ints
    human: Ints
    number: Ints
    balanced: bool

    @classmethod
    def of(cls, metric: Floats, human: Floats, clusters: Ints, balanced: bool) -> Correlation | None:
        """A correlation to be resampled; None where one of the two does not vary.

        Args:
            metric: values, finite, (rows,); as `human`.
            clusters: a number for the cluster of each row; they are taken in the order in which they first occur.
        """
        import numpy as np

        levels = [np.unique(side, return_inverse=True)[1] for side in (metric, human)]
        number, count = in_order(clusters)
        made = cls(0.0, count, count == 1, 1.0, levels[0], levels[1], number, balanced)
        found = made.over(np.ones((1, count)))
        if not len(found):
            return None
        return cls(float(found[0]), count, count == 1, 1.0, levels[0], levels[1], number, balanced)

    def over(self, draws: Floats) -> Floats:
        """The correlation over each draw in which both sides vary."""
        import numpy as np

        rows = max(1, _CELLS // len(self.number))
        return np.concatenate([self._some(draws[at : at + rows]) for at in range(0, len(draws), rows)])

    def _some(self, draws: Floats) -> Floats:
        import numpy as np

        weights = draws[:, self.number]
        if self.balanced:
            at = np.zeros((len(self.human), int(self.human.max()) + 1))
            at[np.arange(len(self.human)), self.human] = 1
            often = np.maximum(weights @ at, 1)  # of a score that was not drawn, no row has weight
            weights = weights / often[:, self.human]
        found: Floats = rank_correlations(self.metric, self.human, weights)
        return found
