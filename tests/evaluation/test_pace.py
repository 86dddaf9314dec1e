"""How many samples run at once: halved by a burst of 429s, back again without them."""

from __future__ import annotations

import pytest

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
