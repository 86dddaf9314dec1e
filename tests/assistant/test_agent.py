"""The turn as a whole, over small real indexes."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from turnmark.assistant.agent import Assistant
from turnmark.assistant.generators.base import GeneratorError
from turnmark.assistant.open import open_assistant
from turnmark.assistant.steps.units import units_of
from turnmark.assistant.steps.verify import unmarked
from turnmark.assistant.types import Event
from turnmark.corpora.text import printable
from turnmark.corpora.types import Message, Passage
from turnmark.retrieval.build import build_index
from turnmark.retrieval.types import Hit


def notes(tmp_path: Path, **files: str) -> Path:
    folder = tmp_path / "notes"
    folder.mkdir()
    for name, text in files.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    return folder


def over(
    tmp_path: Path,
    generator: str = "extractive",
    retriever: str = "bm25",
    steps: tuple[str, ...] = (),
    **files: str,
) -> Assistant:
    """An assistant over some notes."""
    build_index(notes(tmp_path, **files), "n", retriever=retriever)
    return open_assistant("n", generator, steps=steps)


def script(tmp_path: Path, *texts: str) -> str:
    path = tmp_path / "script.jsonl"
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
    return f"replay:{path}"


def test_every_step_is_told_in_order(tmp_path):
    events: list[Event] = []
    assistant = over(tmp_path, kettle="# Kettle\n\nThe kettle is red. It boils in four minutes.\n")
    reply = assistant.reply([], "What colour is the kettle?", events.append)
    assert list(dict.fromkeys(event.step for event in events)) == [
        "understand",
        "retrieve",
        "decide",
        "answer",
        "verify",
    ]
    assert "".join(event.delta for event in events) == reply.answer == "The kettle is red. [1]"
    assert set(reply.timings) == {"understand", "retrieve", "decide", "answer", "verify"}
    assert (
        reply.citations[0].text[reply.citations[0].start :]
        == "# Kettle\n\nThe kettle is red. It boils in four minutes."
    )


def test_sentences_without_spaces_are_answers_too(tmp_path):
    assistant = over(
        tmp_path, pork="# 红烧肉\n\n红烧肉需要五花肉、冰糖和酱油。先把肉切块焯水。\n", tea="# 茶\n\n泡茶用热水。\n"
    )
    reply = assistant.reply([], "红烧肉需要什么？")
    assert reply.decision == "answer"
    assert "五花肉" in reply.answer
    assert reply.citations[0].document == "pork.md"


def test_passages_without_a_sentence_are_an_unknown(tmp_path):
    assistant = over(tmp_path, zebra="# Zebra\n\nzebra\n")
    reply = assistant.reply([], "zebra")
    assert reply.decision == "unknown"
    assert reply.citations == ()
    assert reply.answer.startswith("I don't know")


def test_marks_of_the_documents_are_not_citations(tmp_path):
    assistant = over(
        tmp_path,
        volcano="# Volcano\n\nThe volcano erupted in 1902 [2] and again in 1950.\n",
        soup="# Soup\n\nVolcano soup erupted from leeks.\n",
    )
    reply = assistant.reply([], "When did the volcano erupt?")
    assert "The volcano erupted in 1902 and again in 1950. [1]" in reply.answer
    assert not reply.checks.repaired


def test_marks_of_the_documents_are_rewritten_for_a_model(tmp_path):
    assert unmarked("in 1902 [2] and [3, 4], see [note]") == "in 1902 (2) and (3, 4), see [note]"


def test_a_question_that_does_not_fit_the_model_is_an_error_not_an_answer(tmp_path):
    generator = script(tmp_path, "never said") + "?context=600"
    assistant = over(tmp_path, generator, kettle="# Kettle\n\nThe kettle is red.\n")
    with pytest.raises(GeneratorError, match="does not fit into the context"):
        assistant.reply([], "kettle " * 4000)


def test_a_long_conversation_is_cut_and_the_reply_says_so(tmp_path):
    generator = script(tmp_path, "What colour is the kettle?", "The kettle is red [1].") + "?context=3000"
    assistant = over(tmp_path, generator, steps=("answer=whole",), kettle="# Kettle\n\nThe kettle is red.\n")
    history = [Message(role=("user", "assistant")[n % 2], content=f"turn {n} " + "word " * 300) for n in range(12)]
    reply = assistant.reply(history, "What colour is the kettle?")
    assert reply.answer == "The kettle is red [1]."
    assert any("earlier messages were left out" in note for note in reply.notes)
    assert reply.usage["answer"].prompt_tokens < 3000


def test_a_rewrite_by_the_model_is_searched_beside_the_message(tmp_path):
    generator = script(tmp_path, "How hot is the kettle?", "The kettle is at 90 °C [1].")
    assistant = over(tmp_path, generator, kettle="# Kettle\n\nThe kettle is hot, at 90 °C.\n")
    history = [Message(role="user", content="Tell me of the kettle."), Message(role="assistant", content="It is red.")]
    reply = assistant.reply(history, "How hot is it?")
    assert reply.rewrite == "How hot is the kettle?"
    assert reply.decision == "answer"
    assert reply.usage.keys() == {"rewrite", "answer"}


@pytest.mark.parametrize("text", ["\x9d" * 60_000, "![" * 60_000, "\x1b]" * 60_000, "[1" * 60_000])
def test_hostile_text_takes_no_longer_than_another(text):
    began = time.process_time()
    printable(text)
    passage = Passage(id="p", document="d", title="t", text=text, start=0, end=len(text))
    units_of([Hit(passage=passage, score=1.0)])
    # Not a speed test: the squared forms of these patterns took minutes.
    assert time.process_time() - began < 20
