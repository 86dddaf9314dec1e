"""How many samples run at once: halved by a burst of 429s, back again without them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.evaluation import limits
from turnmark.evaluation.limits import SETTLE, AdaptiveConcurrency


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    stand_in = Clock()
    monkeypatch.setattr(limits, "time", stand_in)
    return stand_in


def test_a_burst_halves_once_and_the_next_one_again(clock: Clock) -> None:
    paced = AdaptiveConcurrency(16)
    for _ in range(16):
        paced.slow_down()
    assert (paced.limit, paced.complaints) == (8, 16)
    clock.now += SETTLE
    paced.slow_down()
    assert paced.limit == 4


def test_it_never_stops_and_it_recovers(clock: Clock) -> None:
    paced = AdaptiveConcurrency(10)
    for _ in range(20):
        paced.slow_down()
        clock.now += SETTLE
    assert paced.limit == 1
    limits = []
    for _ in range(100):
        paced.went_well()
        limits.append(paced.limit)
    assert limits == sorted(limits)
    assert limits[-1] == 10, "and not more than was asked for"


def test_what_ends_well_within_the_burst_proves_nothing(clock: Clock) -> None:
    paced = AdaptiveConcurrency(8)
    paced.slow_down()
    clock.now += SETTLE / 2
    for _ in range(50):
        paced.went_well()
    assert paced.limit == 4


@given(st.integers(1, 500), st.lists(st.tuples(st.booleans(), st.floats(0, 5)), max_size=100))
def test_the_limit_is_always_between_one_and_what_was_asked_for(most: int, steps: list[tuple[bool, float]]) -> None:
    stand_in = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(limits, "time", stand_in)
        paced = AdaptiveConcurrency(most)
        for slower, seconds in steps:
            stand_in.now += seconds
            (paced.slow_down if slower else paced.went_well)()
            assert 1 <= paced.limit <= most
