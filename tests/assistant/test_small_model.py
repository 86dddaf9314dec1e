"""The turn with a small model, scripted: rewrites, excerpts, one question a call, and what follows from the checks."""

from __future__ import annotations

from math import log
from pathlib import Path

import pytest
from turnmark.assistant.generators.choosing import Choice
from turnmark.assistant.steps.outline import same_words
from turnmark.assistant.steps.reading import BeforeList, excerpts_of

from tests.assistant.notes import RADIO, conversation, notes, script
from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.base import GeneratorBase
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.llm import steps_in
from turnmark.assistant.steps.understand_llm import fault_of, with_question
from turnmark.assistant.types import Event, Understanding, Usage
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.build import build_index
from turnmark.retrieval.types import Hit

RED = conversation("What colour is the kettle?", "The kettle is red.")


def with_model(kitchen: Path, *lines: str) -> Assistant:
    return open_assistant("radio", script(kitchen, *lines))


def test_a_first_message_is_not_rewritten_and_a_question_costs_one_call(kitchen):
    reply = with_model(kitchen, "The kettle is red [1].").reply([], "What colour is the kettle?")
    assert reply.decision == "answer"
    assert reply.answer.startswith("The kettle is red [1].")
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"answer": 1}


def test_a_message_that_leans_is_put_as_a_question_beside_it(kitchen):
    assistant = with_model(kitchen, "How fast does the kettle boil water?\nIt", "In four minutes it boils water [1].")
    reply = assistant.reply(RED, "and how fast does it boil?")
    assert reply.rewrite == "How fast does the kettle boil water?"
    search = reply.trace.searches[0]
    assert search.query == "and how fast does it boil?"
    assert search.variants == ("How fast does the kettle boil water?", "and how fast does it boil (colour kettle)?")
    assert "four minutes" in reply.answer


@pytest.mark.parametrize(
    ("rewrite", "why"),
    [
        ("", "is empty"),
        ("What colour is the kettle?", "repeats an earlier message"),
        ("Why is the sky dark?", "has no word of the message"),
        ("How fast does " + "the big red kettle of iron and steel " * 5 + "boil?", "is far longer"),
        ("And how fast does it boil?", "still refers to earlier turns"),
        ("How fast does Jupiter boil away under stellar radiation?", "brings in what nobody has said"),
    ],
)
def test_a_rewrite_that_went_wrong_is_dropped(rewrite, why):
    assert why in fault_of(rewrite, RED, "how fast does it boil?")


def test_a_new_topic_that_the_model_repeats_stands_alone():
    understood = Understanding(standalone=False, rewrite="Lye soap (kettle)?", sub_questions=("Lye soap (kettle)?",))
    assert fault_of("Lye soap?", conversation("Kettles?", "Red."), "Lye soap?") == ""
    alone = with_question(understood, "Lye soap?", "lye soap")
    assert (alone.standalone, alone.rewrite, alone.sub_questions) == (True, "Lye soap?", ("Lye soap?",))


def test_no_model_says_that_a_message_revises(kitchen):
    """One that writes of revising all the time changes nothing: the message is a question, and is answered."""
    assistant = with_model(kitchen, "Make the last answer about the toaster shorter", "Ada Berg made the toaster [1].")
    reply = assistant.reply(RED, "and who made the toaster?")
    assert reply.trace.understanding.kind == "question"
    assert "Ada Berg" in reply.answer


def test_each_part_is_asked_after_the_same_excerpts(kitchen):
    assistant = with_model(
        kitchen, "The kettle boils water in four minutes [1].", "The toaster was made by Ada Berg [2]."
    )
    events: list[Event] = []
    reply = assistant.reply([], "How fast does the kettle boil water, and who made the toaster?", events.append)
    assert [part.answered for part in reply.sub_questions] == [True, True]
    assert reply.usage["answer"].calls == 2
    assert "".join(event.delta for event in events) == reply.answer


@pytest.mark.parametrize(
    ("history", "message", "written", "holds", "without"),
    [
        ([], "When was the toaster made, by whom?", "The toaster was made by Ada Berg [1].", "1931", ""),
        ([], "What colour is the kettle?", "Kettles were invented by Napoleon.", "The kettle is red.", "Napoleon"),
        ([], "Can the kettle be washed in the machine?", "Yes, the kettle can be washed in the machine [1].",
         "must not be washed", "Yes"),
        (RED, "Must the kettle be washed in the washing machine?", "The kettle is red [1].", "", ""),
        ([], "What colour is the toaster?", "The toaster is blue.", "The toaster is blue. [1]", ""),
    ],
)  # fmt: skip
def test_what_the_documents_say_mends_what_a_model_writes(kitchen, history, message, written, holds, without):
    reply = with_model(kitchen, written).reply(history, message)
    assert holds in reply.answer
    assert not without or without not in reply.answer
    assert not history or not same_words(reply.answer, RED[1].content)
    assert reply.checks.citations_valid


def test_a_model_that_does_not_know_is_believed(kitchen):
    reply = with_model(kitchen, "The documents do not say.").reply([], "How heavy is the red kettle?")
    assert reply.decision == "unknown"


def test_steps_of_the_documents_stand_under_the_models_sentence(kitchen):
    reply = with_model(kitchen, "You reset the radio with its button [1].").reply([], "How do I reset the radio?")
    assert reply.answer.startswith("You reset the radio with its button")
    assert [step.step for step in reply.procedure][:2] == ["Hold the button.", "Wait for the light."]


class Doubting(GeneratorBase):
    """A scripted model that tells how likely each option is."""

    caches_prefixes = True

    def __init__(self, generator, stated):
        self._generator, self._stated = generator, stated
        self.asked: list[str] = []

    def __getattr__(self, name):
        return getattr(self._generator, name)

    def choose(self, messages, options, *, deadline=None):
        self.asked.append(messages[-1].content)
        logprobs = (log(self._stated), log(1 - self._stated))
        return Choice(options=tuple(options), logprobs=logprobs, usage=Usage(calls=1, prompt_tokens=9))


@pytest.mark.parametrize(("stated", "decision"), [(0.9, "answer"), (0.3, "unknown")])
def test_a_question_that_the_model_holds_unanswered_is_not_answered(kitchen, stated, decision):
    assistant = with_model(kitchen, "The kettle is red [1].")
    doubting = Doubting(assistant.generator, stated)
    assistant.generator = doubting
    reply = assistant.reply([], "What colour is the kettle?")
    assert reply.decision == decision
    assert reply.usage["decide"].calls == 1
    assert "What colour is the kettle?" in doubting.asked[0]
    assert ("answer" in reply.usage) == (decision == "answer")


def test_an_excerpt_has_what_matters_in_its_order():
    filler = " ".join(f"The shed number {n} is painted in some colour or other." for n in range(30))
    text = f"The kettle is red. {filler}\n\nTo clean the kettle:\n\n- vinegar\n- water\n\nThe kettle boils fast.\n"
    passage = Passage(id="p", document="d", title="Kitchen", section="Kettles", text=text, start=0, end=len(text))
    (excerpt,) = excerpts_of([("What cleans the kettle?",) * 2], [Hit(passage=passage, score=1.0)], [4], None)
    lines = excerpt.shown()
    assert lines.startswith("[4]\n> Kitchen › Kettles\n")
    assert "> - vinegar\n> - water" in lines
    assert "To clean the kettle:" in lines
    assert len(lines.split()) < 130


def test_a_list_that_nobody_wanted_is_read_as_steps(kitchen):
    listed = "1. The kettle boils water [1].\n2. The kettle is red [1]."
    reply = with_model(kitchen, listed).reply([], "What about the kettle, red or not, boiling water?")
    assert [step.step for step in reply.procedure] == ["The kettle boils water.", "The kettle is red."]


def test_a_text_without_a_list_has_no_steps():
    text = "It takes 2. 5 litres are too many."
    assert steps_in(text) == (text, ())


@pytest.mark.reader
def test_a_conversation_with_a_real_model(kitchen, reader_path):
    # With BM25 alone "and when did she make it?" has too few words to decide by.
    build_index(notes(kitchen, **RADIO), "embedded")
    assistant = open_assistant("embedded", f"local:{reader_path}")
    history: list[Message] = []
    replies = []
    for message in ("Who made the toaster?", "and when did she make it?", "How fast does the kettle boil water?"):
        reply = assistant.reply(history, message)
        history += conversation(message, reply.answer)
        replies.append(reply)
    assert "Ada Berg" in replies[0].answer
    assert "1931" in replies[1].answer
    assert "four minutes" in replies[2].answer
    assert replies[1].usage["rewrite"].calls == 1
    cached = sum(usage.cached_tokens for reply in replies[1:] for usage in reply.usage.values())
    assert cached > 256, "the examples are read once"


@pytest.mark.parametrize(
    ("deltas", "streamed"),
    [
        (["Keep it co", "ol [1].\n\nSte", "ps:\n1. Stir", " it.\n2. Feed it."], "Keep it cool [1]."),
        (["Keep it cool [1].", "\n1", ". Stir it.\n2. Feed it."], "Keep it cool [1]."),
        (["Keep it cool [1].\n", "Steps taken later count."], "Keep it cool [1].\nSteps taken later count."),
        (["It is 5.", " No more."], "It is 5. No more."),
    ],
)
def test_a_list_is_not_streamed_where_the_documents_steps_stand(deltas, streamed):
    pieces: list[str] = []
    stream = BeforeList(pieces.append)
    for delta in deltas:
        stream(delta)
    stream.finish()
    assert "".join(pieces) == streamed
