"""Asking back: which messages leave open what they speak of, and what is asked."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnmark.assistant.steps.clarify import clarification, phrases, readings_of, unclear

from tests.assistant.notes import conversation
from turnmark.assistant.steps.decide import decide
from turnmark.assistant.types import Judgement, Understanding
from turnmark.corpora.types import Passage
from turnmark.retrieval.types import Found, Hit

LANGUAGES = {
    "Welsh": "Welsh is a Celtic language. It is officially spoken in Wales.",
    "Spanish": "Spanish is a Romance language. It is officially spoken in Spain and in twenty other countries.",
    "Hindi": "Hindi is officially spoken in India, beside English.",
}
QUESTION = "In which country is this language officially spoken?"
CARRIED = "In which country is this language officially spoken (the old harbour)?"


def hits_for(texts: dict[str, str]) -> list[Hit]:
    return [
        Hit(
            passage=Passage(id=f"p{n}", document=f"d{n}", title=title, text=text, start=0, end=len(text)),
            score=1 / n,
            found={"dense": Found(rank=n, score=0.7 - n / 100)},
        )
        for n, (title, text) in enumerate(texts.items(), 1)
    ]


def judgement(readings: tuple[str, ...]) -> Judgement:
    return Judgement(decision="clarify", confidence=0.8, reason="", readings=readings)


def asking(text: str = QUESTION) -> Understanding:
    return Understanding(rewrite=text, sub_questions=(text,))


@pytest.mark.parametrize(
    ("message", "pointing"),
    [
        ("what does one of those oven bags cost?", ["those oven bags"]),
        (QUESTION, ["this language officially spoken"]),
        ("When was the actor born?", ["the actor born"]),
        ("Does this animal have antlers?", ["this animal"]),
        ("Why is it so?", []),
        ("Who was the last Emperor?", []),
        ("", []),
    ],
)
def test_phrases_that_point_at_something(message, pointing):
    assert phrases(message, ()) == pointing


def test_a_first_turn_is_asked_back_only_where_it_points():
    hits = hits_for(LANGUAGES)
    open_phrase = unclear(QUESTION, (), hits, None)
    assert open_phrase.readings == ("Welsh", "Spanish", "Hindi")
    assert unclear("Where is the language spoken?", (), hits, None) is None


def test_a_later_turn_is_asked_back_where_it_has_left_the_conversation():
    hits = hits_for(LANGUAGES)
    assert unclear("Where is the language spoken?", conversation("How do I cook rice?", "In water."), hits, None)
    message = "In which country do people speak the language?"
    assert unclear(message, conversation("How do I cook rice?", "In water."), hits, None)
    assert unclear(message, conversation("Which country is the largest?", "Russia."), hits, None) is None


def test_the_decision_is_to_ask_back_unless_the_documents_are_about_something_else():
    hits = hits_for(LANGUAGES)
    judgement = decide(asking(), QUESTION, hits)
    assert (judgement.decision, judgement.readings) == ("clarify", ("Welsh", "Spanish", "Hindi")), judgement
    far = [hit.model_copy(update={"found": {"dense": Found(rank=1, score=0.05)}}) for hit in hits]
    assert decide(asking(), QUESTION, far).decision == "unknown"
    assert decide(asking(), QUESTION, hits, trusted=True).decision == "answer"


def test_three_readings_are_answered_by_a_cited_sentence_each():
    text = clarification(judgement(("Welsh", "Spanish", "Hindi")), QUESTION, CARRIED, hits_for(LANGUAGES)).text
    assert text.splitlines() == [
        "Which language do you mean?",
        "",
        "- Welsh: It is officially spoken in Wales. [1]",
        "- Spanish: It is officially spoken in Spain and in twenty other countries. [2]",
        "- Hindi: Hindi is officially spoken in India, beside English. [3]",
    ]


def test_four_to_eight_are_listed_and_more_only_asked():
    many = {f"Language {n}": f"Language {n} is spoken somewhere." for n in range(1, 10)}
    hits = hits_for(many)
    listed = clarification(judgement(tuple(many)[:4]), QUESTION, CARRIED, hits).text
    assert listed.splitlines()[2:] == [f"- Language {n} [{n}]" for n in range(1, 5)]
    assert len(clarification(judgement(tuple(many)[:8]), QUESTION, CARRIED, hits).text.splitlines()) == 10
    for readings in (tuple(many), (), ("Language 1",)):
        assert clarification(judgement(readings), QUESTION, CARRIED, hits).text == "Which language do you mean?"


@given(st.lists(st.text(max_size=60), min_size=1, max_size=5, unique=True))
def test_titles_and_texts_of_any_kind_leave_marks_that_point_at_hits(titles):
    hits = hits_for({title: f"{title} [7] is spoken in \x1b[31mWales [99]." for title in titles})
    readings = readings_of(hits)
    text = clarification(judgement(readings), QUESTION, CARRIED, hits).text
    assert all(1 <= int(mark) <= len(hits) for mark in re.findall(r"\[(\d+)\]", text))
    assert "\x1b" not in text
    assert text.count("\n") in (0, len(readings) + 1)
