"""From a chat with revisions to a benchmark: `/revise`, `/rate`, `/edit`, `/export kiwi`, then `turnmark eval kiwi`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from turnmark.corpora import kiwi

TALK = [
    "How do I keep a sourdough starter?",
    '/revise Add "Name the jar." at the end.',
    "/rate good",
    "/revise Hocus pocus.",
    "/rate bad nothing happened at all",
    "/revise Shorten the answer to at most 12 words.",
    "/rate neutral too short now",
    "/edit Feed it weekly and keep it in a jar.",
]


def test_a_chat_is_revised_rated_exported_and_measured_in_all_three_tasks(
    home: Path, turnmark: Turnmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mine"
    ran = turnmark("chat", "--index", "demo", stdin="\n".join([*TALK, f"/export kiwi {folder}"]) + "\n")
    assert ran.code == 0, ran.err
    assert f"score it: turnmark eval kiwi --data {folder}" in " ".join(ran.out.split())

    loaded = kiwi.load_sessions(folder)
    assert loaded.problems == ()
    (session,) = loaded.data
    assert session.question == TALK[0]
    assert session.model == "extractive"
    added, danced, shortened = session.turns
    assert [turn.instruction for turn in session.turns] == [
        line.removeprefix("/revise ") for line in TALK if line.startswith("/revise ")
    ]
    assert (added.rating, danced.rating, shortened.rating) == ("good", "bad", "neutral")
    assert added.previous == session.initial_answer
    assert added.answer.startswith(session.initial_answer)
    assert added.answer.endswith("Name the jar.")
    assert (danced.comment, danced.answer) == ("nothing happened at all", added.answer)
    assert shortened.previous == added.answer  # the bad revision that nobody edited was dropped
    assert shortened.edit == "Feed it weekly and keep it in a jar."

    monkeypatch.chdir(tmp_path)
    metrics = {}
    for task in ("revise", "judge", "analyse"):
        ran = turnmark("eval", "kiwi", "--data", folder, "--task", task, "--out", task, "--json")
        assert ran.code == 0, ran.err
        metrics[task] = json.loads(ran.out)
        assert (metrics[task]["failed"], metrics[task]["data"]["demo"]) == (0, False)
    assert [metrics[task]["n"] for task in ("revise", "judge", "analyse")] == [3, 1, 3]
    figures = metrics["analyse"]["metrics"]
    assert figures["good"]["mean"] == pytest.approx(1 / 3)
    assert figures["edited"]["mean"] == pytest.approx(1 / 3)
    assert figures["edit_ratio"]["n"] == 2  # the good revision and the edited one
    # The chat revised by rules, as `eval` does: the same instructions give the same revisions again.
    again = [json.loads(line)["prediction"] for line in Path("revise/predictions.jsonl").read_text().splitlines()]
    assert again[0] == added.answer
    assert again[1] == danced.answer
