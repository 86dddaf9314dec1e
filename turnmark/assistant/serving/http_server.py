"""Bind to an address, serve, and shut down without cutting off replies."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from turnmark.core.errors import TurnmarkError
from turnmark.core.untrusted import one_line

MAX_CONNECTIONS = 512
"""Further connections get 503."""
MAX_HEAD_BYTES = 16_384
"""Maximum size of the request line and headers."""
KEEP_ALIVE_SECONDS = 20
"""Time after which an idle connection is closed."""
GRACE_SECONDS = 10
"""Time that running turns have to finish at shutdown."""
ERROR_SECONDS = 5
"""Time that clients of stopped turns have to receive the error."""


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to the address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(
            f"--host {one_line(host)}: this machine has no such address ({error.strerror or error})"
        ) from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise TurnmarkError(
            f"cannot listen at {one_line(host)}, port {port} ({reason}); choose another --port, or 0 for a free one"
        ) from error
    return listening


class _GracefulServer(uvicorn.Server):
    """A uvicorn server that stops turns after `GRACE_SECONDS`, so that their clients get an error.

    uvicorn closes the remaining connections.
    """

    def __init__(self, config: uvicorn.Config, end_turns: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_turns = end_turns

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        asyncio.get_running_loop().call_later(GRACE_SECONDS, self._end_turns)
        await super().shutdown(sockets)


def run_server(app: Any, end_turns: Callable[[], None], listening: socket.socket) -> None:
    """Serve until SIGTERM, which exits with code 0, or Ctrl-C, which raises KeyboardInterrupt.

    Args:
        end_turns: stops the running turns; called when the server shuts down.
    """
    config = uvicorn.Config(
        app, lifespan="on", ws="none", http="h11", log_config=None, log_level="error", access_log=False,
        server_header=False, timeout_graceful_shutdown=GRACE_SECONDS + ERROR_SECONDS,
        timeout_keep_alive=KEEP_ALIVE_SECONDS, limit_concurrency=MAX_CONNECTIONS,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _exit_cleanly)  # uvicorn raises the signal again after shutdown
    # Listen before the app reports that it is ready, so that a client that connects at once is accepted.
    listening.listen(MAX_CONNECTIONS)
    try:
        _GracefulServer(config, end_turns).run(sockets=[listening])
    finally:
        end_turns()


def _exit_cleanly(*_: object) -> None:
    raise SystemExit(0)
