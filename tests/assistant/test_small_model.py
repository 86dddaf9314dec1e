"""The turn with a small model, scripted: rewrites, excerpts, one question a call, and what follows from the checks."""

from __future__ import annotations

import json
from math import log
from pathlib import Path
from typing import Any

import pytest

from turnmark.assistant.assistant import Assistant
from turnmark.assistant.generators.base import GeneratorBase
from turnmark.assistant.generators.choosing import Choice
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.answer_parts import beside
from turnmark.assistant.steps.llm import steps_in
from turnmark.assistant.steps.outline import same_words
from turnmark.assistant.steps.reading import BeforeList, excerpts_of, whole_part
from turnmark.assistant.steps.understand_llm import fault_of, with_question
from turnmark.assistant.types import Event, Understanding, Usage
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.build import build_index
from turnmark.retrieval.types import Hit

KETTLE = (
    "# Kettle\n\nThe kettle is red. It boils water in four minutes. The kettle must not be washed in the machine.\n"
)
TOASTER = "# Toaster\n\nThe toaster is blue. The toaster was made by Ada Berg in 1931.\n"
RESET = "# Reset\n\nHow to reset the radio:\n\n1. Hold the button.\n2. Wait for the light.\n3. Turn the radio on.\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in {"kettle": KETTLE, "toaster": TOASTER, "reset": RESET}.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    build_index(folder, "n", retriever="bm25")
    return tmp_path


def with_model(home: Path, *lines: dict[str, Any] | str) -> Assistant:
    script = home / "script.jsonl"
    rows = [{"text": line} if isinstance(line, str) else line for line in lines]
    script.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return open_assistant("n", f"replay:{script}")


def talked(*texts: str) -> list[Message]:
    return [Message(role=("user", "assistant")[n % 2], content=text) for n, text in enumerate(texts)]


# --- understanding


def test_a_first_message_is_not_rewritten_and_a_question_costs_one_call(home):
    reply = with_model(home, "The kettle is red [1].").reply([], "What colour is the kettle?")
    assert reply.decision == "answer"
    assert reply.answer.startswith("The kettle is red [1].")
    assert {role: usage.calls for role, usage in reply.usage.items()} == {"answer": 1}


def test_a_message_that_leans_is_put_as_a_question_beside_it(home):
    history = talked("What colour is the kettle?", "The kettle is red.")
    assistant = with_model(home, "How fast does the kettle boil water?\nIt", "In four minutes it boils water [1].")
    reply = assistant.reply(history, "and how fast does it boil?")
    assert reply.rewrite == "How fast does the kettle boil water?"
    search = reply.trace.searches[0]
    assert search.query == "and how fast does it boil?"
    assert search.variants == ("How fast does the kettle boil water?", "and how fast does colour kettle boil?")
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
    history = talked("What colour is the kettle?", "The kettle is red.")
    assert why in fault_of(rewrite, history, "how fast does it boil?")


def test_a_new_topic_that_the_model_repeats_stands_alone():
    understood = Understanding(standalone=False, rewrite="Lye soap (kettle)?", sub_questions=("Lye soap (kettle)?",))
    assert fault_of("Lye soap?", talked("Kettles?", "Red."), "Lye soap?") == ""
    understanding_before = with_question(understood, "Lye soap?", "lye soap")
    assert (understanding_before.standalone, understanding_before.rewrite, understanding_before.sub_questions) == (
        True,
        "Lye soap?",
        ("Lye soap?",),
    )


def test_no_model_says_that_a_message_revises(home):
    """One that writes of revising all the time changes nothing: the message is a question, and is answered."""
    history = talked("What colour is the kettle?", "The kettle is red.")
    assistant = with_model(home, "Make the last answer about the toaster shorter", "Ada Berg made the toaster [1].")
    reply = assistant.reply(history, "and who made the toaster?")
    assert reply.trace.understanding is not None
    assert reply.trace.understanding.kind == "question"
    assert "Ada Berg" in reply.answer


# --- answering


def test_each_part_is_asked_after_the_same_excerpts(home):
    assistant = with_model(home, "The kettle boils water in four minutes [1].", "The toaster was made by Ada Berg [2].")
    events: list[Event] = []
    reply = assistant.reply([], "How fast does the kettle boil water, and who made the toaster?", events.append)
    assert [part.answered for part in reply.sub_questions] == [True, True]
    assert reply.usage["answer"].calls == 2
    assert "".join(event.delta for event in events) == reply.answer


def test_a_figure_that_the_model_leaves_out_is_put_beside_its_answer(home):
    reply = with_model(home, "The toaster was made by Ada Berg [1].").reply([], "When was the toaster made, by whom?")
    assert "1931" in reply.answer
    assert reply.answer.count("Ada Berg") == 2


def test_what_the_model_said_is_not_said_twice():
    extract = "The toaster was made by Ada Berg in 1931. [1]"
    assert beside(("Who made the toaster?",), "Ada Berg made the toaster in 1931 [1].", extract, None) == ""
    assert beside(("Who made the toaster?",), "Someone made the toaster.", extract, None) == extract


def test_what_the_documents_add_stands_beside_an_answer():
    question = "How hot should the oven be?"
    extract = "Sear the fillet in the pan. [2] Preheat the oven to 150 °C. [2]"
    beside_it = beside((question,), "The oven should be hot [1].", extract, None)
    assert "Preheat the oven to 150 °C. [2]" in beside_it
    assert beside((question,), "Preheat the oven to 150 °C [2].", "Preheat the oven to 150 °C. [2]", None) == ""
    assert beside((question,), "The oven should be hot [1].", "Nobody knows. [3]", None) == ""


def test_an_answer_without_support_gives_way_to_the_documents(home):
    reply = with_model(home, "Kettles were invented by Napoleon in Paris.").reply([], "What colour is the kettle?")
    assert "The kettle is red." in reply.answer
    assert "Napoleon" not in reply.answer
    assert any("is not in the passages" in note for note in reply.notes)


def test_a_yes_that_the_documents_deny_is_not_shown(home):
    assistant = with_model(home, "Yes, the kettle can be washed in the machine [1].")
    reply = assistant.reply([], "Can the kettle be washed in the machine?")
    assert "must not be washed" in reply.answer
    assert "Yes" not in reply.answer


def test_a_model_that_does_not_know_is_believed(home):
    reply = with_model(home, "The documents do not say.").reply([], "How heavy is the red kettle?")
    assert reply.decision == "unknown"


def test_the_last_answer_is_not_given_to_another_question(home):
    previous = "The kettle is red [1]."
    history = talked("What colour is the kettle?", "The kettle is red.")
    reply = with_model(home, previous).reply(history, "Must the kettle be washed in the washing machine?")
    assert not same_words(reply.answer, previous)


def test_citations_that_a_model_left_out_are_set(home):
    reply = with_model(home, "The toaster is blue.").reply([], "What colour is the toaster?")
    assert reply.answer.startswith("The toaster is blue. [1]")
    assert reply.checks.citations_valid


def test_steps_of_the_documents_stand_under_the_models_sentence(home):
    reply = with_model(home, "You reset the radio with its button [1].").reply([], "How do I reset the radio?")
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
def test_a_question_that_the_model_holds_unanswered_is_not_answered(home, stated, decision):
    assistant = with_model(home, "The kettle is red [1].")
    doubting = Doubting(assistant.generator, stated)
    assistant.generator = doubting
    reply = assistant.reply([], "What colour is the kettle?")
    assert reply.decision == decision
    assert reply.usage["decide"].calls == 1
    assert "What colour is the kettle?" in doubting.asked[0]
    assert ("answer" in reply.usage) == (decision == "answer")


# --- what is read and how it is read


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


@pytest.mark.parametrize(
    "text",
    [
        "Do this. Steps: 1. Open it [1]. 2. Close it.",
        "Do this.\n\n**Steps:**\n1. Open it [1].\n2. Close it.",
        "Do this.\nStep 1: Open it [1].\nStep 2: Close it.",
        "Do this. 1) Open it [1]. 2) Close it.",
    ],
)
def test_steps_are_seen_however_they_are_laid_out(text):
    lead, steps = steps_in(text)
    assert lead.startswith("Do this")
    assert [step.step for step in steps] == ["Open it.", "Close it."]
    assert steps[0].citations == (1,)


def test_a_list_that_nobody_wanted_is_read_as_steps(home):
    listed = "1. The kettle boils water [1].\n2. The kettle is red [1]."
    reply = with_model(home, listed).reply([], "What about the kettle, red or not, boiling water?")
    assert [step.step for step in reply.procedure] == ["The kettle boils water.", "The kettle is red."]


def test_a_text_without_a_list_has_no_steps():
    text = "It takes 2. 5 litres are too many."
    assert steps_in(text) == (text, ())


def test_a_reply_that_runs_on_is_cut_at_its_last_whole_sentence():
    assert whole_part("It is red [1]. It boils [2]. And then it") == "It is red [1]. It boils [2]."
    assert whole_part("no end at all") == "no end at all"


# --- with a real model


@pytest.mark.reader
def test_a_conversation_with_a_real_model(home, reader_path):
    build_index(
        home / "notes", "embedded"
    )  # with BM25 alone "and when did she make it?" has too few words to decide by
    assistant = open_assistant("embedded", f"local:{reader_path}")
    history: list[Message] = []
    replies = []
    for message in ("Who made the toaster?", "and when did she make it?", "How fast does the kettle boil water?"):
        reply = assistant.reply(history, message)
        history += talked(message, reply.answer)
        replies.append(reply)
    first, second, third = (reply.answer for reply in replies)
    assert "Ada Berg" in first
    assert "1931" in second
    assert "four minutes" in third
    assert replies[1].usage["rewrite"].calls == 1
    cached = sum(usage.cached_tokens for reply in replies[1:] for usage in reply.usage.values())
    assert cached > 256, (
        "the examples are read once",
        [(reply.decision, reply.usage, reply.notes) for reply in replies],
    )


def test_a_heading_of_steps_leaves_the_mark_before_it_whole():
    lead, steps = steps_in("Keep it cool [1].\n\nSteps:\n1. Stir it [1].\n2. Feed it [2].")
    assert lead == "Keep it cool [1]."
    assert [(step.step, step.citations) for step in steps] == [("Stir it.", (1,)), ("Feed it.", (2,))]


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
