"""The mean of clustered values with its interval, as in a summary."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from turnmark.evaluation.scores.cluster_statistics import RESAMPLES, intervals, mean_statistic


def mean_interval(
    values: Sequence[float],
    clusters: Sequence[Hashable],
    seed: int,
    resamples: int = RESAMPLES,
    weights: Sequence[float] | None = None,
) -> tuple[float, float, float]:
    """Return the mean and its 95% percentile interval as `(mean, low, high)`.

    Args:
        clusters: the cluster of each value.
        weights: the weight of each value; None: all are 1.
    """
    numbers: dict[Hashable, int] = {}
    numbered = np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters])
    mean = mean_statistic(
        np.array(values, dtype=float), numbered, np.array(weights or [1.0] * len(values), dtype=float)
    )
    return mean.value, *(intervals([mean], seed, resamples)[0] or (mean.value, mean.value))
