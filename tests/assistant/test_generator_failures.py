"""Generators at an endpoint that fails, stalls or answers nonsense: retries, deadlines, and leaving in the middle."""

from __future__ import annotations

import email.utils
import subprocess
import sys

import pytest

from tests.assistant.endpoint import ASK, failure, opened
from tests.conftest import ROOT
from tests.servers import Hang, Raw, Reset, Say, ScriptedServer, Status
from turnmark.assistant.generators.replies import retry_after

pytestmark = pytest.mark.usefixtures("short_waits")


@pytest.mark.parametrize("trouble", [Status(500), Status(408), Status(409), Status(503), Reset()])
def test_passing_trouble_is_tried_again(trouble):
    with ScriptedServer(trouble, Say("Fine.")) as server:
        reply = opened(server).complete(ASK)
    assert reply.text == "Fine."
    assert reply.usage.calls == 2


def test_back_off_grows(monkeypatch):
    monkeypatch.setattr("turnmark.assistant.generators.openai.FIRST_WAIT", 0.1)
    monkeypatch.setattr("turnmark.assistant.generators.openai.JITTER", 0)
    with ScriptedServer(Status(500), Status(500), Say("Fine.")) as server:
        opened(server).complete(ASK)
    first, second, third = (request.arrived for request in server.seen)
    assert second - first > 0.09
    assert third - second > 0.19


def test_retry_after_is_read_as_seconds_and_as_a_date():
    time_now = 1_700_000_000.0
    assert retry_after({"retry-after": "2.5"}) == 2.5
    assert retry_after({"retry-after": email.utils.formatdate(time_now + 7, usegmt=True)}, time_now) == 7
    assert retry_after({"retry-after": email.utils.formatdate(time_now - 7, usegmt=True)}, time_now) == 0
    for nonsense in ("soon", "nan", "inf", ""):
        assert retry_after({"retry-after": nonsense}) is None
    assert retry_after({}) is None


QUOTA = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}
GARBAGE = [
    Raw(b'{"choices": [{"message": {"content": "hal'),
    Raw(b"<html>Welcome to the router</html>", "text/html"),
    Raw(b'{"choices": []}'),
    Raw(b'{"choices": [{"message": {"content": 5}, "finish_reason": "stop"}]}'),
    Raw(b"5"),
    Raw(b"\xff\xfe\x00", "application/json"),
    Raw(b"data: {nonsense\n\n", "text/event-stream"),
]


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        *((Status(status), kind, "") for status, kind in ((400, "bad_request"), (401, "auth"), (403, "auth"))),
        *((Status(status), "bad_request", "") for status in (404, 422)),
        (Status(429, body=QUOTA), "rate_limited", ""),
        (Status(429, headers={"Retry-After": "120"}), "rate_limited", "120"),
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


def test_attempts_are_bounded_and_counted():
    with ScriptedServer(Status(503, "overloaded", headers={"Retry-After": "0"})) as server:
        error = failure(opened(server, "?retries=2"))
    assert error.kind == "unavailable"
    assert "overloaded" in str(error)
    assert error.usage.calls == len(server.seen) == 3


def test_an_error_event_inside_a_stream():
    event = b'data: {"error": {"message": "the GPU is on fire"}}\n\n'
    with ScriptedServer(Raw(event, "text/event-stream")) as server:
        error = failure(opened(server, "?retries=0"), on_text=lambda piece: None)
    assert error.kind == "unavailable"
    assert "on fire" in str(error)


def test_a_deadline_of_the_generator_s_own_is_told_with_what_gives_more():
    with ScriptedServer(Hang()) as server:
        error = failure(opened(server, "?deadline=0.3"))
        assert "did not finish before the deadline of 0.3 s; ?deadline=SECONDS in its spec" in str(error)
        assert "?deadline" not in str(failure(opened(server), deadline=0.3)), "the caller's own time was up"


@pytest.mark.parametrize(
    ("reply", "on_text"),
    [
        (Hang(), None),
        (Hang(), print),
        (Say("one two three", stall=30), print),  # keep-alive comments come, text does not
        (Say("one two three", pause=0.02, drip=True), None),  # no read ever waits long
    ],
)
def test_one_deadline_holds_for_the_whole_call(reply, on_text):
    with ScriptedServer(reply) as server:
        generator = opened(server)
        generator.context_tokens  # noqa: B018  (loads the client)
        assert failure(generator, deadline=0.3, on_text=on_text).kind == "timeout"


def test_an_endpoint_that_is_not_there():
    with ScriptedServer(Say("never")) as server:
        pass
    error = failure(opened(server, "?retries=0"))
    assert error.kind == "unavailable"
    assert server.url in str(error)


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
        assert server.disconnected.wait(3)


INTERRUPTED = """
import os, signal, sys, threading
from turnmark.assistant.generators import PromptMessage, open_generator

generator = open_generator(sys.argv[1])
def on_text(piece):
    print("told", piece, flush=True)
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    generator.complete([PromptMessage(role="user", content="x")], on_text=on_text)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_during_a_stalled_stream_closes_the_connection():
    with ScriptedServer(Say("one two three", stall=30)) as server:
        ran = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, f"openai:tiny@{server.url}"],
            capture_output=True, text=True, cwd=ROOT, timeout=60, check=False,
        )  # fmt: skip
        assert ran.stdout.split("\n")[:2] == ["told one", "interrupted"]
        assert server.disconnected.wait(3)
    assert ran.returncode == 0
    assert ran.stderr == ""
