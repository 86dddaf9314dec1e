"""Runs a turn in a thread, so that the user can type while its answer is checked."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from turnmark.assistant.llm.calls.cancellation import Stop, stop_context
from turnmark.assistant.types import Event, Reply

POLL_SECONDS = 0.5
"""Seconds between looks at the keyboard while a turn is waited for. Windows delivers Ctrl-C only then."""


class RunTurn(Protocol):
    """Runs a turn: `Assistant.reply` or `Assistant.revise` with a history and a message."""

    def __call__(self, *, on_event: Callable[[Event], None], on_answer: Callable[[Reply], None]) -> Reply: ...


class TurnInBackground:
    """A turn in a thread: first its events, then the reply without checks, and later the checked reply.

    Attributes:
        later_events: the events after the answer.

    Args:
        run: runs the turn.
        after: called in the thread with the checked reply.
    """

    def __init__(self, run: RunTurn, after: Callable[[Reply], None]) -> None:
        self.later_events: list[Event] = []
        self._stop = Stop()
        self._news: queue.SimpleQueue[Event | Reply | BaseException] = queue.SimpleQueue()
        self._unchecked: Reply | None = None
        self._checked: Reply | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, args=(run, after), name="turnmark-turn", daemon=True)
        self._thread.start()

    def _work(self, run: RunTurn, after: Callable[[Reply], None]) -> None:
        try:
            with stop_context(self._stop):
                self._checked = run(on_event=self._report, on_answer=self._answered)
            after(self._checked)
        except BaseException as error:  # raised again in the caller's thread
            self._error = error
            self._news.put(error)

    def _report(self, event: Event) -> None:
        self._stop.check()
        if self._unchecked is None:
            self._news.put(event)
        else:
            self.later_events.append(event)

    def _answered(self, reply: Reply) -> None:
        self._unchecked = reply
        self._news.put(reply)

    def answer(self, on_event: Callable[[Event], None]) -> Reply:
        """Pass on the events until the answer is complete, and return the reply without checks."""
        try:
            while True:
                news = _next(self._news)
                if isinstance(news, Reply):
                    return news
                if isinstance(news, BaseException):
                    raise news
                on_event(news)
        except BaseException:
            self._stop.set()
            raise

    @property
    def is_checked(self) -> bool:
        """Whether `reply` returns at once."""
        return not self._thread.is_alive()

    def reply(self) -> tuple[Reply, str]:
        """Wait for the checks; return the reply, and why it could not be checked (empty if it was)."""
        while self._thread.is_alive():
            self._thread.join(POLL_SECONDS)
        if self._checked is not None:
            return self._checked, ""
        return self.unchecked, str(self._error)

    @property
    def unchecked(self) -> Reply:
        """The reply without checks."""
        assert self._unchecked is not None, "`answer` has returned it"
        return self._unchecked


def _next(news: queue.SimpleQueue[Event | Reply | BaseException]) -> Event | Reply | BaseException:
    while True:
        with suppress(queue.Empty):
            return news.get(timeout=POLL_SECONDS)


def without_searches(event: Event) -> Event:
    """Return an event as a session records it: the reply contains the searches already."""
    detail = {key: value for key, value in event.detail.items() if key != "searches"}
    return event.model_copy(update={"detail": detail})
