"""The extractive decision: what it says of the demo documents, and what its confidence may and may not do."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import hit as hit_of
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.decide import (
    AGREEMENT,
    COSINE,
    SENTENCES,
    WORDS,
    calibration,
    confidence_of,
    decide,
)
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand import understand
from turnmark.assistant.types import Judgement, Understanding
from turnmark.corpora.types import Message
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.task_passages import hits_of
from turnmark.retrieval.types import Found, Hit

# Labelled by hand from the documents before anything was decided about them: 20 questions that they answer, 20 that
# have nothing to do with them, and 12 that are about their topics and that they do not answer.
LABELS: Mapping[str, Sequence[str]] = json.loads(
    (Path(__file__).parent / "decide_labels.json").read_text(encoding="utf-8")
)
NAMES = (COSINE, SENTENCES, AGREEMENT)


@cache
def judged(retriever: str | None, kind: str, embeds: bool = True) -> list[Judgement]:
    """Decisions on the questions of a kind, in the home that has the demo index: the same for all tests."""
    assistant = open_assistant("demo")
    searched = open_retriever(retriever, open_index("demo")) if retriever else assistant.retriever
    embed = assistant.embed if embeds else None
    hits = searched.search([conversation_query((), question) for question in LABELS[kind]], 3)
    return [
        decide(understand((), question), question, retrieved, embed=embed)
        for question, retrieved in zip(LABELS[kind], hits, strict=True)
    ]


def asked(text: str) -> Understanding:
    return Understanding(rewrite=text, sub_questions=(text,))


def hit(number: int, text: str, cosine: float | None = None) -> Hit:
    found = {} if cosine is None else {"dense": Found(rank=number, score=cosine)}
    return hit_of(text, number, title="", found=found)


def text_of(judged: Sequence[Judgement]) -> list[tuple[str, float]]:
    return [(judgement.decision, round(judgement.confidence, 2)) for judgement in judged]


@pytest.mark.usefixtures("in_demo_home")
def test_what_the_documents_answer_is_answered_and_what_they_are_not_about_is_not():
    answerable, unrelated = judged(None, "answerable"), judged(None, "unrelated")
    assert [judgement.decision for judgement in answerable] == ["answer"] * 20, text_of(answerable)
    assert [judgement.decision for judgement in unrelated] == ["unknown"] * 20, text_of(unrelated)
    assert min(judgement.confidence for judgement in answerable) > max(judgement.confidence for judgement in unrelated)


@pytest.mark.parametrize(
    ("question", "text", "decision"),
    [
        ("When will the second tower open?", "The second tower will open as soon as the stairs are mended.", "unknown"),
        ("When will the second tower open?", "The second tower will open on 4 May, stairs or no stairs.", "answer"),
        ("When should I open the tower?", "Open the tower as soon as the stairs are mended.", "answer"),
        ("How many stairs has the tower?", "The tower has a good number of stairs, all of them steep.", "unknown"),
    ],
)
def test_a_date_or_number_is_answered_only_by_one(question: str, text: str, decision: str):
    assert decide(asked(question), question, [hit(1, text, cosine=0.9)]).decision == decision


@pytest.mark.usefixtures("in_demo_home")
def test_near_misses_lie_below_what_is_answered():
    near, answerable = judged(None, "near"), judged(None, "answerable")
    assert sum(judgement.decision != "answer" for judgement in near) >= 4, text_of(near)
    below = sum(miss.confidence < hit.confidence for miss in near for hit in answerable)
    assert below / (len(near) * len(answerable)) > 0.8


@pytest.mark.usefixtures("in_demo_home")
@pytest.mark.parametrize(("retriever", "least"), [("dense", 18), ("hybrid", 18), ("bm25", 17)])
def test_without_sentences_and_without_any_cosine(retriever, least):
    answerable, unrelated = judged(retriever, "answerable", embeds=False), judged(retriever, "unrelated", embeds=False)
    assert sum(judgement.decision == "answer" for judgement in answerable) >= 19, text_of(answerable)
    assert sum(judgement.decision == "unknown" for judgement in unrelated) >= least, text_of(unrelated)


def test_nothing_found_is_unknown_with_confidence_0():
    for trusted in (False, True):
        judgement = decide(asked("How high is it?"), "How high is it?", [], trusted)
        assert (judgement.decision, judgement.confidence) == ("unknown", 0.0)


def test_trusted_passages_are_tried_whatever_the_confidence():
    hits = [hit(1, "Bees are fed in autumn.", 0.05)]
    assert decide(asked("Who won in 1998?"), "Who won in 1998?", hits).decision == "unknown"
    judgement = decide(asked("Who won in 1998?"), "Who won in 1998?", hits, True)
    assert judgement.decision == "answer"
    assert judgement.confidence < 0.5
    assert decide(asked("q"), "Who won in 1998?", hits_of([hits[0].passage]), trusted=True).decision == "answer"


@given(
    st.dictionaries(st.sampled_from((*NAMES, WORDS)), st.floats(-1, 1), min_size=1),
    st.sampled_from((*NAMES, WORDS)),
    st.floats(0, 1),
)
def test_more_evidence_never_lowers_the_confidence(signals, name, more):
    form = calibration().form(signals)
    before = confidence_of(form, signals)
    assert 0 < before < 1
    if name in signals:
        assert confidence_of(form, {**signals, name: signals[name] + more}) >= before


@given(st.floats(0, 1), st.floats(0, 1))
def test_hits_about_something_else_may_agree_as_they_like(sentences, agreement):
    form = calibration().form(dict.fromkeys(NAMES, 0.0))
    for changed in ({SENTENCES: 0.2, AGREEMENT: agreement}, {SENTENCES: sentences, AGREEMENT: agreement}):
        assert confidence_of(form, {COSINE: 0.1, **changed}) < form.least


@pytest.mark.parametrize("text", ["", "***", "。", "\ud800", "蜂蜜をどうやって作りますか", "Wie füttert man Bienen?"])
def test_any_text_is_judged(text):
    import numpy as np

    def embed(texts):
        return np.ones((len(texts), 4), dtype=np.float32) / 2

    for hits in ([hit(1, text, 0.5), hit(2, text, 0.4)], [hit(1, text), hit(2, "Bienen")]):
        judgement = decide(asked(text), text, hits, embed=embed)
        assert 0 <= judgement.confidence <= 1


def test_a_name_that_no_hit_has_is_missing_where_evidence_is_less_than_sure():
    def hits(cosine):
        texts = ("A ferry sails to Kelmouth at eight.", "Anvick has a pier of stone.", "Day trips end in autumn.")
        return [hit(n, text, cosine) for n, text in enumerate(texts, 1)]

    question = "When does the ferry from Anvick to Norway sail on day 31?"
    thin = decide(asked(question), question, hits(0.66))
    assert (thin.decision, thin.missing) == ("partial", ("Norway", "31")), thin
    sure = decide(asked(question), question, hits(0.66)[:1])
    assert (sure.decision, sure.missing) == ("answer", ()), sure
    history = [Message(role="user", content="I am going to Norway on the 31st, day 31.")]
    assert decide(asked(question), question, hits(0.66), history=history).decision == "answer"
    assert decide(asked(question), question, hits(0.3)).missing == ()
