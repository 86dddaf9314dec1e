"""recall@k and nDCG@k: by hand, against ir_measures, and by their properties."""

from __future__ import annotations

import math
from typing import Any

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.evaluation.metrics.retrieval import NAMES, score_lists
from turnmark.evaluation.records import ContextRef

DOCS = st.sampled_from([f"d{i}" for i in range(15)])
QRELS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3"]),
    st.dictionaries(DOCS, st.integers(0, 3), min_size=1).filter(lambda grades: max(grades.values()) > 0),
    min_size=1,
)
# Quarters: many ties, and exact in single precision.
RUNS = st.dictionaries(
    st.sampled_from(["q1", "q2", "q3", "unjudged"]), st.dictionaries(DOCS, st.integers(-8, 8).map(lambda n: n / 4))
)


def lists_of(run: dict[str, dict[str, float]]) -> dict[str, list[ContextRef]]:
    return {q: [ContextRef(document_id=d, score=s) for d, s in ranked.items()] for q, ranked in run.items()}


def test_by_hand() -> None:
    """Three relevant passages, found at ranks 1 and 4: DCG = 1 + 1/log2(5), ideal = 1 + 1/log2(3) + 1/2."""
    lists = lists_of({"q": {"a": 5.0, "x": 4.0, "y": 3.0, "b": 2.0}})
    scores = score_lists({"q": {"a": 1, "b": 1, "c": 1}}, lists)["q"]
    ideal = 1 + 1 / math.log2(3) + 1 / 2
    assert scores["recall@1"] == pytest.approx(1 / 3)
    assert scores["recall@3"] == pytest.approx(1 / 3)
    assert scores["recall@5"] == pytest.approx(2 / 3)
    assert scores["ndcg@1"] == pytest.approx(1.0)
    assert scores["ndcg@3"] == pytest.approx(1 / ideal)
    assert scores["ndcg@5"] == pytest.approx((1 + 1 / math.log2(5)) / ideal)


def test_queries_without_results_are_0_and_without_labels_are_left_out() -> None:
    scores = score_lists({"q": {"a": 1}, "empty": {"a": 1}, "none": {"a": 0}}, lists_of({"empty": {}, "x": {"a": 1.0}}))
    assert scores == {"q": dict.fromkeys(NAMES, 0.0), "empty": dict.fromkeys(NAMES, 0.0)}
    assert score_lists({}, {}) == {}


@settings(deadline=None)
@given(QRELS, RUNS)
def test_parity_with_ir_measures(qrels: dict[str, dict[str, int]], run: dict[str, dict[str, float]]) -> None:
    ours = score_lists(qrels, lists_of(run))
    measures: dict[str, Any] = {f"{name}@{k}": measure @ k for name, measure in
        (("recall", ir_measures.R), ("ndcg", ir_measures.nDCG)) for k in (1, 3, 5, 10)}  # fmt: skip
    names = {str(measure): name for name, measure in measures.items()}
    theirs = {
        (value.query_id, names[str(value.measure)]): value.value
        for value in ir_measures.iter_calc(list(measures.values()), qrels, run)
    }
    for query, scores in ours.items():
        for name, value in scores.items():
            assert value == pytest.approx(theirs.get((query, name), 0.0), abs=1e-9), (query, name)
