"""A compound message as sub-questions that are complete in themselves."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.assistant.parts import runs
from turnmark.assistant.steps.split import MOST_PARTS, parts_of, understand_parts
from turnmark.assistant.steps.understand import understand
from turnmark.corpora.types import Message

HISTORY = [
    Message(role="user", content="How do I make Älplermagronen?"),
    Message(role="assistant", content="Cook the pasta with potatoes."),
]


@pytest.mark.parametrize(
    ("message", "complete", "needs"),
    [
        ("How do I make Zopf?", ["How do I make Zopf?"], []),
        (
            "How do I make Zopf and how long does it keep?",
            ["How do I make Zopf?", "How long does Zopf keep?"],
            [(), ()],
        ),
        (
            "What is photosynthesis? Why is it important? Based on that, what limits it?",
            [
                "What is photosynthesis?",
                "Why is photosynthesis important?",
                "Based on that, what limits it (photosynthesis)?",
            ],
            [(), (), (1,)],
        ),
        (
            "Who invented the telephone, and when did he die?",
            ["Who invented the telephone?", "When did he die (invented telephone)?"],
            [(), (0,)],
        ),
        (
            "1. What is a mortgage? 2. Can I repay it early?",
            ["What is a mortgage?", "Can I repay mortgage early?"],
            [(), ()],
        ),
        ("What is the difference between rye and wheat?", ["What is the difference between rye and wheat?"], []),
    ],
)
def test_a_message_and_its_parts(message, complete, needs):
    understood = understand_parts([], message)
    assert list(understood.sub_questions) == complete
    assert list(understood.needs) == (needs if any(needs) else [])


def test_a_part_that_leans_on_the_conversation_carries_its_topic():
    understood = understand_parts(HISTORY, "How long does it keep, and can I freeze it?")
    assert understood.sub_questions == ("How long does Älplermagronen keep?", "Can I freeze Älplermagronen?")
    assert understood.asked == ("How long does it keep?", "Can I freeze it?")


def test_a_single_question_is_its_rewrite():
    understood = understand_parts(HISTORY, "How long does it keep?")
    assert understood == understand(HISTORY, "How long does it keep?")
    assert understood.sub_questions == (understood.rewrite,)


def test_a_courtesy_has_no_parts():
    assert understand_parts(HISTORY, "Thanks!").kind == "conversational"


def test_what_goes_beyond_the_most_parts_stays_with_the_last():
    message = " ".join(f"What is thing number {n}?" for n in range(12))
    parts = parts_of(message, [], understand([], message))
    assert len(parts.complete) == MOST_PARTS
    assert all(f"number {n}?" in " ".join(parts.typed) for n in range(12))


@given(st.text(max_size=400))
def test_any_message_has_parts_in_its_order(message):
    understood = understand_parts([], message)
    assert 1 <= len(understood.sub_questions) <= MOST_PARTS
    assert len(understood.asked) in (0, len(understood.sub_questions))
    for at, needed in enumerate(understood.needs):
        assert all(need < at for need in needed)


@given(st.lists(st.integers(min_value=0, max_value=7), max_size=8))
def test_runs_keep_the_order_and_part_what_builds_on_each_other(backs):
    needs = [tuple(range(max(0, at - back), at)[:1]) if back else () for at, back in enumerate(backs)]
    groups = runs(needs)
    assert [at for group in groups for at in group] == list(range(len(needs)))
    for group in groups:
        assert all(need < group.start for at in group for need in needs[at])
