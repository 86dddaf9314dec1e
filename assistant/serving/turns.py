"""Where turns are taken on: so many at work in threads, so many waiting beside them, and none beyond."""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from math import ceil
from typing import TYPE_CHECKING

from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.generators.stopping import Stop, Stopped, stoppable
from turnmark.assistant.serving.guard import Limits
from turnmark.assistant.serving.request import ChatRequest, Refusal
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import RequestError, TurnmarkError

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant

_FIRST_GUESS = 1.0
_LONGEST_WAIT = 60
_SMOOTHING = 0.1

Outcome = Reply | Refusal


class TurnPool:
    """Takes on turns for an assistant. To be used from one event loop.

    Args:
        assistant: safe to use from many threads.
    """

    def __init__(self, assistant: Assistant, limits: Limits) -> None:
        self._assistant, self._limits = assistant, limits
        self._pool = ThreadPoolExecutor(limits.turns, "turnmark-turn")
        self._taken: set[QueuedTurn] = set()
        self._pace = _FIRST_GUESS  # seconds a turn takes, smoothed

    @property
    def waiting(self) -> int:
        """Turns that no thread has begun yet."""
        return max(0, len(self._taken) - self._limits.turns)

    @property
    def at_work(self) -> int:
        """Turns that threads are at."""
        return min(len(self._taken), self._limits.turns)

    def take(self, chat_request: ChatRequest) -> QueuedTurn:
        """Take on a turn.

        Raises:
            Refusal: 429, at once: as many wait already as may.
        """
        if len(self._taken) >= self._limits.turns + self._limits.queue:
            raise Refusal(
                f"{self.at_work} turns are at work and {self.waiting} wait; come again later",
                status=429,
                code="rate_limit_exceeded",
            )
        work = QueuedTurn(chat_request, Stop(self._limits.seconds), asyncio.get_running_loop())
        self._taken.add(work)
        work.future = self._pool.submit(self._turn, work)
        work.future.add_done_callback(lambda future: work.soon(self._done, work, future))
        return work

    def retry_after(self) -> int:
        """Seconds until what waits now may be done."""
        return max(1, min(_LONGEST_WAIT, ceil(self._pace * (self.waiting + 1) / self._limits.turns)))

    def close(self) -> None:
        """End every turn."""
        for work in list(self._taken):
            work.leave()
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _done(self, work: QueuedTurn, future: Future[Outcome]) -> None:
        self._taken.discard(work)
        work.end(_abandoned() if future.cancelled() else future.result())

    def _turn(self, work: QueuedTurn) -> Outcome:
        """One turn in a thread: its reply, or what to answer in its place. The one place that catches."""
        began = time.monotonic()
        try:
            with stoppable(work.stop):
                work.stop.check()
                reply = self._assistant.reply(work.asked.history, work.asked.message, work.tell)
        except Stopped:
            return _timed_out(self._limits.seconds) if work.stop.late else _abandoned()
        except GeneratorError as error:
            return Refusal(str(error), status=502, code=error.kind)
        except RequestError as error:
            return Refusal(error.problems)
        except TurnmarkError as error:
            return Refusal(str(error), status=500)
        except Exception as error:  # a fault of ours or of a part from outside must not end the server
            # Where it was, not what it says: that may quote a document or a key.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logging.getLogger("turnmark").error("a turn failed unexpectedly (%s):\n%s", type(error).__name__, frames)
            return Refusal(f"the turn failed unexpectedly ({type(error).__name__})", status=500)
        self._pace += _SMOOTHING * (time.monotonic() - began - self._pace)
        return reply


class QueuedTurn:
    """A turn that was taken on."""

    def __init__(self, chat_request: ChatRequest, stop: Stop, loop: asyncio.AbstractEventLoop) -> None:
        self.asked, self.stop, self._loop = chat_request, stop, loop
        self.future: Future[Outcome] | None = None
        self._told: asyncio.Queue[Event | None] = asyncio.Queue()
        self._outcome: asyncio.Future[Outcome] = loop.create_future()

    def tell(self, event: Event) -> None:
        """Hand on an event from the turn's thread.

        Raises:
            Stopped: the turn shall end.
        """
        self.stop.check()
        if self.asked.stream:
            self.soon(self._told.put_nowait, event)

    def soon(self, function: Callable[..., object], *arguments: object) -> None:
        """Call something in the loop's thread; nothing where the loop has ended, since nobody listens then."""
        try:
            self._loop.call_soon_threadsafe(function, *arguments)
        except RuntimeError:
            pass

    def end(self, outcome: Outcome) -> None:
        """The turn has ended so."""
        self._told.put_nowait(None)
        if not self._outcome.done():
            self._outcome.set_result(outcome)

    def leave(self) -> None:
        """Nobody waits for it any more: it ends, or never begins."""
        self.stop.set()
        if self.future is not None:
            self.future.cancel()

    async def outcome(self) -> Outcome:
        """How it ended, once it has."""
        return await asyncio.shield(self._outcome)

    async def events(self, idle: float) -> AsyncIterator[Event | None]:
        """Its events as they come; None where there was none for so many seconds."""
        while True:
            try:
                event = await asyncio.wait_for(self._told.get(), idle)
            except TimeoutError:
                yield None
                continue
            if event is None:
                return
            yield event


def _timed_out(seconds: float) -> Refusal:
    return Refusal(f"the turn was not done within {seconds:g} seconds", status=504, code="timeout")


def _abandoned() -> Refusal:
    return Refusal("the turn was ended before it was done", status=503, code="stopped")
