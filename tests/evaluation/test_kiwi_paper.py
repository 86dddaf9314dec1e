"""`--protocol paper` of KIWI: whole answers rewritten by plain prompts, without the assistant's turn."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Turnmark
from tests.evaluation.benched import asked, only
from tests.evaluation.kiwis import ANSWER, session, turn, written
from tests.servers import Say, ScriptedServer
from turnmark.assistant.generators import GeneratorError
from turnmark.evaluation.benchmarks.kiwi import Kiwi
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.records import Sample

PASSAGES = [{"title": "Oil lamps", "text": "From 1885 it burned paraffin."}]
SEEKING = turn(instruction="And later?", instruction_type="information-seeking", retrieved_passages=PASSAGES)
STYLE = turn(instruction="Shorten it.", instruction_type="stylistic", retrieved_passages=PASSAGES)


def rewritten(root: Path, turn_fields: dict[str, Any], *replies: Say) -> tuple[Sample, list[dict[str, Any]]]:
    bench = Kiwi(written(root, session(turn_fields)), Parts(), paper=True)
    return asked(bench, only(bench), *replies)


def prompt_of(body: dict[str, Any]) -> str:
    return "\n".join(message["content"] for message in body["messages"])


def test_an_instruction_that_seeks_information_takes_a_summary_and_then_the_whole_answer(tmp_path: Path) -> None:
    revision = f"{ANSWER} From 1885 it burned paraffin [1]."
    sample, bodies = rewritten(tmp_path, SEEKING, Say("Paraffin, from 1885 [1]."), Say(revision))
    first, second = map(prompt_of, bodies)
    for text in ("Oil lamps", "From 1885 it burned paraffin.", ANSWER, "And later?"):
        assert text in first
    for text in ("What of the lamp?", ANSWER, "And later?", "Paraffin, from 1885 [1]."):
        assert text in second
    assert "Oil lamps" not in second
    assert [body["temperature"] for body in bodies] == [0.7, 0.7]
    assert sample.prediction == revision
    assert [operation["kind"] for operation in sample.operations] == ["insert"]
    assert [context.document_id for context in sample.contexts] == ["0/0#passage-1"]
    assert sample.usage["revise"].calls == 2


def test_any_other_instruction_takes_one_call_without_passages_and_no_rule_mends_the_reply(tmp_path: Path) -> None:
    sample, [body] = rewritten(tmp_path, STYLE, Say("asdf"))
    assert "Oil lamps" not in prompt_of(body)
    assert (sample.prediction, sample.contexts, sample.usage["revise"].calls) == ("asdf", (), 1)


def test_the_class_is_told_by_rules_where_the_data_are_silent(tmp_path: Path) -> None:
    sample, bodies = rewritten(tmp_path, turn(), Say("Lit in 1868."))
    assert len(bodies) == 1
    assert sample.notes == ("the data do not say whether it seeks information: by rules",)


def test_an_empty_reply_fails_and_its_cost_is_counted(tmp_path: Path) -> None:
    with pytest.raises(GeneratorError) as caught:
        rewritten(tmp_path, SEEKING, Say("Paraffin."), Say(""))
    assert (caught.value.kind, caught.value.usage.calls) == ("bad_reply", 2)


def test_the_command_chains_whole_answers_with_their_marks(turnmark: Turnmark, tmp_path: Path) -> None:
    written(tmp_path, session(STYLE, STYLE))
    words: list[str | Path] = ["eval", "kiwi", "--data", tmp_path, "--protocol", "paper"]
    replies = [Say("First [1]."), Say("Second [1]."), Say("Third [1].")]
    with ScriptedServer(*replies) as server:
        spec = f"openai:tiny@{server.url}?retries=0"
        turnmark.ok(*words, "--chain", "--generator", spec, "--out", tmp_path / "r", "--json")
    rows = [json.loads(line) for line in (tmp_path / "r/predictions.jsonl").read_text().splitlines()]
    assert [(row["previous"], row["prediction"]) for row in rows] == [
        ("First [1].", "Second [1]."), ("Second [1].", "Third [1]."),
    ]  # fmt: skip
    manifest = json.loads((tmp_path / "r/manifest.json").read_text())
    assert manifest["specs"]["protocol"] == "paper"
    assert {"prompt kiwi-first", "prompt kiwi-information", "prompt kiwi-rewrite"} <= manifest["inputs"].keys()


def test_what_is_wrong_with_the_request_is_said_at_once(turnmark: Turnmark) -> None:
    ran = turnmark("eval", "kiwi", "--protocol", "paper", "--step", "understand=rules")
    message = " ".join(ran.err.split())
    assert ran.code == 2
    assert "--protocol paper asks a language model by the paper's prompts" in message
    assert "--step is for the steps of the turn" in message
    ran = turnmark("eval", "kiwi", "--task", "judge", "--protocol", "paper")
    assert (ran.code, "is for the task revise" in " ".join(ran.err.split())) == (2, True)
