"""The bootstrap of clusters, paired differences, the permutation test and Holm's correction."""

from __future__ import annotations

import itertools
import json
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest, norm, sem, t
from sklearn.metrics import roc_auc_score

from tests.intervals import mean_interval
from turnmark.evaluation.scores import cluster_statistics
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    auroc_statistic,
    difference_statistic,
    holm,
    intervals,
    mean_statistic,
    permutation_tests,
)


def mean_of(values, share=True):
    """Return the mean of these values, each in a cluster of its own."""
    return mean_statistic(np.array(values, dtype=float), np.arange(len(values)), np.ones(len(values)), share)


def test_fewer_than_six_clusters_have_no_interval():
    values = np.array([0.0, 1.0, 1.0])
    one = mean_statistic(values, np.zeros(3, dtype=int), np.ones(3))
    assert intervals([one, mean_of([0, 1, 1, 0, 1])], 0) == [None, None]
    assert intervals([mean_of([0, 1, 1, 0, 1, 1])], 0) != [None]


def test_interval_of_few_clusters_is_students():
    values = [1.0, 4.0, 4.5, 5.0, 7.0, 9.0]
    low, high = intervals([mean_of(values, share=False)], 0)[0]
    assert (low, high) == pytest.approx(t.interval(0.95, 5, np.mean(values), sem(values)))


def test_interval_of_a_share_is_wilsons_with_students_quantile():
    """Ten right answers of ten do not prove that all are right."""
    quantile = t.ppf(0.975, 9)
    expected = binomtest(10, 10).proportion_ci(norm.cdf(quantile) * 2 - 1, method="wilson")
    assert intervals([mean_of([1] * 10)], 0)[0] == pytest.approx((expected.low, expected.high))
    assert intervals([mean_of([0] * 10)], 0)[0] == pytest.approx((0, 1 - expected.low))
    low, high = intervals([mean_of([0, 0, 0, 0, 0, 1])], 0)[0]
    assert 0 < low < 1 / 6 < high < 1
    assert intervals([mean_of([0, 0, 0, 0, 0, 1], share=False)], 0)[0][0] == 0, "no count is below 0"
    assert intervals([mean_of([-1, 0, 0, 0, 0, 1], share=False)], 0)[0][0] < 0
    assert intervals([mean_of([0.5] * 10)], 0)[0] == (0.5, 0.5)
    assert intervals([mean_of([3] * 10)], 0)[0] == (3, 3), "counts are no shares"


def coverage(sums, sizes, clusters, draws=400):
    """Return how often the interval over so many clusters contains the mean of all clusters."""
    rng = np.random.default_rng(0)
    truth, covered = sums.sum() / sizes.sum(), 0
    for seed in range(draws):
        drawn = rng.integers(len(sums), size=clusters)
        mean = mean_statistic(sums[drawn] / sizes[drawn], np.arange(clusters), sizes[drawn].astype(float), True)
        low, high = intervals([mean], seed, 400)[0]
        covered += low <= truth <= high
    return covered / draws


@pytest.mark.parametrize(("clusters", "least"), [(6, 0.88), (10, 0.9), (20, 0.91), (40, 0.91)])
@pytest.mark.parametrize("name", ["idk_eval", "RL_F"])
@pytest.mark.data
def test_intervals_cover_the_mean_of_real_scores(real_data, name, clusters, least):
    file = real_data / "mtragun-predictions" / "claude-haiku-4.5.jsonl"
    if not file.is_file():
        pytest.skip(f"no {file}")
    scores = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        value = row["metrics"][name]
        value = next(iter(value.values())) if isinstance(value, dict) else value
        value = value[0] if isinstance(value, list) else value
        if value is not None:
            scores.setdefault(row["conversation_id"], []).append(value)
    sums = np.array([sum(values) for values in scores.values()])
    assert coverage(sums, np.array([len(values) for values in scores.values()]), clusters) >= least


@pytest.mark.parametrize(("clusters", "least"), [(6, 0.85), (10, 0.9), (30, 0.9)])
def test_intervals_cover_the_mean_of_skewed_scores(clusters, least):
    rng = np.random.default_rng(1)
    sizes = rng.integers(1, 9, size=300)
    sums = np.array([rng.beta(2, 1, size=size).round(1).sum() for size in sizes])
    assert coverage(sums, sizes, clusters) >= least


def test_published_intervals_stay_the_same():
    """Computed by one multinomial of all 2000 draws, which is how it was done before draws came in blocks."""
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


RANKED = st.lists(st.tuples(st.booleans(), st.integers(0, 6), st.integers(0, 5)), min_size=1, max_size=30)


@settings(deadline=None)
@given(RANKED, st.integers(0, 2), st.sampled_from([1, 100, 1 << 21]))
def test_auroc_matches_scikit_learn_in_each_draw(rows, seed, cells):
    positive, scores, clusters = (np.array([row[i] for row in rows]) for i in range(3))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster_statistics, "_BLOCK_CELLS", cells)
        area = auroc_statistic(positive, scores.astype(float), clusters)
        if area is None:
            assert all(positive) or not any(positive)
            return
        order = list(dict.fromkeys(clusters.tolist()))
        draws = np.random.default_rng(seed).multinomial(len(order), np.full(len(order), 1 / len(order)), size=20)
        weights = [np.array([draw[order.index(c)] for c in clusters]) for draw in draws]
        expected = [roc_auc_score(positive[w > 0], scores[w > 0], sample_weight=w[w > 0]) for w in weights
                    if len(set(positive[w > 0])) == 2]  # fmt: skip
        assert area.over(draws.astype(float)) == pytest.approx(expected)
    assert area.value == pytest.approx(roc_auc_score(positive, scores))


def test_interval_does_not_depend_on_other_statistics():
    rng = np.random.default_rng(0)
    means = [mean_statistic(rng.random(size), rng.integers(0, 9, size), np.ones(size)) for size in (30, 40, 50, 3, 1)]
    statistics = [*means, auroc_statistic(rng.random(30) < 0.5, rng.random(30), rng.integers(0, 9, 30))]
    assert intervals(statistics, 1) == [intervals([one], 1)[0] for one in statistics]
    assert intervals([], 1) == []


def subtract(first, second, clusters):
    ones = np.ones(len(first))
    return difference_statistic(np.array(first), ones, np.array(second), ones, np.array(clusters))


values = st.floats(-1e3, 1e3, allow_nan=False).map(lambda number: round(number, 3))


@st.composite
def pairs(draw):
    n = draw(st.integers(1, 40))
    lists = [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(2)]
    return lists[0], lists[1], draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))


@given(pairs())
@settings(max_examples=60, deadline=None)
def test_swapping_the_runs_negates_the_difference(sides):
    first, second, clusters = sides
    forward, back = subtract(first, second, clusters), subtract(second, first, clusters)
    assert forward.value == -back.value
    assert permutation_tests([forward], 0, 200) == permutation_tests([back], 0, 200)
    interval, other = intervals([forward, back], 0, 200)
    assert (interval is None) == (len(set(clusters)) < MIN_CLUSTERS)
    if interval:
        assert interval == pytest.approx((-other[1], -other[0]), abs=1e-9)


@given(pairs())
@settings(max_examples=40, deadline=None)
def test_few_clusters_use_every_permutation(sides):
    first, second, clusters = sides
    clusters = [cluster % 6 for cluster in clusters]
    names = sorted(set(clusters))
    sums = [sum(b - a for a, b, c in zip(first, second, clusters, strict=True) if c == name) for name in names]
    ways = [abs(sum(s * x for s, x in zip(signs, sums, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(sums))]  # fmt: skip
    expected = sum(way >= abs(sum(sums)) - 1e-7 for way in ways) / len(ways)
    assert permutation_tests([subtract(first, second, clusters)], 0) == [expected]


def test_p_values_are_calibrated_without_a_difference():
    generator = np.random.default_rng(2)
    tests = []
    for _ in range(300):
        clusters = np.repeat(np.arange(20), 3)
        shared = np.repeat(generator.normal(size=20), 3)  # what a conversation has in common
        first, second = (shared + np.repeat(generator.normal(size=20), 3) for _ in range(2))
        tests.append(subtract(first, second, clusters))
    low = np.mean(np.array(permutation_tests(tests, 0, 500)) < 0.05)
    assert 0.02 < low < 0.09  # turns taken for independent ones would be wrong three times as often


def test_permutation_swaps_a_ratio_with_its_denominator():
    # Precision: the first run predicts three times and is right once, the second once, rightly.
    hits, predicted = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 0])
    second_hits, second_predicted = np.array([0.0, 0, 0, 1]), np.array([0.0, 0, 0, 1])
    paired = difference_statistic(hits, predicted, second_hits, second_predicted, np.arange(4))
    assert paired.value == pytest.approx(1 - 1 / 3)
    counted = 0
    for swaps in itertools.product((0, 1), repeat=4):
        s = np.array(swaps)
        a, wa = np.where(s, second_hits, hits).sum(), np.where(s, second_predicted, predicted).sum()
        b, wb = np.where(s, hits, second_hits).sum(), np.where(s, predicted, second_predicted).sum()
        counted += not (wa and wb) or abs(b / wb - a / wa) >= 2 / 3 - 1e-9
    assert permutation_tests([paired], 0) == [counted / 16]


def test_holm_correction_matches_hand_computed_values():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
