"""Runs that meet endpoints which fail, hang or turn away, and processes that are killed: nothing is lost."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.servers import Hang, Raw, Reset, Say, Scripted, ScriptedServer, Status
from turnmark.assistant.llm.calls import thread_pool

ANSWER = "The bell was cast in the foundry by the river [1]."
DEMO_SAMPLES, DEMO_CALLS = 67, 67


def strict(text):
    """JSON without NaN."""

    def refuse(token):
        raise AssertionError(f"{token} in a file")

    return json.loads(text, parse_constant=refuse)


def samples(run):
    return [strict(line) for line in (run / "predictions.jsonl").read_text().splitlines()]


def statuses(run):
    return Counter(row["status"] for row in samples(run))


def no_nan(run):
    for path in run.glob("*.json*"):
        for text in path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]:
            strict(text)


def spec(server, options="retries=1&deadline=5"):
    return f"openai:tiny@{server.url}?context=8192&{options}"


class Failing:
    """Fails a share of the calls, by a seeded choice of manners, until it is healed."""

    FAULTS: tuple[Scripted, ...] = (
        Status(429, headers={"Retry-After": "0.05"}), Status(429), Status(500), Status(503, body="down"), Hang(30),
        Raw(b'{"id": "x", "object": "chat.completion", "choices": [{"index": 0, "mess'),
        Raw(b"<html>It works!</html>", "text/html"),
        Raw(b'{"choices": [{"message": {"role": "assistant", "content": 5}}]}'), Reset(),
    )  # fmt: skip

    def __init__(self, seed, share=0.3):
        self._dice, self._share, self._lock = random.Random(seed), share, threading.Lock()
        self.calls = self.failed = 0

    def __call__(self, _):
        with self._lock:
            self.calls += 1
            if self._dice.random() >= self._share:
                return Say(ANSWER)
            self.failed += 1
            return self._dice.choice(self.FAULTS)

    def heal(self):
        self._share = 0.0


KINDS = {"timeout", "rate_limited", "unavailable", "bad_reply"}


def test_a_run_survives_an_endpoint_that_fails_30_percent_of_calls(turnmark, check_run):
    """The same command, once the endpoint is healed, mends what had failed and leaves the rest."""
    failing, out = Failing(seed=7), Path("run")
    with ScriptedServer(failing) as server:
        command = ("eval", "mtrag", "--generator", spec(server, "retries=0&deadline=3"), "--out", out)
        first = turnmark.json(*command)
        rows = {row["id"]: row for row in samples(out)}
        assert len(rows) == len(samples(out)) == first["n"] == DEMO_SAMPLES
        failed = [row for row in rows.values() if row["status"] == "failed"]
        assert {row["status"] for row in rows.values()} == {"done", "failed"}
        assert first["failed"] == len(failed) == failing.failed
        assert 0.15 < failing.failed / failing.calls < 0.45
        assert {row["kind"] for row in failed} <= KINDS
        assert len({row["kind"] for row in failed}) >= 3
        assert all(row["reason"].startswith(f"{row['kind']}: ") and row["attempts"] == 1 for row in failed)
        assert first["metrics"]["rouge_l.word"]["failed"] <= len(failed)
        no_nan(out)
        check_run(out)
        failing.heal()
        second = turnmark.json(*command)
    assert (second["n"], second["failed"], second["skipped"]) == (DEMO_SAMPLES, 0, 0)
    assert [row["id"] for row in samples(out)] == list(rows), "in the order of the data, as before"
    for row in samples(out):
        if rows[row["id"]]["status"] == "done":
            assert row == rows[row["id"]]
        else:
            assert row["attempts"] == sum(used["calls"] for used in row["usage"].values()) == 2
    assert sum(used["calls"] for used in second["usage"].values()) == failing.calls
    no_nan(out)
    check_run(out)


def test_rate_limited_endpoint_gets_fewer_concurrent_requests(turnmark, monkeypatch):
    monkeypatch.setattr(thread_pool, "BURST_SECONDS", 0.2)
    lock, busy, turned_away = threading.Lock(), [], []

    def crowded(_):
        """Three requests may be under way at a time."""
        moment = time.monotonic()
        with lock:
            busy[:] = [since for since in busy if moment - since < 0.2]
            turned_away.append(len(busy) >= 3)
            if turned_away[-1]:
                return Status(429)
            busy.append(moment)
        return Say(ANSWER, pause=0.2)

    with ScriptedServer(crowded) as server:
        command = ("eval", "mtrag", "--generator", spec(server, "retries=50&deadline=60"), "--out", "r")
        summary = turnmark.json(*command, "--concurrency", "32")
    assert (summary["n"], summary["failed"]) == (DEMO_SAMPLES, 0)
    third = len(turned_away) // 3
    assert any(turned_away[:third]), "the storm"
    assert sum(turned_away[-third:]) < sum(turned_away[:third])


def test_refused_key_ends_the_command_and_a_valid_key_completes_it(turnmark, check_run):
    replies: list[Scripted] = [Status(401)]
    with ScriptedServer(lambda _: replies[0]) as server:
        command = ("eval", "mtrag", "--generator", spec(server), "--out", "r", "--concurrency", "2")
        ran = turnmark(*command)
        assert ran.code == 1
        assert "samples failed; the same command retries them and what was skipped" in ran.err
        assert len(server.seen) <= 5
        counts = statuses(Path("r"))
        assert counts["skipped"] > 40
        assert counts.total() == DEMO_SAMPLES
        check_run(Path("r"))
        replies[0] = Say(ANSWER)
        turnmark.ok(*command)
    assert statuses(Path("r")) == {"done": DEMO_SAMPLES}
    assert {row["attempts"] for row in samples(Path("r"))} == {1, 2}
    check_run(Path("r"))


def tokens(run):
    summary = json.loads((run / "summary.json").read_text())
    return sum(int(used["prompt_tokens"] + used["completion_tokens"]) for used in summary["usage"].values())


def test_a_budget_in_tokens_is_kept_over_all_calls_of_the_command(turnmark, check_run):
    with ScriptedServer(Say(ANSWER, usage=False)) as server:
        command = ("eval", "mtrag", "--generator", spec(server), "--out", "r", "--concurrency", "64")
        ran = turnmark.ok(*command, "--budget", "12k")
        assert "stopped by --budget: " in ran.out
        first = statuses(Path("r"))
        assert first["done"] > 5
        assert first["skipped"] > 20
        assert 9_000 < tokens(Path("r")) < 12_600, "the last sample may be a longer one than the mean"
        check_run(Path("r"))
        sent = len(server.seen)
        turnmark(*command, "--budget", "12k")
        assert len(server.seen) <= sent + 2
        assert tokens(Path("r")) < 12_600
        turnmark.ok(*command)
    assert statuses(Path("r")) == {"done": DEMO_SAMPLES}
    assert len(server.seen) == DEMO_CALLS
    check_run(Path("r"))


@pytest.mark.parametrize(
    "arguments", [("mtrag", "--limit", "9"), ("compound-qa", "--limit", "6"), ("kiwi", "--limit", "6")]
)
def test_dry_run_writes_nothing_and_estimates_closely(turnmark, arguments):
    with ScriptedServer(Say(ANSWER)) as server:
        command = ("eval", *arguments, "--generator", spec(server), "--out", "r", "--json")
        described = json.loads(turnmark(*command, "--dry-run").out)
        assert (list(Path().iterdir()), server.seen, server.models_asked) == ([], [], 0)
        summary = json.loads(turnmark(*command).out)
    estimated = described["estimated"]
    assert described["n"] == summary["n"]
    calls = sum(used["calls"] for used in estimated.values())
    assert calls == len(server.seen)
    characters = sum(len(message["content"]) for body in server.bodies for message in body["messages"]) / 3.6
    assert 1 / 1.5 < sum(used["prompt_tokens"] for used in estimated.values()) / characters < 1.5
    assert not any("tools" in note for note in described["notes"]), "what is handed in is all that is read"


def test_dry_run_notes_that_tool_rounds_are_not_estimated(turnmark):
    call = Say("", calls=[("grep", '{"words": "kettle"}')])
    with ScriptedServer(Say("{}"), call, Say(ANSWER)) as server:
        command = (*"eval mtrag --setting rag --retriever bm25 --limit 1 --generator".split(), spec(server))
        described = turnmark.json(*command, "--dry-run")
        (note,) = (note for note in described["notes"] if "tools" in note)
        assert note.endswith(
            "makes up to 8 more calls, each with all earlier messages, and reads up to 15,000 tokens of results"
        )
        assert {role: used["calls"] for role, used in described["estimated"].items()} == {"understand": 1, "answer": 1}
        turnmark(*command, "--out", "r")
        assert len(server.seen) == 3, "one more than estimated"
        for without in (("--step", "retrieve=read"), ("--protocol", "paper"), ("--query", "last-turn")):
            notes = turnmark.json(*command, *without, "--dry-run")["notes"]
            assert not any("tools" in note for note in notes)
