"""Several endpoints behind one spec, on real sockets: who is asked, who rests, and that nothing is lost."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.assistant.endpoint import ASK, failure
from tests.servers import Hang, Reset, Say, ScriptedServer, Status
from turnmark.assistant.generators import endpoints, open_generator
from turnmark.assistant.generators.endpoints import FleetGenerator
from turnmark.assistant.generators.replies import Fault
from turnmark.corpora.errors import RequestError


@pytest.fixture(autouse=True)
def _quick(monkeypatch):
    monkeypatch.setattr(endpoints, "FIRST_REST", 0.1)
    for name in ("OPENAI_API_KEY", "VLLM_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def opened(*servers, options="", kind="openai"):
    return open_generator(f"{kind}:tiny@{'|'.join(server.url for server in servers)}{options}")


def counts(generator):
    return [(member.answered, member.failed) for member in generator._members]


@pytest.mark.parametrize("kind", ["openai", "vllm", "ollama"])
def test_the_load_is_shared(kind):
    with ScriptedServer(Say("a", pause=0.05)) as a, ScriptedServer(Say("b", pause=0.05)) as b:
        generator = opened(a, b, kind=kind)
        assert generator.name == f"{kind}:tiny@{a.url}|{b.url}"
        with ThreadPoolExecutor(4) as pool:
            replies = Counter(pool.map(lambda _: generator.complete(ASK).text, range(24)))
    assert replies["a"] + replies["b"] == 24
    assert min(replies.values()) >= 8
    assert counts(generator) == [(replies["a"], 0), (replies["b"], 0)]


def test_the_least_busy_is_asked():
    """Each of four requests at once goes where fewest are: two and two, whichever comes first."""
    gate = threading.Barrier(4, timeout=20)

    def reply(body):
        gate.wait()
        return Say("x")

    with ScriptedServer(reply) as a, ScriptedServer(reply) as b:
        generator = opened(a, b)
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: generator.complete(ASK), range(4)))
        assert (len(a.seen), len(b.seen)) == (2, 2)


def test_one_dies_in_the_middle_and_nothing_fails_and_it_is_used_again_when_it_is_back(capfd):
    with ScriptedServer(Say("a", pause=0.02)) as a:
        b = ScriptedServer(Say("b", pause=0.02))
        port = b._http.server_address[1]
        with b:
            generator = opened(a, b)
            with ThreadPoolExecutor(4) as pool:
                first = list(pool.map(lambda _: generator.complete(ASK).text, range(12)))
                running = [pool.submit(generator.complete, ASK) for _ in range(10)]
                b.replies = [Reset()]
                running += [pool.submit(generator.complete, ASK) for _ in range(10)]
                during = [future.result().text for future in running]
        assert set(first) == {"a", "b"}
        assert len(during) == 20
        assert {generator.complete(ASK).text for _ in range(4)} == {"a"}  # it is gone altogether
        assert generator._members[1].failed >= 1
        with ScriptedServer(Say("b again"), port=port):
            ends = time.monotonic() + 10
            replies = set()
            while "b again" not in replies and time.monotonic() < ends:
                replies.add(generator.complete(ASK).text)
                time.sleep(0.02)
            assert replies == {"a", "b again"}
            assert generator._members[1].until <= time.monotonic()
    notes = capfd.readouterr().err
    assert "an endpoint of tiny rests for 0.1 s; tiny at" in notes
    assert "an endpoint of tiny answers again" in notes


@pytest.mark.parametrize(
    "bad", [Status(500), Status(503), Status(429), Reset(), Status(429, body={"error": {"code": "insufficient_quota"}})]
)
@pytest.mark.parametrize("on_text", [None, lambda piece: None])
def test_a_failing_endpoint_rests_and_another_answers_at_once(bad, on_text):
    with ScriptedServer(bad) as broken, ScriptedServer(Say("Fine.")) as well:
        generator = opened(broken, well, options="?deadline=20")
        for _ in range(6):
            assert generator.complete(ASK, on_text=on_text).text == "Fine."
        assert len(broken.seen) < 6
        assert len(well.seen) == 6


def test_rests_grow_and_have_an_end(monkeypatch):
    monkeypatch.setattr(endpoints, "FIRST_REST", 1.0)
    monkeypatch.setattr(endpoints, "LONGEST_REST", 5.0)
    with ScriptedServer(Say("x")) as a, ScriptedServer(Say("y")) as b:
        member = opened(a, b)._members[0]
    fault = Fault("unavailable", "away", retry=True)
    rests = [member.rest(fault, sent_at=failed_at, time_now=failed_at) for failed_at in (1.0, 3.0, 6.0, 12.0)]
    assert rests == [1.0, 2.0, 4.0, 5.0]
    assert member.rest(fault, sent_at=11.0, time_now=13.0) is None, "it was sent before the rest began"


def test_where_all_rest_the_call_waits_for_the_first():
    with (
        ScriptedServer(Status(503), Say("a")) as a,
        ScriptedServer(Status(503, headers={"Retry-After": "60"}), Say("b")) as b,
    ):
        generator = opened(a, b)
        reply = generator.complete(ASK, deadline=20)
    assert reply.text == "a"
    assert reply.usage.calls == 3
    assert (len(a.seen), len(b.seen)) == (2, 1)


def test_a_rest_that_outlasts_the_deadline_ends_the_call_at_once():
    asked_to_wait = Status(503, headers={"Retry-After": "60"})
    with ScriptedServer(asked_to_wait) as a, ScriptedServer(asked_to_wait) as b:
        generator = opened(a, b)
        assert failure(generator, deadline=10).kind == "unavailable"
        assert "all rest after failures, for" in str(failure(generator, deadline=10))
        assert (len(a.seen), len(b.seen)) == (1, 1)


@pytest.mark.parametrize(
    ("status", "kind", "requests"),
    [
        (Status(400), "bad_request", 1),
        (Status(401), "auth", 1),
        (Status(429, body={"error": {"code": "insufficient_quota"}}), "rate_limited", 2),
    ],
)
def test_what_will_not_pass_is_told_at_once(status, kind, requests):
    with ScriptedServer(status) as a, ScriptedServer(status) as b:
        assert failure(opened(a, b)).kind == kind
        assert len(a.seen) + len(b.seen) == requests


def test_an_endpoint_that_hangs_is_left_after_the_patience(monkeypatch):
    monkeypatch.setattr(endpoints.random, "random", lambda: 0.5)  # of equals, the first is asked
    with ScriptedServer(Hang()) as hung, ScriptedServer(Say("Fine.")) as well:
        generator = opened(hung, well, options="?patience=1&deadline=60")
        generator.make_ready()
        assert generator.complete(ASK).text == "Fine."
        assert (len(hung.seen), len(well.seen)) == (1, 1)
        assert counts(generator) == [(0, 1), (1, 0)]


def test_a_stream_that_broke_after_its_first_words_is_not_begun_again_elsewhere():
    heard = []
    with ScriptedServer(Say("one two three", cut=1)) as a, ScriptedServer(Say("one two three", cut=1)) as b:
        assert failure(opened(a, b), on_text=heard.append).kind == "unavailable"
        assert len(a.seen) + len(b.seen) == 1
    assert heard == ["one"]


def test_concurrency_holds_for_all_together():
    busy, most, lock = [0], [0], threading.Lock()

    def reply(body):
        with lock:
            busy[0] += 1
            most[0] = max(most[0], busy[0])
        time.sleep(0.03)
        with lock:
            busy[0] -= 1
        return Say("x")

    with ScriptedServer(reply) as a, ScriptedServer(reply) as b:
        generator = opened(a, b, options="?concurrency=2")
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda _: generator.complete(ASK), range(12)))
    assert most[0] <= 2


def test_one_variable_is_for_all(monkeypatch):
    monkeypatch.setenv("SHARED", "k")
    with ScriptedServer(Say("a"), models=[{"id": "tiny", "max_model_len": 4096}]) as a:
        with ScriptedServer(Say("b"), models=[{"id": "tiny", "max_model_len": 2048}]) as b:
            generator = opened(a, b, options="?api_key_env=SHARED")
            for _ in range(8):
                generator.complete(ASK)
            assert {request.headers["authorization"] for request in a.seen + b.seen} == {"Bearer k"}
            assert generator.context_tokens == 2048
        assert opened(a, b, options="?api_key_env=SHARED").context_tokens == 4096  # the other is gone
    assert opened(b, a).identity == opened(a, b).identity


def test_several_urls_may_stand_in_the_environment(monkeypatch):
    with ScriptedServer(Say("a")) as a, ScriptedServer(Say("b")) as b:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{a.url}|{b.url}")
        generator = open_generator("openai:tiny")
        assert isinstance(generator, FleetGenerator)
        assert generator.name == f"openai:tiny@{a.url}|{b.url}"
        assert generator.complete(ASK).text in "ab"


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("openai:m@http://a:1/v1|", "is no http:// or https:// URL"),
        ("openai:m@http://a:1/v1|b:2", "is no http:// or https:// URL"),
        ("openai:m@http://a:1/v1|http://me:hunter2@b:2/v1", "no user or password"),
        ("openai:m@http://a:1/v1|http://a:1/v1", "named twice"),
        ("openai:m@http://a:1/v1|http://b:1/v1?api_key_env=NOT_SET", "NOT_SET is not set"),
        ("openai:m@http://a:1/v1|https://api.openai.com/v1?api_key_env=HOME", "OpenAI's key goes to OpenAI alone"),
        ("openai:m@http://a:1/v1|http://b:1/v1?patience=0", "patience='0'"),
        ("openai:m@http://a:1/v1?patience=3", "no option 'patience'"),
    ],
)
def test_wrong_specs(spec, problem):
    with pytest.raises(RequestError) as raised:
        open_generator(spec)
    assert problem in str(raised.value)
    assert "hunter2" not in str(raised.value)
