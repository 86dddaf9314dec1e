"""How many samples run at once: as many as asked for, fewer while an endpoint says that it is too much."""

from __future__ import annotations

import threading
import time

SETTLE = 1.0
"""Seconds in which further complaints belong to the same burst."""


class Pace:
    """Additive increase, multiplicative decrease, as TCP does it: halved at a 429, one more after a round without.

    Args:
        most: samples at once while nobody complains.
    """

    def __init__(self, most: int) -> None:
        self._most = float(most)
        self._limit = float(most)
        self._slowed = float("-inf")
        self._lock = threading.Lock()
        self.complaints = 0

    @property
    def limit(self) -> int:
        """Samples that may run at once, 1 at least."""
        return max(1, int(self._limit))

    def slow_down(self) -> None:
        """An endpoint answered 429. Those of one burst halve the pace once."""
        with self._lock:
            self.complaints += 1
            now = time.monotonic()
            if now - self._slowed >= SETTLE:
                self._slowed = now
                self._limit = max(1.0, self._limit / 2)

    def went_well(self) -> None:
        """A sample ended without a complaint since the last slowing down."""
        with self._lock:
            if time.monotonic() - self._slowed >= SETTLE:
                self._limit = min(self._most, self._limit + 1.0 / max(1.0, self._limit))
