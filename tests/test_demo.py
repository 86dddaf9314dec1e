"""Tests of the last table of `make demo`, and of the demo's PDF and workbook."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.demo import HEADLINES, table
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.turn.assistant import Assistant
from turnmark.retrieval.index.build import build_index

FILES = Path(__file__).parents[1] / "turnmark" / "corpora" / "demo" / "files"


def finished(runs: Path, folder: str, **metrics: float) -> None:
    """Write a run with these means."""
    (runs / folder).mkdir(parents=True)
    content = {name: {"mean": mean, "ci95": [mean - 0.1, mean + 0.1], "n": 67} for name, mean in metrics.items()}
    (runs / folder / "summary.json").write_text(json.dumps({"metrics": content}))


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for number, (_, folder, metric) in enumerate(HEADLINES):
        finished(tmp_path, folder, **{metric: 0.3 + number / 10, "other": 0.0})
    return tmp_path


def test_table_has_a_row_with_a_figure_for_each_part(runs: Path) -> None:
    heading, *rows = table(runs)[:6]
    assert heading.split() == ["n", "metric", "mean", "95%", "interval"]
    assert [row.split("  ")[0].strip() for row in rows] == [title for title, _, _ in HEADLINES]
    assert rows[1] == "MTRAG, answers       67  rouge_l.word   0.400  0.300-0.500"


def test_demo_pdf_and_workbook_answer_questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path))
    build_index(FILES, "files", retriever="bm25")
    assistant = Assistant.from_config(AssistantConfig(index="files"))
    reply = assistant.reply([], "What does a night in the inner basin cost?")
    assert "| Inner basin |" in reply.answer.replace("**", "")
    assert (reply.citations[0].path, reply.citations[0].page) == ("harbour-guide.pdf", 1)
    reply = assistant.reply([], "What does a sheep cost on the ferry?")
    assert "| Sheep |" in reply.answer.replace("**", "")
    assert reply.citations[0].path == "ferry.xlsx"
