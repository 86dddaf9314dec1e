"""KIWI's sessions revised on from our own answers (`--chain`), judged, and read from files that are not in order."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.evaluation.benched import open_task, values
from tests.evaluation.judged_runs import lines
from tests.evaluation.kiwis import ANSWER, items_of, session, turn, written
from tests.servers import Say, ScriptedServer, Status
from turnmark.evaluation.benchmarks.kiwi.revision import Kiwi
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.turn_samples import EarlierTurn

STYLE = {"instruction_type": "stylistic"}


def say(number):
    return turn(instruction=f'Add "{number} was said here." at the end.', **STYLE)


def reviser(fail="never"):
    """Writes first answers that name their question, and adds what is to be added; refuses what holds `fail`."""

    def reply(body):
        system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
        if "You answer a research question" in system:
            return Say(f"First answer to {(re.search('Q[0-9][?]', prompt) or ['it'])[0]}")
        _, _, asked = prompt.rpartition("Your last answer, which ends the conversation so far:")
        if fail in asked:
            return Status(400)
        previous = " ".join(re.findall("^> (.+)", asked, re.MULTILINE))
        addition = asked.split('"')[1]
        return Say(f"{previous} {addition}")

    return reply


def test_each_turn_continues_from_our_own_answer(turnmark, tmp_path, check_run):
    rows = [session(say("One"), say("Two"), say("Three"), original_question=f"Q{n}?", model_name="m") for n in range(3)]
    source = written(tmp_path / "data", *rows)
    with ScriptedServer(reviser()) as server:
        ran = turnmark("eval", "kiwi", "--data", source.root, "--generator", f"openai:tiny@{server.url}?retries=0",
                       "--chain", "--repeat", "2", "--out", "run", "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    check_run(Path("run"))
    summary = json.loads(ran.out)
    assert (summary["n"], summary["failed"], summary["specs"]["chain"]) == (18, 0, "our own answers")
    row_of = {(row["id"], row["repeat"]): row for row in lines(Path("run/predictions.jsonl"))}
    for n in range(3):
        for repeat in range(2):
            text = f"First answer to Q{n}?"
            for place, number in enumerate(("One", "Two", "Three")):
                row = row_of[(f"{n}/{place}", repeat)]
                assert row["previous"] == text
                text = f"{text} {number} was said here."
                assert row["prediction"] == text
    assert {body["temperature"] for body in server.bodies} == {0.7}
    # Four words each time, on 4, 8 and 12 words.
    assert summary["metrics"]["edit_distance"]["mean"] == 4
    assert summary["metrics"]["edit_ratio"]["mean"] == pytest.approx((4 / 4 + 4 / 8 + 4 / 12) / 3)


def test_failed_turn_fails_later_turns_until_resumed(turnmark, tmp_path):
    source = written(tmp_path / "data", session(say("One"), say("Two"), say("Three")), session(say("Four"), say("Five"),
                     original_question="Q1?"))  # fmt: skip
    with ScriptedServer(reviser("Two")) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        words = ["eval", "kiwi", "--data", str(source.root), "--generator", spec, "--chain", "--out", "run", "--json"]
        first = turnmark.ok(*words)
        assert json.loads(first.out)["failed"] == 2
        broken = {row["id"]: row for row in lines(Path("run/predictions.jsonl")) if row["status"] == "failed"}
        assert list(broken) == ["0/1", "0/2"]
        assert broken["0/2"]["kind"] == "EarlierTurn"
        assert "turn 0/1 has no answer to continue from" in broken["0/2"]["reason"]
        before = len(server.bodies)
        server.replies[:] = [reviser()]
        again = turnmark(*words)
        assert json.loads(again.out)["failed"] == 0
        assert len(server.bodies) == before + 2  # what was done is not asked for again
    rows = {row["id"]: row for row in lines(Path("run/predictions.jsonl"))}
    assert rows["0/2"]["previous"] == rows["0/1"]["prediction"]
    assert rows["0/1"]["previous"] == rows["0/0"]["prediction"]


def test_refuses_chains_with_gaps(tmp_path):
    bench = open_task(Kiwi, written(tmp_path, session(say("One"), say("Two"))), chain=True)
    first, second = items_of(bench)
    bad = Sample(id="0/0", status="failed", kind="timeout", reason="timeout: late")
    with pytest.raises(EarlierTurn, match="timeout: late"):
        bench.answer(Item(second.id, second.task, after="0/0", earlier=bad), None)
    # By rules a session begins with the recorded answer, and marks do not pass on.
    assert bench.answer(first, None).previous == ANSWER
    good = Sample(id="0/0", status="done", prediction="It was lit [1].")
    sample = bench.answer(Item(second.id, second.task, after="0/0", earlier=good), None)
    assert (sample.previous, sample.prediction) == ("It was lit.", "It was lit.")
    assert values(bench, second, sample)["edit_distance"] == 0


def test_a_judge_rates_revisions_as_users_do(turnmark, tmp_path, check_run):
    short = "Shorten it."
    rows = [session(turn(instruction=short, fine_type="Remove"), turn(instruction="Dance.", fine_type="Others")),
            session(turn(instruction=short), original_question="Q?")]  # fmt: skip
    source = written(tmp_path / "data", *rows)

    def reply(body):
        system, prompt = body["messages"][0]["content"], body["messages"][-1]["content"]
        assert "You rate, in the user's place" in system
        revised = prompt.rpartition("<reply-")[2]
        if "Dance" in prompt:
            return Say("Nobody danced. [[good]] would be wrong.\nVerdict: [[neutral]]")
        return Say(f"Done.\nVerdict: [[{'bad' if 'rape' in revised else 'good'}]]")

    with ScriptedServer(reply) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        ran = turnmark("eval", "kiwi", "--data", source.root, "--judge", spec, "--judge", "embedded", "--out", "run",
                       "--json")  # fmt: skip
    assert ran.code == 0, ran.err
    check_run(Path("run"))
    summary = json.loads(ran.out)
    assert summary["metrics"]["good"]["mean"] == pytest.approx(2 / 3)
    assert summary["breakdowns"]["instruction"]["Others"]["good"]["mean"] == 0
    assert summary["metrics"]["good[embedded]"]["n"] == 3
    labels = {row["id"]: row["label"] for row in lines(Path("run/judgements.jsonl")) if row["measure"] == "good"}
    assert labels == {"0/0": "good", "0/1": "neutral", "1/0": "good"}
    for body in server.bodies:
        prompt = body["messages"][-1]["content"]
        assert [name for name in ("previous", "instruction", "reply") if f"<{name}-" not in prompt] == []
    assert any(row["metrics"] == {"good": 0.3968} and "judge" in row["differs"] for row in summary["published"])
