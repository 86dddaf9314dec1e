"""Listening, serving, and the end: Ctrl-C and SIGTERM let what is at work finish for a while."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any

import uvicorn

from turnmark.corpora.console import inert
from turnmark.corpora.errors import TurnmarkError

CONNECTIONS = 512
"""At once; what comes then gets 503."""
HEAD_BYTES, KEEP_ALIVE = 16_384, 20
"""Of a request's head; seconds until a connection without a request is closed."""
GRACE = 10
"""Seconds that turns at work have to finish when the server is ended."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(f"--host {inert(host)}: no address of this machine ({error.strerror or error})") from error
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        reason = error.strerror or error
        raise TurnmarkError(
            f"cannot listen at {inert(host)}, port {port} ({reason}); choose another --port, or 0 for a free one"
        ) from error
    return listening


def run_server(app: Any, listening: socket.socket) -> None:
    """Serve until the process shall end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    config = uvicorn.Config(
        app, lifespan="on", ws="none", http="h11", log_config=None, log_level="error", access_log=False,
        server_header=False, timeout_graceful_shutdown=GRACE, timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=CONNECTIONS, h11_max_incomplete_event_size=HEAD_BYTES,
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    uvicorn.Server(config).run(sockets=[listening])


def _terminated(*_: object) -> None:
    raise SystemExit(0)
