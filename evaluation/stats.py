"""Intervals: a seeded bootstrap of whole clusters (conversations), because the turns of one are not independent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

RESAMPLES = 2000


@lru_cache(maxsize=64)
def _draws(clusters: int, seed: int, resamples: int) -> Any:
    """How often each cluster is drawn in each resample: an array (resamples, clusters) whose rows sum to `clusters`."""
    import numpy as np

    generator = np.random.default_rng(seed)
    return generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples)


def mean_interval(
    values: Sequence[float], clusters: Sequence[Hashable], seed: int, resamples: int = RESAMPLES
) -> tuple[float, float, float]:
    """The mean of `values` and its 95% percentile interval: `(mean, low, high)`.

    Clusters are drawn with replacement; the mean of a draw is the sum of its values over the number of its values (a
    ratio of sums, since clusters differ in size). The same seed gives the same interval. With a single cluster there is
    nothing to resample, and the interval is the mean itself.

    Args:
        clusters: the cluster of each value.

    Raises:
        ValueError: no values, or lengths that differ.
    """
    if not values or len(values) != len(clusters):
        raise ValueError(f"{len(values)} values, {len(clusters)} clusters: as many were expected, and one at least")
    import numpy as np

    groups: dict[Hashable, list[float]] = {}
    for value, cluster in zip(values, clusters, strict=True):
        groups.setdefault(cluster, []).append(value)
    mean = sum(values) / len(values)
    if len(groups) == 1 or min(values) == max(values):
        return mean, mean, mean
    sums = np.array([sum(group) for group in groups.values()])
    counts = np.array([len(group) for group in groups.values()])
    draws = _draws(len(groups), seed, resamples)
    low, high = np.percentile((draws @ sums) / (draws @ counts), [2.5, 97.5])
    return mean, float(low), float(high)
