"""Waiting for calls of a language model, and ending a turn from outside.

A turn runs to its end in one thread. `stoppable(stop)` puts a `Stop` around it; calls of a language model look at it
while they wait, and whoever reports the turn's events looks at it in between.

Calls of endpoints run on one background event loop: a blocking read cannot be left when a person presses Ctrl-C in a
turn that runs elsewhere, and its time-out starts anew with every keep-alive comment. A task can be cancelled at any
moment, and its caller waits for pieces of text.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from turnmark.assistant.types import Event, Reply

T = TypeVar("T")
OnPiece = Callable[[str], None]
News = queue.SimpleQueue[tuple[str, Any]]
"""What a call reports: ("text", piece), ("stop", None), ("failed", error) or ("done", result)."""
CLOSING = 2.0
"""Seconds that a cancelled call may take to close its connection before its caller goes on."""
LOOK_AGAIN = 0.1
"""Seconds between two looks at whether the turn was ended, for one that waits for its place."""


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


@contextmanager
def holding(places: threading.Lock | threading.Semaphore) -> Iterator[None]:
    """A lock, or one place of a semaphore, for this thread; waiting for it ends when the turn is ended."""
    stop = current()
    while not places.acquire(timeout=LOOK_AGAIN):
        stop.check()
    try:
        yield
    finally:
        places.release()


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


# --- calls -----------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_loop: tuple[int, asyncio.AbstractEventLoop] | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child gets another, because threads do not survive a fork."""
    global _loop
    with _lock:
        if _loop is None or _loop[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="turnmark-generators", daemon=True).start()
            _loop = (os.getpid(), loop)
        return _loop[1]


def follow(news: News, deadline: float, on_text: OnPiece | None = None) -> Any:
    """Wait for a call that reports to `news`, and pass its text on in this thread.

    Raises:
        TimeoutError: nothing was reported for `deadline` seconds.
        Stopped: the turn that this call is part of was ended.
    """
    stop = current()
    with stop.waking(lambda: news.put(("stop", None))):
        while True:
            stop.check()
            try:
                kind, value = news.get(timeout=stop.left(deadline))
            except queue.Empty:
                stop.check()
                raise TimeoutError from None
            if kind == "text" and on_text is not None and value:
                on_text(value)
            elif kind == "failed":
                raise value
            elif kind == "done":
                return value


def drive(work: Callable[[OnPiece], Coroutine[Any, Any, T]], deadline: float, on_text: OnPiece | None = None) -> T:
    """Run `work(report)` on the loop and wait for its result as `follow` does; leaving early cancels it.

    Args:
        work: reports each piece as it comes; "" for one without text.
    """
    news: News = queue.SimpleQueue()
    ended = threading.Event()

    async def run() -> None:
        try:
            news.put(("done", await work(lambda piece: news.put(("text", piece)))))
        except Exception as error:
            news.put(("failed", error))
        finally:
            ended.set()

    current().check()
    future = asyncio.run_coroutine_threadsafe(run(), _running_loop())
    try:
        result: T = follow(news, deadline, on_text)
        return result
    finally:
        if not ended.is_set():  # the caller must not go on while the endpoint still writes for it
            future.cancel()
            ended.wait(CLOSING)
