"""Fusion on hand-computed examples, and properties that hold for any lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from turnmark.retrieval import fusion
from turnmark.retrieval.fusion import RRF_K, Method, RankedList, TopK
from turnmark.retrieval.types import Found, Query


def ranked(name: str, rows: list[tuple[int, float]], weight: float = 1.0) -> RankedList:
    return RankedList(name, TopK.from_pairs(rows), weight)


class Row(NamedTuple):
    row: int
    score: float
    found: Mapping[str, Found]


def fuse(lists: Sequence[RankedList], method: Method, k: int) -> list[Row]:
    return shown(fusion.fuse(lists, method, k))


def fuse_nested(groups: Sequence[Sequence[RankedList]], weights: Sequence[float], method: Method, k: int) -> list[Row]:
    return shown(fusion.fuse_nested(groups, weights, method, k))


def shown(fused: fusion.Fused) -> list[Row]:
    return [Row(row, score, found) for (row, score), found in zip(fused.rows, fused.places(), strict=True)]


def test_rrf_by_hand():
    fused = fuse([ranked("a", [(1, 9.0), (2, 8.0)]), ranked("b", [(2, 0.5), (3, 0.4)], weight=0.5)], "rrf", 3)
    assert [row.row for row in fused] == [2, 1, 3]
    assert fused[0].score == pytest.approx(1 / 62 + 0.5 / 61)
    assert fused[1].score == pytest.approx(1 / 61)
    assert fused[2].score == pytest.approx(0.5 / 62)


def test_zscore_by_hand():
    # a: mean 2, deviation 1; b: mean 10, deviation 2. Row 3 is missing in a and gets a's lowest, -1.
    fused = fuse([ranked("a", [(1, 3.0), (2, 1.0)]), ranked("b", [(3, 12.0), (1, 8.0)])], "zscore", 3)
    assert {row.row: row.score for row in fused} == pytest.approx({1: 1 - 1, 2: -1 - 1, 3: -1 + 1})
    assert [row.row for row in fused] == [1, 3, 2]


rows = st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 50)), unique_by=lambda pair: pair[0], max_size=20).map(
    lambda pairs: sorted(pairs, key=lambda pair: -pair[1])
)


@given(st.lists(rows, min_size=1, max_size=4), st.sampled_from(["rrf", "zscore"]), st.integers(1, 40))
def test_fusion_gives_every_row_once_in_order(lists, method, k):
    fused = fuse([ranked(f"l{i}", pairs) for i, pairs in enumerate(lists)], method, k)
    everything = {row for pairs in lists for row, _ in pairs}
    assert len(fused) == min(k, len(everything)) == len({row.row for row in fused})
    assert [row.score for row in fused] == sorted((row.score for row in fused), reverse=True)
    for row in fused:
        assert set(row.found) == {f"l{i}" for i, pairs in enumerate(lists) if row.row in dict(pairs)}


groups = st.lists(st.lists(rows, min_size=1, max_size=3), min_size=1, max_size=4)
methods = st.sampled_from(["rrf", "zscore"])


def named(lists):
    return [[ranked(f"l{i}+{n}", pairs, 1 + i) for i, pairs in enumerate(group)] for n, group in enumerate(lists)]


@given(groups, methods, st.integers(1, 40), st.data())
def test_nested_fusion_is_a_plain_loop_over_the_ranks_of_each_text(lists, method, k, data):
    weights = data.draw(st.lists(st.floats(0.1, 4), min_size=len(lists), max_size=len(lists)))
    fused = fuse_nested(named(lists), weights, method, k)
    scores = {}
    for group, weight in zip(named(lists), weights, strict=True):
        for rank, row in enumerate(fuse(group, method, 1000), 1):
            scores[row.row] = scores.get(row.row, 0.0) + weight / (RRF_K + rank)
    if len(lists) > 1:
        assert [row.row for row in fused] == sorted(scores, key=lambda row: (-scores[row], row))[:k]
        assert [row.score for row in fused] == [scores[row.row] for row in fused]
    else:
        assert fused == fuse(named(lists)[0], method, k)


@given(st.lists(st.sampled_from("abc"), max_size=5), st.data())
def test_what_a_query_searches_and_how_much_each_text_counts(variants, data):
    weights = data.draw(st.lists(st.floats(0, 4), min_size=len(variants), max_size=len(variants)))
    query = Query(text="a", variants=variants, fusion="nested", variant_weights=(0.5, *weights))
    texts = query.texts()
    assert next(iter(texts)) == "a"
    for text, weight in texts.items():
        own = [w for t, w in zip(["a", *variants], [0.5, *weights], strict=True) if t == text]
        assert weight == pytest.approx(sum(own))
    assert sum(texts.values()) == pytest.approx(0.5 + sum(weights))
    assert list(Query(text="a", variants=variants).texts()) == list(dict.fromkeys(["a", *variants]))


@pytest.mark.parametrize(
    "wrong",
    [
        {"fusion": "nested", "variant_weights": (1.0,)},
        {"fusion": "nested", "variant_weights": (0.0, 1.0)},
        {"fusion": "nested", "variant_weights": (1.0, -1.0)},
        {"fusion": "nested", "variant_weights": (1.0, float("nan"))},
        {"fusion": "nested", "variant_weights": (float("inf"), 1.0)},
        {"variant_weights": (1.0, 1.0)},
    ],
)
def test_weights_that_are_none_are_refused(wrong):
    with pytest.raises(ValidationError, match="variant_weights"):
        Query(text="a", variants=("b",), **wrong)
