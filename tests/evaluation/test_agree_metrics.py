"""Rank correlation, shared ratings and labels, against scipy, scikit-learn and examples by hand."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.evaluation.metrics.agreement import (
    Correlation,
    annotators_agree,
    classified,
    harmonic_mean,
    inverse_frequency,
    spearman,
)
from turnmark.evaluation.stats import intervals


def scipys(first: list[float], second: list[float]) -> float | None:
    from scipy.stats import spearmanr

    if len(first) < 2:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = float(spearmanr(first, second)[0])
    return None if np.isnan(found) else found


def close(one: float | None, other: float | None) -> bool:
    return one == other or (one is not None and other is not None and abs(one - other) < 1e-9)


few = st.integers(-3, 3).map(float)
rows = st.lists(st.tuples(few, few, st.integers(0, 4)), max_size=30)


@given(rows)
@settings(max_examples=150, deadline=None)
def test_spearman_is_scipys_and_a_weight_is_so_many_rows(made: list[tuple[float, float, int]]) -> None:
    first, second, weights = ([row[at] for row in made] for at in range(3))
    assert close(spearman(first, second), scipys(first, second))
    again = [row for row in made for _ in range(int(row[2]))]
    assert close(spearman(first, second, weights), scipys([row[0] for row in again], [row[1] for row in again]))


@given(st.lists(st.tuples(st.floats(-1e300, 1e300), st.floats(-1e300, 1e300)), max_size=20))
@settings(max_examples=60, deadline=None)
def test_a_correlation_is_within_its_bounds_and_turns_with_its_sides(made: list[tuple[float, float]]) -> None:
    first, second = ([row[at] for row in made] for at in range(2))
    found = spearman(first, second)
    assert found is None or -1 <= found <= 1
    assert close(found, spearman(second, first))
    mirrored = spearman([-value for value in first], second)
    assert close(mirrored, None if found is None else -found)
    own = spearman(first, first)
    assert own is None or own == pytest.approx(1)


def test_wrong_rows_are_refused() -> None:
    for wrong in (([1.0], [1.0, 2.0]), ([float("nan")], [1.0]), ([1.0], [1.0], [-1.0]), ([1.0], [1.0], [])):
        with pytest.raises(ValueError):
            spearman(*wrong)  # type: ignore[arg-type]


def test_weighed_by_inverse_frequency_every_score_is_as_heavy() -> None:
    scores = [4.0, 4.0, 4.0, 4.0, 3.0, 3.0, 1.0]
    assert inverse_frequency(scores) == [0.25] * 4 + [0.5] * 2 + [1.0]
    metric = [0.9, 0.8, 0.2, 0.7, 0.6, 0.5, 0.1]
    # The same with whole numbers: 4 times the weights are rows to be repeated.
    again = [at for at, weight in enumerate(inverse_frequency(scores)) for _ in range(round(4 * weight))]
    expected = scipys([metric[at] for at in again], [scores[at] for at in again])
    assert close(spearman(metric, scores, inverse_frequency(scores)), expected)


@given(st.integers(0, 2**32), st.integers(1, 12), st.booleans())
@settings(max_examples=25, deadline=None)
def test_an_interval_of_a_correlation_is_that_of_resampled_rows(seed: int, clusters: int, balanced: bool) -> None:
    generator = np.random.default_rng(seed)
    n = 24
    metric, human = generator.integers(0, 9, n).astype(float), generator.integers(1, 5, n).astype(float)
    number = generator.integers(0, clusters, n)
    made = Correlation.of(metric, human, number, balanced)
    weigh = inverse_frequency if balanced else lambda values: [1.0] * len(values)
    expected = spearman(metric.tolist(), human.tolist(), weigh(human.tolist()))
    assert made is not None
    assert close(made.value, expected)
    draws = generator.multinomial(made.clusters, np.full(made.clusters, 1 / made.clusters), size=7).astype(float)
    order = list(dict.fromkeys(number.tolist()))
    plain = []
    for draw in draws:
        drawn = [at for place, times in enumerate(draw) for at in np.flatnonzero(number == order[place])
                 for _ in range(int(times))]  # fmt: skip
        found = spearman(metric[drawn].tolist(), human[drawn].tolist(), weigh(human[drawn].tolist()))
        plain += [] if found is None else [found]
    assert made.over(draws) == pytest.approx(plain, abs=1e-9)
    ((low, high),) = intervals([made], 0, 50)
    assert -1 <= low <= high <= 1


def test_a_correlation_with_what_does_not_vary_is_none() -> None:
    ones = np.ones(4)
    assert Correlation.of(ones, np.arange(4.0), np.arange(4), False) is None
    assert Correlation.of(np.arange(4.0), ones, np.arange(4), True) is None


# --- raters and labels -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ratings", "agree"),
    [
        ((4, 4, 4), True), ((4, 4, 3), True), ((3, 4, 4), True), ((4, 3, 3), True), ((4, 4, 2), False),
        ((2, 3, 4), False), ((4, 3, 4), True), ((1, 1, 3), False), ((4, 4), None), ((4, 4, 4, 4), None), ((), None),
    ],
)  # fmt: skip
def test_three_raters_agree_as_appendix_e_says(ratings: tuple[float, ...], agree: bool | None) -> None:
    assert annotators_agree(ratings) is agree
    assert annotators_agree([50 * rating for rating in ratings], 50) is agree


def test_a_harmonic_mean() -> None:
    assert harmonic_mean([4, 4, 2, 4]) == pytest.approx(3.2)
    assert harmonic_mean([1, 0, 1]) == 0
    assert harmonic_mean([]) is None
    assert harmonic_mean([5e-324, 1]) == pytest.approx(1e-323)
    with pytest.raises(ValueError, match="negative"):
        harmonic_mean([-1, 2])


def test_labels_by_hand() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: the usual example of Cohen's kappa, .4.
    truth = ["yes"] * 25 + ["no"] * 25
    judged = ["yes"] * 20 + ["no"] * 5 + ["yes"] * 10 + ["no"] * 15
    found = classified(truth, judged)
    assert found is not None
    assert (found.n, found.accuracy, found.kappa) == (50, 0.7, pytest.approx(0.4))
    yes, no = found.labels["yes"], found.labels["no"]
    assert (yes.precision, yes.recall, yes.false_positive_rate, yes.positives) == (20 / 30, 0.8, 0.4, 25)
    assert (no.precision, no.recall, no.false_positive_rate) == (0.75, 0.6, 0.2)
    assert (found.mean_tpr, found.mean_fpr) == (pytest.approx(0.7), pytest.approx(0.3))
    assert yes.f1 == pytest.approx(2 * (2 / 3) * 0.8 / (2 / 3 + 0.8))


def test_labels_without_anything_to_divide_by() -> None:
    assert classified([], []) is None
    one = classified(["a", "a"], ["a", "a"])
    assert one is not None
    assert (one.kappa, one.accuracy, one.mean_fpr) == (None, 1, None)
    never = classified(["a", "a"], ["b", "a"])
    assert never is not None
    assert (never.labels["b"].recall, never.labels["b"].precision, never.labels["b"].f1) == (None, 0, 0)
    with pytest.raises(ValueError):
        classified(["a"], [])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=40))
@settings(max_examples=100, deadline=None)
def test_labels_are_counted_as_scikit_learn_counts_them(pairs: list[tuple[str, str]]) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    truth, judged = ([pair[at] for pair in pairs] for at in range(2))
    found = classified(truth, judged)
    assert found is not None
    assert found.accuracy == pytest.approx(metrics.accuracy_score(truth, judged))
    assert found.kappa is None or -1 <= found.kappa <= 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert found.kappa is None or found.kappa == pytest.approx(metrics.cohen_kappa_score(truth, judged))
        theirs = metrics.precision_recall_fscore_support(truth, judged, labels=sorted(found.labels), zero_division=0)
    for at, one in enumerate(found.labels.values()):
        figures = [one.precision or 0, one.recall or 0, one.f1 or 0, one.positives]
        assert figures == pytest.approx([float(side[at]) for side in theirs])
