"""Listening, serving, and the end: Ctrl-C and SIGTERM let what is at work finish for a while."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any

import uvicorn

from turnmark.assistant.serving.connections import connections_within
from turnmark.assistant.serving.limits import Limits
from turnmark.corpora.console import inert
from turnmark.corpora.errors import TurnmarkError

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
        made = socket.socket(family, socket.SOCK_STREAM)
    except OSError as error:
        raise TurnmarkError(f"--host {inert(host)}: no address of this machine ({error.strerror or error})") from error
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((host, port))
        made.listen(_BACKLOG)
    except OSError as error:
        made.close()
        reason = error.strerror or error
        raise TurnmarkError(
            f"cannot listen at {inert(host)}, port {port} ({reason}); choose another --port, or 0 for a free one"
        ) from error
    return made


def run(app: Any, listening: socket.socket, limits: Limits) -> None:
    """Serve until the process is told to end. SIGTERM ends it with code 0, Ctrl-C as a KeyboardInterrupt."""
    config = uvicorn.Config(
        app, lifespan="on", ws="none", log_config=None, log_level="error", access_log=False, server_header=False,
        timeout_graceful_shutdown=GRACE, backlog=_BACKLOG, http=connections_within(limits),
    )  # fmt: skip
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, _terminated)  # uvicorn raises the signal again once it has ended
    uvicorn.Server(config).run(sockets=[listening])


def _terminated(*_: object) -> None:
    raise SystemExit(0)
