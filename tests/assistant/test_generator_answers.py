"""`turnmark ask` with several `--generator`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.servers import Say, ScriptedServer, Status

pytestmark = pytest.mark.usefixtures("in_demo_home")
QUESTION = "How high is Stack Nell lighthouse?"
RULES = ("--step", "understand=rules")
"""With these steps, a scripted model is asked only for the answer."""


@pytest.fixture
def script(tmp_path: Path) -> str:
    """A generator that always gives the same reply."""
    file = tmp_path / "script.jsonl"
    file.write_text(json.dumps({"text": "Its tower is 27 m high. [1]"}) + "\n", "utf-8")
    return f"replay:{file}?size=small"


def test_both_replies_are_printed_with_sources_and_cost(turnmark: Turnmark, demo_home: Path, monkeypatch):
    prices = "[prices.reader]\nprompt = 1000000\ncompletion = 0\n"
    monkeypatch.setenv("COLUMNS", "80")
    with ScriptedServer(Say("Its tower is 27 m high. [1]")) as server:
        spec = f"openai:reader@{server.url}?size=small"
        (demo_home / "config.toml").write_text(prices, "utf-8")
        try:
            ran = turnmark.ok("ask", QUESTION, "--index", "demo", "--generator", "extractive", "--generator", spec)
        finally:
            (demo_home / "config.toml").unlink()
    first, second = ran.out.split("\nopenai:reader")
    assert first.startswith("extractive\nStack Nell lighthouse")
    assert "[1] Stack Nell lighthouse, almanac/stack-nell-lighthouse.md" in first
    assert "no model calls · " in first
    assert "Its tower is 27 m high. [1]" in second
    assert "[1] Stack Nell lighthouse" in second
    assert "tokens in" in second
    assert " · cost " in second


def test_json_is_one_object_with_all_replies(turnmark: Turnmark, script: str):
    words = ("ask", QUESTION, "--index", "demo", "--generator", "extractive", "--generator", script, *RULES)
    printed = turnmark.json(*words)
    assert list(printed) == ["question", "replies"]
    assert [reply["generator"] for reply in printed["replies"]] == ["extractive", script]
    alone = turnmark.json("ask", QUESTION, "--index", "demo")
    timeless = [
        {key: value for key, value in reply.items() if key != "timings"} for reply in (alone, printed["replies"][0])
    ]
    assert timeless[0] == timeless[1]  # each answers as it does alone


def test_failure_is_reported_and_the_other_reply_is_shown(turnmark: Turnmark):
    with ScriptedServer(Status(401)) as server:
        spec = f"openai:reader@{server.url}?size=small&retries=0"
        words = ("ask", QUESTION, "--index", "demo", "--generator", spec, "--generator", "extractive")
        ran = turnmark(*words)
        as_json = turnmark(*words, "--json")
    assert ran.code == as_json.code == 1
    assert "no answer: " in ran.out
    assert "Stack Nell lighthouse stands on" in ran.out
    assert "did not answer" in ran.err
    failed, answered = json.loads(as_json.out)["replies"]
    assert failed["error"]["kind"] == "auth"
    assert answered["decision"] == "answer"


def test_questions_from_standard_input(turnmark: Turnmark, script: str):
    words = ("ask", "-", "--index", "demo", "--generator", "extractive", "--generator", script, "--json", *RULES)
    ran = turnmark(*words, stdin=f"{QUESTION}\nWhen was it first lit?\n")
    printed = [json.loads(line) for line in ran.out.splitlines()]
    assert [len(row["replies"]) for row in printed] == [2, 2]
    # The script has one line, so its second reply fails; the reply of the first assistant is printed nevertheless.
    assert ran.code == 1
    assert printed[1]["replies"][0]["decision"] == "answer"


def test_reports_all_mistakes_at_once(turnmark: Turnmark):
    words = ("--generator", "opnai:x", "--generator", "odd:y", "--generator", "extractive", "--generator", "extractive")
    said = turnmark.refused("ask", QUESTION, "--index", "demo", *words)
    for part in ("'opnai'", "'odd'", "--generator extractive is given twice"):
        assert part in said
    assert (
        turnmark.refused(
            "ask", QUESTION, "--index", "nowhere", "--generator", "extractive", "--generator", "replay:x"
        ).count("'nowhere'")
        == 1
    )


def test_environment_variable_contains_a_single_spec(turnmark: Turnmark, tmp_path: Path, monkeypatch):
    file = tmp_path / "my script.jsonl"
    file.write_text(json.dumps({"text": "Its tower is 27 m high. [1]"}) + "\n", "utf-8")
    monkeypatch.setenv("TURNMARK_GENERATOR", f"replay:{file}?size=small")
    assert "27 m high" in turnmark.json("ask", QUESTION, "--index", "demo", *RULES)["answer"]
