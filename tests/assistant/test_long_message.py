"""A question before, behind or inside a long pasted text, without a model."""

from __future__ import annotations

import pytest

from tests.assistant.notes import over
from turnmark.assistant.steps.understand.compound_questions import question_in
from turnmark.assistant.steps.understand.understand_rules import refers_back

FILLER = (
    "On Tuesday the committee met at noon to talk about the garden fence. Several members said that the paint had come "
    "off after the rain. The treasurer reported that the paint would cost about forty euros. Afterwards there was tea. "
)
QUESTION = "How do I create a new vault?"


@pytest.mark.parametrize("times", [0, 3, 8, 20, 60])
@pytest.mark.parametrize("form", ["{text}\n\n{question}", "{question}\n\n{text}", "{text} {question}",
    "{question} {text}",
                                  "{text}\n\n{question} Thanks!", "{text}\n\n{question}\n\n{text}"])  # fmt: skip
def test_the_question_is_found_anywhere(home, tmp_path, times, form):
    vault = "# Vaults\n\nTo create a new vault, choose Create.\n"
    fence = "# Fences\n\nThe paint of a garden fence comes off in the rain.\n"
    message = form.format(text=FILLER * times, question=QUESTION)
    reply = over(tmp_path, vault=vault, fence=fence).reply([], message)
    assert reply.decision == "answer"
    assert reply.answer.startswith("Vaults")
    if times >= 8:
        assert reply.rewrite.startswith(QUESTION)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (FILLER * 9 + "\n\nWas kostet ein neuer Tresor?", "Was kostet ein neuer Tresor?"),
        (FILLER * 9 + "\n\nexplain how to create a vault", "explain how to create a vault"),
        (
            FILLER * 9 + "\n\nI own a fence. Who paints fences?",
            "I own a fence. Who paints fences?",
        ),
    ],
)
def test_the_last_paragraph_is_the_question(message, expected):
    assert question_in(message, refers_back) == expected


@pytest.mark.parametrize("message", [FILLER * 9, FILLER, f"{FILLER * 9}\n\nWhat does it mean?", "", QUESTION])
def test_a_message_without_a_question_of_its_own_stays_whole(message):
    assert question_in(message, refers_back) == message
