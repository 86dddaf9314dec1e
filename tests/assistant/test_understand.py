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
        ("Can I freeze it?", "Can I freeze it (Älplermagronen)?"),
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
    assert topic_terms(conversation("水壶不加热怎么办？", "请检查电源。")) == ("水壶", "不加热")


TALK = (
    ("How do I sharpen a chisel?", ()),
    ("which stone first?", ("sharpen", "chisel")),
    ("When does the ferry sail in winter?", ()),
    ("and in summer?", ("ferry", "sail", "winter")),
    ("how much is a ticket?", ("summer", "ferry", "sail", "winter")),
    ("Who won the 1998 World Cup?", ()),
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


@pytest.mark.parametrize(
    ("message", "needs"),
    [
        ("is it open", True),
        ("which port?", True),
        ("for how long?", True),
        ("minimum ram", True),
        ("how much is a ticket?", True),
        ("where is the private one saved?", True),
        ("how many people live there?", True),
        ("is there a ferry to Kelmouth?", False),
        ("What is gravity?", False),
        ("What is the third key for?", False),
        ("How much did I spend on groceries in total?", False),
        ("I have an old lamp. How do I clean it?", False),
        ("wie schalt ich das ein?", True),
        ("et pour annuler ça ?", True),
        ("那怎么念？", True),
        ("法国的首都是哪里？", False),
        ("それの初期化は？", True),
        ("¿cuánto cuesta?", True),
        ("Wie viele Tage Elternzeit gibt es?", False),
    ],
)
def test_topic_is_needed_if_something_is_missing(message, needs):
    assert needs_topic(message) is needs


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
