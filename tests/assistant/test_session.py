"""Sessions: the state after their events, and their files."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.exchanges import folded, turned
from turnmark.assistant.sessions.conversation import AssistantSwapped, SessionBegan, TurnEdited, TurnRated, cite
from turnmark.assistant.sessions.session_files import (
    delete_session,
    list_sessions,
    new_session,
    read_session,
    resume_session,
    session_names,
    sessions_folder,
)
from turnmark.assistant.types import Citation, Event
from turnmark.core.errors import RequestError

BEGAN = SessionBegan(index="notes", generator="extractive")


@pytest.mark.parametrize(
    ("rating", "edit", "said"),
    [("bad", None, []), ("good", None, ["shorter", "Short."]), ("bad", "Mine.", ["shorter", "Mine."])],
)
def test_revision_is_a_turn_and_is_dropped_if_rated_bad_without_an_edit(rating, edit, said):
    events = [BEGAN, turned(1, "Who?", "Long."), turned(2, "shorter", "Short.", kind="revise")]
    talk = folded(*events, TurnRated(turn=2, rating=rating), *([TurnEdited(turn=2, text=edit)] if edit else []))
    assert [message.content for message in talk.history()] == ["Who?", "Long.", *said]
    talk.apply(turned(3, "And Ben?", "He too."))
    assert [message.content for message in talk.history()] == ["Who?", "Long.", *said, "And Ben?", "He too."]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES)
def test_any_event_detail_can_be_stored(value):
    session = new_session(BEGAN)
    session.record(turned(1, "q", "a \ud800", events=(Event(step="note", detail={"x": value}),)))
    session.close()
    file = sessions_folder() / f"{session.name}.jsonl"
    content = file.read_text(encoding="utf-8")
    file.unlink()
    assert content.count("\n") == 2
    stored = json.loads(content.split("\n")[1], parse_constant=pytest.fail)["events"][0]["detail"]["x"]
    if isinstance(value, float) and not math.isfinite(value):
        assert stored is None
    elif isinstance(value, int | bool):
        assert stored == value


def test_session_is_saved_privately_after_each_turn_and_can_be_read():
    session = new_session(BEGAN)
    session.record(AssistantSwapped(index="notes", generator="replay:x"))
    assert session_names() == [], "a chat without a turn leaves no file"
    session.record(turned(1, "Who?", "Ada.", "a"))
    session.record(TurnRated(turn=1, rating="good", comment="yes"))
    talk, note = read_session(session.name)
    assert note == ""
    assert talk.exchanges == session.conversation.exchanges
    assert (sessions_folder() / f"{session.name}.jsonl").stat().st_mode & 0o777 == 0o600
    assert sessions_folder().stat().st_mode & 0o777 == 0o700
    assert [(info.turns, info.question) for info in list_sessions()] == [(1, "Who?")]
    with pytest.raises(RequestError, match="open in another chat"):
        resume_session(session.name)
    with pytest.raises(RequestError, match="open in another chat"):
        delete_session(session.name)
    session.close()
    delete_session(session.name)
    assert session_names() == []


def test_unsaved_session_is_saved_once_it_gets_a_name():
    session = new_session(BEGAN, keep=False)
    session.record(turned(1, "Who?", "Ada."))
    assert session_names() == []
    assert session.save("talk") == "talk"
    session.close()
    again = resume_session("talk", keep=False)
    again.record(turned(2, "When?", "May."))
    assert session_names() == ["talk"]
    assert again.save("more") == "more"
    again.close()
    assert [len(read_session(name)[0].exchanges) for name in ("talk", "more")] == [1, 2]


def test_session_name_is_never_a_path_and_never_replaces_another_session():
    first, second = new_session(BEGAN), new_session(BEGAN)
    for session in (first, second):
        session.record(turned(1, "Who?", "Ada."))
    assert first.save("talk") == "talk"
    before = (sessions_folder() / "talk.jsonl").read_bytes()
    with pytest.raises(RequestError, match="session 'talk' exists already"):
        second.save("talk")
    for name in ("../talk", "/etc/x", "a/b", "", ".hidden", "a\n"):
        with pytest.raises(RequestError):
            second.save(name)
    assert (sessions_folder() / "talk.jsonl").read_bytes() == before
    first.close()
    second.close()


def kept(tail: bytes = b"") -> Path:
    """Write the file of a session with one turn, followed by `tail`."""
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.close()
    path = sessions_folder() / f"{session.name}.jsonl"
    path.write_bytes(path.read_bytes() + tail)
    return path


@pytest.mark.parametrize(
    "tail", [b'{"event": "rate", "turn": 1, "rat', b"\xff\xfe", b'{"event": "undo", "turn": 1}\n', b"[" * 100_000]
)
def test_unreadable_line_is_left_out_with_a_note(tail):
    path = kept(tail)
    again = resume_session(None)
    assert again.note == f"session {path.stem!r}, line 3: left out, since it is damaged or of another version"
    again.record(turned(2, "When?", "May."))
    again.close()
    assert [exchange.question for exchange in read_session(path.stem)[0].exchanges] == ["Who?", "When?"]


def test_incomplete_last_line_and_unknown_fields_are_tolerated():
    event = turned(2, "When?", "May.").model_dump(mode="json")
    event["reply"] |= {"mood": "fine", "checks": {"grounded": 0.5, "spelling": 1.0}}
    path = kept(json.dumps(event).encode())
    again = resume_session(path.stem)
    again.record(turned(3, "Where?", "Rome."))
    again.close()
    talk, _ = read_session(path.stem)
    assert [exchange.reply.answer for exchange in talk.exchanges] == ["Ada.", "May.", "Rome."]
    assert (talk.exchanges[1].reply.checks.grounded, again.note) == (0.5, "")


def test_source_is_always_one_line():
    source = Citation(
        n=1, id="a", document="a", title="A\nB\tC", section="D", path="a\n[2] forged.md", page=3, start=0, end=1,
        text="x", score=1.0,
    )  # fmt: skip
    assert cite(source) == "A␤B C › D, a␤[2] forged.md, page 3"
