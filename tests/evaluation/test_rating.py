"""`report --rate`, `--csv` and `--latex`: a page for people, what they say read back, and tables as files."""

from __future__ import annotations

import csv
import json
import re

import pytest

from tests.evaluation.chromium import WHY, browser, found
from tests.evaluation.mtrag_runs import ran
from tests.evaluation.reported import write_run
from turnmark.evaluation.report.output_formats import as_csv, as_latex
from turnmark.evaluation.report.rating_page import key_file
from turnmark.evaluation.report.sample_browser import MAX_PASSAGES
from turnmark.evaluation.report.tables import Column, ReportRow, Table
from turnmark.evaluation.tasks.rating_form import ANSWER_PROPERTIES


def content_of(page):
    """The data in a page."""
    data = re.search(
        r'<script type="application/json" id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL
    )
    assert data
    return json.loads(data[1])


@pytest.fixture
def page(turnmark, benchmark_root, searching, tmp_path):
    """A page over two runs that were shown different passages, and the data in it."""
    runs = [
        ran(benchmark_root, tmp_path / "ours", setting="rag"),
        ran(benchmark_root, tmp_path / "theirs", setting="reference"),
    ]
    turnmark.ok("report", *(run.folder for run in runs), "--rate", tmp_path / "rate.html")
    return (
        tmp_path / "rate.html",
        (tmp_path / "rate.html").read_text(encoding="utf-8"),
        content_of(tmp_path / "rate.html"),
    )


def test_rating_page_hides_the_systems(page):
    path, text, data = page
    assert "ours" not in json.dumps(data)
    assert "theirs" not in text
    systems = json.loads(key_file(path).read_text())["systems"]
    assert {task["id"] for task in data["tasks"]} == set(systems)
    assert len({tuple(letters.values()) for letters in systems.values()}) == 2, "the order differs from task to task"
    assert tuple(data["scales"]) == ANSWER_PROPERTIES
    assert "//" not in text.replace("<!--", ""), "it loads nothing from elsewhere"


def test_a_task_has_its_conversation_its_question_and_the_passages_of_each_answer(page):
    path, text, data = page
    key = json.loads(key_file(path).read_text())
    task = next(task for task in data["tasks"] if task["id"] == "c1<::>2")
    assert [(role, data["texts"][said]) for role, said in task["said"]] == [
        ("user", "who made the bell"), ("assistant", "answer 1"),
    ]  # fmt: skip
    assert data["texts"][task["question"]] == "when was it cast"
    letters = {system: letter for letter, system in key["systems"]["c1<::>2"].items()}
    given = {
        system: [data["texts"][passage] for passage in task["answers"][letter]["passages"]]
        for system, letter in letters.items()
    }
    assert given["theirs"] == ["the bell was cast in 1858", "cast twice, in fact"]
    assert given["ours"][0] == "the bell was cast in 1858"
    assert len(given["ours"]) > 2, "what it found, not what the other one was given"
    assert key["answerability"]["c1<::>2"] == "ANSWERABLE"
    assert set(key["answerability"]) == {task["id"] for task in data["tasks"]}
    assert "ANSWERABLE" not in text, "a rater does not see it"


def test_agreement_reads_the_ratings_of_three_people(page, turnmark):
    path, _, data = page
    key = json.loads(key_file(path).read_text())
    files = []
    for rater, shift in (("a", 0), ("b", 0), ("c", 1)):
        rows = []
        for task in data["tasks"]:
            best = next(letter for letter, system in key["systems"][task["id"]].items() if system == "ours")
            given = {
                f"{letter} {name}": str(4 - shift if letter == best else 2)
                for letter in "AB"
                for name in ANSWER_PROPERTIES
            }
            given["AB"] = best if rater != "c" else "tie"
            rows.append({"rater": rater, "id": task["id"], "page": data["page"], "given": given})
        files.append(path.with_name(f"{rater}.jsonl"))
        files[-1].write_text("".join(json.dumps(row) + "\n" for row in rows))
    measured = turnmark.json("agreement", key_file(path), *files)
    means = {m["system"]: m["people"] for m in measured["means"] if m["subset"] == "all"}
    assert (means["ours"]["faithfulness"]["value"], means["theirs"]["faithfulness"]["value"]) == (4.0, 2.0)
    assert means["ours"]["win-rate"]["value"] == 100.0
    raters = measured["annotators"]["faithfulness"]
    assert (raters["n"], raters["fewer"], raters["agreeing"]) == (2 * len(data["tasks"]), 0, 1.0)
    assert "nobody rated" not in turnmark.refused("agreement", key_file(path))
    labels = list(key["answerability"].values())
    counts = {m["subset"]: m["n"] for m in measured["means"] if m["system"] == "ours"}
    assert counts["all"] == len(labels)
    assert counts["answerable"] == labels.count("ANSWERABLE") < len(labels)


def test_ratings_of_another_page_are_rejected(page, turnmark):
    path, _, data = page
    ratings = path.with_name("a.jsonl")
    row = {"rater": "a", "id": data["tasks"][0]["id"], "page": "0" * 16, "given": {"A faithfulness": "4"}}
    ratings.write_text(json.dumps(row) + "\n")
    assert "no file of ratings of this page" in turnmark.refused("agreement", key_file(path), ratings)
    ratings.write_text(json.dumps({**row, "page": data["page"]}) + "\n" + json.dumps(row) + "\n")
    measured = turnmark.json("agreement", key_file(path), ratings)
    assert any("no rating of this page" in note for note in measured["notes"]), measured["notes"]


def test_counts_passages_that_are_not_stored(turnmark, benchmark_root, tmp_path):
    contexts = [{"document_id": f"x{number}", "text": f"text {number}"} for number in range(MAX_PASSAGES + 2)]
    answers = tmp_path / "answers.jsonl"
    answers.write_text(
        json.dumps({"task_id": "c1<::>1", "predictions": [{"text": "So."}], "contexts": contexts}) + "\n"
    )
    flags = ("--data", benchmark_root, "--predictions", answers, "--setting", "rag", "--domains", "clapnq")
    turnmark.ok("score", "mtrag", *flags, "--out", tmp_path / "run")
    turnmark.ok("report", tmp_path / "run", "--rate", tmp_path / "rate.html")
    data = content_of(tmp_path / "rate.html")
    shown = [data["texts"][passage] for passage in data["tasks"][0]["answers"]["A"]["passages"]]
    assert shown[0] == "text 0"
    assert shown[MAX_PASSAGES:] == ["2 more passages, which browse.jsonl does not keep"]


def test_passages_of_another_system_may_be_unknown(turnmark, benchmark_root, tmp_path):
    answers = tmp_path / "answers.jsonl"
    answers.write_text('{"id": "c1<::>1", "prediction": "Somebody."}\n')
    given = {}
    for setting in ("rag", "reference"):
        flags = ("--data", benchmark_root, "--predictions", answers, "--setting", setting, "--domains", "clapnq")
        turnmark.ok("score", "mtrag", *flags, "--out", tmp_path / setting)
        turnmark.ok("report", tmp_path / setting, "--rate", tmp_path / f"{setting}.html")
        data = content_of(tmp_path / f"{setting}.html")
        assert data["texts"][data["tasks"][0]["question"]] == "who made the bell", "a file need not repeat it"
        given[setting] = data["tasks"][0]["answers"]["A"]["passages"]
    assert given["rag"] is None
    assert len(given["reference"]) == 1
    (tmp_path / "rag" / "browse.jsonl").unlink()
    assert "evaluate or score it again" in turnmark.refused("report", tmp_path / "rag", "--rate", tmp_path / "x.html")


def test_a_revision_has_the_question_the_answer_before_and_the_instruction(turnmark, tmp_path):
    turnmark.ok("eval", "kiwi", "--limit", 2, "--out", tmp_path / "run")
    turnmark.ok("report", tmp_path / "run", "--rate", tmp_path / "rate.html")
    data = content_of(tmp_path / "rate.html")
    assert (data["asks"], data["pairs"], data["scales"]) == (
        "Instruction",
        False,
        {"rating": ["good", "neutral", "bad"]},
    )
    task = data["tasks"][1]
    (said,) = task["said"]
    assert (said[0], data["texts"][said[1]]) == ("user", "How do the two sourdough methods of Ternsay differ, and why?")
    previous = data["texts"][task["answers"]["A"]["previous"]]
    assert previous.startswith("Two methods are in use on Ternsay.")
    assert data["texts"][task["question"]] != previous
    assert task["answers"]["A"]["passages"]


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
    # Another page over a part of the same tasks: what was rated on the first is not there on the second.
    turnmark.ok("report", tmp_path / "ours", "--rate", tmp_path / "alone.html")

    def choices(identifier):
        best = next(letter for letter, system in systems[identifier].items() if system == "ours")
        scales = {f"{letter} {name}": "4" if letter == best else "2" for letter in "AB" for name in ANSWER_PROPERTIES}
        return {**scales, "AB": best}

    for person in ("Ann B.", "cy"):
        with browser(found(), tmp_path / f"state-{person}") as tab:
            tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
            tab.open(path.as_uri())
            tab.run("document.getElementById('next').click()")
            shown = tab.run("document.getElementById('task').innerText").split("\n")
            texts = [line for line in shown if line]
            assert texts[:6] == [
                "The conversation so far", "user", "who made the bell", "assistant", "answer 1", "Question",
            ]  # fmt: skip
            assert texts[6] == "when was it cast"
            counts = {letter: len(data["tasks"][1]["answers"][letter]["passages"]) for letter in "AB"}
            assert [line for line in texts if line.startswith("Passages")] == [
                f"Passages of answer {letter} ({count})" for letter, count in counts.items()
            ]
            tab.run("document.getElementById('back').click()")
            rate(tab, person, choices)
            assert tab.run("document.getElementById('done').textContent").endswith(f"{len(data['tasks'])} complete")
            tab.run("document.getElementById('save').click()")
            files.append(tmp_path / f"ratings-{re.sub(r'[^A-Za-z0-9_-]', '_', person)}.jsonl")
            tab.wait(files[-1].is_file)
            assert tab.said == []
            assert tab.asked == [path.as_uri()]
            tab.open((tmp_path / "alone.html").as_uri())
            assert tab.run("document.querySelectorAll('input:checked').length") == 0
            assert tab.run("document.getElementById('who').value") == ""
            assert tab.run("Object.keys(localStorage).length") == 1
    measured = turnmark.json("agreement", key_file(path), *files)
    assert not any("no rating of this page" in note for note in measured["notes"])
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
    assert rows[0][:4] == ["run", "metric", "mean", "95% interval"]
    assert ["run", "rouge_l.word", "0.2871"] in [row[:3] for row in rows]
    assert {len(row) for row in rows} == {len(rows[0])}
    text = papers[0].read_text(encoding="utf-8")
    assert text.count(r"\begin{tabular}") == text.count(r"\end{tabular}") == 1
    assert r"rouge\_l.word" in text
    assert r"\caption{Means (run)}" in text


def test_each_row_of_a_csv_file_can_be_read_alone(turnmark, tmp_path):
    """`[unicode]` under a metric, a value under its dimension, a metric under its run."""
    runs = [write_run(tmp_path / name / "run") for name in ("a", "b")]
    turnmark.ok("report", *runs, "--csv", tmp_path / "csv")
    tables = {path.stem: list(csv.DictReader(path.open(encoding="utf-8"))) for path in (tmp_path / "csv").iterdir()}
    assert {row["run"] for row in tables["01-all-runs"]} == {"a/run", "b/run"}
    means = [rows for name, rows in sorted(tables.items()) if name.endswith("means")]
    assert [{row["run"] for row in rows} for rows in means] == [{"a/run"}, {"b/run"}]
    assert {"rouge_l.word[unicode]", "unknown.f1[always-unknown]"} <= {row["metric"] for row in means[0]}
    parts = next(rows for name, rows in sorted(tables.items()) if name.endswith("by-what-is-asked"))
    (row,) = (row for row in parts if (row["dimension"], row["value"]) == ("domain", "clapnq"))
    assert (row["run"], row["rouge_l.word"], row["rouge_l.word 95% interval"]) == ("a/run", "0.3012", "0.250-0.350")


def test_names_are_repeated_in_a_csv_file():
    heads = (
        Column("system"),
        Column("query"),
        Column("@5", True, over="Recall"),
        Column("@5", True, over="nDCG"),
    )
    rows = (
        ReportRow(("By turn", "", "", ""), "group"),
        ReportRow(("a", "first", "0.1", "0.2"), "ours"),
        ReportRow(("", "later", "0.3", "0.4"), "ours"),
    )
    assert as_csv(Table("x", heads, rows, groups="part"), "r").splitlines() == [
        "run,part,system,query,Recall @5,nDCG @5",
        "r,By turn,a,first,0.1,0.2",
        "r,By turn,a,later,0.3,0.4",
    ]


def test_latex_row_never_starts_like_an_argument():
    """After `\\\\`, `[…]` is a length and `*` forbids a page break; after `\\midrule`, `[…]` is a width."""
    rows = tuple(ReportRow((name, "1")) for name in ("[unicode]", "*", "[lead] baseline", "plain"))
    lines = as_latex(Table("x", (Column("metric"), Column("mean", True)), rows)).splitlines()
    body = lines[lines.index(r"\midrule") + 1 : lines.index(r"\bottomrule")]
    assert [line.partition(" &")[0] for line in body] == ["{}[unicode]", "{}*", "{}[lead] baseline", "plain"]
