"""What `turnmark synth` made, read by people on a page of `report --rate`, and taken out with their reasons."""

from __future__ import annotations

import json
import re

import pytest

from tests.evaluation.chromium import WHY, browser, found
from turnmark.corpora.benchmarks import compound_qa


def content_of(page):
    """The data in a page."""
    data = re.search(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.DOTALL)
    assert data
    return json.loads(data[1])


def write_reviews(path, rater, verdicts):
    rows = [
        {"rater": rater, "id": name, "page": "p", "given": {"A verdict": verdict, **({"A reason": why} if why else {})}}
        for name, (verdict, why) in verdicts.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def test_rejected_items_leave_the_set_and_keep_their_reasons(synth, turnmark, tmp_path):
    made = synth("compound-qa", "--n", 3)
    items = made.lines("items.jsonl")
    first, second, third = (item["id"] for item in items)
    turnmark.ok("report", made.out, "--rate", tmp_path / "page.html")
    data = content_of(tmp_path / "page.html")
    assert [task["id"] for task in data["tasks"]] == [first, second, third]
    content = items[0]["content"]
    answer = data["tasks"][0]["answers"]["A"]
    assert data["texts"][data["tasks"][0]["question"]] == f"{content['type']}: {content['com_question']}"
    assert data["texts"][answer["text"]] == content["com_reference"]
    assert [data["texts"][passage] for passage in answer["passages"]] == [content["context"].strip()]
    assert data["scales"] == {"verdict": ["keep", "reject"]}
    assert "not of its type" in data["reasons"]

    ann = {first: ("keep", ""), second: ("reject", "Two of  them are one."), third: ("reject", "")}
    bo = {first: ("keep", ""), second: ("reject", "not of its type"), third: ("keep", "")}
    files = [write_reviews(tmp_path / f"{name}.jsonl", name, of) for name, of in (("ann", ann), ("bo", bo))]
    flags = [flag for path in files for flag in ("--review", path)]
    fewer = synth("compound-qa", "--n", 1, *flags, out=made.out)
    assert (fewer.ran.code, fewer.requests) == (0, 0), "with a smaller --n nothing is made"
    assert "review: 3 items read by 2 people, 2 rejected" in fewer.report["notes"]
    assert [row["id"] for row in fewer.lines("items.jsonl")] == [first]
    assert list(compound_qa.load_tasks(made.out).data) == [first]
    rejects = {row["about"]["item"]["id"]: row for row in fewer.lines("rejects.jsonl") if row["stage"] == "review"}
    assert {name: row["reason"] for name, row in rejects.items()} == {
        second: "Two of them are one.; not of its type", third: "no reason given",
    }  # fmt: skip
    assert rejects[second]["about"]["readers"] == {"ann": "Two of them are one.", "bo": "not of its type"}
    assert rejects[second]["about"]["item"] == items[1]
    assert fewer.report["filters"]["review"] == {"Two of them are one.; not of its type": 1, "no reason given": 1}

    # Typed again, what is missing is made up for, from other passages; nothing is rejected twice.
    again = synth("compound-qa", "--n", 3, *flags, out=made.out)
    names = [row["id"] for row in again.lines("items.jsonl")]
    assert (again.report["kept"], len(names)) == (3, 3)
    assert not {second, third} & set(names)
    assert sum(row["stage"] == "review" for row in again.lines("rejects.jsonl")) == 2


def test_wrong_reviews_are_reported_and_change_nothing(synth, turnmark, tmp_path):
    made = synth("compound-qa", "--n", 1)
    (item,) = made.lines("items.jsonl")
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"rater": "a", "id": "x", "given": {"A faithfulness": "4"}}\nnot JSON\n')
    wrong = synth("compound-qa", "--n", 1, "--review", bad, "--review", tmp_path / "none.jsonl", out=made.out)
    assert wrong.ran.code == 2
    for part in ("bad.jsonl, line 1: neither keep nor reject", "bad.jsonl, line 2", "none.jsonl' is no file"):
        assert part in wrong.ran.err
    other = write_reviews(tmp_path / "other.jsonl", "a", {"elsewhere": ("reject", "x"), item["id"]: ("reject", "y")})
    wrong = synth("compound-qa", "--n", 1, "--review", other, out=made.out)
    assert "no item 'elsewhere'" in wrong.ran.err
    assert made.lines("items.jsonl") == [item]
    assert "reviewed alone" in turnmark.refused("report", made.out, made.out / "x", "--rate", tmp_path / "p.html")


def test_review_page_shows_complete_items(synth, turnmark, tmp_path):
    made = synth("mtrag", "--n", 1, "--turns", 3)
    turnmark.ok("report", made.out, "--rate", tmp_path / "mtrag.html")
    data = content_of(tmp_path / "mtrag.html")
    turns = made.lines("items.jsonl")[0]["content"]["turns"]
    (task,) = data["tasks"]
    said = [text for turn in turns[:-1] for text in (turn["question"], turn["answer"])]
    assert [data["texts"][text] for _, text in task["said"]] == said
    assert data["texts"][task["question"]] == turns[-1]["question"]
    shown = "\n".join(data["texts"][passage] for passage in task["answers"]["A"]["passages"])
    assert all(passage["text"].strip() in shown for turn in turns for passage in turn["contexts"])

    made = synth("inscoqa", "--n", 1, "--documents", 2)
    turnmark.ok("report", made.out, "--rate", tmp_path / "inscoqa.html")
    data = content_of(tmp_path / "inscoqa.html")
    content = made.lines("items.jsonl")[0]["content"]
    answer = data["tasks"][0]["answers"]["A"]
    assert f"2. {content['procedure'][1]}" in data["texts"][answer["text"]]
    assert len(answer["passages"]) == 2


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.skipif(found() is None, reason=WHY)
def test_reviewer_rejects_an_item_in_a_browser(synth, turnmark, tmp_path):
    made = synth("compound-qa", "--n", 2)
    kept, rejected = (row["id"] for row in made.lines("items.jsonl"))
    page = tmp_path / "page.html"
    turnmark.ok("report", made.out, "--rate", page)
    with browser(found(), tmp_path / "state") as tab:
        tab.send("Page.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
        tab.open(page.as_uri())
        tab.run("document.getElementById('who').value = 'ann'; document.getElementById('who').oninput()")
        tab.run("document.querySelector('input[type=radio]').click(); document.getElementById('next').click()")
        assert tab.run("document.querySelectorAll('#reasons option').length") == 5
        tab.run(
            "document.querySelectorAll('input[type=radio]')[1].click(); (() => { const reason = "
            "document.querySelector('#task input[list=reasons]'); reason.value = 'it asks <b>once</b>'; "
            "reason.oninput(); })()"
        )
        assert tab.run("document.getElementById('done').textContent") == "task 2 of 2; 2 complete"
        tab.open(page.as_uri())
        assert tab.run("document.querySelector('#task input[list=reasons]').value") == "it asks <b>once</b>"
        tab.run("document.getElementById('save').click()")
        tab.wait((tmp_path / "ratings-ann.jsonl").is_file)
        assert tab.said == []
    again = synth("compound-qa", "--n", 1, "--review", tmp_path / "ratings-ann.jsonl", out=made.out)
    assert again.ran.code == 0, again.ran.err
    assert [row["id"] for row in again.lines("items.jsonl")] == [kept]
    (reject,) = again.lines("rejects.jsonl")
    assert (reject["about"]["item"]["id"], reject["reason"]) == (rejected, "it asks <b>once</b>")
