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

from turnmark.assistant.open import open_parts
from turnmark.assistant.serving.app import ReplyDefaults, make_app
from turnmark.assistant.serving.guard import OTHER_FILES, SPARE, Limits, default_connections
from turnmark.assistant.serving.server import bound, server_of

HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
LARGE = 20_000_000
DRIPS = 8
"""Seconds for which a client goes on dripping, unless its connection ends."""


@contextmanager
def running(app: Any, limits: Limits) -> Iterator[int]:
    """The port of a server in a thread of this process, as `turnmark serve` runs it."""
    listening = bound("127.0.0.1", 0)
    server = server_of(app, limits)
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
        with running(app, limits) as connection:
            yield connection


def connected(port: int, small: bool = False) -> socket.socket:
    connection = socket.socket()
    if small:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(10)
    connection.connect(("127.0.0.1", port))
    return connection


def received(connection: socket.socket) -> bytes:
    """All that comes until the server closes the connection; it must."""
    data = bytearray()
    try:
        while piece := connection.recv(65536):
            data += piece
    except ConnectionResetError:
        pass
    return bytes(data)


def status_and_error(response: bytes) -> tuple[int, dict[str, Any]]:
    head, _, body = response.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["error"]


def dripping(connection: socket.socket, piece: bytes) -> tuple[bytes, float]:
    """What comes back while a piece is sent every tenth of a second, and the seconds until the connection ended."""
    began = time.monotonic()

    def drip() -> None:
        try:
            while time.monotonic() < began + DRIPS:
                connection.sendall(piece)
                time.sleep(0.1)
        except OSError:
            pass

    thread = threading.Thread(target=drip)
    thread.start()
    response = received(connection)
    took = time.monotonic() - began
    connection.close()
    thread.join()
    return response, took


def test_a_client_that_says_nothing_is_dropped(port):
    with connected(port) as connection:
        assert received(connection) == b""


@pytest.mark.parametrize(
    ("head", "piece", "status", "message"),
    [
        (b"", b"X", 408, "the request came too slowly"),
        (HEAD + b"Content-Length: 1000\r\n\r\n", b" ", 408, "the request came too slowly"),
        (HEAD + b"Content-Length: 1000000000\r\n\r\n", b" ", 413, "the request is larger than 2000 bytes"),
    ],
)
def test_a_request_that_drips_or_is_too_large_is_dropped_with_words(port, head, piece, status, message):
    connection = connected(port)
    connection.sendall(head)
    response, took = dripping(connection, piece)
    assert took < DRIPS
    told, error = status_and_error(response)
    assert (told, error["message"]) == (status, message)


def test_one_connection_may_ask_again_and_again(port):
    with connected(port) as connection:
        for _ in range(6):  # longer than a head may take, with time for each anew
            connection.sendall(HEALTH)
            assert b"200 OK" in connection.recv(65536)
            time.sleep(0.15)
        connection.sendall(HEALTH * 2)  # at once
        responses = b""
        while responses.count(b'"status"') < 2:
            responses += connection.recv(65536)
        assert responses.count(b"200 OK") == 2


def test_clients_beyond_the_limit_are_told_so_and_those_before_are_served(port):
    with ExitStack() as stack:
        first = [stack.enter_context(connected(port)) for _ in range(4)]
        for connection in first:
            connection.sendall(HEALTH)
            assert b"200 OK" in connection.recv(65536)
        more = stack.enter_context(connected(port))
        response = received(more)
        assert b"\r\nRetry-After: 5\r\n" in response
        status, error = status_and_error(response)
        assert (status, error["code"]) == (503, "overloaded")
        assert error["message"] == "4 clients are connected, and that is the most; come again later"
        first[0].sendall(HEALTH)
        assert b"200 OK" in first[0].recv(65536)
    ends = time.monotonic() + 5
    while time.monotonic() < ends:
        with connected(port) as connection:
            connection.sendall(HEALTH)
            if b"200 OK" in connection.recv(65536):
                return
        time.sleep(0.02)
    pytest.fail("nobody gets in though all have left")


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
    limits = Limits(unread_seconds=0.3)
    with running(_large, limits) as port:
        with connected(port) as connection:
            connection.sendall(HEALTH.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
            assert len(received(connection)) > LARGE
        with connected(port, small=True) as connection:
            connection.sendall(HEALTH)
            time.sleep(1)
            assert len(received(connection)) < LARGE


def test_connections_follow_from_turns_and_queue(monkeypatch):
    resource = pytest.importorskip("resource")
    allowed = [(100, 2000)]
    monkeypatch.setattr(resource, "getrlimit", lambda _: allowed[-1])
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: allowed.append(limits))
    assert default_connections(16, 256) == 400
    assert allowed[-1] == (16 + 256 + SPARE + OTHER_FILES, 2000)
    assert default_connections(16, 100) == 16 + 100 + SPARE
    assert len(allowed) == 2  # there is room enough now
    assert default_connections(16, 5000) == 2000 - OTHER_FILES
