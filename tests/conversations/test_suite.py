"""Tests of the suite itself: label files, scoring rules, and one conversation through the runner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conversations import tables
from tests.conversations.collections import COLLECTIONS, FURTHER, LABELS, collections_named
from tests.conversations.conftest import FERRY
from tests.conversations.labels import LabelledTurn, read_labels
from tests.conversations.runner import Corpus, Journal, hold_all
from tests.conversations.scoring import Answer, score
from turnmark.assistant.types import Decision
from turnmark.core.console import NoProgress
from turnmark.core.errors import RequestError

LABEL_FILES = sorted(LABELS.glob("*.toml"))
LANGUAGE_COLLECTIONS = [name for name, collection in FURTHER.items() if collection.group == "languages"]
HALVES = ("tuning", "test")
MIN_TURNS = 40
MIN_TURNS_IN_OTHER_LANGUAGES = 12


@pytest.mark.parametrize("path", LABEL_FILES, ids=lambda path: path.stem)
def test_label_file_is_valid_and_large_enough(path: Path) -> None:
    conversations = read_labels(path)
    turns = [turn for conversation in conversations for turn in conversation.turn]
    assert path.stem in COLLECTIONS
    assert len(turns) >= MIN_TURNS
    assert {conversation.half for conversation in conversations} == {"tuning", "test"}
    assert {"answer", "compound", "steps", "unknown", "revise", "courtesy"} == {turn.kind for turn in turns}
    assert [turn.say for turn in turns if not turn.source and turn.kind in ("answer", "compound", "steps")] == []


@pytest.mark.parametrize("name", LANGUAGE_COLLECTIONS)
def test_labels_in_other_languages_have_sources_and_two_halves(name: str) -> None:
    conversations = read_labels(collections_named([name])[name].labels)
    turns = {half: [turn for each in conversations if each.half == half for turn in each.turn] for half in HALVES}
    asked = [turn for half in turns.values() for turn in half]
    assert abs(len(turns["tuning"]) - len(turns["test"])) <= len(asked) / 5
    assert len(asked) >= MIN_TURNS_IN_OTHER_LANGUAGES
    assert {"answer", "compound", "steps", "unknown"} <= {turn.kind for turn in asked}
    assert all(turn.source for turn in asked)


def test_every_file_of_labels_in_other_languages_belongs_to_a_collection() -> None:
    assert {path.stem for path in (LABELS / "languages").glob("*.toml")} == set(LANGUAGE_COLLECTIONS)


@pytest.mark.parametrize("group", ["hard", "asked"])
def test_hard_questions_are_split_in_halves_and_have_sources(group: str) -> None:
    collections = collections_named([group])
    assert list(collections_named([group, "clef"])) == [*collections, "clef"]
    conversations = [each for collection in collections.values() for each in read_labels(collection.labels)]
    halves = [conversation.half for conversation in conversations for _ in conversation.turn]
    assert (halves.count("tuning"), halves.count("test")) == (15, 15)
    assert len({conversation.id for conversation in conversations}) == len(conversations)
    assert all(turn.source for conversation in conversations for turn in conversation.turn)
    with pytest.raises(RequestError, match="unknown collection 'soft'"):
        collections_named(["soft"])


@pytest.mark.parametrize(("name", "answered", "unanswerable"), [("tables", 25, 5), ("pictures", 30, 4)])
def test_labels_of_tables_and_pictures_name_their_evidence(name: str, answered: int, unanswerable: int) -> None:
    (collection,) = collections_named([name]).values()
    assert name not in COLLECTIONS
    conversations = read_labels(collection.labels)
    asked = [turn for conversation in conversations for turn in conversation.turn]
    assert len([turn for turn in asked if turn.kind == "unknown"]) == unanswerable
    assert len([turn for turn in asked if turn.kind != "unknown"]) == answered
    assert all(turn.source for turn in asked)
    assert {conversation.half for conversation in conversations} == {"test"}


def answer(text: str, decision: Decision | None = "answer", error: str = "") -> Answer:
    return Answer(text=text, decision=decision, seconds=0.1, error=error)


def turn(kind: str, **fields: Any) -> LabelledTurn:
    return LabelledTurn.model_validate({"say": "?", "kind": kind, **fields})


LONG = answer("one two three four five six")
RULES = [
    # label, reply, the reply before -> right, flags
    (turn("answer", facts=("30 days",)), answer("Within **30**\ndays [1]."), None, True, ()),
    (turn("answer", facts=("30 days", "maintainer")), answer("Within 30 days."), None, False, ()),
    (turn("answer", facts=("30",), wrong=("never",)), answer("30, or never."), None, False, ()),
    (turn("answer", facts=("30",)), answer("I don't know: 30", "unknown"), None, False, ("refused",)),
    (turn("answer", facts=("30",)), answer("I don't know about 30.", None), None, False, ("refused",)),
    (turn("unknown"), answer("I don't know.", None), answer("I don't know.", None), True, ("refused",)),
    (turn("answer", facts=("30",)), answer("Do you mean 30?", "clarify"), None, False, ("asked back",)),
    (turn("answer", facts=("30",)), answer("I am not sure; nearest: 30", "partial"), None, True, ("hedged",)),
    (turn("answer", facts=("30",)), answer("30 [2]."), answer("30 [1]."), True, ("repeated",)),
    (turn("answer", facts=("30",)), answer("", None, error="timeout"), None, False, ("failed",)),
    (turn("compound", facts=("red", "blue")), answer("Red."), None, False, ()),
    (turn("steps", facts=("boil", "drain")), answer("So:\n1. Boil it.\n2. Drain it."), None, True, ()),
    (turn("unknown"), answer("I don't know.", "unknown"), None, True, ("refused",)),
    (turn("unknown"), answer("Near [1]. The documents do not say more.", "partial"), None, True, ()),
    (turn("unknown"), answer("I am not sure. It is 3.", "partial"), None, False, ("hedged",)),
    (turn("unknown", wrong=("yes",)), answer("I don't know, yes.", "unknown"), None, False, ("refused",)),
    (turn("answer", facts=("a\\n- b",), lines=True), answer("**a** [1]\n- b"), None, True, ()),
    (turn("revise", shorter=True), answer("one two"), LONG, True, ()),
    (turn("revise", shorter=True), LONG, LONG, False, ()),
    (turn("revise", max_words=3), answer("one two three four"), LONG, False, ()),
    (turn("revise", shorter=True), answer("简短地说。"), answer("这是一个没有空格的长句子。"), True, ()),
    (turn("revise", max_words=5), answer("这句话没有空格。"), None, False, ()),
    (turn("courtesy"), answer("You're welcome.", "converse"), None, True, ()),
    (turn("courtesy"), answer("word " * 31, None), None, False, ()),
]


@pytest.mark.parametrize(("label", "reply", "before", "right", "flags"), RULES)
def test_scores_replies_by_their_label(
    label: LabelledTurn, reply: Answer, before: Answer | None, right: bool, flags: tuple[str, ...]
) -> None:
    result = score(label, reply, before)
    assert (result.right, result.flags) == (right, flags)
    assert bool(result.why) != right


def test_reads_a_suite_in_json(tmp_path: Path) -> None:
    asked = {"q": "how long?", "kind": "answer", "must": ["30"], "must_not": ["40"], "page": "a.md", "note": "first"}
    path = tmp_path / "suite.json"
    path.write_text(json.dumps([{"id": name, "turns": [asked]} for name in "abc"]))
    conversations = read_labels(path)
    assert [each.half for each in conversations] == ["tuning", "test", "tuning"]
    label = turn("answer", say="how long?", facts=("30",), wrong=("40",), lines=True, source="a.md: first")
    assert conversations[0].turn == (label,)
    path.write_text('[{"id": "a"}]')
    with pytest.raises(RequestError, match=r"suite\.json: KeyError"):
        read_labels(path)


def test_conversation_is_resumed_from_its_journal(demo: Corpus) -> None:
    held = hold_all("extractive", {"demo": demo}, {"demo": [FERRY]}, NoProgress())
    figures = tables.summary(tables.scored(held))
    assert figures["right"]["courtesy"]["mean"] == 1.0
    assert figures["right"]["all questions"] == {"right": 1, "n": 1, "mean": 1.0, "ci95": None}

    def closed(*_: object) -> Any:
        raise AssertionError("a finished conversation is not run again")

    with Journal("extractive").path.open("a") as file:
        file.write('{"key": "torn')
    assert hold_all("extractive", {"demo": demo}, {"demo": [FERRY]}, NoProgress(), (), closed) == held
    assert "torn" not in Journal("extractive").path.read_text()
