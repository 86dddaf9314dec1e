"""A conversation over real documents: the right recipe each time, its steps in order, and an honest I don't know."""

from __future__ import annotations

from pathlib import Path

import pytest

from turnmark.assistant.open import open_assistant
from turnmark.corpora.types import Message
from turnmark.retrieval.build import build_index

pytestmark = pytest.mark.data

RECIPE = "aelplermagronen.md"


def test_a_conversation_over_the_recipes(recipes: Path, kept_home: Path, monkeypatch):
    monkeypatch.setenv("TURNMARK_HOME", str(kept_home))
    build_index(recipes, "recipes")
    assistant = open_assistant("recipes")
    history: list[Message] = []

    def ask(question: str):
        reply = assistant.reply(history, question)
        history.extend([Message(role="user", content=question), Message(role="assistant", content=reply.answer)])
        return reply

    first = ask("How do I make Älplermagronen?")
    assert first.decision == "answer"
    assert first.citations[0].document == RECIPE
    starts = ["Fry bacon", "Cut onions", "Peel potatoes", "When the onions", "Top everything", "Add macaroni",
              "Shred your", "A minute or", "Season to", "Serve with"]  # fmt: skip
    assert [step.step[: len(start)] for step, start in zip(first.procedure, starts, strict=True)] == starts
    assert all(first.citations[n - 1].document == RECIPE for step in first.procedure for n in step.citations)
    assert first.checks.procedure_valid

    bacon = ask("Can I leave out the bacon?")
    assert bacon.citations[0].document == RECIPE
    assert "[1]" in bacon.answer

    cheese = ask("And how much cheese does it take?")
    assert cheese.citations[0].document == RECIPE
    assert "150g" in cheese.answer

    assert ask("Who won the 1998 World Cup?").decision == "unknown"
    assert history[-1].content.startswith("I don't know")
