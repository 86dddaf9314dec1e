"""Prediction files: the official form and ours, every mistake with its line."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.evaluation.predicted import OFFICIAL, OURS, problems, written
from turnmark.evaluation.predictions import check_predictions
from turnmark.evaluation.records import ContextRef, Sample, SubAnswer

SYSTEMS = ("claude-haiku-4.5", "llama-3.3-70b", "qwen2.5-32b")
FORMS = (
    "the official MTRAG form (`task_id`, `predictions`) or the form of `predictions.jsonl` (`id`, `prediction`)"
)  # fmt: skip


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


def test_passages_without_scores_keep_their_order_and_get_those_of_their_ranks(tmp_path):
    contexts = [{"document_id": name, "score": None} for name in ("a", "z", "m")]
    predictions = check_predictions([written(tmp_path / "x.jsonl", changed(OFFICIAL, contexts=contexts))], "mtrag")
    (sample,) = predictions.samples
    assert [(c.document_id, c.score) for c in sample.contexts] == [("a", 1.0), ("z", 0.5), ("m", 1 / 3)]


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


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task_id": ...}, "task_id: Field required"),
        ({"task_id": " "}, "task_id: String should not be blank (' ')"),
        ({"predictions": None}, "predictions: Field required"),
        ({"predictions": []}, "predictions: List should have at least 1 item after validation, not 0"),
        ({"predictions": ["x"]}, "predictions[0]: Input should be an object ('x')"),
        ({"predictions": [{"text": "x"}, {"text": None}]}, "predictions[1].text: Input should be a valid string"),
        ({"contexts": [{"text": "x"}]}, "contexts[0].document_id: Field required"),
        ({"contexts": [{"document_id": ""}]}, "contexts[0].document_id: a text that is not blank was expected"),
        ({"contexts": [{"document_id": "d"}, {"document_id": "d"}]},
         "contexts[1].document_id: the passage stands in the list already ('d')"),
        ({"contexts": [{"document_id": "d", "score": True}]}, "contexts[0].score: Input should be a valid number"),
        ({"contexts": [{"document_id": "d", "score": float("nan")}]}, "a number that is none: NaN or infinity"),
        ({"contexts": [{"document_id": "d", "score": 1}, {"document_id": "e"}]}, "contexts[1].score: Field required"),
        ({"Collection": "no domain!"}, "Collection: names no domain ('no domain!')"),
        ({"input": [{"speaker": "user"}]}, "input[0].text: Field required"),
        ({"prediction": "x"}, "both `prediction` and `predictions`"),
    ],
)  # fmt: skip
def test_every_field_of_the_official_form_is_checked(tmp_path, fields, message):
    path = written(tmp_path / "x.jsonl", changed(OFFICIAL, task_id="first"), changed(OFFICIAL, **fields))
    assert problems(path) == (f"x.jsonl:2: {message}",)


def test_the_official_form_is_for_the_mtrag_family(tmp_path):
    path = written(tmp_path / "x.jsonl", OFFICIAL, OFFICIAL)
    assert problems(path, benchmark="kiwi") == (
        "x.jsonl, lines 1-2: in the official MTRAG form (`task_id`, `predictions`), which kiwi has not; "
        "write the form of `predictions.jsonl` (`id`, `prediction`)",
        "2 mistakes in 2 lines; nothing is scored before they are put right",
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
        ({"procedure": [{"step": "a", "at": float("nan")}]}, "a number that is none: NaN or infinity"),
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


def test_all_mistakes_of_all_files_are_told_at_once_like_ones_together(tmp_path):
    first = tmp_path / "one.jsonl"
    first.write_bytes(
        b'{"id": "a", "prediction": "x"}\r\n{"id": "b", "prediction": 1}\n{"id": "c", "prediction": 2}\n\n'
        b'{"id": "d", "prediction": null, "contexts": [{"document_id": 1}, {"document_id": 2}]}\n'
        b'{"id": "e", "prediction": []}\nnot json\n[1]\n{"id": "\xff"}\n{"id": "f", "prediction": 1}\n{"x": 1}\n'
    )
    two = written(tmp_path / "two.jsonl", {"id": "a", "prediction": "y"}, {"id": "g", "prediction": 3}, OFFICIAL)
    assert problems(first, two, tmp_path / "none.jsonl", tmp_path, first) == (
        f"--predictions {str(tmp_path / 'none.jsonl')!r} cannot be read: No such file or directory",
        f"--predictions {str(tmp_path)!r} is no run: there is no predictions.jsonl in it",
        f"--predictions {str(first)!r} is given twice",
        "one.jsonl, lines 2-3, 6, 10: prediction: Input should be a valid string (1; 2; 1 and 1 more)",
        "one.jsonl:5: prediction: missing: the answer is expected, or the status failed with a reason",
        "one.jsonl:5: contexts[].document_id: Input should be a valid string (1; 2)",
        "one.jsonl:7: not JSON (Expecting value: line 1 column 1 (char 0))",
        "one.jsonl:8: not a JSON object",
        "one.jsonl:9: not valid UTF-8 text ('utf-8' codec can't decode byte 0xff in position 8: invalid start byte)",
        f"one.jsonl:11: in no form that is known: {FORMS}",
        "two.jsonl:1: id: answered already by an earlier line ('a' in one.jsonl:1)",
        "two.jsonl:2: prediction: Input should be a valid string (3)",
        "two.jsonl:3: in the official MTRAG form (`task_id`, `predictions`), and one.jsonl:1 is in the form of "
        "`predictions.jsonl` (`id`, `prediction`); one form was expected",
        "14 mistakes in 12 lines of 2 files; nothing is scored before they are put right",
    )


def test_an_id_that_is_answered_twice_is_a_mistake_in_a_file_from_elsewhere(tmp_path):
    rows = [{"id": name, "prediction": "x"} for name in "abcdeabcde"]
    path = written(tmp_path / "x.jsonl", *rows, {"id": "a", "prediction": "x", "repeat": 1})
    assert problems(path) == (
        "x.jsonl, lines 6-10: id: answered already by an earlier line "
        "('a' in line 1; 'b' in line 2; 'c' in line 3 and 2 more)",
        "5 mistakes in 5 lines; nothing is scored before they are put right",
    )


def test_the_list_of_mistakes_has_an_end_and_the_total_is_said(tmp_path):
    rows = [{"id": f"{n}", "prediction": "x", "timings": {f"t{n}": "x"}} for n in range(100)]
    rows += [{"id": f"b{n}", "prediction": n % 2 or "x"} for n in range(100)]
    messages = problems(written(tmp_path / "x.jsonl", *rows))
    assert len(messages) == 42
    assert messages[-2:] == (
        "and mistakes of 61 more kinds",
        "150 mistakes in 150 lines; nothing is scored before they are put right",
    )


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
    assert problems(tmp_path / "x.jsonl") == (
        f"x.jsonl: no line in it; a line for each answer was expected, in {FORMS}",
    )


def test_a_byte_order_mark_and_foreign_line_ends_are_read(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prediction": "x"}\r\n\r\n{"id": "b", "prediction": "y\\u2028z"}')
    assert [sample.prediction for sample in check_predictions([path], "kiwi").samples] == ["x", "y\u2028z"]


def test_a_line_beyond_all_reason_is_named_and_not_read(tmp_path):
    path = written(tmp_path / "x.jsonl", OURS, changed(OURS, id="b", prediction="x" * (16 << 20)))
    (message,) = problems(path)
    assert message.startswith("x.jsonl:2: the line is 16,777,")
    assert message.endswith("bytes long; at most 16,777,216 are read")


def test_several_files_are_read_in_their_order(tmp_path):
    first, two = (written(tmp_path / name, {"id": name, "prediction": "x"}) for name in "ba")
    predictions = check_predictions([first, two], "kiwi")
    assert [sample.id for sample in predictions.samples] == ["b", "a"]
    assert predictions.paths == (first, two)
