"""Runs in the formats of others: what is written, that it is read back to the same scores, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.conftest import DEMO
from tests.evaluation.judged_runs import lines
from turnmark.corpora import mtrag
from turnmark.corpora.inspector import read_evaluation
from turnmark.corpora.text import strip_citations
from turnmark.evaluation.benchmarks.turns import with_steps
from turnmark.evaluation.report.stored import read_run, samples
from turnmark.evaluation.trec import parse_run


@pytest.fixture(scope="module")
def runs(tmp_path_factory, demo_home):
    """Runs on the demo split: two settings, and a retrieval."""
    import sys

    from turnmark.evaluation.cli import main

    folder, argv = tmp_path_factory.mktemp("exported"), sys.argv
    for name, words in (
        ("reference", ["mtrag", "--limit", "6"]),
        ("rag", ["mtrag", "--setting", "rag", "--retriever", "bm25", "--limit", "6"]),
        ("lists", ["mtrag", "--task", "retrieval", "--retriever", "bm25", "--query", "last-turn"]),
    ):
        sys.argv = ["turnmark", "eval", *words, "--out", str(folder / name), "--json"]
        try:
            main()
        except SystemExit as left:
            if left.code:
                raise
        finally:
            sys.argv = argv
    # Another benchmark's run, as far as a summary says.
    copied = Path(shutil.copytree(folder / "reference", folder / "kiwi"))
    summary = json.loads((copied / "summary.json").read_text(encoding="utf-8"))
    (copied / "summary.json").write_text(json.dumps({**summary, "benchmark": "kiwi"}), encoding="utf-8")
    return {path.name: path for path in folder.iterdir()}


def scored(run):
    return {(row["id"], row["metric"]): (row["status"], row["value"]) for row in lines(run / "scores.jsonl")}


@pytest.mark.parametrize("setting", ["reference", "rag"])
def test_the_official_form_is_scored_to_the_same_figures(runs, setting, tmp_path, turnmark):
    target = tmp_path / "answers.jsonl"
    ran = turnmark.json("report", runs[setting], "--export", f"official={target}")
    notes = ran["exports"][0]["notes"]
    assert all("1 / rank" in note for note in notes)
    assert ran["exports"] == [{"form": "official", "file": str(target), "samples": 6, "notes": notes}]
    turnmark.ok("score", "mtrag", "--predictions", target, "--setting", setting, "--out", tmp_path / "again", "--json")
    before, after = scored(runs[setting]), scored(tmp_path / "again")
    # A decision is no part of the form: what rests on it is told by the words of the answer.
    keys = [key for key in before if not key[1].startswith(("unknown.", "idk_rate", "clarify."))]
    assert len(keys) > 50
    assert {key: before[key] for key in keys} == {key: after[key] for key in keys}


def test_an_official_line_is_the_task_with_the_answer(runs, turnmark):
    target = Path("answers.jsonl")
    turnmark.ok("report", runs["reference"], "--export", f"official={target}")
    tasks = mtrag.load_tasks(DEMO / "mt-rag-benchmark", "mtrag").data
    samples_by_id = {sample.id: sample for sample in samples(runs["reference"])}
    rows_written = lines(target)
    assert [row["task_id"] for row in rows_written] == list(tasks)[:6]
    for row in rows_written:
        task = tasks[row["task_id"]]
        assert [(message["speaker"], message["text"]) for message in row["input"]] == [
            *(("user" if message.role == "user" else "agent", message.content) for message in task.history),
            ("user", task.question),
        ]
        assert [message["text"] for message in row["targets"]] == [task.reference]
        assert {message["document_id"]: message["text"] for message in row["contexts"]} == {
            message.document_id: message.text for message in task.contexts
        }
        assert (row["conversation_id"], row["turn"]) == (task.conversation, str(task.turn))
        assert row["Answerability"] == [task.answerability]
        text = row["predictions"][0]["text"]
        assert "[1]" not in text
        written = with_steps(samples_by_id[task.id].prediction or "", samples_by_id[task.id].procedure)
        assert text == strip_citations(written).strip()


def test_what_failed_is_left_out_and_is_said(runs, tmp_path, turnmark):
    run = Path(shutil.copytree(runs["rag"], tmp_path / "rag"))
    before = lines(run / "predictions.jsonl")
    bad = {**before[0], "status": "failed", "reason": "timeout: late", "prediction": None, "contexts": []}
    changed = [bad, *before[1:], {**before[1], "repeat": 1}, {**before[2], "id": f"{before[2]['id']}#hidden"}]
    (run / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in changed), encoding="utf-8")
    official = tmp_path / "o.jsonl"
    ran = turnmark("report", run, "--export", f"official={official}")
    assert "1 failed or skipped samples: left out" in ran.out
    assert "1 further repeats are left out" in ran.out
    assert "1 samples with hidden passages are left out" in ran.out
    assert bad["id"] not in {row["task_id"] for row in lines(official)}


def test_a_run_without_browse_is_written_without_what_only_that_holds(runs, tmp_path, turnmark):
    run = Path(shutil.copytree(runs["reference"], tmp_path / "old"))
    (run / "browse.jsonl").unlink()
    ran = turnmark("report", run, "--export", f"official={tmp_path / 'o.jsonl'}")
    assert "6 samples are written without their conversations" in ran.out
    assert all(row["predictions"][0]["text"] for row in lines(tmp_path / "o.jsonl"))


def test_lists_are_read_back_to_the_same_figures(runs, tmp_path, turnmark):
    trec = tmp_path / "run.trec"
    turnmark.ok("report", runs["lists"], "--export", f"trec={trec}")
    before = {name: metric.mean for name, metric in read_run(runs["lists"]).runs[0].summary.metrics.items()}
    out = tmp_path / "again"
    ran = turnmark.json("score", "mtrag", "--task", "retrieval", "--predictions", trec, "--out", out)
    assert {name: metric["mean"] for name, metric in ran["metrics"].items()} == before


def test_inspector_holds_several_runs_and_is_read_as_it_was(runs, turnmark):
    target = Path("both.json")
    turnmark.ok("report", runs["reference"], runs["rag"], "--export", f"inspector={target}")
    written = json.loads(target.read_text(encoding="utf-8"))
    assert list(written) == ["name", "filters", "models", "metrics", "documents", "tasks", "evaluations"]
    content = read_evaluation(target)
    assert (list(content.models), content.people, content.problems) == (["reference", "rag"], (), ())
    assert (len(content.tasks), len(content.answers)) == (6, 12)
    before = {name: scored(runs[name]) for name in content.models}
    for answer in content.answers:
        for metric, value in answer.scores.items():
            assert before[answer.model][answer.task, metric] == ("scored", value)
    assert not {"rouge_l.word[lead]", "unknown.f1"} & set(content.metrics)
    documents = {document["document_id"] for document in written["documents"]}
    assert documents >= {document["document_id"] for task in written["tasks"] for document in task["contexts"]}
    assert any("contexts" in document for document in written["evaluations"] if document["model_id"] == "rag")
    assert not any("contexts" in document for document in written["evaluations"] if document["model_id"] == "reference")
    ran = turnmark.ok("agreement", target, "--json")
    assert "12" in ran.out


def test_everything_that_is_wrong_is_said_at_once(runs, tmp_path, turnmark):
    (tmp_path / "mine.json").write_text("mine")
    message = turnmark.refused(
        "report", runs["reference"], runs["lists"], runs["kiwi"], "--export", "official", "--export", "foo=x",
        "--export", f"trec={tmp_path}", "--export", "official=x.json", "--export",
        f"inspector={tmp_path / 'mine.json'}", "--export", f"inspector={tmp_path / 'mine.json' / 'x'}",
    )  # fmt: skip
    for passage in (
        "'official': expected FORM=FILE", "'foo=x': expected FORM=FILE", "is a folder; name a file", "ends in .jsonl",
        "is there already; name another file", "a file is of one run, and there are 3", "several benchmarks",
        "trec: reference: it ranked no passages", "official: kiwi: the form is that of the MTRAG family",
        "mine.json' is a file",
    ):  # fmt: skip
        assert passage in message, passage
    assert (tmp_path / "mine.json").read_text() == "mine"
    ran = turnmark("report", runs["lists"], "--export", f"official={tmp_path / 'x.jsonl'}")
    assert "lists of passages and no answers" in ran.err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"task_id": "q"}', "not an object with"),
        (b"{", "not valid JSON"),
        (b'{"task_id": "q", "contexts": [1]}', "document_id"),
        (b'{"task_id": "q", "contexts": [{"document_id": "d", "score": true}]}', "no finite number"),
        (b'{"task_id": "q", "contexts": [{"document_id": "d", "score": NaN}]}', "no finite number"),
        (b'{"task_id": "q", "contexts": [' + b'{"document_id": "d", "score": 1},' * 2 + b"{}]}", "twice"),
        (b'{"task_id": "q", "contexts": []}\n' * 2, "line 2: a task that stood before"),
    ],
)
def test_lists_that_are_wrong(line, why):
    with pytest.raises(Exception, match=why):
        parse_run(line, "x.jsonl")
