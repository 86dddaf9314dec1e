"""`make demo` stays short: its conversation and its table, counted, and each line of the table read from a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import DEMO, ROOT
from tests.demo import HEADLINES, table

MOST = 65
OF_THE_BUILD = 6
"""Lines of `index build` where no terminal is."""


def finished(runs: Path, folder: str, **metrics: float) -> None:
    """A run with these means."""
    (runs / folder).mkdir(parents=True)
    content = {name: {"mean": mean, "ci95": [mean - 0.1, mean + 0.1], "n": 67} for name, mean in metrics.items()}
    (runs / folder / "summary.json").write_text(json.dumps({"metrics": content}))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, (_, folder, metric) in enumerate(HEADLINES):
        finished(tmp_path, folder, **{metric: 0.3 + number / 10, "other": 0.0})
    return tmp_path


def test_the_table_has_a_row_for_each_part_with_its_figure(runs: Path) -> None:
    heading, *rows = table(runs)[:6]
    assert heading.split() == ["n", "metric", "mean", "95%", "interval"]
    assert [row.split("  ")[0].strip() for row in rows] == [title for title, _, _ in HEADLINES]
    assert rows[1] == "MTRAG, answers       67  rouge_l.word   0.400  0.300-0.500"


def test_the_demo_stays_short(runs: Path) -> None:
    recipe = (ROOT / "Makefile").read_text().split("\ndemo:")[1].split("\n\n")[0].splitlines()
    echoed = sum(line.count("echo") for line in recipe)
    chat = (ROOT / "tests/assistant/golden/demo_chat.txt").read_text(encoding="utf-8").splitlines()
    assert OF_THE_BUILD + echoed + len(chat) + len(table(runs)) + 1 <= MOST
    assert all(line.startswith("\t@") for line in recipe[1:] if not recipe[recipe.index(line) - 1].endswith("\\")), (
        "a command that make prints is a line more"
    )


def test_the_conversation_has_four_turns_of_four_kinds() -> None:
    questions = (DEMO / "questions.txt").read_text(encoding="utf-8").splitlines()
    chat = (ROOT / "tests/assistant/golden/demo_chat.txt").read_text(encoding="utf-8")
    turns = chat.split("\n› ")[1:]
    assert [turn.splitlines()[0] for turn in turns] == questions
    answer, follow_up, compound, unknown = turns
    assert "answer · " in answer
    assert "3 November 1868" in follow_up
    assert "\n1. " in compound
    assert "2/2 parts" in compound
    assert "I don't know" in unknown
