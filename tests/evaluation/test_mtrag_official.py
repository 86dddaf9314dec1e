"""Files of the official repository as they are: passages of settings, sample predictions, both separators in ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation import writer
from tests.evaluation.conftest import PASSAGES, TURNS
from tests.evaluation.judged_runs import done, lines
from tests.evaluation.mtrag_runs import planned, ran
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks.task_ids import canonical_id

SCRIBE = "python:tests.evaluation.test_mtrag_protocol:scribe"
TASKS = "mtrag-human/generation_tasks"


@pytest.fixture(autouse=True)
def _writer():
    writer.WRITERS.clear()


def official_row(name, domain, passages, **more):
    """A task as RAG.jsonl and responses-10.jsonl have it: `::` in the id, an integer turn, fields without a value."""
    contexts = [
        {"document_id": passage, "text": PASSAGES[domain][passage], "title": f"title of {passage}", "url": "",
         "score": 9.5 - rank, "feedback": {"relevant": {"a": {"value": "yes"}}}, "query": {"query": {}}}
        for rank, passage in enumerate(passages)
    ]  # fmt: skip
    turn = int(name.rpartition(">")[2])
    return {
        "conversation_id": name.partition("<")[0], "task_id": name.replace("<::>", "::"), "task_type": "rag",
        "turn": turn,
        "collection": f"mt-rag-{domain}-elser-512-100-20240503", "dataset": "MT-RAG Authors (Internal)",
        "contexts": contexts, "input": [{"speaker": "user", "text": "q", "metadata": {"author_type": "human"}}],
        "targets": [{"speaker": "agent", "text": "t"}], "answerability": ["ANSWERABLE"], "Multi-Turn": float("nan"),
        "Standalone Type": float("nan"), "Validity": float("nan"), "Ambiguity Type": float("nan"), **more,
    }  # fmt: skip


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def clone(benchmark_root):
    """With the files of both settings, and without corpora: they hold the texts."""
    for path in (benchmark_root / "corpora/passage_level").iterdir():
        path.unlink()
    order = {"clapnq": ["p5", "p1"], "fiqa": ["f5", "f1", "f2", "f3", "f4"]}
    rows = [official_row(f"{row[0]}<::>{row[1]}", row[2], order[row[2]]) for row in TURNS]
    write_rows(benchmark_root / TASKS / "RAG.jsonl", rows)
    few = [
        official_row(f"{row[0]}<::>{row[1]}", row[2], [*row[8], order[row[2]][0]]) for row in TURNS if len(row[8]) < 3
    ]
    write_rows(benchmark_root / TASKS / "reference+RAG.jsonl", few)
    return benchmark_root


def test_answers_from_the_official_passages_of_a_setting(clone, tmp_path, check_run):
    run = ran(clone, tmp_path / "r", setting="rag", passages=Path("official"))
    check_run(run.folder)
    assert run.summary.failed == 1, "the writer has nothing to say to c4::1"
    assert run.shown("c1<::>1") == ["p5", "p1"], "in the order of the file"
    assert run.shown("c3<::>1") == ["f5", "f1", "f2", "f3", "f4"]
    manifest = json.loads((run.folder / "manifest.json").read_text())
    assert manifest["specs"]["query"] == "rewrite"
    assert manifest["specs"]["passages"].startswith("official: Elser")
    (row, *_) = [
        fact for fact in run.summary.published if fact.source.startswith("MTRAG Table 5") and fact.setting == "rag"
    ]
    assert not {"documents", "query", "setting"} & set(row.differs)
    topped = ran(clone, tmp_path / "t", setting="reference+rag", passages=Path("official"))
    assert topped.shown("c1<::>2") == ["p2", "p3", "p5"], "as the file has it, and nothing added"


def test_paper_protocol_uses_the_official_passages(clone, tmp_path):
    run = ran(clone, tmp_path / "r", setting="rag", protocol="paper", generator=SCRIBE)
    assert run.shown("c1<::>1") == ["p5", "p1"]
    by_path = ran(
        clone, tmp_path / "p", setting="rag", protocol="paper", generator=SCRIBE, passages=clone / TASKS / "RAG.jsonl"
    )
    assert by_path.shown("c1<::>1") == ["p5", "p1"]
    plain = planned(clone, tmp_path / "q", setting="reference", protocol="paper", generator=SCRIBE)
    assert "passages" not in plain.manifest.specs


@pytest.mark.parametrize("generator", ["reference", SCRIBE])
def test_scores_the_shown_passages_without_a_corpus(clone, tmp_path, turnmark, generator):
    """The texts are in the run: it is scored, by others too, without the file that they came from."""
    run = ran(clone, tmp_path / "r", setting="rag", passages=Path("official"), generator=generator)
    assert run.shown("c1<::>1") == ["p5", "p1"]
    assert run.samples["c1<::>1"].contexts[0].text
    assert run.summary.metrics["k_precision"].n == run.summary.metrics["answer_words"].n > 0
    again = done(turnmark, "score", "mtrag", "--data", clone, "--setting", "rag", "--predictions", run.folder)
    assert again.metrics["k_precision"].mean == run.summary.metrics["k_precision"].mean


def test_reports_what_a_clone_lacks(benchmark_root, tmp_path):
    with pytest.raises(RequestError, match=r"--passages official: expected mtrag-human/generation_tasks/RAG\.jsonl in"):
        planned(benchmark_root, tmp_path / "r", setting="rag", passages=Path("official"))
    with pytest.raises(RequestError, match="the setting reference searches for nothing"):
        planned(benchmark_root, tmp_path / "r", setting="reference", passages=Path("official"))


def test_the_official_sample_predictions_score_as_they_are(turnmark, benchmark_root):
    answer = {"predictions": [{"text": "A founder in London made the bell.", "class": "ANSWERABLE"}]}
    file = write_rows(Path("responses-10.jsonl"), [official_row("c1<::>1", "clapnq", ["p1"], **answer)])
    words = ("score", "mtrag", "--data", benchmark_root, "--predictions", file, "--out", Path("r"))
    summary = done(turnmark, *words)
    assert summary.metrics["rouge_l.word"].mean == 1.0
    assert summary.metrics["rouge_l.word"].n == 1
    scored = [row["id"] for row in lines(Path("r/scores.jsonl")) if row["metric"] == "rouge_l.word" and row["value"]]
    assert scored == ["c1<::>1"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [("c1::2", "c1<::>2"), ("c1<::>2", "c1<::>2"), ("c1::2#hidden", "c1<::>2#hidden"), ("a::b", "a::b"), ("x", "x")],
)
def test_both_separators_are_one_id(written, expected):
    assert canonical_id(written) == expected
