"""The shared metrics of answers, and the baseline that says the first words of the passages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.corpora.text import words
from turnmark.evaluation.benchmarks.base import Case, measured
from turnmark.evaluation.benchmarks.measures import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    lead,
    unknown,
)
from turnmark.evaluation.records import Sample, Score

METRICS = (*REFERENCE_METRICS, *LEAD_METRICS, *PASSAGE_METRICS, *STYLE_METRICS)


def scores(context: Case) -> dict[str, Score]:
    return {score.metric: score for score in measured(METRICS, Sample(id="a", status="done"), lambda: context)}


def test_the_lead_is_cut_at_a_word() -> None:
    passages = ["The bell is old. It was cast -- twice -- in 1858.", "A state-of-the-art bell."]
    assert lead(passages, 0) == ""
    assert lead(passages, 4) == "The bell is old."
    assert lead(passages, 7) == "The bell is old. It was cast --"
    assert lead(passages, 12) == "The bell is old. It was cast -- twice -- in 1858. A state-"
    assert lead(passages, 99) == " ".join(passages)
    assert lead(["鐘は古い。大きい。"], 3) == "鐘は古"


TEXT = st.text(st.sampled_from("ab1é鐘.,'’- \n!["), max_size=40)


@given(st.lists(TEXT | st.text(max_size=20), max_size=4), st.integers(0, 30))
def test_the_lead_has_as_many_words_as_the_answer_where_there_are_so_many(passages: list[str], length: int) -> None:
    word_count = sum(len(words(text)) for text in passages)
    assert len(words(lead(passages, length))) == min(length, word_count)


def test_an_answer_by_hand() -> None:
    scores_of = scores(
        Case(
            raw="The bell is old [1].",
            answer="The bell is old.",
            reference="The old bell.",
            passages=("A bell of 1858 hangs here.",),
            question="how old is the bell",
        )
    )
    assert {name: score.value for name, score in scores_of.items()} == pytest.approx({
        "rouge_l.word": 2 * 2 / (4 + 3), "rouge_l.word[unicode]": 2 * 2 / (4 + 3), "token_recall": 1.0,
        "rouge_l.word[lead]": 2 * 1 / (4 + 3), "token_recall[lead]": 1 / 2,  # a bell of 1858
        "rouge_l.word[-lead]": 2 / 7, "token_recall[-lead]": 1 / 2,
        "k_precision": 1 / 3, "k_precision[+history]": 1.0, "answer_words": 4.0, "idk_rate": 0.0,
    })  # fmt: skip


def test_what_cannot_be_compared_is_not_applicable() -> None:
    scores_of = scores(Case("", raw="A bell.", answer="A bell."))
    assert {name for name, score in scores_of.items() if score.status == "scored"} == {"answer_words", "idk_rate"}
    assert {score.status for score in scores_of.values()} == {"scored", "not_applicable"}
    assert scores_of["k_precision"].reason == "there are no passages, or not all of their texts are known"
    assert scores_of["rouge_l.word"].reason == "the data has no reference answer"


def test_an_empty_answer_is_0_and_so_is_its_lead() -> None:
    scores_of = scores(Case("", raw="", answer="", reference="A bell.", passages=("A bell.",)))
    assert {score.value for name, score in scores_of.items()} == {0.0}


def test_unknown_by_the_decision_else_by_the_detector() -> None:
    refusal = "I don't know: the passages do not say."
    assert unknown(Case("", raw=refusal, answer=refusal))
    assert not unknown(Case("", raw="It is old.", answer="It is old."))
    assert not unknown(Case("", raw=refusal, answer=refusal, decision="partial"))
    assert unknown(Case("", raw="It is old.", answer="It is old.", decision="unknown"))
