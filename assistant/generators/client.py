"""The client of one endpoint, and its calls on one background event loop.

A blocking read cannot be left when a person presses Ctrl-C in a turn that runs elsewhere, and its time-out starts anew
with every keep-alive comment. A task can be cancelled at any moment, and its caller waits for pieces of text.
"""

from __future__ import annotations

import asyncio
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from turnmark.assistant.generators.base import ON_RATE_LIMIT
from turnmark.assistant.generators.stopping import current

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
OnPiece = Callable[[str], None]
News = queue.SimpleQueue[tuple[str, Any]]
"""What a call reports: ("text", piece), ("stop", None), ("failed", error) or ("done", result)."""

CONNECT_SECONDS = 10.0
CLOSING = 2.0
"""Seconds that a cancelled call may take to close its connection before its caller goes on."""
_NO_KEY = "no-key"  # the client does not start without one, and a server without keys ignores it


@dataclass
class RequestTally:
    """Requests of a call so far, retries included, and the status of the last answer."""

    sent: int = 0
    status: int = 0


TALLY: ContextVar[RequestTally | None] = ContextVar("TALLY", default=None)


async def _on_request(_request: Any) -> None:
    if tally := TALLY.get():
        tally.sent += 1


async def _on_response(response: Any) -> None:
    if tally := TALLY.get():
        tally.status = response.status_code
        if response.status_code == 429 and (on_rate_limit := ON_RATE_LIMIT.get()):
            on_rate_limit()


def is_here(url: str) -> bool:
    """Whether an address is of this machine."""
    host = (urlsplit(url).hostname or "") if url else ""
    return host in ("localhost", "::1", "0.0.0.0") or host.startswith("127.")


def client_of(url: str, key: str, retries: int, at_once: int | None = None) -> AsyncOpenAI:
    """The SDK's client: its retries, and no time-out but that of connecting, as the caller counts the rest."""
    import httpx

    # The SDK looks for it among the loaded modules and uses it, also while another thread is still importing it.
    with suppress(ImportError):
        import_module("httpx2")
    import openai

    options: dict[str, Any] = {"limits": httpx.Limits(max_connections=at_once)} if at_once else {}
    http = openai.DefaultAsyncHttpxClient(
        trust_env=not is_here(url),  # no proxy of the environment reaches this machine's loopback
        event_hooks={"request": [_on_request], "response": [_on_response]},
        **options,
    )
    client = openai.AsyncOpenAI(
        api_key=key or _NO_KEY,
        base_url=url,
        max_retries=retries,
        timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
        http_client=http,
    )
    _ = client.chat.completions  # loads its modules now, not within the first call's deadline
    return client


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
