"""The turn that changes the last reply: by rules, by a model, and what is taken for a question instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.assistant.notes import kitchen, understanding, with_model
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.outline import same_words
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.errors import RequestError
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Message


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return kitchen(tmp_path)


def whys(reply: Reply) -> list[str]:
    return [search.why for search in reply.trace.searches]


TALK = [
    Message(role="user", content="Tell me of the kettle."),
    Message(role="assistant", content="The kettle is red. It boils water in four minutes."),
]


def test_an_instruction_revises_the_last_answer_and_leaves_the_rest(home):
    events: list[Event] = []
    reply = open_assistant("n").reply(TALK, "Remove the sentence about the four minutes.", events.append)
    assert strip_citations(reply.answer) == "The kettle is red."
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "revision"
    assert whys(reply) == ["what the answer rests on"]
    assert "".join(event.delta for event in events) == "The kettle is red. [1]"


def test_a_revision_is_cited_anew(home):
    reply = open_assistant("n").reply(TALK, "Remove the sentence about the four minutes.")
    assert reply.answer == "The kettle is red. [1]"
    assert reply.citations[0].document == "kettle.md"
    assert reply.checks.grounded == 1.0


def test_an_instruction_that_wants_something_new_is_looked_up(home):
    reply = open_assistant("n").reply(TALK, "Add a sentence to the answer about who made the toaster.")
    text = strip_citations(reply.answer)
    assert text.startswith("The kettle is red. It boils water in four minutes.")
    assert "The toaster was made by Ada Berg." in text
    assert whys(reply) == ["what the answer rests on", "the instruction asks for more"]
    cited = int(reply.answer.rsplit("[", 1)[1][0])
    assert reply.citations[cited - 1].document == "toaster.md"


def test_a_revision_can_be_asked_for_by_name(home):
    reply = open_assistant("n").revise(TALK, "Shorten it to one sentence.")
    assert strip_citations(reply.answer) == "The kettle is red; it boils water in four minutes."


@pytest.mark.parametrize(
    ("history", "message"),
    [([], "no answer yet"), ([Message(role="assistant", content="I don't know.")], "nothing in it to revise")],
)
def test_what_cannot_be_revised_is_said(home, history, message):
    with pytest.raises(RequestError, match=message):
        open_assistant("n").revise(history, "Make it shorter.")


def test_after_an_unknown_reply_there_is_nothing_to_change(home):
    history = [*TALK[:1], Message(role="assistant", content="I don't know: I found nothing about that.")]
    reply = open_assistant("n").reply(history, "Make the answer shorter.")
    assert reply.decision == "converse"
    assert "nothing in it to change" in reply.answer
    assert not reply.citations
    assert whys(reply) == []


def test_rules_change_what_needs_no_other_words_though_there_is_a_model(home):
    reply = with_model(home, "A model's list.").reply(TALK, "as a list please")
    assert strip_citations(reply.answer) == "- The kettle is red.\n- It boils water in four minutes."
    assert reply.usage == {}


def test_a_model_gives_the_whole_changed_answer_in_plain_text(home):
    assistant = with_model(home, "The kettle has a red colour. Water boils in it within four minutes.")
    reply = assistant.reply(TALK, "say that in simpler words")
    assert strip_citations(reply.answer) == "The kettle has a red colour. Water boils in it within four minutes."
    assert reply.usage["revise"].calls == 1
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "revision"


@pytest.mark.parametrize(
    "text",
    ["The kettle is red. It boils water in four minutes.", "Say that in simpler words.", "I don't know.", "<answer-1>"],
)
def test_a_change_that_cannot_be_used_makes_a_question_of_the_message(home, text):
    question = understanding(reworded_version="What is the kettle in simpler words?")
    assistant = with_model(home, text, question, "It is a red kettle for boiling water. [1]")
    reply = assistant.reply(TALK, "say that in simpler words")
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "question"
    assert not same_words(reply.answer, TALK[-1].content)
    assert any("could not be used" in note for note in reply.notes)


def test_where_a_model_breaks_the_limit_rules_keep_it(home):
    assistant = with_model(home, "The kettle is red in colour. Water boils in it. It takes four minutes.")
    reply = assistant.reply(TALK, "in one sentence please")
    assert strip_citations(reply.answer) == "The kettle is red; it boils water in four minutes."


def test_a_model_never_makes_a_question_an_instruction(home):
    assistant = with_model(home, understanding(kind="revision"), "The toaster was made by Ada Berg. [1]")
    reply = assistant.reply(TALK, "And who made the toaster?")
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "question"
    assert not same_words(reply.answer, TALK[-1].content)


def test_an_instruction_about_what_the_reply_does_not_say_is_a_question(home):
    reply = open_assistant("n").reply(TALK, "remove the part about the toaster")
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "question"


def test_what_no_rule_can_do_is_said_and_the_next_instruction_is_about_the_answer_before(home):
    assistant = open_assistant("n")
    reply = assistant.reply(TALK, "in simpler words please")
    assert reply.decision == "converse"
    assert "language model" in reply.answer
    talk = [*TALK, Message(role="user", content="in simpler words please"),
            Message(role="assistant", content=reply.answer), Message(role="user", content="ok thanks"),
            Message(role="assistant", content=assistant.reply(TALK, "ok thanks").answer)]  # fmt: skip
    assert strip_citations(assistant.reply(talk, "only the first one").answer) == "The kettle is red."


def test_what_is_left_of_a_procedure_is_a_procedure_cited_anew(home):
    steps = "These are the steps.\n\n1. The kettle is red.\n2. It boils water in four minutes."
    talk = [Message(role="user", content="How do I use it?"), Message(role="assistant", content=steps)]
    reply = open_assistant("n").reply(talk, "just the second step")
    assert [step.step for step in reply.procedure] == ["It boils water in four minutes."]
    assert reply.procedure[0].citations
    assert reply.checks.grounded == 1.0
