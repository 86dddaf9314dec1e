"""Ending a turn from outside: whoever waits for it in another thread can let it go, or give it so many seconds.

A turn runs to its end in one thread. `stoppable(stop)` puts a `Stop` around it; calls of a language model look at it
while they wait, and whoever reports the turn's events looks at it in between.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from turnmark.assistant.types import Event, Reply


class Stopped(BaseException):
    """The turn was ended from outside. No `Exception`: a step that does without its model must not do without this."""


class Stop:
    """Says whether a turn shall end; with `seconds` it does so by itself then."""

    def __init__(self, seconds: float | None = None) -> None:
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []

    def set(self) -> None:
        """End the turn, and wake what waits for it. May be called from any thread, and more than once."""
        with self._lock:
            self._set.set()
            wakers = list(self._wakers)
        for wake in wakers:
            wake()

    @property
    def late(self) -> bool:
        """Whether the time is up."""
        return self._ends is not None and time.monotonic() >= self._ends

    def left(self, seconds: float) -> float:
        """So many seconds, or what is left where that is less."""
        return seconds if self._ends is None else max(0.0, min(seconds, self._ends - time.monotonic()))

    def check(self) -> None:
        """Go on only if the turn may: `Stopped` if it was ended, or its time is up."""
        if self._set.is_set() or self.late:
            raise Stopped

    def wait(self, seconds: float) -> None:
        """Sleep so long, or until the turn is ended."""
        self._set.wait(self.left(seconds))
        self.check()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """While this lasts, `set` calls `wake`; at once where it was called before."""
        with self._lock:
            self._wakers.append(wake)
            already = self._set.is_set()
        if already:
            wake()
        try:
            yield
        finally:
            with self._lock:
                self._wakers.remove(wake)


_CURRENT: ContextVar[Stop | None] = ContextVar("STOP", default=None)


def current() -> Stop:
    """The stop of the turn that runs in this thread; else one that nobody sets."""
    return _CURRENT.get() or Stop()


@contextmanager
def stoppable(stop: Stop) -> Iterator[None]:
    """What runs in this thread meanwhile is ended by `stop`."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def stream_turn(turn: Callable[[Callable[[Event], None]], Reply], stop: Stop) -> Iterator[Event | Reply]:
    """A turn in another thread, which reports its events: these as they come, then its reply.

    Leaving the loop early ends the turn; so does `stop`, and then there is no reply.
    """
    events: queue.SimpleQueue[Event | Reply | BaseException] = queue.SimpleQueue()

    def report(event: Event) -> None:
        stop.check()
        events.put(event)

    def work() -> None:
        try:
            with stoppable(stop):
                events.put(turn(report))
        except BaseException as error:  # raised again in the thread of whoever listens
            events.put(error)

    threading.Thread(target=work, name="turnmark-turn", daemon=True).start()
    try:
        while isinstance(event := events.get(), Event):
            yield event
    finally:
        stop.set()
    if isinstance(event, Reply):
        yield event
    elif not isinstance(event, Stopped):
        raise event
