"""Generators at an endpoint that fails, stalls or answers nonsense: retries, deadlines, and leaving in the middle."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import pytest

from tests.assistant.endpoint import ASK, failure, opened
from tests.patience import PATIENCE
from tests.servers import Hang, Raw, Reset, Say, ScriptedServer, Status
from turnmark.assistant.generators.base import ON_RATE_LIMIT
from turnmark.assistant.generators.stopping import Slots, Stop, TurnStopped, stoppable

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.mark.parametrize("trouble", [Status(500), Status(408), Status(409), Status(503), Reset()])
def test_passing_trouble_is_tried_again(trouble):
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
def test_what_will_not_pass_is_not_tried_again(reply, kind, words, on_text):
    with ScriptedServer(reply) as server:
        error = failure(opened(server), deadline=60, on_text=on_text)
    assert error.kind == kind
    assert words in str(error)
    assert len(server.seen) == 1


@pytest.mark.parametrize("on_text", [None, lambda piece: None])
def test_a_deadline_is_the_time_without_a_token(on_text):
    words = "one two three four five six"
    with ScriptedServer(Say(words, pause=0.5)) as server:
        assert opened(server).complete(ASK, deadline=2, on_text=on_text).text == words, "3 s in all"
    # Comments keep the connection alive, and are no tokens.
    for silent in (Hang(), Say(words, stall=30)):
        with ScriptedServer(silent) as server:
            error = failure(opened(server, "?deadline=0.4"), on_text=on_text)
        assert error.kind == "timeout"
        assert "?deadline=SECONDS in its spec" in str(error)


def test_a_wait_for_a_place_is_not_part_of_the_deadline_and_ends_with_the_turn():
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
            with stoppable(first):
                generator.complete(ASK)

        holder = threads.submit(turn)
        while not server.seen:
            time.sleep(0.02)
        threading.Timer(0.3, second.set).start()
        with stoppable(second), pytest.raises(TurnStopped):
            generator.complete(ASK)
        first.set()
        with pytest.raises(TurnStopped):
            holder.result(PATIENCE)
    assert len(server.seen) == 1


def test_places_are_given_in_the_order_in_which_they_were_asked_for_also_to_one_that_asks_again_at_once():
    slots, order = Slots(1), []
    waits: list[threading.Event] = [threading.Event() for _ in range(4)]

    def turn(name: int) -> None:
        """Two calls, the second one right after the first."""
        for call in "ab":
            waits[name].set()
            with slots.hold():
                order.append(f"{name}{call}")
                if len(order) == 1:  # until the others wait
                    assert waits[3].wait(PATIENCE)
                    time.sleep(0.05)

    with ThreadPoolExecutor(4) as threads:
        for name, wait in enumerate(waits):
            threads.submit(turn, name)
            assert wait.wait(PATIENCE)
            time.sleep(0.05)
    assert order == ["0a", "1a", "2a", "3a", "0b", "1b", "2b", "3b"]


def test_a_call_that_stops_waiting_leaves_its_place_in_the_queue():
    slots, stop, served = Slots(1), Stop(), threading.Event()

    def left() -> None:
        with stoppable(stop), pytest.raises(TurnStopped), slots.hold():
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


def test_an_endpoint_that_asks_to_wait_for_longer_than_the_deadline_is_rate_limited():
    with ScriptedServer(Status(429, headers={"Retry-After": "30"})) as server:
        error = failure(opened(server), deadline=0.4)
    assert (error.kind, error.usage.calls) == ("rate_limited", 1)


def test_a_429_is_reported_to_whoever_sends_many_calls():
    complaints = []
    token = ON_RATE_LIMIT.set(lambda: complaints.append(1))
    try:
        with ScriptedServer(Status(429), Status(429), Say("Fine.")) as server:
            assert opened(server).complete(ASK).usage.calls == 3
    finally:
        ON_RATE_LIMIT.reset(token)
    assert len(complaints) == 2


def test_a_stream_that_breaks_is_tried_again_unless_something_of_it_was_told():
    pieces = []
    with ScriptedServer(Say("one two three", cut=2), Say("one two three")) as server:
        assert failure(opened(server), on_text=pieces.append).kind == "unavailable"
    assert (pieces, len(server.seen)) == (["one", " two"], 1)
    with ScriptedServer(Say("one two", cut=0), Say("one two")) as server:
        assert opened(server).complete(ASK, on_text=pieces.append).text == "one two"
    assert pieces[2:] == ["one", " two"]


def test_what_the_listener_raises_ends_the_stream_and_travels_on():
    def on_text(piece):
        raise BrokenPipeError("the screen is gone")

    with ScriptedServer(Say("one two three", stall=20)) as server:
        with pytest.raises(BrokenPipeError):
            opened(server).complete(ASK, on_text=on_text)
        assert server.disconnected.wait(PATIENCE)
