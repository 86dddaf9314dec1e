"""Prediction files: the official form and ours, those of a run, every mistake with its line, and any input at all."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnmark.core.errors import RequestError
from turnmark.evaluation.records import ContextRef, Sample, SubAnswer
from turnmark.evaluation.storage.journal import json_line
from turnmark.evaluation.storage.predictions import Answers
from turnmark.evaluation.tasks.registry import find_task

OFFICIAL: dict[str, Any] = {
    "task_id": "c<::>2", "conversation_id": "c", "task_type": "rag", "turn": "2", "dataset": "MT-RAG",
    "Collection": "mt-rag-clapnq-elser-512-100-20240503",
    "contexts": [
        {"document_id": "d1", "text": "One.", "title": "T", "score": 1.5, "source": ""},
        {"document_id": "d2", "text": "Two.", "score": 7},
    ],
    "input": [
        {"speaker": "user", "text": "Hello?"}, {"speaker": "agent", "text": "Hi."}, {"speaker": "user", "text": "And?"},
    ],
    "targets": [{"speaker": "agent", "text": "Yes."}], "Answerability": ["ANSWERABLE"],
    "predictions": [{"text": "An answer."}],
}  # fmt: skip
OURS: dict[str, Any] = {
    "id": "a/b/1", "prediction": "An answer.", "procedure": [{"step": "Stir.", "citations": [1]}],
    "sub_answers": [{"question": "Who?", "answer": "They."}], "decision": "answer",
    "contexts": [{"document_id": "d1"}, {"document_id": "d2", "title": "T", "text": "Two."}], "domain": "cooking",
    "repeat": 1,
}  # fmt: skip


def written(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def checked(paths: Sequence[Path], benchmark: str = "mtrag") -> Answers:
    task = find_task(benchmark, None)
    assert task is not None
    return task.read(paths, benchmark)


def problems(*paths: Path, benchmark: str = "mtrag") -> tuple[str, ...]:
    with pytest.raises(RequestError) as caught:
        checked(paths, benchmark)
    return caught.value.problems


def changed(row, **fields):
    """The row with other fields; a field that is `...` is left out."""
    return {name: value for name, value in {**row, **fields}.items() if value is not ...}


@pytest.mark.parametrize("system", ["claude-haiku-4.5", "llama-3.3-70b", "qwen2.5-32b"])
def test_reads_the_recorded_systems_completely(real_data, system):
    path = real_data / "mtragun-predictions" / f"{system}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    samples = checked([path], "mtrag-un").samples
    assert len(samples) == 219
    for sample, row in zip(samples, rows, strict=True):
        assert (sample.id, sample.prediction) == (row["task_id"], row["predictions"][0]["text"])
        assert (sample.status, sample.domain, sample.query) == ("done", row["Collection"], row["input"][-1]["text"])
        assert [(c.document_id, c.title, c.text) for c in sample.contexts] == [
            (c["document_id"], c.get("title"), c["text"]) for c in row["contexts"]
        ]


def test_an_official_line_becomes_a_sample_with_its_passages_best_first(tmp_path):
    rows = (
        OFFICIAL,
        {"task_id": "a", "predictions": [{"text": ""}]},
        {"task_id": "b", "predictions": [{"text": "x"}, {"text": "y"}], "contexts": None, "seed": 3},
        {"task_id": "c<::>1", "prediction": "z"},
    )
    path = written(tmp_path / "x.jsonl", *rows)
    second = ContextRef(document_id="d1", score=1.5, title="T", text="One.")
    assert list(checked([path], "mtrag").samples) == [
        Sample(id="c<::>2", status="done", domain="clapnq", query="And?", prediction="An answer.",
               contexts=(ContextRef(document_id="d2", score=7, text="Two."), second)),
        Sample(id="a", status="done", prediction=""),
        Sample(id="b", status="done", prediction="x"),
        Sample(id="c<::>1", status="done", prediction="z"),
    ]  # fmt: skip
    first, *_, last = problems(path, benchmark="kiwi")
    assert first == "x.jsonl:1: `predictions` is not a field of answers to kiwi; use `prediction`"
    assert last == "x.jsonl:4: id: Field required", "a task id is the id in the MTRAG family only"


TEXTS = 'predictions: expected a list of {"text": "…"}'


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (changed(OFFICIAL, task_id=...), "id: Field required"),
        (changed(OFFICIAL, task_id=" "), "id: String should not be blank (' ')"),
        (changed(OFFICIAL, predictions=[]), TEXTS),
        (changed(OFFICIAL, predictions=[{"text": "x"}, {"text": None}]), TEXTS),
        (changed(OFFICIAL, contexts=[{"text": "x"}]), "contexts[0].document_id: Field required"),
        (changed(OFFICIAL, contexts=[{"document_id": ""}]),
         "contexts[0].document_id: expected a text that is not blank"),
        (changed(OFFICIAL, contexts=[{"document_id": "d"}, {"document_id": "d"}]),
         "contexts[1].document_id: the passage 'd' is in the list already"),
        (changed(OFFICIAL, contexts=[{"document_id": "d", "score": float("nan")}]),
         "a number that is NaN or infinity"),
        (changed(OFFICIAL, contexts=[{"document_id": "d", "score": 1}, {"document_id": "e"}]),
         "contexts[1].score: Field required"),
        (changed(OFFICIAL, Collection="no domain!"), "Collection: unknown domain 'no domain!'"),
        (changed(OURS, prediction=None),
         "prediction: missing; expected the answer, or the status failed with a reason"),
        (changed(OURS, prediction=3), "prediction: Input should be a valid string (3)"),
        (changed(OURS, status="failed", prediction=...), "a failed sample needs a reason"),
        (changed(OURS, status="ok"), "status: Input should be 'done', 'failed' or 'skipped' ('ok')"),
        (changed(OURS, decision="maybe"),
         "decision: Input should be 'answer', 'partial', 'unknown', 'clarify' or 'converse' ('maybe')"),
        (changed(OURS, confidence=1.1), "confidence: Input should be less than or equal to 1 (1.1)"),
        (changed(OURS, procedure=[{"step": "a"}, {"citations": []}]),
         "procedure: each step of a procedure needs a text under `step`"),
        (changed(OURS, sub_answers=[{"question": "q"}]), "sub_answers[0].answer: Field required"),
        (changed(OURS, usage={"answer": {"calls": "3"}}), "usage.answer.calls: Input should be a valid integer ('3')"),
        (changed(OURS, timings={"a\nb": "3"}), "timings.'a\\nb': Input should be a valid number ('3')"),
    ],
)  # fmt: skip
def test_every_field_is_checked(tmp_path, row, message):
    path = written(tmp_path / "x.jsonl", changed(OURS, id="first"), row)
    assert problems(path) == (f"x.jsonl:2: {message}",)


def test_all_mistakes_of_all_files_are_reported_at_once(tmp_path):
    first = tmp_path / "one.jsonl"
    first.write_bytes(
        b'{"id": "a", "prediction": "x"}\r\n{"id": "b", "prediction": 1}\n\n'
        b'{"id": "d", "prediction": null, "contexts": [{"document_id": 1}]}\n'
        b'not json\n[1]\n{"id": "\xff"}\n{"x": 1}\n'
    )
    two = written(tmp_path / "two.jsonl", {"id": "a", "prediction": "y"}, {"id": "g", "prediction": 3}, OFFICIAL)
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"\n \n\n")
    assert problems(first, two, empty, tmp_path / "none.jsonl", tmp_path) == (
        f"--predictions {str(tmp_path / 'none.jsonl')!r} cannot be read: No such file or directory",
        f"--predictions {str(tmp_path / 'predictions.jsonl')!r} cannot be read: No such file or directory",
        "one.jsonl:2: prediction: Input should be a valid string (1)",
        "one.jsonl:4: prediction: missing; expected the answer, or the status failed with a reason",
        "one.jsonl:4: contexts[0].document_id: Input should be a valid string (1)",
        "one.jsonl:5: not JSON (Expecting value: line 1 column 1 (char 0))",
        "one.jsonl:6: not a JSON object",
        "one.jsonl:7: not valid UTF-8 text ('utf-8' codec can't decode byte 0xff in position 8: invalid start byte)",
        "one.jsonl:8: prediction: missing; expected the answer, or the status failed with a reason",
        "one.jsonl:8: id: Field required",
        "two.jsonl:1: 'a' is answered already in one.jsonl:1",
        "two.jsonl:2: prediction: Input should be a valid string (3)",
        "empty.jsonl: the file is empty; expected a line for each answer",
    )


def test_hostile_files_are_reported_in_a_few_escaped_lines(tmp_path):
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    name = "\x1b[31m\n" + "n" * 5000
    rows = (
        changed(OURS, id="deep", operations=[{"deep": deep}]), changed(OURS, id=name), changed(OURS, id=name),
        changed(OURS, id="long", prediction="x" * (16 << 20)), *({"id": f"b{n}", "prediction": n} for n in range(100)),
    )  # fmt: skip
    messages = problems(written(tmp_path / "x.jsonl", *rows))
    assert messages[0].startswith("x.jsonl:1: Invalid JSON: recursion limit exceeded")
    assert not {"\x1b", "\n"} & set(messages[1])
    assert len(messages[1]) < 300
    assert messages[2].endswith("bytes long; at most 16,777,216 are read")
    assert len(messages) == 41
    assert messages[-1] == "63 more mistakes; nothing is scored until they are fixed"


# --- those of a run, and any at all ----------------------------------------------------------------------------------

FULL = Sample(
    id="0/1", repeat=2, status="done", domain="d", query="q", rewrite="r",
    contexts=(ContextRef(document_id="a", score=0.1), ContextRef(document_id="b", score=0.9, text="t")),
    prediction="p [1]", procedure=({"step": "s", "citations": [1]},), decision="partial", confidence=0.5,
    sub_answers=(SubAnswer(question="q", answer="a"),), turn=1, operations=({"op": "add"},), previous="before",
    notes=("cut",), usage={"answer": {"calls": 2, "prompt_tokens": 3, "completion_tokens": 4, "cost": None}},
    timings={"answer": 0.25}, attempts=3, maker=1,
)  # fmt: skip


def test_in_a_run_the_last_line_counts_and_an_incomplete_one_is_ignored(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    failed = Sample(id="0/2", status="failed", reason="no time", kind="timeout", turn=2)
    again = Sample(id="0/2", status="done", prediction="x", attempts=2)
    lines = "".join(map(json_line, (FULL, failed, again)))
    for torn in ("", '{"id": "c", "stat'):
        (folder / "predictions.jsonl").write_text(lines + torn, encoding="utf-8")
        for path in (folder, folder / "predictions.jsonl"):
            assert list(checked([path], "kiwi").samples) == [FULL, again]
    (folder / "predictions.jsonl").write_text('{"id": \n' + lines, encoding="utf-8")
    (broken,) = problems(folder)
    assert broken.startswith("run/predictions.jsonl:1: not JSON")


def test_refuses_two_runs_of_the_same_ids_and_repeated_files(tmp_path):
    folders = tmp_path / "a/run", tmp_path / "b/run"
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")
        written(folder / "predictions.jsonl", OURS)
    (mistake,) = problems(*folders)
    assert "is answered already in" in mistake
    assert all(str(folder) in mistake for folder in folders)
    assert "is given twice" in problems(folders[0], folders[0] / "predictions.jsonl")[0]


ANY_TEXT = st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANY_TEXT, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted({*Sample.model_fields, *OFFICIAL}))
CONTEXTS = st.lists(
    st.dictionaries(st.sampled_from(("document_id", "text", "title", "score", "x")), VALUES, max_size=5), max_size=3
)
ROWS = st.one_of(
    VALUES,
    st.dictionaries(NAMES | ANY_TEXT, VALUES | CONTEXTS, max_size=6),
    st.builds(lambda row: {**OFFICIAL, **row}, st.dictionaries(NAMES, VALUES | CONTEXTS, max_size=2)),
    st.builds(lambda row: {**OURS, **row}, st.dictionaries(NAMES, VALUES | CONTEXTS, max_size=2)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, max_size=3), st.sampled_from(("mtrag", "kiwi")))
def test_any_rows_are_writable_samples_or_a_request_error(rows, benchmark):
    path = written(Path("any.jsonl"), *rows)
    try:
        predictions: Answers = checked([path], benchmark)
    except RequestError as error:
        if not all(error.problems):
            raise AssertionError("a mistake without words") from error
        return
    assert len({sample.key for sample in predictions.samples}) == len(predictions.samples)
    for sample in predictions.samples:
        assert Sample.model_validate_json(json_line(sample)) == sample
