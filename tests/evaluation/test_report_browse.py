"""`browse.jsonl`: what of each benchmark's tasks is written down while a run is scored, and how a page takes it up."""

from __future__ import annotations

import json

import pytest

from tests.conftest import ROOT
from tests.evaluation.reported import write_run
from tests.evaluation.requests import request_of
from turnmark.evaluation.report.finished_runs import read_run, samples
from turnmark.evaluation.report.sample_browser import BROWSE_FILE, BrowsedSample, SeenPassage, clip_text, samples_json
from turnmark.evaluation.runs import benchmark_run
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.storage.journal import json_line, read_records


def lines(run):
    return list(read_records(run / BROWSE_FILE, BrowsedSample))


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run of each benchmark's demo split."""
    folders = {}
    for name in ("mtrag", "inscoqa", "compound-qa", "kiwi"):
        path = tmp_path_factory.mktemp("runs") / name
        benchmark_run.run_plan(plan_run(request_of(benchmark=name, limit=3, out=path)))
        folders[name] = path
    return folders


@pytest.mark.parametrize("name", ["mtrag", "inscoqa", "compound-qa", "kiwi"])
def test_every_sample_of_every_benchmark_has_a_line(runs, name):
    browsed_lines, answered = lines(runs[name]), list(samples(runs[name]))
    assert [browsed.key for browsed in browsed_lines] == [sample.key for sample in answered]
    assert all(browsed.labels for browsed in browsed_lines)
    assert all(browsed.question.text and browsed.reference.text for browsed in browsed_lines)
    for browsed, sample in zip(browsed_lines, answered, strict=True):
        found_passages = [passage for passage in browsed.passages if passage.rank is not None]
        assert [passage.id for passage in found_passages] == [ref.document_id for ref in sample.contexts]
        assert [passage.rank for passage in found_passages] == list(range(1, len(found_passages) + 1))
        # What was shown to the system is known, whichever way the benchmark gives it.
        assert all(passage.text is not None and passage.text.text for passage in found_passages)
    assert any(browsed.passages for browsed in browsed_lines)


def test_mtrag_says_which_passages_are_relevant_and_has_the_conversation(runs):
    rows = lines(runs["mtrag"])
    later = [row for row in rows if row.labels["turn"] == ("later",)]
    assert later
    assert [message.role for message in later[0].history[:2]] == ["user", "assistant"]
    assert {passage.relevant for row in rows for passage in row.passages} == {True}


def test_page_of_a_real_run_is_complete(runs):
    run = read_run(runs["mtrag"]).runs[0]
    payload = json.loads(samples_json([("mine", run)]))
    (mine,) = payload["runs"]
    sample_entry = next(sample for sample in mine["samples"] if "h" in sample)
    text = [entry if isinstance(entry, str) else entry[0] for entry in payload["texts"]]
    browsed = next(line for line in lines(runs["mtrag"]) if line.id == sample_entry["i"])
    assert [(role, text[index]) for role, index in sample_entry["h"]] == [
        (int(message.role != "user"), message.text.text) for message in browsed.history
    ]
    assert text[sample_entry["f"]] == browsed.reference.text
    assert len(sample_entry["v"]) == len(mine["metrics"])
    assert dict(mine["dimensions"])["domain"] == list(
        dict.fromkeys(line.labels["domain"][0] for line in lines(runs["mtrag"]))
    )


def test_retrieval_lists_show_relevant_and_missed_passages(turnmark, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trec = ROOT / "tests/frozen/run.trec"
    assert turnmark("score", "mtrag", "--task", "retrieval", "--predictions", trec, "--out", "run").code == 0
    rows = lines(tmp_path / "run")
    assert all(row.question.text and row.labels["domain"] for row in rows)
    assert any(row.history for row in rows)
    passages = [passage for row in rows for passage in row.passages]
    assert {(passage.rank is None, passage.relevant) for passage in passages} == {
        (False, True), (False, False), (True, True),
    }  # fmt: skip
    assert all(passage.text for passage in passages if passage.relevant)


def test_passages_are_stored_once_and_lose_the_title_that_they_begin_with(tmp_path):
    folder = write_run(tmp_path / "r")
    passage = SeenPassage(id="p", title="Bells", text=clip_text("Bells\nThey ring."), rank=1, score=1.0, relevant=True)
    browsed_lines = [
        BrowsedSample(id=name, question=clip_text("Q"), reference=clip_text(""), passages=(passage,))
        for name in ("c1<::>1", "c1<::>2")
    ]
    (folder / BROWSE_FILE).write_text("".join(map(json_line, browsed_lines)), encoding="utf-8")
    payload = json.loads(samples_json([("mine", read_run(folder).runs[0])]))
    ((name, title, index),) = payload["passages"]
    assert (name, title, payload["texts"][index]) == ("p", "Bells", "They ring.")
    assert [sample["c"] for sample in payload["runs"][0]["samples"][:2]] == [[[0, 1, 1, 1]]] * 2
