"""Turns of a server: so many at once in threads, the others waiting for one of them."""

from __future__ import annotations

import asyncio
import logging
import traceback
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.generators.stopping import Stop, Stopped, stoppable
from turnmark.assistant.serving.request import ChatRequest, Refusal
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import RequestError, TurnmarkError

if TYPE_CHECKING:
    from turnmark.assistant.assistant import Assistant

IDLE = 1.0
"""Seconds without news after which whoever listens looks whether its client is still there."""


class Turns:
    """Runs turns of an assistant, which many threads may use. For one event loop.

    Args:
        at_once: threads.
        seconds: that a turn may take, waiting included.
    """

    def __init__(self, assistant: Assistant, at_once: int, seconds: float) -> None:
        self._assistant, self._at_once, self._seconds = assistant, at_once, seconds
        self._pool = ThreadPoolExecutor(at_once, "turnmark-turn")
        self._taken = 0
        self._stops: set[Stop] = set()

    @property
    def counts(self) -> dict[str, int]:
        """How many turns are at work, and wait."""
        at_work = min(self._taken, self._at_once)
        return {"at_work": at_work, "waiting": self._taken - at_work}

    def close(self) -> None:
        """End every turn."""
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def events(self, asked: ChatRequest) -> AsyncGenerator[Event | Reply | Refusal | None, None]:
        """A turn's events as they come, then its reply or what to answer instead; None after `IDLE` seconds without.

        Leaving the loop ends the turn.
        """
        loop, news = asyncio.get_running_loop(), asyncio.Queue[Event | Reply | Refusal]()
        stop = Stop(self._seconds)

        def later(function: Callable[..., object], *arguments: Any) -> None:
            try:
                loop.call_soon_threadsafe(function, *arguments)
            except RuntimeError:  # the loop has ended, and nobody listens
                pass

        def on_event(event: Event) -> None:
            stop.check()
            later(news.put_nowait, event)

        def work() -> None:
            later(news.put_nowait, self._outcome(asked, stop, on_event))

        future = self._pool.submit(work)
        self._taken += 1
        self._stops.add(stop)
        future.add_done_callback(lambda _: later(self._ended, stop))
        try:
            while True:
                try:
                    item = await asyncio.wait_for(news.get(), IDLE)
                except TimeoutError:
                    yield None
                    continue
                yield item
                if not isinstance(item, Event):
                    return
        finally:
            stop.set()
            future.cancel()

    def _ended(self, stop: Stop) -> None:
        self._taken -= 1
        self._stops.discard(stop)

    def _outcome(self, asked: ChatRequest, stop: Stop, on_event: Callable[[Event], None]) -> Reply | Refusal:
        try:
            with stoppable(stop):
                stop.check()
                return self._assistant.reply(asked.history, asked.message, on_event)
        except Stopped:
            if stop.late:
                return Refusal(f"the turn was not done within {self._seconds:g} seconds", status=504, code="timeout")
            return Refusal("the turn was ended before it was done", status=503, code="stopped")
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
