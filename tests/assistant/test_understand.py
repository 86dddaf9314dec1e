"""The understand step by rules on messages labelled by hand, most of them real turns of the kind MTRAG holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.notes import conversation
from turnmark.assistant.steps.courtesy import is_conversational
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand import topic_terms, understand, wants_procedure

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
def test_questions_and_objections_are_no_courtesies(message):
    assert not is_conversational(message)


@pytest.mark.parametrize(
    ("message", "rewrite"),
    [
        ("Can I leave out the bacon?", "Can I leave out the bacon (Älplermagronen)?"),
        ("And how much cheese does it take?", "And how much cheese does Älplermagronen take?"),
        ("what about its history", "what about Älplermagronen's history"),
        ("Why?", "Why (Älplermagronen)?"),
    ],
)
def test_a_turn_that_leans_on_earlier_ones_carries_their_topic(message, rewrite):
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
def test_a_turn_that_stands_alone_stays_as_it_is(message):
    understood = understand(RECIPE, message)
    assert understood.standalone
    assert understood.rewrite == message
    assert conversation_query(RECIPE, message).variants == ()


def test_the_topic_is_that_of_the_last_answered_question_with_what_it_leaned_on():
    assert understand([], "How long does it keep?").standalone
    office = ("Where is the ferry office in Kelmouth?", "On the pier.", "When does it open?", "At nine.")
    assert topic_terms(conversation(*office)) == ("open", "ferry", "office", "Kelmouth")
    granola = ("How do I make granola?", "Toast oats.", "Who won the 1998 World Cup?", "I don't know: nothing there.")
    assert topic_terms(conversation(*granola)) == ("granola",)


@pytest.mark.parametrize(
    ("message", "wants_steps"),
    [
        ("How do I descale a kettle?", True),
        ("What should I do if the till does not balance?", True),
        ("How do I know when it is done?", False),
        ("Who keeps the light?", False),
        ("What needs to be done before winter?", True),
        ("Tell me how I clean the tank.", True),
        ("How does the engine work?", False),
    ],
)
def test_procedures_are_wanted_when_the_question_asks_how(message, wants_steps):
    assert wants_procedure(message) is understand([], message).wants_procedure is wants_steps


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=80))
def test_any_text_is_understood(turns, message):
    understood = understand(conversation(*turns), message)
    if understood.standalone:
        assert understood.rewrite == message.strip()
    else:
        assert all(term in understood.rewrite for term in understood.topic)
