"""What judges write: kinds of broken replies that comparable tools have met, and what comes of each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.conftest import ROOT
from turnmark.assistant.llm.generators.replay import ReplayGenerator, ScriptLine
from turnmark.evaluation.benchmarks.compound_qa.rubrics import FIVE_LABELS
from turnmark.evaluation.benchmarks.mtrag.rubrics import IDK_JUDGE, IDK_LABELS, RATING, RB_LLM, RL_F, relevance
from turnmark.evaluation.judging.verdicts import (
    Labels,
    RatingScale,
    Verdict,
    ask_verdict,
    read_verdict,
    strip_reasoning,
)
from turnmark.evaluation.tasks.items import Case
from turnmark.evaluation.tasks.rubric import Outcome

FOLDER = ROOT / "tests" / "evaluation" / "data" / "verdicts"
REPLIES: list[dict[str, Any]] = [json.loads(line) for line in (FOLDER / "replies.jsonl").read_text().splitlines()]
KINDS = ("invalid", "length", "content_filter", "bad_reply")
CASE = Case(
    question="How old is the mill?", answer="It is old.", reference="It is old.", passages=("The mill is old.",)
)
TWO_CLAIMS = '{"claims": ["first", "second"]}'


def replay(*lines):
    return ReplayGenerator("replay:x", lines)


def measure_of(form):
    relevant = relevance(lambda texts: [[1.0, 0.0] for _ in texts], "unit")
    return {"rating": RB_LLM, "idk": IDK_JUDGE, "claims": RL_F, "verdicts": RL_F, "questions": relevant}[form]


def outcome_of(form, *lines):
    """What comes of a judge that writes these lines."""
    if form == "pairwise":
        return ask_verdict(replay(*lines), (), FIVE_LABELS)[0]
    if form == "verdicts":
        lines = (ScriptLine(text=TWO_CLAIMS), *lines)
    if form == "claims":
        lines = (*lines, ScriptLine(text=json.dumps({"verdicts": []})), ScriptLine(text=json.dumps({"verdicts": []})))
    return measure_of(form).ask(replay(*lines), CASE, None)


@pytest.mark.parametrize("row", REPLIES, ids=lambda row: row["name"])
def test_broken_replies_fail_or_give_the_verdict_they_contain(row):
    """A value only where the reply says one; else a failure of its kind, with the raw text where there is any."""
    line = ScriptLine(text=row["reply"], finish_reason=row["finish_reason"])
    outcome = outcome_of(row["form"], line, line)
    expect = row["expect"]
    if row["form"] == "claims" and isinstance(expect, list):
        # The claims were read: what fails is the next step, whose reply has no verdicts for them.
        assert isinstance(outcome, Outcome)
        assert outcome.kind == "invalid"
        assert f"each claim from 1 to {len(expect)}" in outcome.reason
    elif row["form"] == "pairwise":
        label = outcome.label if isinstance(outcome, Verdict) else outcome.kind  # type: ignore[union-attr]
        assert label == expect
    elif expect == "not_applicable":
        assert isinstance(outcome, Outcome)
        assert outcome.status == "not_applicable"
    elif expect in KINDS:
        assert isinstance(outcome, Outcome)
        assert (outcome.status, outcome.kind, outcome.value) == ("failed", expect, None), outcome
        assert outcome.reason
        assert outcome.raw.strip() == row["reply"].strip() or not row["reply"].strip(), "the raw text is kept"
    else:
        assert isinstance(outcome, Outcome), outcome
        assert outcome.status == "scored", outcome
        assert expect in (outcome.value, outcome.label)


OFFERS = (
    IDK_LABELS,
    FIVE_LABELS,
    RATING,
    RatingScale(name="Score", low=0, high=100),
    Labels(offered=("relevant", "not relevant")),
)
PIECES = st.sampled_from(
    ["[[", "]]", "[", "]", "Rating:", "Verdict:", "yes", "no", "partial", "A>B", "B>>A", "7", "10", "7/10", "11", "-1",
     "\n", " ", "**", "<think>", "</think>", "\u200b", "［", "６", "maybe", "Final verdict: ", "\\[", "0x1", "1e9",
     "NaN", "∞"]
)  # fmt: skip
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=25).map("".join))


@given(TEXTS, st.sampled_from(OFFERS))
def test_parser_never_raises_and_returns_only_offered_labels(text, offer):
    verdict = read_verdict(text, offer)
    if isinstance(verdict, str):
        assert verdict
    elif isinstance(offer, Labels):
        assert verdict.label in offer.offered
        assert verdict.value is None
        assert verdict.label.casefold() in strip_reasoning(text).casefold()
    else:
        assert offer.low <= verdict.value <= offer.high
        assert f"{verdict.value:g}" == verdict.label


@given(TEXTS, st.sampled_from(IDK_LABELS.offered))
def test_last_verdict_counts(text, label):
    assert read_verdict(f"{text}</think>\nVerdict: [[{label}]]", IDK_LABELS) == Verdict(label=label)
