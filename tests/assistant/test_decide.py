"""Grades of evidence without a model: thresholds and second searches. A model decides by itself."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import evidence_of
from tests.assistant.notes import hit as hit_of
from tests.opened import assistant_over
from turnmark.assistant.steps.decide import (
    MIN_ANSWER_WORD_SHARE,
    MIN_PARTIAL_CONFIDENCE,
    MIN_PARTIAL_WORD_SHARE,
    DecisionByModel,
    confidence_of,
    grade_evidence,
)
from turnmark.assistant.steps.retrieve.retrieve_sections import conversation_query
from turnmark.assistant.steps.step_results import PartEvidence
from turnmark.assistant.steps.turn_state import MIN_ANSWER_CONFIDENCE, Turn
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Hit

LABELS = json.loads((Path(__file__).parent / "decide_labels.json").read_text(encoding="utf-8"))
"""Labeled by hand for the demo documents: 20 questions that they answer, 20 unrelated ones, and 12 about their topics
that they do not answer."""


def hit(number: int, text: str, cosine: float | None = None) -> Hit:
    found = {} if cosine is None else {"dense": RankAndScore(rank=number, score=cosine)}
    return hit_of(text, number, title="", found=found)


@pytest.mark.usefixtures("in_demo_home")
@pytest.mark.parametrize(("retriever", "refused", "said"), [(None, 0.7, 0.15), ("bm25", 0.1, 0.1)])
def test_answers_covered_questions_and_refuses_unrelated_ones(retriever, refused, said):
    assistant = assistant_over("demo")
    searched = open_retriever(retriever, open_index("demo")) if retriever else assistant.retriever
    figures = {}
    for kind in ("answerable", "unrelated"):
        found = searched.search([conversation_query((), question) for question in LABELS[kind]], 6)
        grades = [
            grade_evidence([text], hits, assistant.embed, unsure=searched.sure_from() or MIN_ANSWER_CONFIDENCE).decision
            for text, hits in zip(LABELS[kind], found, strict=True)
        ]
        figures[kind] = {decision: grades.count(decision) / len(grades) for decision in ("answer", "unknown")}
    assert figures["answerable"]["unknown"] == 0, figures
    assert figures["answerable"]["answer"] >= 0.85, figures
    assert figures["unrelated"]["answer"] <= said, figures
    assert figures["unrelated"]["unknown"] >= refused, figures


@pytest.mark.parametrize(
    ("cosine", "decision"),
    [(-0.5, "unknown"), (MIN_PARTIAL_CONFIDENCE - 0.01, "unknown"), (MIN_PARTIAL_CONFIDENCE, "partial"),
     (MIN_ANSWER_CONFIDENCE - 0.01, "partial"), (MIN_ANSWER_CONFIDENCE, "answer")],
)  # fmt: skip
def test_grades_evidence_by_cosine(cosine, decision):
    judgment = grade_evidence(["How high is it?"], [hit(1, "Otters swim.", cosine), hit(2, "It is 9 m.", -1.0)])
    assert judgment.decision == decision
    assert judgment.confidence == max(0.0, cosine)


def test_the_level_decides():
    evidence = [hit(1, "Otters swim.", 0.5)]
    decisions = [grade_evidence(["How high is it?"], evidence, unsure=level).decision for level in (0.45, 0.55, 0.65)]
    assert decisions == ["answer", "partial", "unknown"]


@pytest.mark.usefixtures("in_demo_home")
def test_the_configured_level_comes_before_that_of_the_index():
    question = "How high is Stack Nell lighthouse?"
    evidence = [hit(1, "Otters swim.", 0.2)]
    assert [grade_evidence([question], evidence, unsure=level).decision for level in (0.25, 0.15)] == [
        "unknown",
        "answer",
    ]
    decisions = [assistant_over("demo", sure_from=level).reply([], question).decision for level in (0.01, 1)]
    assert decisions[1] == "unknown"
    assert decisions[0] != "unknown"


@pytest.mark.parametrize(
    ("text", "decision"),
    [("Otters swim in it.", "unknown"), ("The tower is old.", "partial"), ("The tower opens in summer.", "answer")],
)  # fmt: skip
def test_grades_evidence_by_words_without_cosines(text, decision):
    assert MIN_PARTIAL_WORD_SHARE < 1 / 4 < MIN_ANSWER_WORD_SHARE < 3 / 4
    assert grade_evidence(["When will the second tower open in summer?"], [hit(1, text)]).decision == decision


def test_no_hits_are_unknown_and_trusted_passages_are_answered():
    far = [hit(1, "Bees are fed in autumn.", 0.05)]
    for trusted in (False, True):
        assert grade_evidence(["How high is it?"], [], trusted=trusted).decision == "unknown"
        assert grade_evidence(["Who won?"], far, trusted=trusted).decision == ("answer" if trusted else "unknown")


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1))
def test_closer_passage_never_lowers_the_confidence(cosine, more, line):
    def embed(texts):
        vectors = np.zeros((len(texts), 2), dtype=np.float32)
        vectors[:, 0], vectors[1:, 0] = 1.0, line
        return vectors

    before, after = (
        confidence_of(["q"], [hit(1, "It is so.", each)], embed) for each in (cosine, min(1.0, cosine + more))
    )
    assert 0 <= before <= after <= 1


@pytest.mark.parametrize(("cosine", "decision"), [(0.01, "answer"), (None, "unknown")])
def test_model_gets_weak_evidence_too(cosine, decision):
    question = "How high is it?"
    hits = () if cosine is None else (hit(1, "Otters.", cosine),)
    evidence = evidence_of(PartEvidence(question, question, hits=hits))
    judgment = DecisionByModel()(Turn(question), evidence).judgment
    assert (judgment.decision, judgment.confidence) == (decision, cosine or 0.0)
