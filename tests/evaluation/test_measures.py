"""The shared metrics of answers, and the baseline that says the first words of the passages."""

from __future__ import annotations

from turnmark.evaluation.benchmarks.base import Case, measured
from turnmark.evaluation.benchmarks.measures import (
    LEAD_METRICS,
    PASSAGE_METRICS,
    REFERENCE_METRICS,
    STYLE_METRICS,
    lead,
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


def test_what_cannot_be_compared_is_not_applicable() -> None:
    scores_of = scores(Case("", raw="A bell.", answer="A bell."))
    assert {name for name, score in scores_of.items() if score.status == "scored"} == {"answer_words", "idk_rate"}
    assert {score.status for score in scores_of.values()} == {"scored", "not_applicable"}
    assert scores_of["k_precision"].reason == "there are no passages, or not all of their texts are known"
    assert scores_of["rouge_l.word"].reason == "the data has no reference answer"
