"""`turnmark chat` on a pipe with its flags, and `turnmark sessions`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from turnmark.assistant.session_files import read_session, session_names, sessions_folder

QUESTION = "How do I keep a sourdough starter?"


@pytest.fixture
def named(home: Path, turnmark) -> Path:
    """A home with the session `first`."""
    assert turnmark("chat", "--index", "demo", stdin=f"{QUESTION}\n/set passages 2\n/save first\n").code == 0
    return home


@pytest.mark.parametrize("words", [["--resume"], ["--resume=first"], ["--resume", "--index", "demo"]])
def test_resume_with_and_without_a_name(named, turnmark, words):
    ran = turnmark("chat", *words, stdin="/set\nThanks!\n")
    assert ran.code == 0, ran.err
    assert "session first: 1 turn so far" in ran.out
    assert f"› {QUESTION}" in ran.out
    assert "passages = 2" in ran.out
    assert len(read_session("first")[0].exchanges) == 2


def test_resume_goes_on_with_the_session_used_last(named, turnmark):
    assert turnmark("chat", "--index", "demo", stdin="Thanks!\n/save second\n").code == 0
    assert "session second: 1 turn" in turnmark("chat", "--resume", stdin="").out
    assert turnmark("chat", "--resume", "first", stdin="Hi!\n").code == 0
    assert "session first: 2 turns" in turnmark("chat", "--resume", stdin="").out


def test_no_save_keeps_nothing(home, turnmark):
    assert turnmark("chat", "--index", "demo", "--no-save", stdin=f"{QUESTION}\n").code == 0
    assert session_names() == []
    assert not (home / "chat_history").exists()


def test_resume_with_no_save_changes_no_file(named, turnmark):
    before = (sessions_folder() / "first.jsonl").read_bytes()
    assert turnmark("chat", "--resume", "--no-save", stdin="Thanks!\n").code == 0
    assert (sessions_folder() / "first.jsonl").read_bytes() == before
    assert session_names() == ["first"]


def test_what_is_wrong_is_told_at_once_and_exits_with_2(home, turnmark):
    ran = turnmark("chat", "--resume", "nope", "--index", "nope", "--generator", "bad", stdin="")
    assert ran.code == 2
    assert len(ran.err.splitlines()) == 3
    assert "no session is called 'nope'" in ran.err
    ran = turnmark("chat", "--index", "demo", "--resume", stdin="")
    assert ran.code == 2
    assert "no session to resume yet" in ran.err
    assert turnmark("chat", "--resume", "../x", "--index", "demo", stdin="").code == 2


def test_a_resumed_session_is_free_again_when_the_chat_could_not_begin(named, turnmark):
    assert turnmark("chat", "--resume", "first", "--generator", "bad", stdin="").code == 2
    assert turnmark("sessions", "delete", "first").code == 0


def test_another_generator_on_the_way_is_kept(named, turnmark, tmp_path):
    script = tmp_path / "script.jsonl"
    rests = "The loaves rest in floured baskets for two and a half hours."
    script.write_text(json.dumps({"text": rests, "match": "Question:"}) + "\n", encoding="utf-8")
    spec = f"replay:{script}"
    assert turnmark("chat", "--resume", "first", "--generator", spec, stdin="").code == 0
    assert read_session("first")[0].parts.generator == spec
    ran = turnmark("chat", "--resume", stdin="Where do the loaves of the Anvick Bakehouse rest?\n")
    assert "floured baskets" in ran.out


def test_a_question_that_fails_on_a_pipe_exits_with_1_and_the_rest_is_answered(home, turnmark, tmp_path):
    script = tmp_path / "script.jsonl"
    script.write_text(json.dumps({"text": "It rests [1].", "match": "no such question"}) + "\n", encoding="utf-8")
    ran = turnmark("chat", "--index", "demo", "--generator", f"replay:{script}", stdin=f"{QUESTION}\nThanks!\n")
    assert ran.code == 1
    assert "You're welcome" in ran.out
    assert "1 question could not be answered" in ran.err


def test_nothing_on_a_pipe_moves_or_is_coloured(home, turnmark, monkeypatch):
    monkeypatch.delenv("NO_COLOR")
    ran = turnmark("chat", "--index", "demo", stdin=f"{QUESTION}\n/why\n/help\n/sources\n/clear\n/nothing\n")
    assert ran.code == 0
    assert "\x1b" not in ran.out + ran.err
    assert "\r" not in ran.out


def test_sessions_are_listed_shown_and_deleted(named, turnmark):
    assert "first" in turnmark("sessions", "list").out
    listed = json.loads(turnmark("sessions", "list", "--json").out)
    assert [(session["name"], session["turns"], session["question"]) for session in listed["sessions"]] == [
        ("first", 1, QUESTION)
    ]
    transcript = turnmark("sessions", "show", "first").out
    assert transcript.startswith("# Conversation first\n")
    assert QUESTION in transcript
    content = json.loads(turnmark("sessions", "show", "first", "--json").out)
    assert content["exchanges"][0]["question"] == QUESTION
    assert turnmark("sessions", "show", "nope").code == 2
    assert turnmark("sessions", "delete", "../first").code == 2
    assert turnmark("sessions", "delete", "first").code == 0
    assert turnmark("sessions", "list").out == "no session is kept yet\n"


def test_a_session_that_cannot_be_read_is_listed_all_the_same(named, turnmark):
    (sessions_folder() / "broken.jsonl").write_bytes(b"\xff\x00 nonsense\n")
    (sessions_folder() / "bad name!.jsonl").write_bytes(b"")
    ran = turnmark("sessions", "list", "--json")
    assert ran.code == 0
    assert {session["name"] for session in json.loads(ran.out)["sessions"]} == {"first", "broken"}
