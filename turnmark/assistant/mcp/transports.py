"""The transports of the MCP server: standard input and output, and HTTP."""

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

from turnmark.assistant.serving.access_control import Guard
from turnmark.core.errors import TurnmarkError

MCP_PATH = "/mcp"
MAX_BODY_BYTES = 1_000_000
"""Maximum size of a request."""
MAX_SESSIONS = 512
"""Maximum concurrent sessions of clients."""
_CHUNK_BYTES = 1 << 16


class StandardStreams:
    """Standard input and output, reserved for the protocol within this context.

    Other output, from a library or a child process, goes to standard error, and other readers of standard input find it
    empty. A signal ends the input. Since a thread that waits for a line cannot be interrupted, one thread
    copies standard input to a socket, and the signal closes that socket.
    """

    def __init__(self) -> None:
        self.ended_by: int | None = None
        """The signal that ended the input, if one did."""
        try:
            self._input, self._output = os.dup(0), os.dup(1)
        except OSError as error:
            raise TurnmarkError("standard input or output is closed; let an MCP client start this command") from error
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
        threading.Thread(target=self._copy_input, name="turnmark-stdin", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        os.dup2(self._input, 0)
        os.dup2(self._output, 1)
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def serve(self, server: Server[Any]) -> None:
        """Serve one client until standard input ends or SIGTERM arrives; Ctrl-C raises KeyboardInterrupt."""
        lines = self._reading.makefile("r", encoding="utf-8", errors="replace")
        output = _ProtocolOutput(self._output, self._close)

        async def run() -> None:
            async with stdio_server(anyio.wrap_file(lines), anyio.wrap_file(output)) as (read_stream, write_stream):
                await server.run(read_stream, write_stream, server.create_initialization_options())

        try:
            anyio.run(run)
        except* (BrokenPipeError, ConnectionError):
            pass  # the client has disconnected
        if self.ended_by == signal.SIGINT:
            raise KeyboardInterrupt

    def _end(self, number: int, _: object) -> None:
        self.ended_by = number
        self._close()

    def _close(self) -> None:
        with suppress(OSError):  # it is closed already
            self._copy.shutdown(socket.SHUT_RDWR)

    def _copy_input(self) -> None:
        with suppress(OSError):  # the other end is closed
            while piece := os.read(self._input, _CHUNK_BYTES):
                self._copy.sendall(piece)
        self._close()


class _ProtocolOutput(io.TextIOWrapper):
    """Standard output for the protocol. If the client stops reading, the input ends as well.

    The file itself stays open, since a thread may still write to it.
    """

    def __init__(self, number: int, on_gone: Callable[[], None]) -> None:
        super().__init__(os.fdopen(number, "wb", closefd=False), encoding="utf-8", newline="\n")
        self._on_gone = on_gone

    def write(self, text: str) -> int:
        """See `io.TextIOWrapper.write`."""
        with self._end_on_error():
            return super().write(text)

    def flush(self) -> None:
        """See `io.TextIOWrapper.flush`."""
        with self._end_on_error():
            super().flush()

    @contextmanager
    def _end_on_error(self) -> Iterator[None]:
        try:
            yield
        except OSError:
            self._on_gone()
            raise


def http_app(server: Server[Any], host: str, token: str | None, on_ready: Callable[[], None]) -> Any:
    """Return the server as an ASGI application at `MCP_PATH`, which calls `on_ready` when it accepts requests."""
    # `Guard` checks host names, origins and tokens, as in `turnmark serve`; with a token it accepts any host name.
    unchecked = TransportSecuritySettings(enable_dns_rebinding_protection=False)
    app = server.streamable_http_app(
        streamable_http_path=MCP_PATH,
        host=host,
        transport_security=unchecked,
        max_request_body_size=MAX_BODY_BYTES,
        max_sessions=MAX_SESSIONS,
    )
    sessions = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncIterator[Any]:
        async with sessions(running) as state:
            on_ready()
            yield state

    app.router.lifespan_context = lifespan
    return Guard(app, host, token, MCP_PATH)
