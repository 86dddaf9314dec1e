"""Wait for calls of a language model, and stop a turn from another thread.

A turn runs in one thread. Within `stop_context(stop)`, calls of a language model check the `Stop` while they wait, and
the turn checks it between events.

Calls of endpoints run as tasks on one background event loop, since a task can be canceled at any moment. A blocking
read could not be interrupted by Ctrl-C in another thread, and its time-out would restart with every keep-alive comment.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from turnmark.assistant.types import Event, Reply

T = TypeVar("T")
OnPiece = Callable[[str], None]
CallReports = queue.SimpleQueue[tuple[str, Any]]
"""Reports of a call: ("text", piece), ("wait", line), ("stop", None), ("failed", error) or ("done", result)."""
CLOSE_SECONDS = 2.0
"""Maximum seconds to wait for a canceled call to close its connection."""
SLOT_POLL_SECONDS = 0.1
"""Seconds between two checks of the `Stop`, while waiting for a slot."""


class TurnStopped(BaseException):
    """Raised when a turn is stopped. Not an `Exception`, so a step's fallback for a failing model does not catch it."""


class Stop:
    """A switch that stops a turn from any thread.

    Args:
        seconds: time after which the turn is stopped, or None if only `set` stops it.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self._ends = None if seconds is None else time.monotonic() + seconds
        self._set = threading.Event()
        self._lock = threading.Lock()
        self._wakers: list[Callable[[], None]] = []

    def set(self) -> None:
        """Stop the turn, and wake its waiting calls. May be called from any thread, and more than once."""
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
        """Return the remaining seconds, at most `seconds`."""
        return seconds if self._ends is None else max(0.0, min(seconds, self._ends - time.monotonic()))

    def check(self) -> None:
        """Raise `TurnStopped` if the turn was stopped, or its time is up."""
        if self._set.is_set() or self.late:
            raise TurnStopped

    def wait(self, seconds: float) -> None:
        """Sleep, at most until the turn is stopped.

        Raises:
            TurnStopped: the turn was stopped, or its time is up.
        """
        self._set.wait(self.left(seconds))
        self.check()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Let `set` call `wake` within this context; call it at once if the turn was stopped already."""
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


ON_WAIT: ContextVar[Callable[[str], None] | None] = ContextVar("ON_WAIT", default=None)
"""Called with a line for the person when a call of this thread waits before a retry."""


def report_wait(seconds: float, problem: str) -> None:
    """Report that a call waits before it is retried, and why."""
    on_wait = ON_WAIT.get()
    if on_wait is not None:
        on_wait(f"retrying in {max(1, round(seconds))} s{': ' * bool(problem)}{problem}")


_CURRENT: ContextVar[Stop | None] = ContextVar("STOP", default=None)


def current_stop() -> Stop:
    """Return the `Stop` of the turn in this thread; without one, a new `Stop` that is never set."""
    return _CURRENT.get() or Stop()


@contextmanager
def stop_context(stop: Stop) -> Iterator[None]:
    """Let `stop` stop the work of this thread within this context."""
    token = _CURRENT.set(stop)
    try:
        yield
    finally:
        _CURRENT.reset(token)


class Slots:
    """Slots for concurrent calls of a model, given out in the order in which they were asked for.

    A `threading.Lock` does not keep this order: of eight clients that waited for the same model, the slowest waited
    three times as long as the fastest.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: deque[threading.Event] = deque()

    @contextmanager
    def hold(self) -> Iterator[None]:
        """Wait for a slot and keep it within this context; raise `TurnStopped` if the turn is stopped meanwhile."""
        stop, mine = current_stop(), threading.Event()
        with self._lock:
            if self._free:
                self._free -= 1
                mine.set()
            else:
                self._waiting.append(mine)
        try:
            while not mine.wait(stop.left(SLOT_POLL_SECONDS)):
                stop.check()
            yield
        finally:
            self._leave(mine)

    def _leave(self, mine: threading.Event) -> None:
        """Give the slot to the call that has waited longest; a call without a slot stops waiting."""
        with self._lock:
            if not mine.is_set():
                self._waiting.remove(mine)
            elif self._waiting:
                self._waiting.popleft().set()
            else:
                self._free += 1


def stream_turn(turn: Callable[[Callable[[Event], None]], Reply], stop: Stop) -> Iterator[Event | Reply]:
    """Run a turn in another thread, and yield its events as they come and then its reply.

    Closing the generator or `stop` stops the turn, and then there is no reply.
    """
    events: queue.SimpleQueue[Event | Reply | BaseException] = queue.SimpleQueue()

    def report(event: Event) -> None:
        stop.check()
        events.put(event)

    def work() -> None:
        try:
            with stop_context(stop):
                events.put(turn(report))
        except BaseException as error:  # raised again in the caller's thread
            events.put(error)

    threading.Thread(target=work, name="turnmark-turn", daemon=True).start()
    try:
        while isinstance(event := events.get(), Event):
            yield event
    finally:
        stop.set()
    if isinstance(event, Reply):
        yield event
    elif not isinstance(event, TurnStopped):
        raise event


# --- calls -----------------------------------------------------------------------------------------------------------

_lock = threading.Lock()
_loop: tuple[int, asyncio.AbstractEventLoop] | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of this process; a forked child gets a new one, since threads do not survive a fork."""
    global _loop
    with _lock:
        if _loop is None or _loop[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="turnmark-generators", daemon=True).start()
            _loop = (os.getpid(), loop)
        return _loop[1]


def wait_for_call(news: CallReports, deadline: float, on_text: OnPiece | None = None) -> Any:
    """Wait for a call that reports to `news`, and pass its text to `on_text` in this thread; return its result.

    Raises:
        TimeoutError: no report for `deadline` seconds.
        TurnStopped: the turn of this call was stopped.
    """
    stop, on_wait = current_stop(), ON_WAIT.get()
    ends = time.monotonic() + deadline
    with stop.waking(lambda: news.put(("stop", None))):
        while True:
            stop.check()
            try:
                kind, value = news.get(timeout=stop.left(max(0.0, ends - time.monotonic())))
            except queue.Empty:
                stop.check()
                raise TimeoutError from None
            if kind == "wait":  # the deadline includes retries
                if on_wait is not None:
                    on_wait(value)
                continue
            ends = time.monotonic() + deadline
            if kind == "text" and on_text is not None and value:
                on_text(value)
            elif kind == "failed":
                raise value
            elif kind == "done":
                return value


def run_call(work: Callable[[OnPiece], Coroutine[Any, Any, T]], deadline: float, on_text: OnPiece | None = None) -> T:
    """Run `work(report)` on the event loop and wait for its result (see `wait_for_call`); an exception here cancels it.

    Args:
        work: calls `report` with each piece of text when it arrives; "" for one without text.
    """
    news: CallReports = queue.SimpleQueue()
    ended = threading.Event()

    async def run() -> None:
        ON_WAIT.set(lambda line: news.put(("wait", line)))  # this task has its own context
        try:
            news.put(("done", await work(lambda piece: news.put(("text", piece)))))
        except Exception as error:
            news.put(("failed", error))
        finally:
            ended.set()

    current_stop().check()
    future = asyncio.run_coroutine_threadsafe(run(), _running_loop())
    try:
        result: T = wait_for_call(news, deadline, on_text)
        return result
    finally:
        if not ended.is_set():  # the endpoint must not keep writing after the caller has returned
            future.cancel()
            ended.wait(CLOSE_SECONDS)
