"""How a client reaches the server: over standard input and output, or over HTTP."""

from __future__ import annotations

import io
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import TransportSecuritySettings

from turnmark.assistant.serving.guard import Guard
from turnmark.core.errors import TurnmarkError

PATH = "/mcp"
BODY = 1_000_000
"""Bytes of a request."""
SESSIONS = 512
"""Of clients, at once."""
_PIECE = 1 << 16


class StandardStreams:
    """Standard input and output, taken for the protocol alone while this lasts.

    Whatever else is printed, by a library or a process that it starts, goes to standard error, and whatever else reads
    finds no input. A signal can end the input: a thread that waits for a line cannot be interrupted, so one thread
    copies standard input to a socket, which is read, and which a signal closes.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        """The signal that ended the input, if one did."""
        try:
            self._input, self._output = os.dup(0), os.dup(1)
        except OSError as error:
            raise TurnmarkError("standard input or output is closed; an MCP client starts this command") from error
        self._copy, self._reading = socket.socketpair()

    def __enter__(self) -> StandardStreams:
        sys.stdout.flush()
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # standard error is closed
            os.dup2(nothing, 1)
        os.close(nothing)
        self._handlers = {number: signal.signal(number, self._end) for number in (signal.SIGINT, signal.SIGTERM)}
        threading.Thread(target=self._pump, name="turnmark-stdin", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self._input, 0)
        os.dup2(self._output, 1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def serve(self, server: Server[Any]) -> None:
        """Serve one client until standard input ends or SIGTERM comes; Ctrl-C ends it as a KeyboardInterrupt."""
        lines = self._reading.makefile("r", encoding="utf-8", errors="replace")
        wire = _Wire(self._output, self._close)

        async def run() -> None:
            async with stdio_server(anyio.wrap_file(lines), anyio.wrap_file(wire)) as (read_stream, write_stream):
                await server.run(read_stream, write_stream, server.create_initialization_options())

        try:
            anyio.run(run)
        except* (BrokenPipeError, ConnectionError):
            pass  # the client has gone
        if self.ended_by == signal.SIGINT:
            raise KeyboardInterrupt

    def _end(self, number: int, _: object) -> None:
        self.ended_by = number
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # it was closed before
            self._copy.shutdown(socket.SHUT_RDWR)

    def _pump(self) -> None:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(self._input, _PIECE):
                self._copy.sendall(piece)
        self._close()


class _Wire(io.TextIOWrapper):
    """Standard output for the protocol. A client that reads no more ends the input too: nobody is there to answer.

    The file itself stays open: a thread may still write to it.
    """

    def __init__(self, number: int, on_gone: Callable[[], None]) -> None:
        super().__init__(os.fdopen(number, "wb", closefd=False), encoding="utf-8", newline="\n")
        self._on_gone = on_gone

    def write(self, text: str) -> int:
        """See `io.TextIOWrapper.write`."""
        with self._noticing():
            return super().write(text)

    def flush(self) -> None:
        """See `io.TextIOWrapper.flush`."""
        with self._noticing():
            super().flush()

    @contextmanager
    def _noticing(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._on_gone()
            raise


def http_app(server: Server[Any], host: str, token: str | None, on_ready: Callable[[], None]) -> Any:
    """The server as an ASGI application at `PATH`, which calls `on_ready` when it takes requests."""
    # `Guard` checks names, origins and tokens, as in `turnmark serve`: with a token any name is good.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=PATH,
        host=host,
        transport_security=unchecked,
        max_request_body_size=BODY,
        max_sessions=SESSIONS,
    )
    sessions = app.router.lifespan_context

    @asynccontextmanager
    async def life(running: Any) -> AsyncIterator[Any]:
        async with sessions(running) as state:
            on_ready()
            yield state

    app.router.lifespan_context = life
    return Guard(app, host, token, PATH)
