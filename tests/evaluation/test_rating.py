"""`report --rate`, `--csv` and `--latex`: a page for people, what they say read back, and tables as files."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.evaluation.reported import SAMPLES, SUMMARY, write_run
from turnmark.evaluation.report.rating import FANC, key_file


@pytest.fixture
def page(turnmark, tmp_path):
    """A page over two systems, and the data in it."""
    other = tuple(s.model_copy(update={"prediction": f"Other: {s.prediction}"}) if s.prediction else s for s in SAMPLES)
    runs = [write_run(tmp_path / "ours"), write_run(tmp_path / "theirs", SUMMARY, other)]
    turnmark.ok("report", *runs, "--rate", tmp_path / "rate.html")
    text = (tmp_path / "rate.html").read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return tmp_path / "rate.html", text, json.loads(found[1])


def test_nobody_sees_whose_an_answer_is(page):
    path, text, data = page
    assert "ours" not in json.dumps(data)
    assert "theirs" not in text
    systems = json.loads(key_file(path).read_text())["systems"]
    assert {task["id"] for task in data["tasks"]} == set(systems)
    assert len({tuple(letters.values()) for letters in systems.values()}) == 2, "the order differs from task to task"
    assert tuple(data["scales"]) == FANC
    assert "//" not in text.replace("<!--", ""), "it loads nothing from elsewhere"


def test_what_three_people_say_is_read_by_agreement(page, turnmark):
    path, _, data = page
    systems = json.loads(key_file(path).read_text())["systems"]
    files = []
    for rater, shift in (("a", 0), ("b", 0), ("c", 1)):
        rows = []
        for task in data["tasks"]:
            best = next(letter for letter, system in systems[task["id"]].items() if system == "ours")
            given = {f"{letter} {name}": str(4 - shift if letter == best else 2) for letter in "AB" for name in FANC}
            rows.append({"rater": rater, "id": task["id"], "given": {**given, "AB": best if rater != "c" else "tie"}})
        files.append(path.with_name(f"{rater}.jsonl"))
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = turnmark.json("agreement", key_file(path), *files)
    assert measured["people"] is True
    means = {m["system"]: m["people"] for m in measured["means"] if m["subset"] == "all"}
    assert (means["ours"]["faithfulness"]["value"], means["theirs"]["faithfulness"]["value"]) == (4.0, 2.0)
    assert means["ours"]["win-rate"]["value"] == 100.0
    raters = measured["annotators"]["faithfulness"]
    assert (raters["n"], raters["fewer"], raters["agreeing"]) == (2 * len(data["tasks"]), 0, 1.0)
    assert "nobody rated" not in turnmark.refused("agreement", key_file(path))


def test_every_table_is_a_file(turnmark, tmp_path):
    run = write_run(tmp_path / "run")
    turnmark.ok("report", run, "--csv", tmp_path / "csv", "--latex", tmp_path / "tex")
    tables, papers = sorted((tmp_path / "csv").iterdir()), sorted((tmp_path / "tex").iterdir())
    assert [path.stem for path in tables] == [path.stem for path in papers]
    assert tables[0].name == "01-means.csv"
    rows = list(csv.reader(tables[0].open(encoding="utf-8")))
    assert rows[0][:3] == ["metric", "mean", "95% interval"]
    assert ["rouge_l.word", "0.2871"] in [row[:2] for row in rows]
    assert {len(row) for row in rows} == {len(rows[0])}
    text = papers[0].read_text(encoding="utf-8")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert r"rouge\_l.word" in text
