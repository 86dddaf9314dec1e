"""`report --rate`, `--csv` and `--latex`: a page for people, what they say read back, and tables as files."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.evaluation.chromium import WHY, browser, found
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


def rate(tab, person, choices):
    """Rate every task as a person does, by clicks; going on is a reload in the middle of it."""
    tab.run(f"document.getElementById('who').value = {person!r}; document.getElementById('who').oninput()")
    for position in range(tab.run("data.tasks.length")):
        identifier = tab.run(f"data.tasks[{position}].id")
        for name, value in choices(identifier).items():
            clicked = tab.run(
                f"(() => {{ const one = [...document.querySelectorAll('input[type=radio]')].find((input) => "
                f"input.name === {json.dumps(identifier + name)} && input.nextSibling.textContent.trim() === "
                f"{json.dumps(value)}); one.click(); return one.checked; }})()"
            )
            assert clicked, (identifier, name, value)
        if position == 1:
            tab.open(tab.run("location.href"))
            assert tab.run("document.querySelectorAll('input:checked').length") == len(choices(identifier))
        tab.run("document.getElementById('next').click()")


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.skipif(found() is None, reason=WHY)
def test_two_people_rate_in_a_browser_and_agreement_reads_it(page, turnmark, tmp_path):
    path, _, data = page
    systems = json.loads(key_file(path).read_text())["systems"]
    files = []

    def choices(identifier):
        best = next(letter for letter, system in systems[identifier].items() if system == "ours")
        scales = {f"{letter} {name}": "4" if letter == best else "2" for letter in "AB" for name in FANC}
        return {**scales, "AB": best}

    for person in ("Ann B.", "cy"):
        with browser(found(), tmp_path / f"state-{person}") as tab:
            tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
            tab.open(path.as_uri())
            assert tab.run("document.querySelectorAll('h3').length") == 3, "two answers, and which is better"
            rate(tab, person, choices)
            assert tab.run("document.getElementById('done').textContent").endswith(f"{len(data['tasks'])} complete")
            tab.run("document.getElementById('save').click()")
            files.append(tmp_path / f"ratings-{re.sub(r'[^A-Za-z0-9_-]', '_', person)}.jsonl")
            tab.wait(files[-1].is_file)
            assert tab.said == []
            assert tab.asked == [path.as_uri()]
    measured = turnmark.json("agreement", key_file(path), *files)
    means = {m["system"]: m["people"] for m in measured["means"] if m["subset"] == "all"}
    assert (means["ours"]["completeness"]["value"], means["theirs"]["completeness"]["value"]) == (4.0, 2.0)
    assert means["ours"]["win-rate"]["value"] == 100.0
    assert any("needs three ratings of an answer; here it has at most 2" in note for note in measured["notes"])


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
