"""`turnmark report` as it is typed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conftest import Turnmark
from tests.evaluation.reported import DEMO, SUMMARY, write_run
from turnmark.corpora.home import write_json


@pytest.fixture
def everything(tmp_path: Path) -> Path:
    """A folder of `eval all`."""
    write_run(tmp_path / "all/mtrag")
    entries = {"mtrag": SUMMARY.model_dump(mode="json"), "kiwi": {"skipped": "no data"}}
    write_json(tmp_path / "all/summary.json", entries)
    return tmp_path / "all"


def test_a_run_is_drawn(turnmark: Turnmark, stored_run: Path) -> None:
    ran = turnmark("report", stored_run)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith(DEMO[:60])
    for words in ("[lead] baseline", "failed: timeout (1)", "By what is asked", "1,234,567", f"run: {stored_run}"):
        assert words in ran.out


def test_json_is_one_object(turnmark: Turnmark, stored_run: Path, everything: Path) -> None:
    ran = turnmark("report", stored_run, everything, "--json")
    assert (ran.code, ran.err) == (0, "")
    assert json.loads(ran.out) == {
        "runs": [
            {**SUMMARY.model_dump(mode="json"), "run": str(stored_run)},
            {**SUMMARY.model_dump(mode="json"), "run": str(everything / "mtrag")},
        ],
        "left_out": [{"run": str(everything), "benchmark": "kiwi", "skipped": "no data"}],
    }
    assert list(turnmark.json("report", stored_run, stored_run)) == ["runs"]
    assert len(turnmark.json("report", stored_run, stored_run)["runs"]) == 1


def test_a_folder_of_all_benchmarks_is_drawn_and_written(turnmark: Turnmark, everything: Path, tmp_path: Path) -> None:
    page, text = tmp_path / "out/page.html", tmp_path / "out/text.md"
    ran = turnmark("report", everything, "--html", page, "--markdown", text)
    assert (ran.code, ran.err) == (0, "")
    assert "kiwi: no figures: no data" in ran.out
    assert f"written: {page}" in ran.out
    assert f"written: {text}" in ran.out
    for written in (page, text):
        assert "kiwi: no figures: no data" in written.read_text(encoding="utf-8")
    again = turnmark("report", everything, "--html", page, "--markdown", text, "--json")
    assert (again.code, again.err) == (0, "")
    assert json.loads(again.out)["left_out"]


def test_all_mistakes_are_said_at_once(turnmark: Turnmark, stored_run: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun/manifest.json").write_text("{}")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/summary.json").write_text('{"benchmark": 3}')
    predictions = stored_run / "predictions.jsonl"
    before = predictions.read_bytes()
    names = ("nowhere", "empty", "begun", "odd", "run/summary.json")
    ran = turnmark(
        "report", *(tmp_path / name for name in names), stored_run, "--html", predictions, "--markdown", tmp_path
    )
    assert (ran.code, ran.out) == (2, "")
    for pair in (
        "nowhere' is not there; name the folder of a run", "empty' is no run: it has no summary.json",
        "begun' has not ended: no summary.json", "odd': summary.json, field benchmark: ", "field task: Field required",
        "run/summary.json' is a file; name the folder", "is there already and is no report of this kind",
        f"--markdown {str(tmp_path)!r} is a folder",
    ):  # fmt: skip
        assert ran.err.count(pair) == 1, pair
    assert predictions.read_bytes() == before


def test_targets_that_cannot_be_written_are_refused(turnmark: Turnmark, stored_run: Path, tmp_path: Path) -> None:
    note = tmp_path / "note.md"
    note.write_text("my own notes")
    message = turnmark.refused("report", stored_run, "--markdown", note / "x.md", "--html", "/dev/null")
    assert "is a file; name another place" in message
    assert "'/dev/null' is no regular file" in message
    message = turnmark.refused("report", stored_run, "--markdown", tmp_path / "x", "--html", tmp_path / "." / "x")
    assert "both name" in message
    page = tmp_path / "page.html"
    turnmark.ok("report", stored_run, "--html", page)
    assert turnmark("report", stored_run, "--markdown", page).code == 2
    assert note.read_text() == "my own notes"


def test_hostile_names_are_printed_inert(turnmark: Turnmark, tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run[bold]\x1b[31m\u202e")
    ran = turnmark("report", folder, "--html", tmp_path / "p\x1b[31m.html")
    wrong = turnmark("report", tmp_path / "no\x1b[31m\u202e")
    assert (ran.code, wrong.code) == (0, 2)
    for text in (ran.out, ran.err, wrong.out, wrong.err):
        assert not {"\x1b", "\u202e"} & set(text)
