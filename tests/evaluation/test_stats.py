"""The bootstrap of clusters."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.intervals import mean_interval
from turnmark.evaluation import stats
from turnmark.evaluation.metrics.decisions import auroc
from turnmark.evaluation.stats import Auroc, Mean, intervals

VALUES = st.lists(st.tuples(st.floats(0, 1), st.integers(0, 5)), min_size=1, max_size=40)


@settings(deadline=None)
@given(VALUES, st.integers(0, 3))
def test_the_interval_is_inside_the_values_and_the_same_for_a_seed(pairs: list[tuple[float, int]], seed: int) -> None:
    values, clusters = [v for v, _ in pairs], [c for _, c in pairs]
    mean, low, high = mean_interval(values, clusters, seed)
    assert mean == pytest.approx(math.fsum(values) / len(values))
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert (mean, low, high) == mean_interval(values, clusters, seed)


def test_a_single_cluster_has_nothing_to_resample() -> None:
    assert mean_interval([0.0, 1.0, 1.0], ["c", "c", "c"], 0) == (pytest.approx(2 / 3),) * 3


def test_clusters_widen_the_interval() -> None:
    """Forty values that agree within each of four clusters tell little more than four values do."""
    values = [float(i % 2) for i in range(4) for _ in range(10)]
    _, low, high = mean_interval(values, [i for i in range(4) for _ in range(10)], 0)
    _, narrow_low, narrow_high = mean_interval(values, list(range(40)), 0)
    assert high - low > 2 * (narrow_high - narrow_low)


def test_intervals_that_were_published_stay_as_they_are() -> None:
    """Worked out by one multinomial of all 2000 draws, which is how it was done before draws came in blocks."""
    rng = random.Random(1)
    clusters = [rng.randrange(110) for _ in range(423)]
    values = [rng.random() for _ in clusters]
    sums, counts = dict.fromkeys(clusters, 0.0), dict.fromkeys(clusters, 0)
    for value, cluster in zip(values, clusters, strict=True):
        sums[cluster] += value
        counts[cluster] += 1
    draws = np.random.default_rng(3).multinomial(len(sums), np.full(len(sums), 1 / len(sums)), size=2000)
    low, high = np.percentile(
        (draws @ np.array([*sums.values()])) / (draws @ np.array([*counts.values()])), [2.5, 97.5]
    )
    assert mean_interval(values, clusters, 3) == (sum(values) / len(values), low, high)


def test_a_weight_counts_as_often_as_a_value_that_is_repeated() -> None:
    once = mean_interval([1.0, 0.0, 1.0, 0.0], ["a", "a", "b", "c"], 0, weights=[2, 1, 3, 1])
    assert once[0] == 5 / 7
    assert once == mean_interval([1, 1, 0, 1, 1, 1, 0], ["a", "a", "a", "b", "b", "b", "c"], 0)




RANKED = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=30)


@settings(deadline=None)
@given(RANKED, st.integers(0, 2), st.sampled_from([1, 100, 1 << 21]))
def test_an_area_is_resampled_like_in_a_plain_loop(rows: list[tuple[bool, int, int]], seed: int, cells: int) -> None:
    positive, scores, clusters = ([row[i] for row in rows] for i in range(3))
    order = list(dict.fromkeys(clusters))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stats, "_CELLS", cells)
        area = Auroc.of(np.array(positive), np.array(scores, dtype=float), np.array(clusters))
        if area is None:
            assert all(positive) or not any(positive)
            return
        [interval] = intervals([area], seed, 60)
    draws = np.random.default_rng(seed).multinomial(len(order), np.full(len(order), 1 / len(order)), size=60)
    drawn = [auroc(positive, scores, [int(draw[order.index(c)]) for c in clusters]) for draw in draws]
    assert area.value == auroc(positive, scores)
    assert interval == pytest.approx(tuple(np.percentile([x for x in drawn if x is not None], [2.5, 97.5])), abs=1e-12)


def test_an_interval_does_not_depend_on_what_is_asked_beside_it() -> None:
    rng = np.random.default_rng(0)
    means = [Mean.of(rng.random(size), rng.integers(0, 9, size), np.ones(size)) for size in (30, 40, 50, 3, 1)]
    area = Auroc.of(rng.random(30) < 0.5, rng.random(30), rng.integers(0, 9, 30))
    figures = [*means, area]
    assert intervals(figures, 1) == [intervals([figure], 1)[0] for figure in figures]
    assert intervals([], 1) == []
