"""Length ratio, edit distance and edit ratio: by hand, against a plain Levenshtein, and by their properties."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.evaluation.metrics.overlap import edit_distance, edit_ratio, edit_words, length_ratio

TEXTS = st.lists(st.sampled_from("bell Bell tower cast, cast. 1858 鐘 \t \n".split(" ")), max_size=20).map(" ".join)


def quadratic(first: Sequence[object], second: Sequence[object]) -> int:
    row = list(range(len(second) + 1))
    for i, word in enumerate(first, 1):
        above, row = row, [i]
        for j, second_word in enumerate(second, 1):
            row.append(min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (word != second_word)))
    return row[-1]


def test_by_hand() -> None:
    """One word replaced, two inserted, of a source of four: distance 3, ratio 3/4; six words for four."""
    previous, revised = "The bell is old.", "The big bell is old, indeed."
    assert edit_distance(revised, previous) == 3
    assert edit_ratio(revised, previous) == pytest.approx(3 / 4)
    assert length_ratio(revised, previous) == pytest.approx(6 / 4)


def test_a_han_character_is_a_word() -> None:
    assert edit_words("BELL鐘は 1858") == ["BELL", "鐘", "は", "1858"]
    assert edit_distance("鐘は古い", "鐘は高い") == 1
    assert length_ratio("鐘は", "鐘は高い") == pytest.approx(1 / 2)


def test_what_is_empty() -> None:
    assert length_ratio("bell", " \n") is None
    assert edit_ratio("bell", "") is None
    assert edit_distance("the bell", "") == 2
    assert edit_distance("", "") == 0
    assert (length_ratio("", "the bell"), edit_ratio("", "the bell")) == (0, 1)


@settings(deadline=None)
@given(TEXTS, TEXTS)
def test_against_a_plain_levenshtein(first: str, second: str) -> None:
    assert edit_distance(first, second) == quadratic(edit_words(first), edit_words(second))
