"""Prediction files: the official form and ours, every mistake with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.evaluation.predicted import OFFICIAL, OURS, problems, written
from turnmark.evaluation.predictions import check_predictions
from turnmark.evaluation.records import ContextRef, Sample, SubAnswer

SYSTEMS = ("claude-haiku-4.5", "llama-3.3-70b", "qwen2.5-32b")


def changed(row, **fields):
    """The row with other fields; a field that is `...` is left out."""
    return {name: value for name, value in {**row, **fields}.items() if value is not ...}


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_recorded_systems_are_read_whole(real_data, system):
    path = real_data / "mtragun-predictions" / f"{system}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    predictions = check_predictions([path], "mtrag-un")
    samples = predictions.samples
    assert len(predictions.samples) == 219
    assert [sample.id for sample in samples] == [row["task_id"] for row in rows]
    assert [sample.prediction for sample in samples] == [row["predictions"][0]["text"] for row in rows]
    for sample, row in zip(samples, rows, strict=True):
        assert (sample.status, sample.domain, sample.query) == ("done", row["Collection"], row["input"][-1]["text"])
        assert [(c.document_id, c.title, c.text) for c in sample.contexts] == [
            (c["document_id"], c.get("title"), c["text"]) for c in row["contexts"]
        ]


def test_an_official_line_becomes_a_sample_with_its_passages_best_first(tmp_path):
    predictions = check_predictions([written(tmp_path / "x.jsonl", OFFICIAL)], "mtrag")
    second = ContextRef(document_id="d1", score=1.5, title="T", text="One.")
    assert list(predictions.samples) == [Sample(
        id="c<::>2", status="done", domain="clapnq", query="And?", prediction="An answer.",
        contexts=(ContextRef(document_id="d2", score=7, text="Two."), second),
    )]  # fmt: skip
    assert predictions.notes == ()


def test_only_the_id_and_the_answer_are_needed_and_what_is_decided_is_noted(tmp_path):
    rows = (
        {"task_id": "a", "predictions": [{"text": ""}]},
        {"task_id": "b", "predictions": [{"text": "x"}, {"text": "y"}], "contexts": None, "seed": 3},
    )
    predictions = check_predictions([written(tmp_path / "x.jsonl", *rows)], "mtrag-s")
    assert [(sample.id, sample.prediction, sample.contexts) for sample in predictions.samples] == [
        ("a", "", ()), ("b", "x", ()),
    ]  # fmt: skip
    assert predictions.notes == (
        "predictions: more than one prediction in a line: the first is used, as by the official scripts (1 line)",
        "predictions: nothing is said of the passages that the answer rests on (2 lines)",
        "predictions: an empty answer (1 line)",
    )


TEXTS = 'predictions: a list of {"text": "…"} was expected'


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task_id": ...}, "id: Field required"),
        ({"task_id": " "}, "id: String should not be blank (' ')"),
        ({"predictions": None}, TEXTS),
        ({"predictions": []}, TEXTS),
        ({"predictions": [{"text": "x"}, {"text": None}]}, TEXTS),
        ({"contexts": [{"text": "x"}]}, "contexts[0].document_id: Field required"),
        ({"contexts": [{"document_id": ""}]}, "contexts[0].document_id: a text that is not blank was expected"),
        ({"contexts": [{"document_id": "d"}, {"document_id": "d"}]},
         "contexts[1].document_id: the passage 'd' is in the list already"),
        ({"contexts": [{"document_id": "d", "score": True}]}, "contexts[0].score: Input should be a valid number"),
        ({"contexts": [{"document_id": "d", "score": float("nan")}]}, "a number that is NaN or infinity"),
        ({"contexts": [{"document_id": "d", "score": 1}, {"document_id": "e"}]}, "contexts[1].score: Field required"),
        ({"Collection": "no domain!"}, "Collection: names no domain ('no domain!')"),
        ({"prediction": "x"}, "both `prediction` and `predictions`"),
    ],
)  # fmt: skip
def test_every_field_of_the_official_form_is_checked(tmp_path, fields, message):
    path = written(tmp_path / "x.jsonl", changed(OFFICIAL, task_id="first"), changed(OFFICIAL, **fields))
    assert problems(path) == (f"x.jsonl:2: {message}",)


def test_the_official_form_is_for_the_mtrag_family(tmp_path):
    path = written(tmp_path / "x.jsonl", OFFICIAL)
    assert problems(path, benchmark="kiwi") == (
        "x.jsonl:1: `predictions` is the official MTRAG form, not that of kiwi; use `prediction`",
    )


def test_a_minimal_line_of_any_system_becomes_a_sample(tmp_path):
    rows = (
        OURS,
        {"id": "x", "prediction": "y", "model": "m", "contexts": [{"document_id": "d", "score": 1, "url": "u"}]},
        {"id": "z", "status": "failed", "reason": "no reply", "prediction": None, "model": "m"},
    )
    predictions = check_predictions([written(tmp_path / "x.jsonl", *rows)], "compound-qa")
    assert [sample.key for sample in predictions.samples] == [("a/b/1", 1), ("x", 0), ("z", 0)]
    second = ContextRef(document_id="d2", score=0.5, title="T", text="Two.")
    assert list(predictions.samples) == [
        Sample(id="a/b/1", repeat=1, status="done", domain="cooking", prediction="An answer.", decision="answer",
               contexts=(ContextRef(document_id="d1", score=1.0), second),
               procedure=({"step": "Stir.", "citations": [1]},),
               sub_answers=(SubAnswer(question="Who?", answer="They."),)),
        Sample(id="x", status="done", prediction="y", contexts=(ContextRef(document_id="d", score=1.0),)),
        Sample(id="z", status="failed", reason="no reply"),
    ]  # fmt: skip


def test_a_task_id_is_the_id_in_the_mtrag_family_only(tmp_path):
    path = written(tmp_path / "x.jsonl", {"task_id": "c<::>1", "prediction": "y"})
    assert [sample.id for sample in check_predictions([path], "mtrag-un").samples] == ["c<::>1"]
    assert problems(path, benchmark="inscoqa") == ("x.jsonl:1: id: Field required",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ...}, "id: Field required"),
        ({"prediction": None}, "prediction: missing: the answer is expected, or the status failed with a reason"),
        ({"prediction": 3}, "prediction: Input should be a valid string (3)"),
        ({"status": "failed", "prediction": ...}, "a failed sample has a reason"),
        ({"status": "ok"}, "status: Input should be 'done', 'failed' or 'skipped' ('ok')"),
        ({"repeat": True}, "repeat: Input should be a valid integer"),
        ({"decision": "maybe"},
         "decision: Input should be 'answer', 'partial', 'unknown', 'clarify' or 'converse' ('maybe')"),
        ({"confidence": 1.1}, "confidence: Input should be less than or equal to 1 (1.1)"),
        ({"procedure": [{"step": "a"}, {"citations": []}]}, "procedure[1].step: Field required"),
        ({"procedure": [{"step": "a", "at": float("nan")}]}, "a number that is NaN or infinity"),
        ({"sub_answers": [{"question": "q"}]}, "sub_answers[0].answer: Field required"),
        ({"usage": {"answer": {"calls": "3"}}}, "usage.answer.calls: Input should be a valid integer ('3')"),
        ({"timings": {"a\nb": "3"}}, "timings.'a\\nb': Input should be a valid number ('3')"),
        ({"turn": -1}, "turn: Input should be greater than or equal to 0 (-1)"),
    ],
)  # fmt: skip
def test_every_field_of_our_form_is_checked(tmp_path, fields, message):
    path = written(tmp_path / "x.jsonl", changed(OURS, id="first"), changed(OURS, **fields))
    assert problems(path, benchmark="compound-qa") == (f"x.jsonl:2: {message}",)


def test_what_is_nested_without_end_is_refused(tmp_path):
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    path = written(tmp_path / "x.jsonl", changed(OURS, operations=[{"deep": deep}]))
    (message,) = problems(path)
    assert message.startswith("x.jsonl:1: Invalid JSON: recursion limit exceeded")


def test_all_mistakes_of_all_files_are_reported_at_once(tmp_path):
    first = tmp_path / "one.jsonl"
    first.write_bytes(
        b'{"id": "a", "prediction": "x"}\r\n{"id": "b", "prediction": 1}\n\n'
        b'{"id": "d", "prediction": null, "contexts": [{"document_id": 1}]}\n'
        b'not json\n[1]\n{"id": "\xff"}\n{"x": 1}\n'
    )
    two = written(tmp_path / "two.jsonl", {"id": "a", "prediction": "y"}, {"id": "g", "prediction": 3}, OFFICIAL)
    assert problems(first, two, tmp_path / "none.jsonl", tmp_path, first) == (
        f"--predictions {str(tmp_path / 'none.jsonl')!r} cannot be read: No such file or directory",
        f"--predictions {str(tmp_path)!r} is not a run: there is no predictions.jsonl in it",
        f"--predictions {str(first)!r} is given twice",
        "one.jsonl:2: prediction: Input should be a valid string (1)",
        "one.jsonl:4: prediction: missing: the answer is expected, or the status failed with a reason",
        "one.jsonl:4: contexts[0].document_id: Input should be a valid string (1)",
        "one.jsonl:5: not JSON (Expecting value: line 1 column 1 (char 0))",
        "one.jsonl:6: not a JSON object",
        "one.jsonl:7: not valid UTF-8 text ('utf-8' codec can't decode byte 0xff in position 8: invalid start byte)",
        "one.jsonl:8: prediction: missing: the answer is expected, or the status failed with a reason",
        "one.jsonl:8: id: Field required",
        "two.jsonl:1: 'a' is answered already in one.jsonl:1",
        "two.jsonl:2: prediction: Input should be a valid string (3)",
    )


def test_the_list_of_mistakes_has_an_end(tmp_path):
    messages = problems(written(tmp_path / "x.jsonl", *({"id": f"b{n}", "prediction": n} for n in range(100))))
    assert len(messages) == 41
    assert messages[-1] == "60 more mistakes; nothing is scored before they are put right"


def test_untrusted_text_stays_one_inert_line(tmp_path):
    name = "\x1b[31m\n" + "n" * 5000
    path = written(
        tmp_path / "x.jsonl", changed(OURS, id=name), changed(OURS, id=name), changed(OURS, **{name: 1, "id": "x"})
    )
    (message, *_) = problems(path)
    assert "\x1b" not in message
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_a_file_without_lines_is_refused(tmp_path, content):
    (tmp_path / "x.jsonl").write_bytes(content)
    assert problems(tmp_path / "x.jsonl") == ("x.jsonl: no line in it; a line for each answer was expected",)


def test_a_byte_order_mark_and_foreign_line_ends_are_read(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prediction": "x"}\r\n\r\n{"id": "b", "prediction": "y\\u2028z"}')
    assert [sample.prediction for sample in check_predictions([path], "kiwi").samples] == ["x", "y\u2028z"]


def test_a_line_beyond_all_reason_is_named_and_not_read(tmp_path):
    path = written(tmp_path / "x.jsonl", OURS, changed(OURS, id="b", prediction="x" * (16 << 20)))
    (message,) = problems(path)
    assert message.startswith("x.jsonl:2: the line is 16,777,")
    assert message.endswith("bytes long; at most 16,777,216 are read")
