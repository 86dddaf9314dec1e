"""Run turns of assistants in threads for a server; stream their events, and stop them when the client disconnects."""

from __future__ import annotations

import asyncio
import logging
import os
import traceback
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from turnmark.assistant.llm.calls.cancellation import Stop, TurnStopped, stop_context
from turnmark.assistant.llm.calls.protocols import GeneratorError
from turnmark.assistant.serving.request_bodies import ChatRequest, RejectedRequest
from turnmark.assistant.types import Event, Reply
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.untrusted import one_line

if TYPE_CHECKING:
    from turnmark.assistant.llm.calls.protocols import Generator
    from turnmark.assistant.turn.assistant import Assistant

IDLE_SECONDS = 1.0
"""Seconds without an event after which a handler checks whether its client is still connected."""
MAX_MODEL_TURNS = 16
"""Maximum concurrent turns with a language model; without one, the number of processors."""
_SERVER_STOPPED = RejectedRequest(
    "the server shut down before the turn was finished; ask again when it is back", status=503, code="stopped"
)

_MODEL_PROBLEMS = {
    "auth": "refused the server's key",
    "bad_request": "refused the request",
    "rate_limited": "has too many requests; try again later",
    "refused": "refused to answer",
    "timeout": "did not answer in time",
    "unavailable": "cannot be reached or failed",
}
"""What clients are told about an error of the language model, by its kind."""
_FAILURE_NOTES = ("understood by rules", "answered without more tools")
"""Beginnings of the notes about a call that failed without ending the turn."""


class Turns:
    """Runs the turns of one language model in threads, at most `at_once` concurrently; further turns wait.

    A turn as a whole has no deadline. Its calls of models and stores have deadlines, because only they know whether
    more output is still coming.

    Args:
        shown_name: name of the language model for clients. If it is set, clients learn neither the endpoint nor the
            details of an error, which are logged.
    """

    def __init__(self, at_once: int, shown_name: str = "") -> None:
        self._shown_name = shown_name
        self._pool = ThreadPoolExecutor(at_once, "turnmark-turn")
        self._stops: set[Stop] = set()
        self._closed = False

    def close(self) -> None:
        """Stop every turn."""
        self._closed = True
        for stop in self._stops:
            stop.set()
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def events(
        self, assistant: Callable[[], Assistant], request: ChatRequest
    ) -> AsyncGenerator[Event | Reply | RejectedRequest | None, None]:
        """Yield a turn's events as they occur, then its reply or a refusal.

        After `IDLE_SECONDS` without an event, yield None. Leaving the loop stops the turn.

        Args:
            assistant: called when the turn begins; returns the assistant with the newest generation of its indexes.
        """
        loop, news, stop = asyncio.get_running_loop(), asyncio.Queue[Event | Reply | RejectedRequest](), Stop()

        def on_event(event: Event) -> None:
            stop.check()
            if self._shown_name and event.step == "note":
                event = event.model_copy(update={"text": _hide_failure(event.text)})
            loop.call_soon_threadsafe(news.put_nowait, event)

        def work() -> None:
            loop.call_soon_threadsafe(news.put_nowait, self._outcome(assistant, request, stop, on_event))

        self._stops.add(stop)
        future = self._pool.submit(work)
        try:
            item: Event | Reply | RejectedRequest | None = None
            while item is None or isinstance(item, Event):
                try:
                    item = await asyncio.wait_for(news.get(), IDLE_SECONDS)
                except TimeoutError:  # a waiting or hanging turn cannot report that it was stopped
                    item = _SERVER_STOPPED if self._closed else None
                yield item
        finally:
            stop.set()
            future.cancel()
            self._stops.discard(stop)

    def _outcome(
        self, assistant: Callable[[], Assistant], request: ChatRequest, stop: Stop, on_event: Callable[[Event], None]
    ) -> Reply | RejectedRequest:
        try:
            with stop_context(stop):
                stop.check()
                return self._shown(assistant().reply(request.history, request.message, on_event))
        except TurnStopped:
            return _SERVER_STOPPED
        except GeneratorError as error:
            if self._shown_name:
                return _hide_details(error)
            return RejectedRequest(str(error), status=504 if error.kind == "timeout" else 502, code=error.kind)
        except RequestError as error:
            return RejectedRequest(error.problems)
        except TurnmarkError as error:
            return RejectedRequest(str(error), status=500)
        except Exception as error:  # a bug here or in a plug-in must not end the server
            # Only the location is logged, since the message may quote a document or a key.
            frames = "".join(traceback.format_tb(error.__traceback__))
            logging.getLogger("turnmark").error("a turn failed unexpectedly (%s):\n%s", type(error).__name__, frames)
            return RejectedRequest(f"the turn failed unexpectedly ({type(error).__name__})", status=500)

    def _shown(self, reply: Reply) -> Reply:
        """Return a reply as clients may see it; log what they may not."""
        if not self._shown_name:
            return reply
        notes = tuple(map(_hide_failure, reply.notes))
        for note in set(reply.notes) - set(notes):
            logging.getLogger("turnmark").warning("%s", one_line(note))
        return reply.model_copy(update={"generator": self._shown_name, "notes": notes})


def _hide_failure(note: str) -> str:
    """Return a note without the words of a failed call, which may name the endpoint and the variable of its key."""
    what, separator, _ = note.partition(": ")
    if separator and what in _FAILURE_NOTES:
        return f"{what}, since the server's language model failed"
    return note


def _hide_details(error: GeneratorError) -> RejectedRequest:
    """Log an error of the language model, and return what its clients may know.

    The error names the endpoint and the variable of its key, which concern only the person who runs the server.
    """
    logging.getLogger("turnmark").error("the language model failed: %s", one_line(error))
    problem = _MODEL_PROBLEMS.get(error.kind, "failed")
    message = f"the server's language model {problem}; the server's log has the details"
    return RejectedRequest(message, status=504 if error.kind == "timeout" else 502, code=error.kind)


def turns_at_once(generator: Generator | None) -> int:
    """Return the maximum number of concurrent turns with a language model, or without one."""
    return MAX_MODEL_TURNS if generator is not None else max(2, os.cpu_count() or 2)
