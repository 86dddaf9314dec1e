"""Accuracy, kappa, rates and alpha with intervals: figures of tables of counts, which add up over clusters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnmark.evaluation.metrics.agreement import Level
from turnmark.evaluation.stats import in_order

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.integer]

_CELLS = 1 << 20


@dataclass(frozen=True, eq=False)
class Tabled:
    """A figure of a table of counts that adds up over clusters; see `turnmark.evaluation.stats.Figure`.

    Attributes:
        tables: of each cluster, (clusters, labels, labels).
        read: tables -> figures, NaN where a table has none.
    """

    value: float
    clusters: int
    fixed: bool
    tables: Floats
    read: Callable[[Floats], Floats]

    @classmethod
    def of(cls, tables: Floats, read: Callable[[Floats], Floats]) -> Tabled | None:
        """A figure to be resampled; None where the sum of the tables has none."""
        value = float(read(tables.sum(axis=0, keepdims=True))[0])
        return cls(value, len(tables), len(tables) == 1, tables, read) if math.isfinite(value) else None

    def over(self, draws: Floats) -> Floats:
        """The figure over each draw that has one."""
        import numpy as np

        rows = max(1, _CELLS // self.tables[0].size)
        parts = [
            self.read(np.tensordot(draws[at : at + rows], self.tables, axes=1)) for at in range(0, len(draws), rows)
        ]
        values = np.concatenate(parts)
        finite: Floats = values[np.isfinite(values)]
        return finite


def confusion_tables(truth: Sequence[str], judged: Sequence[str], clusters: Ints) -> Floats:
    """How often each true label has each judged one, in each cluster: (clusters, true, judged)."""
    import numpy as np

    names = sorted({*truth, *judged})
    number, count = in_order(clusters)
    tables = np.zeros((count, len(names), len(names)))
    np.add.at(tables, (number, np.array([*map(names.index, truth)]), np.array([*map(names.index, judged)])), 1)
    return tables


def _shares(tables: Floats) -> tuple[Floats, Floats, Floats]:
    """Of each label in each table its hits, how often it is true, how often it is judged; (tables, labels)."""
    import numpy as np

    return np.diagonal(tables, axis1=1, axis2=2), tables.sum(axis=2), tables.sum(axis=1)


def _quiet_mean(above: Floats, below: Floats) -> Floats:
    """The mean of the ratios that there are, NaN where there are none."""
    import numpy as np

    known = below > 0
    ratios = np.where(known, above / np.where(known, below, 1), 0)
    counts = known.sum(axis=1)
    means: Floats = np.where(counts > 0, ratios.sum(axis=1) / np.maximum(counts, 1), np.nan)
    return means


def accuracies(tables: Floats) -> Floats:
    """Share of the rows whose judged label is the true one."""
    hits, _, _ = _shares(tables)
    accuracy: Floats = hits.sum(axis=1) / tables.sum(axis=(1, 2))
    return accuracy


def kappas(tables: Floats) -> Floats:
    """Cohen's; NaN where both sides use one label throughout."""
    import numpy as np

    _, true, said = _shares(tables)
    n = tables.sum(axis=(1, 2))
    chance = (true * said).sum(axis=1) / n**2
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa: Floats = np.where(chance < 1, (accuracies(tables) - chance) / (1 - chance), np.nan)
    return kappa


def mean_tprs(tables: Floats) -> Floats:
    """See `Classified.mean_tpr`."""
    hits, true, _ = _shares(tables)
    return _quiet_mean(hits, true)


def mean_fprs(tables: Floats) -> Floats:
    """See `Classified.mean_fpr`."""
    hits, true, said = _shares(tables)
    return _quiet_mean(said - hits, tables.sum(axis=(1, 2))[:, None] - true)


def alpha_figure(units: Sequence[Sequence[float | str | None]], level: Level, clusters: Ints) -> Tabled | None:
    """Krippendorff's alpha to be resampled; None where it is not defined.

    Args:
        units: as in `krippendorff_alpha`.
        clusters: a number for the cluster of each unit.
    """
    import numpy as np

    said = [[value for value in unit if value is not None] for unit in units]
    kept = [index for index, values in enumerate(said) if len(values) > 1]
    domain = sorted({value for index in kept for value in said[index]})
    if len(domain) < 2:
        return None
    number, count = in_order(np.asarray(clusters)[kept])
    tables = np.zeros((count, len(domain), len(domain)))
    for index, cluster in zip(kept, number, strict=True):
        counts = np.array([said[index].count(value) for value in domain], dtype=float)
        tables[cluster] += (np.outer(counts, counts) - np.diag(counts)) / (len(said[index]) - 1)
    values = np.arange(len(domain)) if level == "nominal" else np.array(domain, dtype=float)
    apart = np.subtract.outer(values, values)
    distances = (apart != 0).astype(float) if level == "nominal" else apart**2

    def read(drawn: Floats) -> Floats:
        totals = drawn.sum(axis=2)
        expected = np.einsum("ij,jk,ik->i", totals, distances, totals) / np.maximum(totals.sum(axis=1) - 1, 1e-12)
        observed = (drawn * distances).sum(axis=(1, 2))
        alphas: Floats = np.where(expected > 0, 1 - observed / np.where(expected > 0, expected, 1), np.nan)
        return alphas

    return Tabled.of(tables, read)
