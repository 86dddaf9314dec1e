"""The connections of a server: how many there may be, and how long a client may take over what it sends and reads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from turnmark.assistant.serving.limits import Limits
from turnmark.assistant.serving.reply import dumped, error
from turnmark.assistant.serving.wire import Wrong

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

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
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
            self._request.start(self.limits.head_seconds, self._late)

    def _late(self) -> None:
        """No whole head of a request came in time, or the end of the last one did not."""
        if not self.transport.is_closing() and self._heard and self.conn.their_state is h11.IDLE:
            self.transport.write(_reply(Wrong("the request came too slowly", status=408)))
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
        told = f"{self.limits.connections} clients are connected, and that is the most; come again later"
        transport.write(_reply(Wrong(told, status=503, code="overloaded"), f"Retry-After: {AGAIN}\r\n"))
        if transport.can_write_eof():
            transport.write_eof()
        self._request.start(LINGER_SECONDS, transport.abort)


def connections_within(limits: Limits) -> type[Connection]:
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

    def start(self, seconds: float, then: Callable[[], None]) -> None:
        self.stop()
        self._timer = self._loop.call_later(seconds, then)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _reply(wrong: Wrong, more: str = "") -> bytes:
    """An error as it goes over the wire, where there is no request to answer through the application."""
    body = dumped(error(wrong))
    phrase = {408: "Request Timeout", 503: "Service Unavailable"}[wrong.status]
    head = f"HTTP/1.1 {wrong.status} {phrase}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return f"{head}{more}Connection: close\r\n\r\n".encode() + body
