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

from turnmark.assistant.serving.guard import Limits
from turnmark.assistant.serving.reply import error, json_bytes
from turnmark.assistant.serving.request import Refusal
from turnmark.corpora.console import inert
from turnmark.corpora.errors import TurnmarkError


class Connection(H11Protocol):
    """One connection.

    uvicorn's own waits for ever: for the first byte, for the rest of a request's head, for a body that nobody reads
    any more, and for a client to take what it was sent. h11 in place of httptools holds a head to 16 kB.
    """

    limits: Limits

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._refused = False
        self._begun = False  # something of a request has come whose head is not whole
        self._request, self._reading = _Alarm(self.loop), _Alarm(self.loop)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """See `asyncio.Protocol`."""
        if len(self.connections) >= self.limits.connections:
            self._refused = True
            message = f"{self.limits.connections} clients are connected, and that is the most; come again later"
            transport.write(_reply("503 Service Unavailable", Refusal(message, status=503, code="overloaded")))
            transport.close()
            return
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol`."""
        if not self._refused:
            self._begun = True
            super().data_received(data)
            self._watch()

    def on_response_complete(self) -> None:
        """See `H11Protocol`."""
        super().on_response_complete()
        self._begun = False
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol`."""
        self._request.stop()
        self._reading.stop()
        if not self._refused:
            super().connection_lost(exc)

    def pause_writing(self) -> None:
        """See `asyncio.Protocol`: the client does not read as fast as is written."""
        super().pause_writing()
        self._reading.start(self.limits.unread_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.Protocol`."""
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
        if not self.transport.is_closing() and self._begun and self.conn.their_state is h11.IDLE:
            self.transport.write(_reply("408 Request Timeout", Refusal("the request came too slowly", status=408)))
            self.transport.close()
        else:
            self.transport.abort()


def _reply(status: str, refusal: Refusal) -> bytes:
    """An error as it goes over the wire, where there is no request to answer through the application."""
    body = json_bytes(error(refusal))
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}Retry-After: 5\r\nConnection: close\r\n\r\n".encode() + body


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


def server_of(app: Any, limits: Limits) -> uvicorn.Server:
    """The server that runs an application within the limits."""
    protocol = type("LimitedConnection", (Connection,), {"limits": limits})
    return uvicorn.Server(
        uvicorn.Config(
            app, lifespan="on", ws="none", log_config=None, log_level="error", access_log=False, server_header=False,
            timeout_graceful_shutdown=GRACE, backlog=_BACKLOG, http=protocol,
        )
    )  # fmt: skip


def run(app: Any, listening: socket.socket, limits: Limits) -> None:
    """Serve until the process is told to end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    server_of(app, limits).run(sockets=[listening])


def _terminated(*_: object) -> None:
    raise SystemExit(0)
