"""Rows shared out among cores."""

from __future__ import annotations

import os
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.retrieval.flat import by_cores


@given(st.integers(0, 500), st.integers(1, 600), st.integers(1, 90))
def test_every_row_is_in_one_stretch_and_each_begins_at_a_step(rows, apiece, step):
    lock, seen = threading.Lock(), list[slice]()

    def work(part: slice) -> None:
        with lock:
            seen.append(part)

    by_cores(rows, work, apiece=apiece, step=step)
    assert sorted(row for part in seen for row in range(part.start, part.stop)) == list(range(rows))
    assert all(part.start % step == 0 for part in seen)
    assert rows >= apiece or len(seen) == 1, "a few rows are one core's"


@pytest.mark.parametrize("failing", [0, 1])
def test_what_goes_wrong_on_a_core_is_told(failing):
    def work(part: slice) -> None:
        if (part.start > 0) == bool(failing):
            raise MemoryError(f"rows from {part.start}")

    if failing and (os.cpu_count() or 1) < 2:
        pytest.skip("one core only")
    with pytest.raises(MemoryError, match="rows from"):
        by_cores(100, work, apiece=1)
