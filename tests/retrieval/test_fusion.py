"""Fusion on a hand-computed example, and properties that hold for any lists and for the best of a list."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.retrieval.ranking.fusion import RankedList, RankedRows, fuse, top_k


def ranked(name: str, rows: list[tuple[int, float]]) -> RankedList:
    return RankedList(name, RankedRows.from_pairs(rows))


def test_zscore_fusion_equals_hand_computed_values():
    # a: mean 2, deviation 1; b: mean 10, deviation 2. Row 3 is missing in a and gets a's lowest, -1.
    fused = fuse([ranked("a", [(1, 3.0), (2, 1.0)]), ranked("b", [(3, 12.0), (1, 8.0)])], 3).rows
    assert dict(fused) == pytest.approx({1: 1 - 1, 2: -1 - 1, 3: -1 + 1})
    assert fused.rows.tolist() == [1, 3, 2]


rows = st.lists(st.tuples(st.integers(0, 30), st.floats(-5, 50)), unique_by=lambda pair: pair[0], max_size=20).map(
    lambda pairs: sorted(pairs, key=lambda pair: -pair[1])
)


@given(st.lists(rows, min_size=1, max_size=4), st.integers(1, 40))
def test_fusion_returns_every_row_once_in_order(lists, k):
    fused = fuse([ranked(f"l{i}", pairs) for i, pairs in enumerate(lists)], k)
    everything = {row for pairs in lists for row, _ in pairs}
    assert len(fused.rows) == min(k, len(everything)) == len(set(fused.rows.rows.tolist()))
    assert fused.rows.scores.tolist() == sorted(fused.rows.scores.tolist(), reverse=True)
    for (row, _), found in zip(fused.rows, fused.provenance(), strict=True):
        assert set(found) == {f"l{i}" for i, pairs in enumerate(lists) if row in dict(pairs)}


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=30), st.integers(0, 12), st.booleans(), st.data())
def test_top_k_equals_sorting(scores, k, positive, data):
    may = data.draw(st.none() | st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    fits = [n for n, score in enumerate(scores) if (may is None or may[n]) and (score > 0 or not positive)]
    expected = [(n, scores[n]) for n in sorted(fits, key=lambda n: (-scores[n], n))][:k]
    mask = None if may is None else np.array(may, dtype=np.bool_)
    assert list(top_k(np.array(scores, dtype=np.float32), k, mask, positive)) == expected


def test_the_only_hit_of_a_list_counts():
    dense = RankedList("dense", RankedRows.from_pairs([(0, 0.62), (1, 0.60), (2, 0.20)]))
    bm25 = RankedList("bm25", RankedRows.from_pairs([(1, 7.0)]))
    assert [row for row, _ in fuse([dense, bm25], 3).rows] == [1, 0, 2]
