"""Official evaluation files scored again: a run for each system, over the tasks of the file alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.evaluation.judged_runs import FEW, judge, lines, spec_of, values
from tests.servers import ScriptedServer


def write_file(path, systems):
    tasks = list(dict.fromkeys(task for answers in systems.values() for task in answers))
    content: dict[str, Any] = {
        "name": "small", "models": [{"model_id": name, "name": name} for name in systems],
        "metrics": [{"name": "faithfulness", "author": "human", "type": "numerical"}],
        "tasks": [{"task_id": task, "input": [], "targets": [{"text": "t"}]} for task in tasks],
        "evaluations": [
            {"task_id": task, "model_id": name, "model_response": text,
             "annotations": {"faithfulness": {"a": {"value": len(text) % 4}}}}
            for name, answers in systems.items() for task, text in answers.items()
        ],
    }  # fmt: skip
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


SYSTEMS = {
    "gpt-4o": {"c1<::>1": "A founder made it.", "c1<::>2": "It was cast in 1858."},
    "../llama 3": {"c1<::>1": "Nobody did.", "c1<::>2": "In 1990, or so."},
}


def test_each_system_of_an_evaluation_becomes_a_judged_run(benchmark_root, turnmark, tmp_path, check_run):
    file, out = write_file(tmp_path / "evaluation.json", SYSTEMS), tmp_path / "r"
    with ScriptedServer(judge(rating=6)) as server:
        words = ("score", "mtrag", "--data", benchmark_root, "--predictions", file, "--out", out, "--json")
        ran = turnmark(*words, "--judge", spec_of(server, options=FEW))
    assert ran.code == 0, ran.err
    printed = json.loads(ran.out)
    assert {name for name in printed if name not in ("run", "notes")} == {"gpt-4o", "llama-3"}, "an id is never a path"
    for name in ("gpt-4o", "llama-3"):
        check_run(out / name)
        assert printed[name]["n"] == 2, "tasks that are not in the file are no failures"
        assert printed[name]["failed"] == 0
        assert values(out / name, "rb_llm") == dict.fromkeys(SYSTEMS["gpt-4o"], 0.6)
    assert lines(out / "llama-3" / "predictions.jsonl")[0]["prediction"] == "Nobody did."
    agreed = turnmark.json("agreement", file, out / "gpt-4o", out / "llama-3")
    assert "rb_llm" in agreed["metrics"]
    turnmark.ok("report", out)


def test_runs_keep_the_passages_that_the_systems_were_shown(benchmark_root, turnmark, tmp_path):
    """Their texts are in the file under `documents`; no corpus is at hand."""
    file = write_file(tmp_path / "evaluation.json", SYSTEMS)
    content = json.loads(file.read_text())
    content["documents"] = [{"document_id": "x1", "text": "A founder cast it in 1858."}]
    for task in content["tasks"]:
        task["contexts"] = [{"document_id": "x1"}]
    file.write_text(json.dumps(content))
    words = ("score", "mtrag", "--setting", "rag", "--data", benchmark_root, "--predictions", file)
    turnmark.ok(*words, "--out", tmp_path / "r")
    written = lines(tmp_path / "r" / "gpt-4o" / "predictions.jsonl")
    assert [row["contexts"][0]["text"] for row in written] == ["A founder cast it in 1858."] * 2
    assert values(tmp_path / "r" / "gpt-4o", "k_precision") == {"c1<::>1": pytest.approx(2 / 3), "c1<::>2": 0.8}
    compared = turnmark.json("compare", tmp_path / "r" / "gpt-4o", tmp_path / "r" / "llama-3")
    assert "k_precision" in json.dumps(compared)


def test_reports_what_cannot_be_rescored(benchmark_root, turnmark, tmp_path):
    file = write_file(tmp_path / "evaluation.json", SYSTEMS)
    (tmp_path / "other.json").write_text("{}")
    message = turnmark.refused("score", "compound-qa", "--predictions", file, "--predictions", tmp_path / "other.json")
    assert "already contains several systems" in message
    assert "there are no evaluation files of compound-qa" in message
    ran = turnmark("score", "mtrag", "--data", benchmark_root, "--predictions", tmp_path / "other.json")
    assert "is not an evaluation in the format of InspectorRAGet" in " ".join(ran.err.split())
