"""Whole runs against a real server process: what it writes is nonsense, and every sample is accounted for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Turnmark
from tests.served import serving

# The default suite asks a real server in tests/assistant/test_serve.py, and answers whole runs from a scripted one.
pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("served")) as served:
        yield served


@pytest.mark.parametrize(
    "words",
    [
        ["mtrag", "--setting", "reference", "--sample", "4"],
        ["inscoqa", "--limit", "2"],
        ["compound-qa", "--sample", "3"],
        ["kiwi", "--limit", "3"],
    ],
)
def test_a_run_with_a_served_model(
    turnmark: Turnmark, spec: str, words: list[str], tmp_path: Path, check_run: Any
) -> None:
    ran = turnmark("eval", *words, "--generator", spec, "--out", tmp_path / "run", "--json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    lines = [json.loads(line) for line in (tmp_path / "run/predictions.jsonl").read_text().splitlines()]
    assert len(lines) == summary["n"] > 0
    assert summary["failed"] == 0
    answered = [line for line in lines if line["usage"]]
    assert answered
    spent = sum(used["completion_tokens"] for line in answered for used in line["usage"].values())
    assert spent == sum(used["completion_tokens"] for used in summary["usage"].values()) > 0
    assert summary["metrics"]["answer_words"]["n"] == summary["n"]
    check_run(tmp_path / "run")
