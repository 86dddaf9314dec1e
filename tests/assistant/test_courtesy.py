"""Courtesies are told from questions, on messages labelled by hand before the rules were written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnmark.assistant.steps.understand import is_conversational, is_greeting, understand
from turnmark.corpora.types import Message

LABELS = json.loads((Path(__file__).parent / "courtesy_labels.json").read_text(encoding="utf-8"))
BEFORE = [Message(role="user", content="How is the bread made?"), Message(role="assistant", content="It is baked. [1]")]


def test_there_are_enough_labels_of_both_kinds():
    assert len(LABELS["courtesy"]) >= 60
    assert len(LABELS["other"]) >= 60


@pytest.mark.parametrize("message", LABELS["courtesy"])
def test_courtesies(message):
    assert is_conversational(message)
    assert understand(BEFORE, message).kind == "conversational"


@pytest.mark.parametrize("message", LABELS["other"])
def test_questions_and_objections_are_none(message):
    assert not is_conversational(message)


@pytest.mark.parametrize(("message", "greets"), [("hi there", True), ("Good morning!", True), ("thanks", False)])
def test_greetings(message, greets):
    assert is_greeting(message) is greets
