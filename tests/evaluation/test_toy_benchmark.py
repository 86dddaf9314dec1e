"""A benchmark from outside the repository: run, scored, reported, by its spec and by its entry point."""

from __future__ import annotations

import importlib.metadata
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pytest

from tests.run_checker import problems_of_run

SPEC = "python:tests.evaluation.toy:Toy"


@pytest.fixture
def installed(monkeypatch):
    """The benchmark `toy`, as an installed package would bring it."""
    real = importlib.metadata.entry_points

    def points(**chosen):
        if chosen.get("group") != "turnmark.benchmarks":
            return real(**chosen)
        return EntryPoints([EntryPoint("toy", "tests.evaluation.toy:Toy", "turnmark.benchmarks")])

    monkeypatch.setattr(importlib.metadata, "entry_points", points)


def ran(turnmark, *words):
    printed = turnmark.json(*words)
    summary: dict[str, Any] = printed
    return summary


@pytest.mark.usefixtures("installed")
def test_it_is_run_scored_and_reported(turnmark):
    summary = ran(turnmark, "eval", "toy", "--setting", "parrot")
    run = Path(summary["run"])
    assert run.name.startswith("toy-")
    assert problems_of_run(run) == []
    assert (summary["n"], summary["failed"]) == (3, 0)
    assert summary["metrics"]["rouge_l.word"]["mean"] == 1.0
    assert summary["metrics"]["shouts"]["mean"] == 0.0
    assert set(summary["breakdowns"]["length"]) == {"short", "long"}
    assert [row["system"] for row in summary["published"]] == ["a parrot"]
    assert ran(turnmark, "score", "toy", "--predictions", run)["metrics"] == summary["metrics"]
    report = turnmark.ok("report", run)
    assert "rouge_l.word" in report.out
    assert "What is said of the bell?" in (run / "browse.jsonl").read_text(encoding="utf-8")


def test_the_turn_answers_by_default(turnmark):
    summary = ran(turnmark, "eval", SPEC, "--limit", "2")
    assert (summary["n"], summary["setting"]) == (2, "turn")
    assert Path(summary["run"]).name.startswith("python-tests.evaluation.toy-Toy-")
    again = ran(turnmark, "eval", SPEC, "--limit", "2")
    assert any("answered by an earlier call" in note for note in again["notes"])


def test_what_is_wrong_is_said_at_once(turnmark, tmp_path):
    message = turnmark.refused("eval", SPEC, "--data", tmp_path / "none.json", "--setting", "odd", "--query", "rewrite")
    assert "is called 'odd'; there are: turn, parrot" in message
    assert "--query" in message
    assert "none.json" in message


@pytest.mark.parametrize("spec", ["python:tests.evaluation.toy:nothing", "python:nowhere:Toy", "nobody"])
def test_a_benchmark_that_is_not_there(turnmark, spec):
    message = turnmark.refused("eval", spec, "--limit", "0")
    assert "--limit 0" in message
    assert spec.rpartition(":")[0].removeprefix("python:") in message
