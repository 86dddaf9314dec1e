"""The MTRAG family: spellings, domains, errors in files, and the real files if present."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.corpora.reading import jsonl, write, zipped
from turnmark.core.errors import RequestError
from turnmark.core.home import home, unzip
from turnmark.corpora.benchmarks import mtrag
from turnmark.corpora.jsonl_rows import LoadedRows
from turnmark.corpora.types import Message

TASKS = "mtrag-human/generation_tasks/reference.jsonl"
QRELS = "mtrag-human/retrieval_tasks/clapnq/qrels/dev.tsv"


@pytest.fixture
def real(real_data: Path) -> Path:
    return real_data / "mt-rag-benchmark"


def row(**changes: Any) -> dict[str, Any]:
    fields = {
        "conversation_id": "c", "task_id": "c<::>2", "turn": "2",
        "contexts": [{"document_id": "d-0-5", "text": "hello", "title": "Greetings"},
                     {"document_id": "e", "text": "x"}],
        "input": [{"speaker": "user", "text": "hi"}, {"speaker": "agent", "text": "hello"},
                  {"speaker": "user", "text": "and then?"}],
        "targets": [{"speaker": "agent", "text": "nothing"}],
        "Question Type": ["Factoid", "Keyword"], "Multi-Turn": ["Follow Up"], "Answerability": ["PARTIAL"],
        "Standalone Type": ["Non-standalone"], "Collection": "mt-rag-ibmcloud-elser-512-100-20240502",
    } | changes  # fmt: skip
    return {key: value for key, value in fields.items() if value is not ...}


def load_one(root: Path, fields: dict[str, Any]) -> LoadedRows[dict[str, mtrag.MtragTask]]:
    write(root, {TASKS: jsonl(fields)})
    return mtrag.load_tasks(root, "mtrag")


def test_reads_row_as_task(tmp_path: Path) -> None:
    loaded = load_one(tmp_path, row())
    assert loaded.problems == ()
    contexts = (
        mtrag.MtragContext(document_id="d-0-5", title="Greetings", text="hello"),
        mtrag.MtragContext(document_id="e", title="", text="x"),
    )
    assert loaded.data["c<::>2"] == mtrag.MtragTask(
        id="c<::>2", conversation="c", turn=2, domain="cloud", question="and then?", reference="nothing",
        history=(Message(role="user", content="hi"), Message(role="assistant", content="hello")), contexts=contexts,
        answerability="PARTIAL", question_types=("Factoid", "Keyword"), multi_turn="Follow-up", standalone=False,
    )  # fmt: skip


@pytest.mark.parametrize("changes", [
    {"Answerability": ..., "answerability": ["PARTIAL"]},
    {"Answerability": ..., "answerability": "partial"},
    {"Question Type": ..., "question_type": ["Factoid", "Keyword"]},
    {"turn": 2},
    {"Collection": "cloud"},
    {"Collection": ..., "collection": "ibmcloud"},
    {"conversation_id": ..., "Multi-Turn": ..., "multi_turn": "Follow-up"},
])  # fmt: skip
def test_every_spelling_gives_the_same_task(tmp_path: Path, changes: dict[str, Any]) -> None:
    plain = load_one(tmp_path, row()).data
    assert load_one(tmp_path, row(**changes)).data == plain


def test_missing_fields_are_none(tmp_path: Path) -> None:
    names = ("Answerability", "Question Type", "Multi-Turn", "Standalone Type", "targets", "contexts")
    task = load_one(tmp_path, row(**dict.fromkeys(names, ...))).data["c<::>2"]
    assert (task.answerability, task.question_types, task.multi_turn, task.standalone) == (None, (), None, None)
    assert (task.reference, task.contexts) == ("", ())


@pytest.mark.parametrize(("changes", "message"), [
    ({"task_id": ...}, "'task_id' is missing"),
    ({"input": [{"speaker": "agent", "text": "x"}]}, "does not end with a message of the user"),
    ({"input": [{"speaker": "narrator", "text": "x"}]}, "speaker 'narrator'"),
    ({"turn": "two"}, "'turn' is 'two'"),
    ({"Collection": "../../etc"}, "names no domain"),
    ({"Answerability": ["MAYBE"]}, "answerability 'MAYBE'"),
    ({"Answerability": ["ANSWERABLE", "PARTIAL"]}, "expected one answerability label"),
    ({"Standalone Type": ["Perhaps"]}, "standalone type 'Perhaps'"),
    ({"contexts": [{"text": "x"}]}, "'document_id' is missing"),
    ({"Question Type": 7}, "neither text nor a list"),
])  # fmt: skip
def test_reports_unreadable_row_and_continues(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    write(tmp_path, {TASKS: jsonl(row(**changes), row(task_id="ok"))})
    loaded = mtrag.load_tasks(tmp_path, "mtrag")
    assert list(loaded.data) == ["ok"]
    assert [(problem.file, problem.line) for problem in loaded.problems] == [(TASKS, 1)]
    assert message in loaded.problems[0].what


def test_strips_user_marks_from_every_line_of_a_query(tmp_path: Path) -> None:
    rows = [
        {"_id": "a", "text": "|user|:  What?\n|user|: And |user|: then?"}, {"_id": "b", "text": "|user|: "},
        {"_id": "c", "text": "plain"}, {"_id": "c", "text": "again"}, {"text": "no id"},
    ]  # fmt: skip
    path = "mtrag-human/retrieval_tasks/clapnq/clapnq_questions.jsonl"
    write(tmp_path, {path: jsonl(*rows)})
    loaded = mtrag.load_queries(tmp_path, "clapnq", "questions")
    assert loaded.data == {"a": "What?\nAnd |user|: then?", "c": "plain"}
    assert [(problem.file, problem.line) for problem in loaded.problems] == [(path, 2), (path, 4), (path, 5)]


def test_reads_relevance_labels(tmp_path: Path) -> None:
    rows = ["q\ta\t1", "q\tb\t2\r", "q\ta\t1", "q\tc", "q\td\tx", "", "z\ta\t0", "q\te\t0"]
    write(tmp_path, {QRELS: "\n".join(["query-id\tcorpus-id\tscore", *rows])})
    loaded = mtrag.load_qrels(tmp_path, "mtrag", "clapnq")
    assert loaded.data == {"q": {"a": 1, "b": 2, "e": 0}}
    assert [problem.line for problem in loaded.problems] == [4, 5, 6, None]


def test_names_missing_files_and_the_expected_ones(tmp_path: Path) -> None:
    for call, expected in (
        (lambda: mtrag.load_tasks(tmp_path, "mtrag-un"), "mtragun-human/generation_tasks/reference.jsonl"),
        (lambda: mtrag.load_queries(tmp_path, "fiqa", "rewrite"), "retrieval_tasks/fiqa/fiqa_rewrite.jsonl"),
        (lambda: mtrag.load_qrels(tmp_path, "mtrag-un", "fiqa"), "mtragun-human/retrieval_tasks/qrels/fiqa.tsv"),
        (lambda: mtrag.load_qrels(tmp_path, "mtrag-s", "fiqa"), "MTRAG-S has no relevance labels"),
        (lambda: mtrag.corpus_path(tmp_path, "govt"), "corpora/passage_level/govt.jsonl"),
        (lambda: mtrag.load_qrels(tmp_path, "mtrag", "../x"), "lower-case letters"),
    ):
        with pytest.raises(RequestError) as caught:
            call()
        assert expected in str(caught.value)
    write(tmp_path, {"corpora/passage_level/govt.jsonl.zip": ""})
    with pytest.raises(RequestError, match="not a readable zip archive"):
        mtrag.corpus_path(tmp_path, "govt")


def test_reads_real_files_without_problems(real: Path) -> None:
    for benchmark, answerability in (
        ("mtrag", {"ANSWERABLE": 355, "PARTIAL": 33, "UNANSWERABLE": 29, "CONVERSATIONAL": 6}),
        ("mtrag-un", {"ANSWERABLE": 116, "UNDERSPECIFIED": 44, "UNANSWERABLE": 34, "PARTIAL": 25}),
        ("mtrag-s", {"ANSWERABLE": 587, "UNANSWERABLE": 10, "PARTIAL": 10}),
    ):
        tasks = mtrag.load_tasks(real, benchmark)
        assert tasks.problems == ()
        assert Counter(task.answerability for task in tasks.data.values()) == answerability
        assert {task.multi_turn for task in tasks.data.values()} == {"N/A", "Follow-up", "Clarification"}
        for task in tasks.data.values():
            assert task.id == f"{task.conversation}<::>{task.turn}"
            assert task.turn == 1 + sum(message.role == "user" for message in task.history)
    for benchmark, counts in (("mtrag", (208, 180)), ("mtrag-un", (83, 58)), ("mtrag-s", ())):
        domains = mtrag.retrieval_domains(real, benchmark)
        assert tuple(len(mtrag.load_qrels(real, benchmark, domain).data) for domain in domains) == counts


# --- zipped passages -------------------------------------------------------------------------------------------------

ROW = b'{"_id": "a", "title": "", "text": "hello"}\n'


def test_unpacks_again_only_if_the_archive_changes(tmp_path):
    archive = zipped(tmp_path / "govt.jsonl.zip", {"x/govt.jsonl": ROW})
    target = unzip(archive, "govt.jsonl")
    assert target.read_bytes() == ROW
    before = target.stat().st_mtime_ns
    assert unzip(archive, "govt.jsonl").stat().st_mtime_ns == before
    zipped(archive, {"govt.jsonl": ROW * 2})
    assert unzip(archive, "govt.jsonl").read_bytes() == ROW * 2


def test_refuses_archives_that_cannot_be_unpacked(tmp_path, monkeypatch):
    two = zipped(tmp_path / "two.zip", {"a/govt.jsonl": ROW, "b/govt.jsonl": ROW})
    for name in ("govt.jsonl", "fiqa.jsonl"):
        with pytest.raises(RequestError, match=f"not a readable zip archive with one {name}"):
            unzip(two, name)
    monkeypatch.setattr("turnmark.core.home.MAX_UNZIPPED_BYTES", 10)
    with pytest.raises(RequestError, match="would unpack to 43 bytes"):
        unzip(zipped(tmp_path / "bomb.zip", {"govt.jsonl": ROW}), "govt.jsonl")
    assert not list(home().rglob("*.jsonl"))


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_archive_raises_only_request_errors(data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    archive = zipped(folder / "x.zip", {"govt.jsonl": ROW * 50, "README.md": b"#"}, "top/")
    content = bytearray(archive.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    archive.write_bytes(content[: data.draw(st.integers(1, len(content)))])
    with suppress(RequestError):
        assert unzip(archive, "govt.jsonl").stat().st_size <= 50 * len(ROW)
