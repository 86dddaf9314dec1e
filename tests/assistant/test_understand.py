"""The understand step by rules, on hand-labeled messages; most are real turns like those of MTRAG."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import conversation
from tests.opened import assistant_over
from turnmark.assistant.steps.retrieve.retrieve_sections import conversation_query
from turnmark.assistant.steps.understand.courtesy import is_conversational
from turnmark.assistant.steps.understand.understand_rules import (
    needs_topic,
    topic_terms,
    understand,
    wants_procedure,
)
from turnmark.corpora.types import Message

RECIPE = conversation("How do I make Älplermagronen?", "Fry bacon, add potatoes, milk and macaroni.")


LABELS = json.loads((Path(__file__).parent / "courtesy_labels.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "message", [*LABELS["courtesy"], "Hi", "Good morning!", "That's interesting", "thanks, very clear", "..."]
)
def test_courtesies_are_conversational(message):
    assert is_conversational(message)
    assert understand(RECIPE, message).kind == "conversational"


QUESTIONS = ("Thanks, and the oven?", "Good bread recipes", "Is it good?", "Hi, how do I bake bread?", "Welcome")


@pytest.mark.parametrize("message", [*LABELS["other"], *QUESTIONS])
def test_questions_and_objections_are_not_courtesies(message):
    assert not is_conversational(message)


@pytest.mark.parametrize(
    ("message", "rewrite"),
    [
        ("Can I leave out the bacon?", "Can I leave out the bacon (Älplermagronen)?"),
        ("And how much cheese does it take?", "And how much cheese does it take (Älplermagronen)?"),
        ("what about its history", "what about its history (Älplermagronen)"),
        ("Why?", "Why (Älplermagronen)?"),
    ],
)
def test_dependent_turn_gets_the_earlier_topic(message, rewrite):
    understood = understand(RECIPE, message)
    assert not understood.standalone
    assert understood.rewrite == rewrite


@pytest.mark.parametrize(
    "message",
    [
        "Who won the 1998 World Cup?",
        "where do the arizona cardinals play this week",
        "ferry winter timetable",
        "Are the Arizona Cardinals and the Chicago Cardinals the same team?",
    ],
)
def test_standalone_turn_is_unchanged(message):
    understood = understand(RECIPE, message)
    assert understood.standalone
    assert understood.rewrite == message
    assert conversation_query(RECIPE, message).variants == ()


def test_topic_comes_from_the_last_question():
    assert understand([], "How long does it keep?").standalone
    office = ("Where is the ferry office in Kelmouth?", "On the pier.", "When does it open?", "At nine.")
    assert topic_terms(conversation(*office)) == ("open", "ferry", "office", "Kelmouth")
    switch = (*office, "How many stone steps has the lighthouse?", "104.")
    assert topic_terms(conversation(*switch)) == ("stone", "steps", "lighthouse")


TALK = (
    ("How do I sharpen a chisel?", ()),
    ("which stone first?", ("sharpen", "chisel")),
    ("When does the ferry sail in winter?", ()),
    ("and in summer?", ("ferry", "sail", "winter")),
    ("how much is a ticket?", ("summer", "ferry", "sail", "winter")),
    ("How do I borrow a tool from the workshop?", ()),
    ("and if I break it?", ("borrow", "tool", "workshop")),
)


@pytest.mark.usefixtures("in_demo_home")
def test_topic_follows_the_conversation():
    assistant = assistant_over("demo")
    history: list[Message] = []
    for message, topic in TALK:
        understood = assistant.find(history, message).understanding
        assert (message, understood.topic, understood.standalone) == (message, topic, not topic)
        reply = assistant.reply(history, message)
        history += [Message(role="user", content=message), Message(role="assistant", content=reply.text)]


def test_topic_is_added_if_it_improves_the_search():
    def nearest(alone, behind_topic):
        return lambda texts: [behind_topic if "till" in text.split() else alone for text in texts]

    topic, short, long = ("till",), "minimum ram", "which stone steps lead up to the old lighthouse"
    assert not needs_topic(short, topic, nearest(0.4, 0.4))
    assert needs_topic(short, topic, nearest(0.4, 0.41))
    assert not needs_topic(long, topic, nearest(0.4, 0.6))
    assert needs_topic("is it open", topic, nearest(0.9, 0.1))
    assert needs_topic(short, topic)
    assert not needs_topic(long, topic)


@pytest.mark.parametrize(
    ("message", "wants_steps"),
    [
        ("How do I descale a kettle?", True),
        ("What should I do if the till does not balance?", True),
        ("Who keeps the light?", False),
        ("How does the engine work?", False),
        ("What do I have to go through to get a key?", True),
        ("What does she need to bring?", True),
        ("How can it find out by itself how deep the water is?", True),
        ("What do they mean?", False),
    ],
)
def test_recognizes_questions_that_want_a_procedure(message, wants_steps):
    assert wants_procedure(message) is understand([], message).wants_procedure is wants_steps


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=80))
def test_any_text_can_be_understood(turns, message):
    understood = understand(conversation(*turns), message)
    if understood.standalone:
        assert understood.rewrite == message.strip()
    else:
        assert all(term in understood.rewrite for term in understood.topic)
