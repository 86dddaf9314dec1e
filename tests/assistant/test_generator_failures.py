"""Generators at an endpoint that fails, stalls or sends garbage: retries, deadlines and canceled calls."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.assistant.endpoint import ASK, failure, opened
from tests.patience import PATIENCE
from tests.servers import Hang, Raw, Reset, Say, ScriptedServer, Status
from turnmark.assistant.llm.calls.cancellation import Slots, Stop, TurnStopped, stop_context
from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT
from turnmark.assistant.llm.generators.registry import open_generator

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.mark.parametrize("trouble", [Status(500), Status(408), Status(409), Status(503), Reset()])
def test_retries_temporary_failures(trouble):
    with ScriptedServer(trouble, Say("Fine.")) as server:
        reply = opened(server).complete(ASK)
    assert reply.text == "Fine."
    assert reply.usage.calls == 2


GARBAGE = [
    Raw(b'{"choices": [{"message": {"content": "hal'),
    Raw(b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}'),
    Raw(b"\xff\xfe\x00", "application/json"),
    Raw(b""),
    Raw(b"x" * 10_000_000, "text/plain"),
    Raw(b"data: {nonsense\n\n", "text/event-stream"),
]


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        *((Status(status), kind, "") for status, kind in ((400, "bad_request"), (401, "auth"), (403, "auth"))),
        *((Status(status), "bad_request", "") for status in (404, 422)),
        (Say(None, refusal="I cannot help with that."), "refused", "cannot help"),
        *((raw, "bad_reply", "") for raw in GARBAGE),
    ],
)
@pytest.mark.parametrize("on_text", [None, lambda piece: None])
def test_does_not_retry_permanent_failures(reply, kind, words, on_text):
    with ScriptedServer(reply) as server:
        error = failure(opened(server), deadline=60, on_text=on_text)
    assert error.kind == kind
    assert words in str(error)
    assert len(server.seen) == 1


@pytest.mark.parametrize("on_text", [None, lambda piece: None])
def test_deadline_limits_the_time_without_a_token(on_text):
    words = "one two three four five six"
    with ScriptedServer(Say(words, pause=0.5)) as server:
        assert opened(server).complete(ASK, deadline=2, on_text=on_text).text == words, "it takes 3 s in total"
    # Comments keep the connection alive, but do not count as tokens.
    for silent in (Hang(), Say(words, stall=30)):
        with ScriptedServer(silent) as server:
            error = failure(opened(server, "?deadline=0.4"), on_text=on_text)
        assert error.kind == "timeout"
        assert "?deadline=SECONDS in its spec" in str(error)


def test_queueing_does_not_count_toward_the_deadline_and_stops_with_the_turn():
    words = "one two three four five six"
    with ScriptedServer(Say(words, pause=0.5)) as server, ThreadPoolExecutor(3) as threads:
        generator = opened(server, "?concurrency=1&deadline=2")
        replies = list(threads.map(lambda _: generator.complete(ASK).text, range(3)))
        arrivals = [request.arrived for request in server.seen]
    assert replies == [words] * 3
    assert all(later - earlier > 1 for earlier, later in pairwise(arrivals)), "each takes 3 s"
    with ScriptedServer(Say(words, stall=30)) as server, ThreadPoolExecutor(1) as threads:
        generator, first, second = opened(server, "?concurrency=1"), Stop(), Stop()

        def turn():
            with stop_context(first):
                generator.complete(ASK)

        holder = threads.submit(turn)
        while not server.seen:
            time.sleep(0.02)
        threading.Timer(0.3, second.set).start()
        with stop_context(second), pytest.raises(TurnStopped):
            generator.complete(ASK)
        first.set()
        with pytest.raises(TurnStopped):
            holder.result(PATIENCE)
    assert len(server.seen) == 1


def test_slots_are_granted_in_the_order_of_requests():
    slots, order = Slots(1), []
    waits: list[threading.Event] = [threading.Event() for _ in range(4)]

    def turn(name: int) -> None:
        """Make two calls, the second one right after the first."""
        for call in "ab":
            waits[name].set()
            with slots.hold():
                order.append(f"{name}{call}")
                if len(order) == 1:  # hold the slot until the others wait
                    assert waits[3].wait(PATIENCE)
                    time.sleep(0.05)

    with ThreadPoolExecutor(4) as threads:
        for name, wait in enumerate(waits):
            threads.submit(turn, name)
            assert wait.wait(PATIENCE)
            time.sleep(0.05)
    assert order == ["0a", "1a", "2a", "3a", "0b", "1b", "2b", "3b"]


def test_stopped_call_leaves_the_queue():
    slots, stop, served = Slots(1), Stop(), threading.Event()

    def left() -> None:
        with stop_context(stop), pytest.raises(TurnStopped), slots.hold():
            pass

    def stays() -> None:
        with slots.hold():
            served.set()

    with ThreadPoolExecutor(2) as threads:
        with slots.hold():
            leaving = threads.submit(left)
            time.sleep(0.05)
            staying = threads.submit(stays)
            stop.set()
            leaving.result(PATIENCE)
            assert not served.is_set()
        staying.result(PATIENCE)
    with slots.hold():
        pass


def test_retry_after_beyond_the_deadline_is_a_rate_limit_error():
    with ScriptedServer(Status(429, headers={"Retry-After": "30"})) as server:
        error = failure(opened(server), deadline=0.4)
    assert (error.kind, error.usage.calls) == ("rate_limited", 1)


@pytest.fixture
def complaints() -> Iterator[list[int]]:
    """Return the list to which each rate limit adds an entry."""
    heard: list[int] = []
    token = ON_RATE_LIMIT.set(lambda: heard.append(1))
    yield heard
    ON_RATE_LIMIT.reset(token)


def test_rate_limits_are_reported_to_the_caller(complaints):
    with ScriptedServer(Status(429), Status(429), Say("Fine.")) as server:
        assert opened(server).complete(ASK).usage.calls == 3
    assert len(complaints) == 2


def known(server):
    """A generator whose first reply is read, so that further ones are streamed from their first word."""
    generator = opened(server)
    generator.complete(ASK)
    return generator


def test_broken_stream_is_retried_only_before_its_first_text():
    pieces = []
    with ScriptedServer(Say("first"), Say("one two three", cut=2), Say("one two three")) as server:
        assert failure(known(server), on_text=pieces.append).kind == "unavailable"
    assert (pieces, len(server.seen)) == (["one", " two"], 2)
    with ScriptedServer(Say("first"), Say("one two", cut=0), Say("one two")) as server:
        assert known(server).complete(ASK, on_text=pieces.append).text == "one two"
    assert pieces[2:] == ["one", " two"]


def test_exception_of_the_listener_ends_the_stream_and_is_raised():
    def on_text(piece):
        raise BrokenPipeError("the screen is gone")

    with ScriptedServer(Say("first"), Say("one two three", stall=20)) as server:
        generator = known(server)
        with pytest.raises(BrokenPipeError):
            generator.complete(ASK, on_text=on_text)
        assert server.disconnected.wait(PATIENCE)


def test_an_account_without_quota_is_not_asked_again(complaints):
    body = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
    with ScriptedServer(Status(429, body=body)) as server:
        error = failure(opened(server))
    assert (error.usage.calls, complaints) == (1, [])
    assert "has no quota left (429): You exceeded your current quota." in str(error)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://127.0.0.1:9/v1", "cannot be reached: the connection is refused"),
        ("http://nowhere.invalid/v1", "cannot be reached: the host is unknown"),
        ("https://SERVER/v1", "cannot be reached: the encrypted connection failed"),
    ],
)
def test_an_endpoint_that_cannot_be_reached_has_a_reason(url, reason):
    with ScriptedServer(Say("Fine.")) as server:
        address = url.replace("SERVER", server.url.partition("//")[2].partition("/")[0])
        error = failure(open_generator(f"openai:tiny@{address}?retries=0"))
    assert error.kind == "unavailable"
    assert reason in str(error)


def test_port_that_refuses_is_asked_once_unless_it_answered_before():
    error = failure(open_generator("openai:tiny@http://127.0.0.1:9/v1?retries=3"))
    assert (error.usage.calls, "the connection is refused" in str(error)) == (1, True)
    with ScriptedServer(Say("Fine.")) as server:
        generator = open_generator(f"openai:tiny@{server.url}?retries=1")
        assert generator is not None
        generator.complete(ASK)
    assert failure(generator).usage.calls == 2, "a server that was there may come back"
