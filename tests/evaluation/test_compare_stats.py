"""Paired differences, the permutation test and Holm's correction, against plain computations and their properties."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.evaluation.paired import EXACT_UP_TO, Difference, holm, permutation_tests
from turnmark.evaluation.stats import intervals


def difference(first: list[float], second: list[float], clusters: list[int]) -> Difference:
    ones = np.ones(len(first))
    return Difference.of(np.array(first), ones, np.array(second), ones, np.array(clusters))


values = st.floats(-1e3, 1e3, allow_nan=False).map(lambda number: round(number, 3))


@st.composite
def pairs(draw: st.DrawFn) -> tuple[list[float], list[float], list[int]]:
    n = draw(st.integers(1, 40))
    lists = [draw(st.lists(values, min_size=n, max_size=n)) for _ in range(2)]
    return lists[0], lists[1], draw(st.lists(st.integers(0, 20), min_size=n, max_size=n))


@given(pairs())
@settings(max_examples=60, deadline=None)
def test_a_comparison_turned_round_is_its_opposite(sides: tuple[list[float], list[float], list[int]]) -> None:
    first, second, clusters = sides
    forward, back = difference(first, second, clusters), difference(second, first, clusters)
    assert forward.value == -back.value
    assert permutation_tests([forward], 0, 200) == permutation_tests([back], 0, 200)
    (low, high), (other_low, other_high) = intervals([forward, back], 0, 200)
    assert (low, high) == pytest.approx((-other_high, -other_low), abs=1e-9)
    assert low <= high


@given(pairs())
@settings(max_examples=40, deadline=None)
def test_with_few_clusters_every_way_to_flip_them_is_counted(sides: tuple[list[float], list[float], list[int]]) -> None:
    first, second, clusters = sides
    clusters = [cluster % 6 for cluster in clusters]
    names = sorted(set(clusters))
    sums = [sum(b - a for a, b, c in zip(first, second, clusters, strict=True) if c == name) for name in names]
    observed = abs(sum(sums))
    ways = [abs(sum(s * x for s, x in zip(signs, sums, strict=True)))
            for signs in itertools.product((1, -1), repeat=len(sums))]  # fmt: skip
    expected = sum(way >= observed - 1e-7 for way in ways) / len(ways)
    assert permutation_tests([difference(first, second, clusters)], 0) == [expected]


def test_many_clusters_are_drawn_and_agree_with_the_exact_answer() -> None:
    generator = np.random.default_rng(1)
    n = EXACT_UP_TO + 1
    first = generator.normal(size=n)
    second = first + generator.normal(0.4, 1, size=n)
    signs = 1 - 2 * (np.arange(2**n)[:, None] >> np.arange(n) & 1)
    exact = float(np.mean(np.abs(signs @ (second - first)) >= abs((second - first).sum()) - 1e-12))
    (drawn,) = permutation_tests([difference(first.tolist(), second.tolist(), list(range(n)))], 0)
    assert drawn == pytest.approx(exact, abs=0.02)


def test_p_is_right_as_often_as_it_says_where_nothing_differs() -> None:
    generator = np.random.default_rng(2)
    tests = []
    for _ in range(300):
        clusters = np.repeat(np.arange(20), 3)
        shared = np.repeat(generator.normal(size=20), 3)  # what a whole conversation has in common
        first, second = (shared + np.repeat(generator.normal(size=20), 3) for _ in range(2))
        tests.append(difference(first.tolist(), second.tolist(), clusters.tolist()))
    low = np.mean(np.array(permutation_tests(tests, 0, 500)) < 0.05)
    assert 0.02 < low < 0.09  # turns taken for independent ones would be wrong three times as often


def test_a_ratio_is_swapped_with_its_denominator() -> None:
    # Precision: the first run predicts three times and is right once, the second once, rightly.
    hits, predicted = np.array([1.0, 0, 0, 0]), np.array([1.0, 1, 1, 0])
    second_hits, second_predicted = np.array([0.0, 0, 0, 1]), np.array([0.0, 0, 0, 1])
    paired = Difference.of(hits, predicted, second_hits, second_predicted, np.arange(4))
    assert paired.value == pytest.approx(1 - 1 / 3)
    counted = 0
    for swaps in itertools.product((0, 1), repeat=4):
        s = np.array(swaps)
        a, wa = np.where(s, second_hits, hits).sum(), np.where(s, second_predicted, predicted).sum()
        b, wb = np.where(s, hits, second_hits).sum(), np.where(s, predicted, second_predicted).sum()
        counted += not (wa and wb) or abs(b / wb - a / wa) >= 2 / 3 - 1e-9
    assert permutation_tests([paired], 0) == [counted / 16]




def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []
