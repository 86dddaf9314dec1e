"""Predictions that a run of ours wrote, and any input at all."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.evaluation.predicted import OFFICIAL, OURS, problems, written
from turnmark.corpora.errors import RequestError
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.predictions import Answers, check_predictions
from turnmark.evaluation.records import ContextRef, DataUsed, RunManifest, Sample, SubAnswer


@pytest.fixture
def run(tmp_path):
    """Makes the folder of a run with these samples and whatever else stands at the end of the file."""

    def make(*samples, tail=""):
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
    id="0/1", repeat=2, status="done", domain="d", query="q", rewrite="r",
    contexts=(ContextRef(document_id="a", score=0.1), ContextRef(document_id="b", score=0.9, text="t")),
    prediction="p [1]", procedure=({"step": "s", "citations": [1]},), decision="partial", confidence=0.5,
    sub_answers=(SubAnswer(question="q", answer="a"),), turn=1, operations=({"op": "add"},), previous="before",
    notes=("cut",), usage={"answer": {"calls": 2, "prompt_tokens": 3, "completion_tokens": 4, "cost": None}},
    timings={"answer": 0.25}, attempts=3, maker=1,
)  # fmt: skip


def test_a_sample_of_ours_comes_back_as_it_was(run):
    failed = Sample(id="0/2", status="failed", reason="no time", kind="timeout", turn=2)
    skipped = Sample(id="0/3", status="skipped", reason="the budget")
    folder = run(FULL, failed, skipped)
    for path in (folder, folder / "predictions.jsonl"):
        predictions = check_predictions([path], "kiwi")
        assert list(predictions.samples) == [FULL, failed, skipped]
        assert predictions.notes == ()


def test_of_a_run_the_last_line_of_a_sample_holds_and_a_torn_one_is_left_out(run):
    failed = Sample(id="a", status="failed", reason="no time")
    finished = Sample(id="a", status="done", prediction="x", attempts=2)
    second = Sample(id="b", status="done", prediction="y")
    predictions = check_predictions([run(failed, second, finished, tail='{"id": "c", "stat')], "kiwi")
    assert list(predictions.samples) == [second, finished]
    assert predictions.notes == (
        "predictions: superseded by a later line of the same sample in the run (1 line)",
        "predictions: torn at the end of a run's file: the sample was not finished (1 line)",
    )


def test_a_line_that_is_broken_inside_a_run_is_a_mistake(run):
    folder = run(FULL, tail='{"id": \n' + json_line(FULL.model_copy(update={"id": "z"})))
    assert problems(folder) == ("run/predictions.jsonl:2: not JSON (Expecting value: line 2 column 1 (char 8))",)


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
def test_any_objects_are_samples_that_can_be_written_or_a_request_error(rows, benchmark):
    path = written(Path("any.jsonl"), *rows)
    try:
        predictions: Answers = check_predictions([path], benchmark)
    except RequestError as error:
        if not all(error.problems):
            raise AssertionError("a mistake without words") from error
        return
    assert len({sample.key for sample in predictions.samples}) == len(predictions.samples)
    for sample in predictions.samples:
        assert Sample.model_validate_json(json_line(sample)) == sample
