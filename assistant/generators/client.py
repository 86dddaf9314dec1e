"""HTTP clients of one endpoint, their calls on one background event loop, and a limit on what a reply may hold.

Why not plain blocking calls: their time-outs are per read, so a reply that drips, a slow name look-up or a stalled
stream outlasts any deadline. A task on a loop can be given one deadline for everything, and cancelled at once.
"""

from __future__ import annotations

import asyncio
import os
import queue
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

import httpx

from turnmark.assistant.generators.stopping import current

if TYPE_CHECKING:
    from openai import AsyncOpenAI

T = TypeVar("T")
Tell = Callable[[str], None]

REPLY_BYTES = 8_000_000
"""Of a whole reply, of the text of a stream, and of one of its events.

A reply of 128,000 tokens is half a megabyte of text.
"""
STREAM_BYTES = 16 * REPLY_BYTES
"""Of a stream: a few letters of text come in an event of several hundred bytes, of which nothing else is kept."""
ERROR_BYTES = 100_000
"""Of an error's words; the rest is not read, since an error is one without them."""
HEADERS = {"Accept-Encoding": "identity"}
"""What is compressed could become any number of bytes before they are counted."""

_BLANK_LINES = (b"\n\n", b"\r\n\r\n", b"\r\r")


class TooLarge(Exception):
    """A reply is larger than a reply may be, or cannot be measured; the message says which."""


def check_text(characters: int) -> None:
    """Raises: TooLarge: so many characters are more than a reply's text may have."""
    if characters > REPLY_BYTES:
        raise TooLarge(f"a text of more than {REPLY_BYTES / 1e6:g} million characters")


async def limited(response: httpx.Response) -> None:
    """Have a reply counted while it is read; for httpx's hook `response`.

    Raises:
        TooLarge: it is announced as too large, or compressed. While it is read: it has become too large.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity"):
        raise TooLarge("a reply that is compressed, though it was not asked to be")
    cut = response.status_code >= 400
    streamed = "event-stream" in response.headers.get("content-type", "")
    announced = response.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > REPLY_BYTES and not cut and not streamed:
        raise _too_large()
    response.stream = _Counted(response.stream, streamed, cut)


def _too_large() -> TooLarge:
    return TooLarge(f"a reply of more than {REPLY_BYTES / 1e6:g} MB")


class _Counted(httpx.AsyncByteStream):
    """A reply's bytes as far as they may go.

    Args:
        streamed: server-sent events, of which each is held alone.
        cut: beyond `ERROR_BYTES` it is at its end.
    """

    def __init__(self, stream: Any, streamed: bool, cut: bool) -> None:
        self._stream, self._streamed, self._cut = stream, streamed, cut
        self._read = self._event = 0
        self._tail = b""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._stream:
            yield self._counted(piece)
            if self._cut and self._read > ERROR_BYTES:
                return

    async def aclose(self) -> None:
        await self._stream.aclose()

    def _counted(self, piece: bytes) -> bytes:
        self._read += len(piece)
        self._event += len(piece)
        if self._cut:
            return piece
        if self._streamed:
            window = self._tail + piece
            ends = max(window.rfind(line) + len(line) if line in window else -1 for line in _BLANK_LINES)
            if ends >= 0:
                self._event = len(window) - ends
            self._tail = window[-3:]
        if self._event > REPLY_BYTES or self._read > STREAM_BYTES:
            raise _too_large()
        return piece


# The client will not start without a key, and a server that has no keys ignores it.
_NO_KEY = "no-key"

CONNECT_SECONDS = 10.0
REQUESTS_PER_CLIENT = 4
"""Requests at once through one client."""


@dataclass
class _PooledClient:
    client: AsyncOpenAI
    busy: int = 0


class ClientPool:
    """As many clients as the requests at once need.

    Args:
        url: base URL of the endpoint.
        key: the key; empty where the endpoint needs none.
    """

    def __init__(self, url: str, key: str) -> None:
        self._url, self._key = url, key
        self._tls: ssl.SSLContext | None = None
        self._lock = threading.Lock()
        self._clients: tuple[int, list[_PooledClient]] | None = None

    def first(self) -> AsyncOpenAI:
        """The first client of this process; it belongs to the loop that drives it."""
        with self._lock:
            import openai

            if self._clients is None or self._clients[0] != os.getpid():
                client = openai.AsyncOpenAI(
                    api_key=self._key or _NO_KEY,
                    base_url=self._url,
                    max_retries=0,
                    timeout=openai.Timeout(None, connect=CONNECT_SECONDS),
                    http_client=self._http(),
                )
                _ = client.chat.completions  # its modules are loaded on first use; that should not be in a deadline
                self._clients = (os.getpid(), [_PooledClient(client)])
            return self._clients[1][0].client

    @contextmanager
    def borrow(self) -> Iterator[AsyncOpenAI]:
        """The client with the fewest requests, one more client where all have enough. Only in the loop's thread."""
        first = self.first()
        assert self._clients is not None, "opened just now"
        clients = self._clients[1]
        pooled = min(clients, key=lambda pooled: pooled.busy)
        if pooled.busy >= REQUESTS_PER_CLIENT:
            pooled = _PooledClient(first.with_options(http_client=self._http()))
            clients.append(pooled)
        pooled.busy += 1
        try:
            yield pooled.client
        finally:
            pooled.busy -= 1

    def _http(self) -> httpx.AsyncClient:
        import openai

        options: Any = {"headers": HEADERS, "event_hooks": {"response": [limited]}}
        if not _is_loopback(self._url):
            self._tls = self._tls or httpx.create_ssl_context()
            return openai.DefaultAsyncHttpxClient(verify=self._tls, **options)
        # A proxy from the environment cannot reach this machine's own loopback, and loading the list of authorities
        # (0.1 s) is no use there: without it TLS would fail, not pass unchecked.
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        return openai.DefaultAsyncHttpxClient(trust_env=False, verify=tls, **options)


def _is_loopback(url: str) -> bool:
    """Plain http to this machine itself."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme != "http":
        return False
    return host in ("localhost", "::1") or host.startswith("127.")


# How long a cancelled call may take to close its connection before its caller is let go.
CLOSING = 2.0

_lock = threading.Lock()
_loop: tuple[int, asyncio.AbstractEventLoop] | None = None


def _running_loop() -> asyncio.AbstractEventLoop:
    """The loop of this process; a forked child gets its own, because threads do not survive a fork."""
    global _loop
    with _lock:
        if _loop is None or _loop[0] != os.getpid():
            loop = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="turnmark-generators", daemon=True).start()
            _loop = (os.getpid(), loop)
        return _loop[1]


def drive(work: Callable[[Tell], Coroutine[Any, Any, T]], deadline: float, on_text: Tell | None = None) -> T:
    """Run `work(tell)` on the loop and wait for its result here.

    Args:
        work: makes the coroutine; what it tells reaches `on_text` in this thread, in order.
        deadline: seconds until it is cancelled.
        on_text: whatever it raises cancels the work and travels on, as a KeyboardInterrupt in this thread does.

    Raises:
        TimeoutError: the deadline passed.
        Stopped: the turn that this call is part of was ended from outside; see
            `turnmark.assistant.generators.stopping`.
    """
    stop = current()
    stop.check()
    pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
    ended = threading.Event()

    async def run() -> T:
        try:
            async with asyncio.timeout(stop.left(deadline)):
                return await work(pieces.put)
        finally:
            ended.set()

    future = asyncio.run_coroutine_threadsafe(run(), _running_loop())
    future.add_done_callback(lambda _: pieces.put(None))
    try:
        with stop.waking(lambda: pieces.put(None)):
            while (piece := pieces.get()) is not None:
                if on_text is not None:
                    on_text(piece)
        stop.check()
        return future.result()
    except BaseException:
        # The caller must not go on while the endpoint still writes for it.
        if not future.done():
            future.cancel()
            ended.wait(CLOSING)
        raise
