"""Fusion on hand-computed examples, and properties that hold for any lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.retrieval import fusion
from turnmark.retrieval.fusion import Method, RankedList, TopK
from turnmark.retrieval.types import Found, Query


def ranked(name: str, rows: list[tuple[int, float]], weight: float = 1.0) -> RankedList:
    return RankedList(name, TopK.from_pairs(rows), weight)


class Row(NamedTuple):
    row: int
    score: float
    found: Mapping[str, Found]


def fuse(lists: Sequence[RankedList], method: Method, k: int) -> list[Row]:
    return shown(fusion.fuse(lists, method, k))


def shown(fused: fusion.Fused) -> list[Row]:
    return [Row(row, score, found) for (row, score), found in zip(fused.rows, fused.provenance(), strict=True)]


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


@given(st.lists(st.sampled_from("abc"), max_size=5))
def test_what_a_query_searches(variants):
    assert Query(text="a", variants=variants).texts() == tuple(dict.fromkeys(["a", *variants]))
