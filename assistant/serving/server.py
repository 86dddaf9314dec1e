"""Listening, serving, and the end; how many connections there may be, and how long each may take.

Ctrl-C and SIGTERM let what is at work finish for a while.
"""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnmark.assistant.serving.limits import Limits
from turnmark.assistant.serving.reply import error, json_bytes
from turnmark.assistant.serving.request import Refusal
from turnmark.corpora.console import inert
from turnmark.corpora.errors import TurnmarkError

AGAIN = 5
"""Seconds after which a client that was turned away may come again."""
LINGERING = 32
"""Connections beyond the limit that get words; what comes beside them is closed without."""
LINGER_SECONDS = 2.0


class Connection(H11Protocol):
    """One connection.

    uvicorn's own waits for ever: for the first byte, for the rest of a request's head, for a body that nobody reads
    any more, and for a client to take what it was sent. h11 in place of httptools holds a head to 16 kB.
    """

    limits: Limits
    lingering: set[Connection]

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._refused = False
        self._heard = False  # something of a request that has not begun
        self._request, self._reading = _Alarm(self.loop), _Alarm(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        if len(self.connections) >= self.limits.connections:
            self._turn_away(transport)
            return
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if self._refused:
            return
        self._heard = True
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        """See `H11Protocol`."""
        super().on_response_complete()
        self._heard = False
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._request.stop()
        self._reading.stop()
        if self._refused:
            self.lingering.discard(self)
        else:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the client does not read as fast as is written."""
        if self._refused:
            return
        super().pause_writing()
        self._reading.start(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
        if self._refused:
            return
        self._reading.stop()
        super().resume_writing()

    def _watch(self) -> None:
        """Give the client its time for the next request where none is at work; what is at work has its own."""
        if self.cycle is not None and not self.cycle.response_complete:
            self._request.stop()
        elif not self._request.runs:
            self._request.start(self.limits.head_seconds, self._timed_out)

    def _timed_out(self) -> None:
        """No whole head of a request came in time, or the end of the last one did not."""
        if not self.transport.is_closing() and self._heard and self.conn.their_state is h11.IDLE:
            self.transport.write(_reply(Refusal("the request came too slowly", status=408)))
            self.transport.close()
        else:
            self.transport.abort()

    def _turn_away(self, transport: asyncio.Transport) -> None:
        """Say that there are too many, and hear the client out for a while.

        A connection that is closed while something unread lies in it is reset, and its client may never see the words.
        """
        self._refused, self.transport = True, transport
        if len(self.lingering) >= LINGERING:
            transport.abort()
            return
        self.lingering.add(self)
        message = f"{self.limits.connections} clients are connected, and that is the most; come again later"
        transport.write(_reply(Refusal(message, status=503, code="overloaded"), f"Retry-After: {AGAIN}\r\n"))
        if transport.can_write_eof():
            transport.write_eof()
        self._request.start(LINGER_SECONDS, transport.abort)


def connections_limited_by(limits: Limits) -> type[Connection]:
    """The protocol of the connections of one server."""

    class Limited(Connection):
        """One connection, under these limits."""

    Limited.limits, Limited.lingering = limits, set()
    return Limited


class _Alarm:
    """Something that is done after a while, unless it is stopped before."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None

    @property
    def runs(self) -> bool:
        return self._timer is not None

    def start(self, seconds: float, action: Callable[[], None]) -> None:
        self.stop()
        self._timer = self._loop.call_later(seconds, action)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reply(refusal: Refusal, headers: str = "") -> bytes:
    """An error as it goes over the wire, where there is no request to answer through the application."""
    body = json_bytes(error(refusal))
    phrase = {408: "Request Timeout", 503: "Service Unavailable"}[refusal.status]
    head = f"HTTP/1.1 {refusal.status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{headers}Connection: close\r\n\r\n".encode() + body


GRACE = 10
"""Seconds that turns at work have to finish when the server is ended."""
_BACKLOG = 1024


def bound(host: str, port: int) -> socket.socket:
    """A socket that listens there.

    Raises:
        TurnmarkError: it cannot; the message says what to do.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(f"--host {inert(host)}: no address of this machine ({error.strerror or error})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(_BACKLOG)
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise TurnmarkError(
            f"cannot listen at {inert(host)}, port {port} ({reason}); choose another --port, or 0 for a free one"
        ) from error
    return listening


def run(app: Any, listening: socket.socket, limits: Limits) -> None:
    """Serve until the process is told to end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    config = uvicorn.Config(
        app, lifespan="on", ws="none", log_config=None, log_level="error", access_log=False, server_header=False,
        timeout_graceful_shutdown=GRACE, backlog=_BACKLOG, http=connections_limited_by(limits),
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    uvicorn.Server(config).run(sockets=[listening])


def _terminated(*_: object) -> None:
    raise SystemExit(0)
