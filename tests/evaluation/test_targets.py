"""`--generator reference`: every benchmark answered with its own targets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.servers import Say, ScriptedServer
from turnmark.corpora import compound_qa, inscoqa, kiwi


@pytest.mark.parametrize("benchmark", ["mtrag", "mtrag-s", "inscoqa", "compound-qa", "kiwi"])
def test_every_benchmark_is_answered_with_its_targets(
    turnmark: Turnmark, tmp_path: Path, check_run: Callable[[Path], None], benchmark: str
) -> None:
    ran = turnmark("eval", benchmark, "--generator", "reference", "--out", tmp_path / "r", "--json")
    assert ran.code == 0, ran.err
    check_run(tmp_path / "r")
    summary = json.loads(ran.out)
    assert summary["failed"] == 0
    assert summary["usage"] == {}
    if benchmark != "kiwi":
        assert summary["metrics"]["rouge_l.word"]["mean"] == 1.0
        assert summary["metrics"]["token_recall"]["mean"] == 1.0


def test_the_targets_are_those_of_the_data(turnmark: Turnmark, tmp_path: Path) -> None:
    def predictions(benchmark: str) -> dict[str, dict[str, object]]:
        assert turnmark("eval", benchmark, "--generator", "reference", "--out", tmp_path / benchmark).code == 0
        lines = (tmp_path / benchmark / "predictions.jsonl").read_text(encoding="utf-8").splitlines()
        return {row["id"]: row for row in map(json.loads, lines)}

    samples = predictions("inscoqa")
    for task in inscoqa.load_tasks(inscoqa.DEMO_ROOT).data.values():
        assert samples[task.id]["prediction"] == task.answer
        assert tuple(step["step"] for step in samples[task.id]["procedure"]) == task.procedure  # type: ignore[attr-defined]
    samples = predictions("compound-qa")
    references = {task.id: task.reference for task in compound_qa.load_tasks(compound_qa.DEMO_ROOT).data.values()}
    assert {name: row["prediction"] for name, row in samples.items()} == references
    samples = predictions("kiwi")
    turns = [turn for session in kiwi.load_sessions(kiwi.DEMO_ROOT).data for turn in session.turns]
    accepted = {turn.id for turn in turns if turn.edit or turn.rating == "good"}
    assert {name for name, row in samples.items() if row["status"] == "done"} == accepted
    assert {row["reason"] for row in samples.values() if row["status"] == "skipped"} == {
        "the data has no reference answer"
    }


def test_a_setting_that_searches_has_passages_beside_the_target(turnmark: Turnmark, tmp_path: Path) -> None:
    words = ("eval", "mtrag", "--setting", "rag", "--retriever", "bm25", "--limit", "3", "--generator", "reference")
    ran = turnmark(*words, "--out", tmp_path / "r", "--json")
    assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in (tmp_path / "r/predictions.jsonl").read_text().splitlines()]
    assert all(row["contexts"] for row in rows)
    assert json.loads(ran.out)["metrics"]["rouge_l.word"]["mean"] == 1.0


def test_what_has_no_target_is_refused(turnmark: Turnmark) -> None:
    ran = turnmark("eval", "kiwi", "--task", "analyse", "--generator", "reference")
    assert (ran.code, "no reference answers" in " ".join(ran.err.split())) == (2, True)
    ran = turnmark("eval", "kiwi", "--chain", "--generator", "reference")
    assert (ran.code, "--chain is for what answers" in " ".join(ran.err.split())) == (2, True)
    ran = turnmark("eval", "mtrag", "--judge", "reference")
    assert (ran.code, "judges nothing" in " ".join(ran.err.split())) == (2, True)
    dry = turnmark("eval", "inscoqa", "--generator", "reference", "--dry-run", "--json")
    assert json.loads(dry.out)["estimated"] == {}


def test_the_judge_of_compound_qa_is_a_preset(
    turnmark: Turnmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """References against themselves by a judge that always ties: the Reference row wins everything."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-nobody")

    def says(body: dict[str, object]) -> Say:
        if "You check a reply" in json.dumps(body):
            return Say('{"omitted": [], "merged": [], "wrong_language": false}')
        return Say("[[A=B]]")

    with ScriptedServer(says) as server:
        words = ("eval", "compound-qa", "--generator", "reference", "--limit", "2", "--judge")
        ran = turnmark(*words, f"panel:compound-qa@{server.url}", "--out", tmp_path / "r", "--json")
        assert {body["model"] for body in server.bodies} == {"gpt-3.5-turbo"}
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["metrics"]["win_rate"]["mean"] == 1.0
    assert not any("judge" in row["differs"] for row in json.loads(ran.out)["published"])
