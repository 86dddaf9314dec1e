"""Prediction files: the official form and ours, every mistake with its line, two passes of flat memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.predictions import Predictions, check_predictions
from turnmark.evaluation.records import ContextRef, DataUsed, RunManifest, Sample, SubAnswer

SYSTEMS = ("claude-haiku-4.5", "llama-3.3-70b", "qwen2.5-32b")
OFFICIAL: dict[str, Any] = {
    "task_id": "c<::>2",
    "conversation_id": "c",
    "task_type": "rag",
    "turn": "2",
    "dataset": "MT-RAG",
    "Collection": "mt-rag-clapnq-elser-512-100-20240503",
    "contexts": [
        {"document_id": "d1", "text": "One.", "title": "T", "score": 1.5, "source": ""},
        {"document_id": "d2", "text": "Two.", "score": 7},
    ],
    "input": [
        {"speaker": "user", "text": "Hello?"}, {"speaker": "agent", "text": "Hi."}, {"speaker": "user", "text": "And?"},
    ],
    "targets": [{"speaker": "agent", "text": "Yes."}],
    "Answerability": ["ANSWERABLE"],
    "predictions": [{"text": "An answer."}],
}  # fmt: skip
OURS: dict[str, Any] = {
    "id": "a/b/1",
    "prediction": "An answer.",
    "procedure": [{"step": "Stir.", "citations": [1]}],
    "sub_answers": [{"question": "Who?", "answer": "They."}],
    "decision": "answer",
    "contexts": [{"document_id": "d1"}, {"document_id": "d2", "title": "T", "text": "Two."}],
    "domain": "cooking",
    "repeat": 1,
}
FORMS = (
    "the official MTRAG form (`task_id`, `predictions`) or the form of `predictions.jsonl` (`id`, `prediction`)"
)  # fmt: skip


def written(path: Path, *rows: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def problems(*paths: Path, benchmark: str = "mtrag") -> tuple[str, ...]:
    with pytest.raises(RequestError) as caught:
        check_predictions(paths, benchmark)
    return caught.value.problems


def changed(row: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """The row with other fields; a field that is `...` is left out."""
    return {name: value for name, value in {**row, **fields}.items() if value is not ...}


# --- the official form -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_recorded_systems_are_read_whole(real_data: Path, system: str) -> None:
    path = real_data / "mtragun-predictions" / f"{system}.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    predictions = check_predictions([path], "mtrag-un")
    samples = list(predictions.samples())
    assert (predictions.form, len(predictions.ids), predictions.task_types) == ("official", 219, ("rag",))
    assert predictions.notes == ("predictions: fields that were not used: metrics (219 lines)",)
    assert [sample.id for sample in samples] == [row["task_id"] for row in rows] == [key[0] for key in predictions.ids]
    assert [sample.prediction for sample in samples] == [row["predictions"][0]["text"] for row in rows]
    for sample, row in zip(samples, rows, strict=True):
        assert (sample.status, sample.domain, sample.query) == ("done", row["Collection"], row["input"][-1]["text"])
        assert [(c.document_id, c.title, c.text) for c in sample.contexts] == [
            (c["document_id"], c.get("title"), c["text"]) for c in row["contexts"]
        ]


def test_an_official_line_becomes_a_sample_with_its_passages_best_first(tmp_path: Path) -> None:
    predictions = check_predictions([written(tmp_path / "x.jsonl", OFFICIAL)], "mtrag")
    assert list(predictions.samples()) == [
        Sample(
            id="c<::>2",
            status="done",
            domain="clapnq",
            query="And?",
            contexts=(
                ContextRef(document_id="d2", score=7, text="Two."),
                ContextRef(document_id="d1", score=1.5, title="T", text="One."),
            ),
            prediction="An answer.",
        )
    ]
    assert predictions.notes == ("predictions: fields that were not used: contexts[].source (1 line)",)


def test_passages_without_scores_keep_their_order_and_get_those_of_their_ranks(tmp_path: Path) -> None:
    contexts = [{"document_id": name, "score": None} for name in ("a", "z", "m")]
    predictions = check_predictions([written(tmp_path / "x.jsonl", changed(OFFICIAL, contexts=contexts))], "mtrag")
    (sample,) = predictions.samples()
    assert [(c.document_id, c.score) for c in sample.contexts] == [("a", 1.0), ("z", 0.5), ("m", 1 / 3)]


def test_only_the_id_and_the_answer_are_needed_and_what_is_decided_is_noted(tmp_path: Path) -> None:
    rows = (
        {"task_id": "a", "predictions": [{"text": ""}]},
        {"task_id": "b", "predictions": [{"text": "x"}, {"text": "y"}], "contexts": None, "seed": 3},
    )
    predictions = check_predictions([written(tmp_path / "x.jsonl", *rows)], "mtrag-s")
    assert [(sample.id, sample.prediction, sample.contexts) for sample in predictions.samples()] == [
        ("a", "", ()), ("b", "x", ()),
    ]  # fmt: skip
    assert predictions.notes == (
        "predictions: fields that were not used: seed (1 line)",
        "predictions: more than one prediction in a line: the first is used, as by the official scripts (1 line)",
        "predictions: nothing is said of the passages that the answer rests on (2 lines)",
        "predictions: an empty answer (1 line)",
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"task_id": ...}, "task_id: Field required"),
        ({"task_id": 7}, "task_id: Input should be a valid string (7)"),
        ({"task_id": " "}, "task_id: String should not be blank (' ')"),
        ({"predictions": None}, "predictions: Field required"),
        ({"predictions": "x"}, "predictions: Input should be a valid array ('x')"),
        ({"predictions": []}, "predictions: List should have at least 1 item after validation, not 0"),
        ({"predictions": ["x"]}, "predictions[0]: Input should be an object ('x')"),
        ({"predictions": [{"text": "x"}, {"text": None}]}, "predictions[1].text: Input should be a valid string"),
        ({"contexts": [{"text": "x"}]}, "contexts[0].document_id: Field required"),
        ({"contexts": [{"document_id": ""}]}, "contexts[0].document_id: a text that is not blank was expected"),
        ({"contexts": [{"document_id": "d"}, {"document_id": "d"}]},
         "contexts[1].document_id: the passage stands in the list already ('d')"),
        ({"contexts": [{"document_id": "d", "title": []}]}, "contexts[0].title: Input should be a valid string"),
        ({"contexts": [{"document_id": "d", "score": True}]}, "contexts[0].score: Input should be a valid number"),
        ({"contexts": [{"document_id": "d", "score": float("nan")}]}, "a number that is none: NaN or infinity"),
        ({"contexts": [{"document_id": "d", "score": 1}, {"document_id": "e"}]}, "contexts[1].score: Field required"),
        ({"Collection": "no domain!"}, "Collection: names no domain ('no domain!')"),
        ({"input": [{"speaker": "user"}]}, "input[0].text: Field required"),
        ({"targets": [{"speaker": "agent", "text": 1}]}, "targets[0].text: Input should be a valid string (1)"),
        ({"prediction": "x"}, "both `prediction` and `predictions`"),
    ],
)  # fmt: skip
def test_every_field_of_the_official_form_is_checked(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "x.jsonl", changed(OFFICIAL, task_id="first"), changed(OFFICIAL, **fields))
    assert problems(path) == (f"x.jsonl:2: {message}",)


def test_the_official_form_is_for_the_mtrag_family(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", OFFICIAL, OFFICIAL)
    assert problems(path, benchmark="kiwi") == (
        "x.jsonl, lines 1-2: in the official MTRAG form (`task_id`, `predictions`), which kiwi has not; "
        "write the form of `predictions.jsonl` (`id`, `prediction`)",
        "2 mistakes in 2 lines; nothing is scored before they are put right",
    )


# --- our form --------------------------------------------------------------------------------------------------------


def test_a_minimal_line_of_any_system_becomes_a_sample(tmp_path: Path) -> None:
    rows = (
        OURS,
        {"id": "x", "prediction": "y", "model": "m", "contexts": [{"document_id": "d", "score": 1, "url": "u"}]},
        {"id": "z", "status": "failed", "reason": "no reply", "prediction": None, "model": "m"},
    )
    predictions = check_predictions([written(tmp_path / "x.jsonl", *rows)], "compound-qa")
    assert (predictions.form, predictions.task_types) == ("turnmark", ())
    assert set(predictions.ids) == {("a/b/1", 1), ("x", 0), ("z", 0)}
    assert list(predictions.samples()) == [
        Sample(
            id="a/b/1",
            repeat=1,
            status="done",
            domain="cooking",
            contexts=(
                ContextRef(document_id="d1", score=1.0),
                ContextRef(document_id="d2", score=0.5, title="T", text="Two."),
            ),
            prediction="An answer.",
            procedure=({"step": "Stir.", "citations": [1]},),
            decision="answer",
            sub_answers=(SubAnswer(question="Who?", answer="They."),),
        ),
        Sample(id="x", status="done", prediction="y", contexts=(ContextRef(document_id="d", score=1.0),)),
        Sample(id="z", status="failed", reason="no reply"),
    ]
    assert predictions.notes == ("predictions: fields that were not used: model (2 lines), contexts[].url (1 line)",)


def test_a_task_id_is_the_id_in_the_mtrag_family_only(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", {"task_id": "c<::>1", "prediction": "y"})
    assert [sample.id for sample in check_predictions([path], "mtrag-un").samples()] == ["c<::>1"]
    assert problems(path, benchmark="inscoqa") == ("x.jsonl:1: id: Field required",)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": ...}, "id: Field required"),
        ({"id": ""}, "id: String should not be blank ('')"),
        ({"prediction": None}, "prediction: missing: the answer is expected, or the status failed with a reason"),
        ({"prediction": 3}, "prediction: Input should be a valid string (3)"),
        ({"status": "failed", "prediction": ...}, "a failed sample has a reason"),
        ({"status": "failed", "reason": ""}, "a failed sample has a reason"),
        ({"status": "ok"}, "status: Input should be 'done', 'failed' or 'skipped' ('ok')"),
        ({"repeat": "1"}, "repeat: Input should be a valid integer ('1')"),
        ({"repeat": True}, "repeat: Input should be a valid integer"),
        ({"repeat": -1}, "repeat: Input should be greater than or equal to 0 (-1)"),
        ({"decision": "maybe"},
         "decision: Input should be 'answer', 'partial', 'unknown', 'clarify' or 'converse' ('maybe')"),
        ({"confidence": 1.1}, "confidence: Input should be less than or equal to 1 (1.1)"),
        ({"procedure": ["Stir."]}, "procedure[0]: Input should be an object ('Stir.')"),
        ({"procedure": [{"step": "a"}, {"citations": []}]}, "procedure[1].step: Field required"),
        ({"procedure": [{"step": "a", "at": float("nan")}]}, "a number that is none: NaN or infinity"),
        ({"sub_answers": [{"question": "q"}]}, "sub_answers[0].answer: Field required"),
        ({"contexts": [{"document_id": "d"}, {"document_id": "d"}]},
         "contexts[1].document_id: the passage stands in the list already ('d')"),
        ({"usage": {"answer": {"calls": "3"}}}, "usage.answer.calls: Input should be a valid integer ('3')"),
        ({"timings": {"a\nb": "3"}}, "timings.'a\\nb': Input should be a valid number ('3')"),
        ({"turn": -1}, "turn: Input should be greater than or equal to 0 (-1)"),
    ],
)  # fmt: skip
def test_every_field_of_our_form_is_checked(tmp_path: Path, fields: dict[str, Any], message: str) -> None:
    path = written(tmp_path / "x.jsonl", changed(OURS, id="first"), changed(OURS, **fields))
    assert problems(path, benchmark="compound-qa") == (f"x.jsonl:2: {message}",)


def test_what_is_nested_without_end_is_refused(tmp_path: Path) -> None:
    deep: Any = 1
    for _ in range(200):
        deep = [deep]
    path = written(tmp_path / "x.jsonl", changed(OURS, operations=[{"deep": deep}]))
    (message,) = problems(path)
    assert message.startswith("x.jsonl:1: Invalid JSON: recursion limit exceeded")


# --- files -----------------------------------------------------------------------------------------------------------


def test_all_mistakes_of_all_files_are_told_at_once_like_ones_together(tmp_path: Path) -> None:
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


def test_an_id_that_is_answered_twice_is_a_mistake_in_a_file_from_elsewhere(tmp_path: Path) -> None:
    rows = [{"id": name, "prediction": "x"} for name in "abcdeabcde"]
    path = written(tmp_path / "x.jsonl", *rows, {"id": "a", "prediction": "x", "repeat": 1})
    assert problems(path) == (
        "x.jsonl, lines 6-10: id: answered already by an earlier line "
        "('a' in line 1; 'b' in line 2; 'c' in line 3 and 2 more)",
        "5 mistakes in 5 lines; nothing is scored before they are put right",
    )


def test_the_list_of_mistakes_has_an_end_and_the_total_is_said(tmp_path: Path) -> None:
    rows = [{"id": f"{n}", "prediction": "x", "timings": {f"t{n}": "x"}} for n in range(100)]
    rows += [{"id": f"b{n}", "prediction": n % 2 or "x"} for n in range(100)]
    messages = problems(written(tmp_path / "x.jsonl", *rows))
    assert len(messages) == 42
    assert messages[-2:] == (
        "and mistakes of 61 more kinds",
        "150 mistakes in 150 lines; nothing is scored before they are put right",
    )


def test_untrusted_text_stays_one_inert_line(tmp_path: Path) -> None:
    name = "\x1b[31m\n" + "n" * 5000
    path = written(
        tmp_path / "x.jsonl", changed(OURS, id=name), changed(OURS, id=name), changed(OURS, **{name: 1, "id": "x"})
    )
    (message, *_) = problems(path)
    assert "\x1b" not in message
    assert "\n" not in message
    assert len(message) < 300
    (note,) = check_predictions([written(path, changed(OURS, **{name: 1}))], "kiwi").notes
    assert "\x1b" not in note
    assert len(note) < 200


@pytest.mark.parametrize("content", [b"", b"\n \n\n"])
def test_a_file_without_lines_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.jsonl").write_bytes(content)
    assert problems(tmp_path / "x.jsonl") == (
        f"x.jsonl: no line in it; a line for each answer was expected, in {FORMS}",
    )


def test_a_byte_order_mark_and_foreign_line_ends_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"id": "a", "prediction": "x"}\r\n\r\n{"id": "b", "prediction": "y\\u2028z"}')
    assert [sample.prediction for sample in check_predictions([path], "kiwi").samples()] == ["x", "y\u2028z"]


def test_a_line_beyond_all_reason_is_named_and_not_read(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", OURS, changed(OURS, id="b", prediction="x" * (16 << 20)))
    (message,) = problems(path)
    assert message.startswith("x.jsonl:2: the line is 16,777,")
    assert message.endswith("bytes long; at most 16,777,216 are read")


def test_several_files_are_read_in_their_order(tmp_path: Path) -> None:
    first, two = (written(tmp_path / name, {"id": name, "prediction": "x"}) for name in "ba")
    predictions = check_predictions([first, two], "kiwi")
    assert [sample.id for sample in predictions.samples()] == ["b", "a"]
    assert dict(predictions.ids) == {("b", 0): (0, 1), ("a", 0): (1, 1)}
    assert predictions.paths == (first, two)


def test_a_file_that_changes_between_the_passes_is_noticed(tmp_path: Path) -> None:
    path = written(tmp_path / "x.jsonl", OURS, changed(OURS, id="b"))
    predictions = check_predictions([path], "kiwi")
    written(path, OURS)
    with pytest.raises(TurnmarkError, match="changed while they were read"):
        list(predictions.samples())


# --- runs ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path: Path) -> Callable[..., Path]:
    """Makes the folder of a run with these samples and whatever else stands at the end of the file."""

    def make(*samples: Sample, tail: str = "") -> Path:
        folder = tmp_path / "run"
        folder.mkdir()
        data = DataUsed(name="demo", demo=True, fingerprint="f")
        manifest = RunManifest(
            benchmark="kiwi", task="revise", specs={}, data=data, domains=(), seed=0, version="1", started="now"
        )
        (folder / "manifest.json").write_text(manifest.model_dump_json(), encoding="utf-8")
        (folder / "predictions.jsonl").write_text("".join(map(json_line, samples)) + tail, encoding="utf-8")
        return folder

    return make


FULL = Sample(
    id="0/1",
    repeat=2,
    status="done",
    domain="d",
    query="q",
    rewrite="r",
    contexts=(ContextRef(document_id="a", score=0.1), ContextRef(document_id="b", score=0.9, text="t")),
    prediction="p [1]",
    procedure=({"step": "s", "citations": [1]},),
    decision="partial",
    confidence=0.5,
    sub_answers=(SubAnswer(question="q", answer="a"),),
    turn=1,
    operations=({"op": "add"},),
    previous="before",
    notes=("cut",),
    usage={"answer": {"calls": 2, "prompt_tokens": 3, "completion_tokens": 4, "cost": None}},
    timings={"answer": 0.25},
    attempts=3,
    maker=1,
)


def test_a_sample_of_ours_comes_back_as_it_was(run: Callable[..., Path]) -> None:
    failed = Sample(id="0/2", status="failed", reason="no time", kind="timeout", turn=2)
    skipped = Sample(id="0/3", status="skipped", reason="the budget")
    folder = run(FULL, failed, skipped)
    for path in (folder, folder / "predictions.jsonl"):
        predictions = check_predictions([path], "kiwi")
        assert list(predictions.samples()) == [FULL, failed, skipped]
        assert predictions.notes == ()


def test_of_a_run_the_last_line_of_a_sample_holds_and_a_torn_one_is_left_out(run: Callable[..., Path]) -> None:
    failed = Sample(id="a", status="failed", reason="no time")
    finished = Sample(id="a", status="done", prediction="x", attempts=2)
    second = Sample(id="b", status="done", prediction="y")
    predictions = check_predictions([run(failed, second, finished, tail='{"id": "c", "stat')], "kiwi")
    assert list(predictions.samples()) == [second, finished]
    assert predictions.notes == (
        "predictions: superseded by a later line of the same sample in the run (1 line)",
        "predictions: torn at the end of a run's file: the sample was not finished (1 line)",
    )


def test_a_line_that_is_broken_inside_a_run_is_a_mistake(run: Callable[..., Path]) -> None:
    folder = run(FULL, tail='{"id": \n' + json_line(FULL.model_copy(update={"id": "z"})))
    assert problems(folder) == ("run/predictions.jsonl:2: not JSON (Expecting value: line 2 column 1 (char 8))",)


# --- any input -------------------------------------------------------------------------------------------------------

TEXTS = st.text(max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(sorted({*Sample.model_fields, *OFFICIAL}))
CONTEXTS = st.lists(
    st.dictionaries(st.sampled_from(("document_id", "text", "title", "score", "x")), VALUES, max_size=5), max_size=3
)
ROWS = st.one_of(
    VALUES,
    st.dictionaries(NAMES | TEXTS, VALUES | CONTEXTS, max_size=6),
    st.builds(lambda row: {**OFFICIAL, **row}, st.dictionaries(NAMES, VALUES | CONTEXTS, max_size=2)),
    st.builds(lambda row: {**OURS, **row}, st.dictionaries(NAMES, VALUES | CONTEXTS, max_size=2)),
)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(ROWS, max_size=3), st.sampled_from(("mtrag", "kiwi")))
def test_any_objects_are_samples_that_can_be_written_or_a_request_error(
    tmp_path: Path, rows: list[object], benchmark: str
) -> None:
    path = written(tmp_path / "any.jsonl", *rows)
    try:
        predictions: Predictions = check_predictions([path], benchmark)
    except RequestError as error:
        if not all(error.problems):
            raise AssertionError("a mistake without words") from error
        return
    samples = list(predictions.samples())
    assert {sample.key for sample in samples} == set(predictions.ids)
    for sample in samples:
        assert Sample.model_validate_json(json_line(sample)) == sample


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_error_or_lines(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "any.jsonl").write_bytes(content)
    with pytest.raises(RequestError):
        check_predictions([tmp_path / "any.jsonl"], "mtrag")


@pytest.mark.parametrize("lines", [1_500, pytest.param(20_000, marks=pytest.mark.slow)])
def test_memory_is_flat(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "x.jsonl"
    with open(path, "w", encoding="utf-8") as file:
        for n in range(lines):
            file.write(json.dumps({"id": f"{n}", "prediction": f"{n:05} " * 400}) + "\n")
    check_predictions([written(tmp_path / "warm.jsonl", OURS)], "kiwi")
    tracemalloc.start()
    try:
        predictions = check_predictions([path], "kiwi")
        assert sum(1 for _ in predictions.samples()) == lines
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The ids and where they stand, below 300 bytes a line; the text of a line is six times that.
    assert peak < 300 * lines + (512 << 10)
    assert path.stat().st_size > 1800 * lines
