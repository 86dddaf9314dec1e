"""`--protocol paper`, and files of the official repository as they are: passages, predictions, ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.evaluation import writer
from tests.evaluation.conftest import PASSAGES, TURNS
from tests.evaluation.judged_runs import done, lines
from tests.evaluation.mtrag_runs import planned, ran
from turnmark.assistant.llm.calls.protocols import Completion
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.corpora.benchmarks.task_ids import canonical_id
from turnmark.evaluation.tasks.turn_samples import with_title

SPEC = "python:tests.evaluation.test_mtrag_protocol:scribe"
HEARD: list[str] = []


class Scribe:
    """Keeps what it was asked. It knows nothing where it was shown nothing."""

    name, context_tokens, reply_tokens = SPEC, 8192, 1024

    def complete(self, messages, schema=None, **_):
        assert schema is None, "the paper asks once, in plain text"
        HEARD.append("\n".join(message.content for message in messages))
        nothing = "(none were found)" in HEARD[-1]
        reply = "I do not have specific information about that." if nothing else "Cast by a founder."
        usage = Usage(calls=1, prompt_tokens=50, completion_tokens=5)
        return Completion(text=reply, finish_reason="stop", usage=usage, model="scribe", max_tokens=1024)


def scribe():
    return Scribe()


@pytest.fixture(autouse=True)
def _quiet():
    HEARD.clear()
    writer.WRITERS.clear()


def samples(run):
    lines = Path(run, "predictions.jsonl").read_text(encoding="utf-8").splitlines()
    return {line["id"]: line for line in map(json.loads, lines)}


def test_every_task_is_one_prompt_with_passages_conversation_and_question(benchmark_root, turnmark):
    ran = turnmark.json(
        "eval", "mtrag", "--data", benchmark_root, "--protocol", "paper", "--generator", SPEC, "--out", "r"
    )
    rows = samples("r")
    assert len(HEARD) == len(rows) == 9
    assert ran["usage"]["answer"]["calls"] == 9
    assert json.loads(Path("r/manifest.json").read_text())["specs"]["protocol"] == "paper"
    assert {row["decision"] for row in rows.values()} == {"answer", "unknown"}
    prompt = next(text for text in HEARD if "when was it cast" in text)
    assert prompt.index("who made the bell") < prompt.index("when was it cast"), "the conversation comes first"
    assert "fewer than 150 words" in prompt
    assert "<passage-" in prompt
    for row in rows.values():
        assert (row["decision"] == "unknown") == (not row["contexts"]), row["id"]
        assert row["rewrite"] is None


def test_a_title_is_above_a_text_that_does_not_begin_with_it():
    assert with_title("Big Ben", "# Big Ben\nA bell.") == "# Big Ben\nA bell."
    assert with_title("Big Ben", "A bell.") == "Big Ben\n\nA bell."
    assert with_title("", "A bell.") == "A bell."


def test_reports_mistakes_of_a_protocol(benchmark_root, turnmark):
    message = turnmark.refused(
        "eval", "mtrag", "--data", benchmark_root, "--protocol", "paper", "--step", "decide=extractive"
    )
    assert "--protocol paper asks a language model by the paper's prompt: add --generator" in message
    assert "--step is for the steps of the turn" in message
    assert turnmark("eval", "mtrag", "--protocol", "mine").code == 2
    assert (
        "--protocol: inscoqa does not use it; it is for mtrag, mtrag-un, mtrag-s, kiwi"
        in turnmark("eval", "inscoqa", "--protocol", "paper").err
    )


def test_mtrag_un_is_asked_with_its_sentence_on_underspecified_questions(benchmark_root, turnmark):
    words = ("--data", benchmark_root, "--protocol", "paper", "--generator", SPEC)
    for benchmark, asks_back in (("mtrag", False), ("mtrag-un", True)):
        HEARD.clear()
        turnmark.ok("eval", benchmark, *words, "--out", benchmark)
        assert HEARD
        assert all(("If the question is underspecified" in text) == asks_back for text in HEARD)
    manifest = json.loads(Path("mtrag-un/manifest.json").read_text())
    assert "prompt mtrag-un-answer" in manifest["inputs"]
    assert {row["decision"] for row in samples("mtrag-un").values()} == {None}, "whether it asks back is for a judge"


TASKS = "mtrag-human/generation_tasks"


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
    run = ran(clone, tmp_path / "r", setting="rag", protocol="paper", generator=SPEC)
    assert run.shown("c1<::>1") == ["p5", "p1"]
    by_path = ran(
        clone, tmp_path / "p", setting="rag", protocol="paper", generator=SPEC, passages=clone / TASKS / "RAG.jsonl"
    )
    assert by_path.shown("c1<::>1") == ["p5", "p1"]
    plain = planned(clone, tmp_path / "q", setting="reference", protocol="paper", generator=SPEC)
    assert "passages" not in plain.manifest.specs


@pytest.mark.parametrize("generator", ["reference", SPEC])
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
