"""The turn that changes the last reply: by rules, by a model, and what is taken for a question instead."""

from __future__ import annotations

import pytest
from turnmark.assistant.steps.outline import same_words

from tests.assistant.notes import conversation, understanding, with_model
from turnmark.assistant.open import open_assistant
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import strip_citations


def whys(reply: Reply) -> list[str]:
    return [search.why for search in reply.trace.searches]


def test_an_instruction_revises_the_last_answer_which_is_cited_anew(kitchen):
    events: list[Event] = []
    reply = open_assistant("n").reply(TALK, "Remove the sentence about the four minutes.", events.append)
    assert reply.answer == "".join(event.delta for event in events) == "The kettle is red. [1]"
    assert reply.trace.understanding.kind == "revision"
    assert whys(reply) == ["what the answer rests on"]
    assert reply.citations[0].document == "kettle.md"
    assert reply.checks.grounded == 1.0


TALK = conversation("Tell me of the kettle.", "The kettle is red. It boils water in four minutes.")


def test_an_instruction_that_wants_something_new_is_looked_up(kitchen):
    reply = open_assistant("n").reply(TALK, "Add a sentence to the answer about who made the toaster.")
    text = strip_citations(reply.answer)
    assert text.startswith("The kettle is red. It boils water in four minutes.")
    assert "The toaster was made by Ada Berg." in text
    assert whys(reply) == ["what the answer rests on", "the instruction asks for more"]
    cited = int(reply.answer.rsplit("[", 1)[1][0])
    assert reply.citations[cited - 1].document == "toaster.md"


def test_a_revision_can_be_asked_for_by_name(kitchen):
    reply = open_assistant("n").revise(TALK, "Shorten it to one sentence.")
    assert strip_citations(reply.answer) == "The kettle is red; it boils water in four minutes."


@pytest.mark.parametrize(
    ("history", "message"),
    [([], "no answer yet"), (conversation("What?", "I don't know."), "nothing in it to revise")],
)
def test_what_cannot_be_revised_is_said(kitchen, history, message):
    with pytest.raises(RequestError, match=message):
        open_assistant("n").revise(history, "Make it shorter.")


def test_after_an_unknown_reply_there_is_nothing_to_change(kitchen):
    history = conversation("Tell me of the kettle.", "I don't know: I found nothing about that.")
    reply = open_assistant("n").reply(history, "Make the answer shorter.")
    assert reply.decision == "converse"
    assert "nothing in it to change" in reply.answer
    assert not reply.citations
    assert whys(reply) == []


@pytest.mark.parametrize(
    ("instruction", "written", "answer", "calls"),
    [
        ("as a list please", "A model's list.", "- The kettle is red.\n- It boils water in four minutes.", 0),
        ("say that in simpler words", "The kettle has a red colour. Water boils in it within four minutes.",
         "The kettle has a red colour. Water boils in it within four minutes.", 1),
        ("in one sentence please", "The kettle is red in colour. Water boils in it. It takes four minutes.",
         "The kettle is red; it boils water in four minutes.", None),
    ],
)  # fmt: skip
def test_with_a_model_rules_change_what_needs_no_other_words_and_keep_its_limits(
    kitchen, instruction, written, answer, calls
):
    reply = with_model(kitchen, written).reply(TALK, instruction)
    assert strip_citations(reply.answer) == answer
    assert reply.trace.understanding.kind == "revision"
    assert calls is None or sum(usage.calls for usage in reply.usage.values()) == calls


@pytest.mark.parametrize(
    "text",
    ["The kettle is red. It boils water in four minutes.", "Say that in simpler words.", "I don't know.", "<answer-1>"],
)
def test_a_change_that_cannot_be_used_makes_a_question_of_the_message(kitchen, text):
    question = understanding(reworded_version="What is the kettle in simpler words?")
    assistant = with_model(kitchen, text, question, "It is a red kettle for boiling water. [1]")
    reply = assistant.reply(TALK, "say that in simpler words")
    assert reply.trace.understanding.kind == "question"
    assert not same_words(reply.answer, TALK[-1].content)
    assert any("could not be used" in note for note in reply.notes)


def test_an_instruction_about_what_the_reply_does_not_say_is_a_question(kitchen):
    reply = open_assistant("n").reply(TALK, "remove the part about the toaster")
    assert reply.trace.understanding.kind == "question"


def test_what_no_rule_can_do_is_said_and_the_next_instruction_is_about_the_answer_before(kitchen):
    assistant = open_assistant("n")
    reply = assistant.reply(TALK, "in simpler words please")
    assert reply.decision == "converse"
    assert "language model" in reply.answer
    talk = [*TALK, *conversation("in simpler words please", reply.answer, "ok thanks", "You're welcome.")]
    assert strip_citations(assistant.reply(talk, "only the first one").answer) == "The kettle is red."


def test_what_is_left_of_a_procedure_is_a_procedure_cited_anew(kitchen):
    steps = "These are the steps.\n\n1. The kettle is red.\n2. It boils water in four minutes."
    reply = open_assistant("n").reply(conversation("How do I use it?", steps), "just the second step")
    assert [step.step for step in reply.procedure] == ["It boils water in four minutes."]
    assert reply.procedure[0].citations
    assert reply.checks.grounded == 1.0
