"""Listening at an address, and an orderly end."""

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

CONNECTIONS, HEAD_BYTES, KEEP_ALIVE = 512, 16_384, 20
"""Maximum connections (more get 503); maximum bytes of a request's head; seconds until an idle connection closes."""
GRACE, LAST_WORDS = 10, 5
"""Seconds for running turns to finish at shutdown; seconds for clients of the others to receive the error."""


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket to the address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(
            f"--host {one_line(host)}: no address of this machine ({error.strerror or error})"
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


class _Server(uvicorn.Server):
    """Stops turns that outlast `GRACE`, so that clients get an error; uvicorn closes the remaining connections."""

    def __init__(self, config: uvicorn.Config, end_turns: Callable[[], None]) -> None:
        super().__init__(config)
        self._end_turns = end_turns

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server.shutdown`."""
        asyncio.get_running_loop().call_later(GRACE, self._end_turns)
        await super().shutdown(sockets)


def run_server(app: Any, end_turns: Callable[[], None], listening: socket.socket) -> None:
    """Serve until SIGTERM, which exits with code 0, or Ctrl-C, which raises KeyboardInterrupt.

    Args:
        end_turns: ends the turns at work; called when the server ends.
    """
    config = uvicorn.Config(
        app, lifespan="on", ws="none", http="h11", log_config=None, log_level="error", access_log=False,
        server_header=False, timeout_graceful_shutdown=GRACE + LAST_WORDS, timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=HEAD_BYTES,
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    listening.listen(CONNECTIONS)  # before the app says that it is ready: whoever connects at once is not refused
    try:
        _Server(config, end_turns).run(sockets=[listening])
    finally:
        end_turns()


def _terminated(*_: object) -> None:
    raise SystemExit(0)
