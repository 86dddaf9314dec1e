"""The bootstrap of clusters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluation.records import Score
from evaluation.stats import mean_interval
from evaluation.summary import Facts, summarise

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


def test_against_the_normal_approximation() -> None:
    """400 single values, half of them 1: 0.5 +- 1.96 * sqrt(0.25 / 400) = 0.451 to 0.549."""
    values = [float(i % 2) for i in range(400)]
    _, low, high = mean_interval(values, list(range(400)), 7)
    assert low == pytest.approx(0.451, abs=0.006)
    assert high == pytest.approx(0.549, abs=0.006)


@pytest.mark.parametrize(("values", "clusters"), [([], []), ([1.0], [])])
def test_nothing_has_no_mean(values: list[float], clusters: list[int]) -> None:
    with pytest.raises(ValueError, match="as many were expected"):
        mean_interval(values, clusters, 0)


def test_failures_are_counted_and_never_a_number() -> None:
    scores = [
        Score(id="a", metric="m", status="scored", value=1.0, by="x"),
        Score(id="b", metric="m", status="failed", reason="no verdict", by="x"),
        Score(id="c", metric="m", status="not_applicable", by="x"),
        Score(id="d", metric="m", status="scored", value=0.0, by="x"),
        Score(id="e", metric="m", status="failed", reason="no verdict", by="x"),
    ]
    facts = {
        "a": Facts(cluster="1", labels={"kind": ("p", "q")}),
        "b": Facts(cluster="1", labels={"kind": ("p",)}),
        "c": Facts(cluster="2", labels={}),
        "d": Facts(cluster="2", labels={"kind": ("talk",)}, headline=False),
        "e": Facts(cluster="3", labels={"kind": ("r",)}),
    }
    headline, breakdowns = summarise(scores, facts, 0)
    assert headline["m"].model_dump() == {"mean": 1.0, "ci95": (1.0, 1.0), "n": 1, "failed": 2, "not_applicable": 1}
    assert list(breakdowns["kind"]) == ["p", "q", "r", "talk"]
    assert breakdowns["kind"]["p"]["m"].n == 1
    assert breakdowns["kind"]["p"]["m"].failed == 1
    assert breakdowns["kind"]["talk"]["m"].mean == 0.0
    assert breakdowns["kind"]["r"]["m"].model_dump() == {
        "mean": None, "ci95": None, "n": 0, "failed": 1, "not_applicable": 0,
    }  # fmt: skip
