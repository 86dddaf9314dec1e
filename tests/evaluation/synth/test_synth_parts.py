"""The parts of a synthesis by themselves: the plan of a conversation, question types, whole documents, splits."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnmark.corpora.types import Passage
from turnmark.evaluation import prompts as judges
from turnmark.evaluation.budget import CountingModel
from turnmark.evaluation.synth.attempt import PROMPTS, Attempt, Seed, Tools
from turnmark.evaluation.synth.inscoqa import MultiAnswerReply
from turnmark.evaluation.synth.question_types import (
    ANSWERABILITY,
    TYPE_INSTRUCTIONS,
    ConversationPlan,
    load_shares,
)
from turnmark.evaluation.synth.source import spliced


@settings(deadline=None)
@given(st.integers(0, 10_000), st.lists(st.sampled_from(["ANSWERABLE", "PARTIAL", "UNANSWERABLE"]), min_size=8))
def test_a_conversation_is_planned_within_the_paper_s_bounds(seed, answerabilities):
    plan = ConversationPlan(random.Random(seed))
    assert 4 <= plan.turns <= 8
    before = ()
    unanswerable = 0
    for number in range(1, plan.turns + 1):
        step = plan.next(number, before, avoid=["Factoid"])
        assert step.kind in TYPE_INSTRUCTIONS
        assert step.kind != "Factoid"
        assert (step.turn == "N/A") == (number == 1)
        if number == 1:
            assert step.kind != "Non-Question"
            assert step.aim != "UNANSWERABLE"
        if unanswerable >= 2:
            assert step.aim != "UNANSWERABLE"
        before = (step.kind,)
        plan.record(answerabilities[number - 1])
        unanswerable += answerabilities[number - 1] == "UNANSWERABLE"


def test_plans_follow_the_human_conversations():
    chance = random.Random(0)
    plan = ConversationPlan(chance)
    drawn = [plan.next(2, ("Factoid",)) for _ in range(4000)]
    share = sum(step.kind == "Factoid" for step in drawn) / len(drawn)
    smoothed = (load_shares().follows["Factoid"]["Factoid"] + 0.02) / (1 + 0.02 * len(TYPE_INSTRUCTIONS))
    assert abs(share - smoothed) < 0.03
    clarified = sum(step.turn == "Clarification" for step in drawn) / len(drawn)
    assert abs(clarified - load_shares().clarifies) < 0.03
    assert set(ANSWERABILITY) <= set(load_shares().answerability)


@settings(deadline=None)
@given(st.text(min_size=1, max_size=120), st.integers(1, 40), st.integers(0, 20))
def test_passages_put_together_are_the_document(text, size, overlap):
    step = max(1, size - overlap)
    starts = range(0, len(text), step)
    passages = [
        Passage(
            id=str(start), document="d", title="", text=text[start : start + size], start=start,
            end=min(len(text), start + size),
        )
        for start in starts
    ]  # fmt: skip
    assert spliced(passages) == text.strip()


def test_a_gap_between_passages_is_seen():
    first = Passage(id="1", document="d", title="", text="One.", start=0, end=4)
    last = Passage(id="2", document="d", title="", text="Two.", start=9, end=13)
    assert spliced([first, last]) == "One.\n\nTwo."


def test_what_a_prompt_does_not_show_is_said():
    def embed(texts):
        raise AssertionError("nothing is embedded")

    small = CountingModel("small", context_tokens=2000, reply_tokens=200)
    attempt = Attempt(Seed("0", "d"), Tools(source=None, seed=0, embed=embed, dry=True), small)
    long = "One word after the other. " * 400
    for _ in range(2):
        attempt.ask("answer", "inscoqa-answer", MultiAnswerReply, {"question": "How?"}, passages=[long, "short"])
    attempt.keep("a", "a", {})
    (note,) = attempt.items[0].notes
    assert note.startswith("inscoqa-answer: the ends of 1 of 2 passages cut")


def test_prompts_fence_what_comes_from_outside():
    assert len(PROMPTS.names) == 10
    for name in PROMPTS.names:
        prompt = PROMPTS.load(name)
        text_of_prompt = "\n".join(text for _, text in prompt.sections)
        assert "tag" in prompt.placeholders, name
        assert "never an" in text_of_prompt.replace("\n", " "), name
        assert "JSON object" in text_of_prompt, name


@pytest.mark.parametrize("folder", [PROMPTS.path, judges.HERE], ids=["synth", "judges"])
def test_forms_in_prompts_hold_real_examples(folder):
    """A small model copies the dots of `{"question": "..."}`."""
    for path in folder.glob("*.txt"):
        assert "..." not in path.read_text("utf-8"), path.name
