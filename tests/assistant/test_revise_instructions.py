"""Which messages are instructions to revise, and of which type an instruction is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from turnmark.assistant.steps.edit_requests import is_instruction
from turnmark.assistant.steps.instructions import typed

from tests.assistant.notes import conversation
from tests.conftest import DEMO
from turnmark.corpora import kiwi
from turnmark.corpora.types import Problem

BEFORE = conversation("How is the bread made?", "It is baked. [1]")


LABELS = json.loads((Path(__file__).parent / "instruction_labels.json").read_text(encoding="utf-8"))["messages"]


def test_the_labelled_messages():
    assert len(LABELS) == 60
    assert sum(row["instruction"] for row in LABELS) == 30
    wrong = [row["message"] for row in LABELS if is_instruction(BEFORE, row["message"]) != row["instruction"]]
    assert wrong == []
    assert not any(is_instruction(BEFORE[:1], row["message"]) for row in LABELS), "there is no answer"


@pytest.mark.data
def test_no_message_of_mtrags_conversations_is_taken_for_one(real_data):
    """There, users ask; one of them complains of an answer. Less than one in a hundred may be wrong."""
    messages: set[str] = set()
    for file in sorted((real_data / "mt-rag-benchmark").rglob("*.jsonl")):
        with file.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                turns = row.get("input")
                messages |= (
                    {turn["text"] for turn in turns if turn["speaker"] == "user"} if isinstance(turns, list) else set()
                )
    assert len(messages) > 1500
    assert sum(is_instruction(BEFORE, text) for text in messages) < 0.01 * len(messages)


def test_no_question_of_the_demo_conversations_is_taken_for_one():
    conversations = json.loads((DEMO / "conversations.json").read_text(encoding="utf-8"))
    texts = [text for text in _strings(conversations) if text.endswith("?")]
    assert len(texts) > 60
    assert [text for text in texts if is_instruction(BEFORE, text)] == []


def _strings(value):
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part)


@given(st.text(max_size=80))
def test_no_message_is_too_strange(message):
    is_instruction(BEFORE, message)
    assert typed(message).fine in kiwi.FINE_TYPES


@pytest.mark.parametrize(
    ("instruction", "coarse", "fine"),
    [
        ("How well do the best models do on these datasets?", "information-seeking", "More information"),
        ("Keep the text as it is, but extract examples from papers 0 and 1.", "information-seeking", "Expand coverage"),
        ("Do all of the methods you mention require training?", "information-seeking", "Clarification"),
        ("Remove the repeated techniques in the last paragraph.", "stylistic", "Remove"),
        ('At the end, add the sentence "Evaluation is hard."', "stylistic", "Specific edit"),
        ("Please shorten the answer to a maximum of 6 paragraphs.", "stylistic", "Condense"),
        ("Reorganize the answer so that results come first", "stylistic", "Reorganize"),
        ("Don't change anything but copy it as it is.", "stylistic", "Others"),
        ("Make it sing!", "stylistic", "Others"),
    ],
)  # fmt: skip
def test_types(instruction, coarse, fine):
    kind = typed(instruction)
    assert (kind.coarse, kind.fine) == (coarse, fine)


def test_types_of_the_demo_sessions():
    sessions = [session for session in kiwi.stream_sessions(kiwi.DEMO_ROOT) if not isinstance(session, Problem)]
    turns = [turn for session in sessions for turn in session.turns]
    kinds = [typed(turn.instruction) for turn in turns]
    assert sum(kind.coarse == turn.coarse for kind, turn in zip(kinds, turns, strict=True)) == len(turns) == 23
    assert sum(kind.fine == turn.fine for kind, turn in zip(kinds, turns, strict=True)) >= 21
