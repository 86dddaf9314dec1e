"""Which items take part."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.tasks.request import EvalRequest, describe_selection, select

IDS = [f"t{number}" for number in range(50)]


def request(**fields):
    return EvalRequest.model_validate({"benchmark": "mtrag", "assistant": {"retriever": "bm25"}, **fields})


def of(**fields):
    errors = ErrorCollector()
    chosen = select(request(**fields), IDS, errors)
    errors.raise_all()
    return chosen


def test_selects_everything_by_default():
    assert of() == IDS
    assert of(limit=3) == IDS[:3]
    assert of(only=("t7", "t3")) == ["t3", "t7"], "in the order of the data"
    assert of(only=("t7", "t3", "t9"), limit=2) == ["t3", "t7"]


@pytest.mark.parametrize(("fields", "chosen", "words"), [
    ({}, 5000, ""),
    ({"limit": 9000}, 5000, ""),
    ({"limit": 200}, 200, "the first 200 of 5,000"),
    ({"sample": 60, "seed": 1}, 60, "60 of 5,000, drawn with seed 1"),
    ({"sample": 60, "seed": 1, "limit": 10}, 10, "the first 10 of 60 of 5,000, drawn with seed 1"),
    ({"only": ("a", "b")}, 2, "2 named ones of 5,000"),
    ({"only": ("a", "b", "c"), "sample": 2}, 2, "2 of 3 named ones of 5,000, drawn with seed 0"),
    ({"only": ("a", "b", "c"), "limit": 1}, 1, "the first 1 of 3 named ones of 5,000"),
])  # fmt: skip
def test_selection_is_described_in_words(fields, chosen, words):
    assert describe_selection(request(**fields), chosen, 5000) == words


@given(st.integers(1, 60), st.integers(0, 5))
def test_sample_depends_on_the_seed_and_keeps_the_order(number, seed):
    drawn = of(sample=number, seed=seed)
    assert drawn == of(sample=number, seed=seed)
    assert len(drawn) == min(number, len(IDS))
    assert drawn == sorted(drawn, key=IDS.index)
    assert of(sample=number, seed=seed, limit=2) == drawn[:2]


@given(st.integers(1, 60), st.integers(0, 5), st.lists(st.integers(0, 4), min_size=60, max_size=60))
def test_stratified_sample_is_proportional(number, seed, strata):
    ids = [f"{stratum}/{place}" for place, stratum in enumerate(strata)]
    errors = ErrorCollector()
    chosen = select(request(sample=number, seed=seed), ids, errors, lambda name: name.split("/")[0])
    assert len(chosen) == number
    assert chosen == sorted(chosen, key=ids.index)
    for stratum in set(strata):
        share = number * strata.count(stratum) / len(ids)
        assert abs(sum(name.startswith(f"{stratum}/") for name in chosen) - share) < 1
