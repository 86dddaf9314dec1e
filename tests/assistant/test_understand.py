"""The understand step by rules on messages labelled by hand, most of them real turns of the kind MTRAG holds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.assistant.steps.understand import carry_over, is_conversational, is_greeting, topic_terms, understand
from turnmark.corpora.types import Message


def said(*turns: str) -> list[Message]:
    """Turns in the order user, assistant, user …"""
    return [Message(role="assistant" if n % 2 else "user", content=text) for n, text in enumerate(turns)]


RECIPE = said("How do I make Älplermagronen?", "Fry bacon, add potatoes, milk and macaroni.")


LABELS = json.loads((Path(__file__).parent / "courtesy_labels.json").read_text(encoding="utf-8"))


MORE = ("Hi", "Thanks!", "thank you so much, that's all", "Ok great", "Good morning!", "That's interesting", "...")


@pytest.mark.parametrize("message", [*LABELS["courtesy"], *MORE])
def test_courtesies_are_conversational(message):
    assert is_conversational(message)
    assert understand(RECIPE, message).kind == "conversational"


@pytest.mark.parametrize("message", LABELS["other"])
def test_questions_and_objections_are_no_courtesies(message):
    assert not is_conversational(message)


@pytest.mark.parametrize(("message", "greets"), [("hi there", True), ("Good morning!", True), ("thanks", False)])
def test_greetings(message, greets):
    assert is_greeting(message) is greets


@pytest.mark.parametrize(
    "message",
    ["Thanks, and the oven?", "Good bread recipes", "Is it good?", "no sugar?", "Hi, how do I bake bread?", "Welcome"],
)
def test_questions_with_courtesy_in_them_are_questions(message):
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
        "How many teams are in the NFL playoffs?",
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


def test_the_first_turn_stands_alone():
    assert understand([], "How long does it keep?").standalone


def test_the_topic_is_the_last_question_that_stood_alone():
    history = said("Where is the ferry office in Kelmouth?", "On the pier.", "When does it open?", "At nine.")
    assert topic_terms(history) == ("ferry", "office", "Kelmouth")


def test_an_unanswered_question_gives_no_topic():
    history = said(
        "How do I make granola?", "Toast oats.", "Who won the 1998 World Cup?", "I don't know: nothing there."
    )
    assert topic_terms(history) == ("granola",)


@pytest.mark.parametrize(
    ("message", "wants_steps"),
    [
        ("How do I descale a kettle?", True),
        ("What are the steps to winterise a boat?", True),
        ("What should I do if the till does not balance?", True),
        ("How do I know when it is done?", False),
        ("How much flour do I need?", False),
        ("Who keeps the light?", False),
    ],
)
def test_procedures_are_wanted_when_the_question_asks_how(message, wants_steps):
    assert understand([], message).wants_procedure is wants_steps


def test_the_raw_message_is_always_searched():
    query = conversation_query(RECIPE, "And how much cheese does it take?")
    assert query.text == "And how much cheese does it take?"
    assert query.variants == ("And how much cheese does Älplermagronen take?",)


def test_a_long_topic_is_put_in_parentheses():
    assert carry_over("Does it pay?", ["solar", "panels", "flat", "roofs"]) == "Does it pay (solar panels flat roofs)?"


@given(st.lists(st.text(max_size=60), max_size=5), st.text(max_size=80))
def test_any_text_is_understood(turns, message):
    understood = understand(said(*turns), message)
    assert len(understood.sub_questions) == 1
    if understood.standalone:
        assert understood.rewrite == message.strip()
    else:
        assert all(term in understood.rewrite for term in understood.topic)


def test_a_pronoun_that_is_bound_in_its_own_sentence_refers_to_nothing_before():
    history = [Message(role="user", content="What is the Lum?"), Message(role="assistant", content="A hill.")]
    message = "How do I bake sourdough the way the Anvick Bakehouse does it?"
    assert understand(history, message).rewrite == message
