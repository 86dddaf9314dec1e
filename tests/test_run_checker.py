"""The checker of run folders finds what deviates: a checker that passes everything would make its uses empty."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.run_checker import main, problems_of_reply, problems_of_run

SAMPLE = {"id": "a", "repeat": 0, "status": "done", "decision": "answer"}
SCORE = {"id": "a", "repeat": 0, "metric": "x", "status": "scored", "value": 0.5}
METRIC = {"mean": 0.5, "ci95": [0.4, 0.6], "n": 1, "failed": 0, "not_applicable": 0}
PUBLISHED = {"system": "s", "metrics": {}, "source": "t", "comparable": False, "why": "n"}
SUMMARY = {
    "benchmark": "mtrag", "task": "generation", "n": 1, "failed": 0, "metrics": {"x": METRIC},
    "breakdowns": {"d": {"v": {"x": METRIC}}}, "published": [PUBLISHED], "usage": {}, "seconds": {}, "notes": [],
}  # fmt: skip
REPLY = {
    "question": "q", "answer": "a [1]", "procedure": [{"step": "s", "citations": [1]}],
    "citations": [{"n": 1, "id": "i", "document": "d", "text": "t", "score": 0.5}], "decision": "answer",
    "sub_questions": [], "checks": {}, "generator": "g", "usage": {}, "timings": {},
}  # fmt: skip


def write(folder: Path, sample: Any = SAMPLE, score: Any = SCORE, summary: Any = SUMMARY) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_text('{"seed": 0}', encoding="utf-8")
    for name, row in (("predictions.jsonl", sample), ("scores.jsonl", score)):
        (folder / name).write_text(json.dumps(row) + "\n", encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(summary), encoding="utf-8")
    return folder


def test_accepts_a_correct_run_and_a_correct_reply(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert problems_of_run(write(tmp_path / "r")) == []
    assert problems_of_reply(json.dumps(REPLY)) == []
    assert problems_of_reply(json.dumps(REPLY | {"decision": "maybe"}))[0].startswith("ask decision: Input should be")
    assert main([str(tmp_path / "r")]) == 0
    assert capsys.readouterr().out == "holds\n"


def test_rejects_an_empty_folder(tmp_path: Path) -> None:
    assert problems_of_run(tmp_path) == [
        "manifest.json: missing", "predictions.jsonl: missing", "scores.jsonl: missing", "summary.json: missing",
    ]  # fmt: skip
    assert main([str(tmp_path)]) == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({"sample": SAMPLE | {"status": "ok"}}, "predictions.jsonl status: Input should be 'done'"),
        ({"sample": SAMPLE | {"status": "failed"}}, "predictions.jsonl: failed without a reason"),
        ({"score": SCORE | {"value": float("nan")}}, "scores.jsonl value: Input should be a finite number"),
        ({"score": SCORE | {"status": "failed"}}, "scores.jsonl: what is scored has a number"),
        ({"summary": SUMMARY | {"n": 2}}, "summary.json: n and failed are not those"),
        ({"summary": SUMMARY | {"metrics": {"x": METRIC | {"mean": None}}}}, "summary.json metrics x: a mean"),
        (
            {"summary": SUMMARY | {"breakdowns": {"d": {"v": {"x": METRIC | {"ci95": [1, 0]}}}}}},
            "summary.json breakdowns d v x: ci95 is no interval",
        ),
        ({"summary": SUMMARY | {"published": [PUBLISHED | {"why": None}]}}, "summary.json published 0: not comparable"),
    ],
)
def test_reports_each_deviation_of_a_run(tmp_path: Path, changed: dict[str, Any], expected: str) -> None:
    assert [problem for problem in problems_of_run(write(tmp_path / "r", **changed)) if problem.startswith(expected)]
