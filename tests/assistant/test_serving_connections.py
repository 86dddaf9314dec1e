"""Connections to a real server over sockets: how many there may be, and how long a client may take."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
import uvicorn

from turnmark.assistant.open import open_parts
from turnmark.assistant.serving.app import ReplyDefaults, make_app
from turnmark.assistant.serving.limits import OTHER_FILES, SPARE, Limits, default_connections
from turnmark.assistant.serving.server import LINGERING, bound, connections_limited_by

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE = 20_000_000


@contextmanager
def running(app: Any, limits: Limits) -> Iterator[int]:
    """The port of a server in a thread of this process, as `turnmark serve` runs it."""
    listening = bound("127.0.0.1", 0)
    config = uvicorn.Config(app, lifespan="on", ws="none", log_config=None, http=connections_limited_by(limits))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([listening],))
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        server.should_exit = server.force_exit = True
        thread.join(20)


@pytest.fixture(scope="module")
def port(plain_home: Any) -> Iterator[int]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(plain_home))
        limits = Limits(body=2000, connections=4, head_seconds=0.5, body_seconds=0.5, unread_seconds=0.5)
        app = make_app(open_parts("demo"), limits, None, None, ReplyDefaults())
        with running(app, limits) as made:
            yield made


def connected(port: int, small: bool = False) -> socket.socket:
    made = socket.socket()
    if small:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.settimeout(10)
    made.connect(("127.0.0.1", port))
    return made


def heard(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection; it must."""
    told = bytearray()
    try:
        while piece := connection.recv(65536):
            told += piece
    except ConnectionResetError:
        pass
    return bytes(told)


def status_and_error(told: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = told.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def dripping(connection: socket.socket, piece: bytes) -> tuple[bytes, float]:
    """What comes back while a piece is sent every tenth of a second, and the seconds until the connection ended."""
    began = time.monotonic()

    def drip() -> None:
        try:
            while time.monotonic() < began + 8:
                connection.sendall(piece)
                time.sleep(0.1)
        except OSError:
            pass

    thread = threading.Thread(target=drip)
    thread.start()
    told = heard(connection)
    took = time.monotonic() - began
    connection.close()
    thread.join()
    return told, took


def test_a_client_that_says_nothing_is_dropped(port):
    with connected(port) as made:
        began = time.monotonic()
        assert heard(made) == b""
        assert time.monotonic() - began < 5


def test_a_head_that_drips_is_dropped_with_words(port):
    told, took = dripping(connected(port), b"X")
    assert took < 5
    status, error = status_and_error(told)
    assert (status, error["message"]) == (408, "the request came too slowly")


def test_a_body_that_drips_is_dropped_with_words(port):
    made = connected(port)
    made.sendall(HEAD + b"Content-Length: 1000\r\n\r\n")
    told, took = dripping(made, b" ")
    assert took < 5
    status, error = status_and_error(told)
    assert (status, error["message"]) == (408, "the request came too slowly")


def test_a_body_that_is_announced_too_large_is_refused_unread_and_its_client_is_dropped(port):
    made = connected(port)
    made.sendall(HEAD + b"Content-Length: 1000000000\r\n\r\n")
    told, took = dripping(made, b" ")
    assert took < 5
    status, error = status_and_error(told)
    assert (status, error["message"]) == (413, "the request is larger than 2000 bytes")


def test_no_leave_is_given_to_send_what_is_too_large(port):
    with connected(port) as made:
        made.sendall(HEAD + b"Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n")
        assert made.recv(12) == b"HTTP/1.1 413"


def test_what_nobody_reads_does_not_hold_a_connection(port):
    """A body after a refusal, and one where none belongs."""
    for said in (HEAD.replace(b"json", b"text"), b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n"):
        made = connected(port)
        made.sendall(said + b"Content-Length: 1000000\r\n\r\n")
        _, took = dripping(made, b" ")
        assert took < 5


def test_one_connection_may_ask_again_and_again(port):
    with connected(port) as made:
        for _ in range(6):  # longer than a head may take, with time for each anew
            made.sendall(HEALTH)
            assert b"200 OK" in made.recv(65536)
            time.sleep(0.15)
        made.sendall(HEALTH * 2)  # at once
        told = b""
        while told.count(b'"status"') < 2:
            told += made.recv(65536)
        assert told.count(b"200 OK") == 2


def test_clients_beyond_the_limit_are_told_so_and_those_before_are_served(port):
    with ExitStack() as stack:
        first = [stack.enter_context(connected(port)) for _ in range(4)]
        for made in first:
            made.sendall(HEALTH)
            assert b"200 OK" in made.recv(65536)
        more = stack.enter_context(connected(port))
        more.sendall(HEAD + b"Content-Length: 100000\r\n\r\n" + b" " * 100_000)
        told = heard(more)
        assert b"\r\nRetry-After: 5\r\n" in told
        status, error = status_and_error(told)
        assert (status, error["code"]) == (503, "overloaded")
        assert error["message"] == "4 clients are connected, and that is the most; come again later"
        first[0].sendall(HEALTH)
        assert b"200 OK" in first[0].recv(65536)
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        with connected(port) as made:
            made.sendall(HEALTH)
            if b"200 OK" in made.recv(65536):
                return
        time.sleep(0.02)
    pytest.fail("nobody gets in though all have left")


def test_a_crowd_is_closed_without_words(port):
    with ExitStack() as stack:
        crowd = [stack.enter_context(connected(port)) for _ in range(4 + LINGERING + 8)]
        told = [heard(made) for made in crowd[4:]]
    assert sum(b" 503 " in one for one in told) == LINGERING
    assert sum(one == b"" for one in told) == 8


async def _large(scope: Any, receive: Any, send: Any) -> None:
    """An application that answers with much."""
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    await send({"type": "http.response.start", "status": 200, "headers": []})
    for _ in range(200):
        await send({"type": "http.response.body", "body": b"x" * (LARGE // 200), "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def test_a_client_that_reads_nothing_is_dropped():
    limits = Limits(unread_seconds=0.8)
    with running(_large, limits) as port:
        with connected(port) as made:
            made.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert len(heard(made)) > LARGE
        with connected(port, small=True) as made:
            made.sendall(HEALTH)
            time.sleep(2)
            assert len(heard(made)) < LARGE


def test_connections_follow_from_turns_and_queue(monkeypatch):
    resource = pytest.importorskip("resource")
    allowed = [(100, 2000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: allowed[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: allowed.append(both))
    assert default_connections(16, 256) == 400
    assert allowed[-1] == (16 + 256 + SPARE + OTHER_FILES, 2000)
    assert default_connections(16, 100) == 16 + 100 + SPARE
    assert len(allowed) == 2  # there is room enough now
    assert default_connections(16, 5000) == 2000 - OTHER_FILES
