"""Sessions: what stands after their events, and the files that keep them."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.exchanges import folded, reply, turned
from turnmark.assistant.session import (
    EVENT,
    Began,
    Changed,
    Edited,
    Rated,
    Turned,
    storable,
)
from turnmark.assistant.session_files import (
    delete_session,
    list_sessions,
    new_session,
    read_session,
    resumed,
    session_names,
    sessions_folder,
)
from turnmark.assistant.types import Event, RevisedAnswer
from turnmark.corpora.errors import RequestError

BEGAN = Began(index="notes", generator="extractive")


def test_a_conversation_is_what_was_said_without_marks():
    talk = folded(BEGAN, turned(1, "Who?", "Ada [1]. So it is [2]."), turned(2, "When?", "In May."))
    assert [message.content for message in talk.history()] == ["Who?", "Ada. So it is.", "When?", "In May."]
    assert [message.role for message in talk.history(1)] == ["user", "assistant"]


@pytest.mark.parametrize(
    ("rating", "edit", "answer"), [("bad", None, "Long."), ("good", None, "Short."), ("bad", "Mine.", "Mine.")]
)
def test_a_bad_revision_that_nobody_edited_is_dropped(rating, edit, answer):
    events = [
        BEGAN,
        turned(1, "Who?", "Long."),
        turned(2, "shorter", "Short.", kind="revise"),
        Rated(turn=2, rating=rating),
    ]
    talk = folded(*events, *([Edited(turn=2, text=edit)] if edit else []))
    assert talk.history()[-1].content == answer


def test_a_revision_takes_the_answers_place_and_its_instruction_is_no_message():
    talk = folded(BEGAN, turned(1, "Who?", "Ada."), turned(2, "longer", "Ada Lovelace.", kind="revise"))
    assert [message.content for message in talk.history()] == ["Who?", "Ada Lovelace."]
    talk.apply(turned(3, "shorter", "A. L.", kind="revise"))
    assert talk.history()[-1] == RevisedAnswer(role="assistant", content="A. L.", before=("Ada.", "Ada Lovelace."))
    talk.apply(turned(4, "And Ben?", "He too."))
    assert not isinstance(talk.history()[-1], RevisedAnswer)


def test_a_later_format_is_refused():
    with pytest.raises(ValueError, match="format 99"):
        folded(Began(format=99, index="a", generator="b"))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(st.characters(), max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_whatever_a_step_reports_can_be_kept(value):
    event = Turned.model_validate(
        {"turn": 1, "question": "q", "reply": reply("a"), "events": (Event(step="note", detail={"x": value}),)}
    )
    line = json.dumps(storable(event.model_dump()), ensure_ascii=False, allow_nan=False).encode("utf-8")
    assert b"\n" not in line
    again = EVENT.validate_python(json.loads(line))
    stored = again.events[0].detail["x"]
    if isinstance(value, float) and not math.isfinite(value):
        assert stored is None
    elif isinstance(value, int | bool):
        assert stored == value


def test_a_chat_without_a_turn_leaves_no_file():
    session = new_session(BEGAN)
    session.record(Changed(setting="passages", value=4))
    session.close()
    assert session_names() == []


def test_a_session_is_kept_turn_by_turn_and_read_again():
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada.", "a"))
    session.record(Rated(turn=1, rating="good", comment="yes"))
    talk, notes = read_session(session.name)
    assert notes == []
    assert talk.exchanges == session.conversation.exchanges
    path = sessions_folder() / f"{session.name}.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sessions_folder().stat().st_mode & 0o777 == 0o700
    assert [info.turns for info in list_sessions()] == [1]
    session.close()


def test_no_save_keeps_nothing_until_it_is_asked_to():
    session = new_session(BEGAN, keep=False)
    session.record(turned(1, "Who?", "Ada."))
    assert session_names() == []
    assert session.save("talk") == "talk"
    session.record(turned(2, "When?", "May."))
    session.close()
    assert len(read_session("talk")[0].exchanges) == 2


def test_a_name_is_never_a_path_and_never_takes_anothers():
    first, second = new_session(BEGAN), new_session(BEGAN)
    for session in (first, second):
        session.record(turned(1, "Who?", "Ada."))
    assert first.save("talk") == "talk"
    before = (sessions_folder() / "talk.jsonl").read_bytes()
    with pytest.raises(RequestError, match="called 'talk' already"):
        second.save("talk")
    for name in ("../talk", "/etc/x", "a/b", "", ".hidden", "a\n"):
        with pytest.raises(RequestError):
            second.save(name)
    assert (sessions_folder() / "talk.jsonl").read_bytes() == before
    first.record(turned(2, "When?", "May."))
    assert len(read_session("talk")[0].exchanges) == 2
    first.close()
    second.close()


def kept(name: str = "", tail: bytes = b"") -> Path:
    """The file of a session of one turn, with something behind its last line."""
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.close()
    path = sessions_folder() / f"{session.name}.jsonl"
    path.write_bytes(path.read_bytes() + tail)
    return path


@pytest.mark.parametrize(
    "tail", [b'{"event": "rate", "turn": 1, "rat', b"\xff\xfe", b'{"event": "no such"}', b"[" * 100_000]
)
def test_a_torn_last_line_is_left_out_with_a_note_and_the_rest_goes_on(tail):
    path = kept(tail=tail)
    talk, notes = read_session(path.stem)
    assert (len(talk.exchanges), len(notes)) == (1, 1)
    again, notes = resumed(path.stem)
    assert "only in part" in notes[0]
    again.record(turned(2, "When?", "May."))
    again.close()
    assert [exchange.question for exchange in read_session(path.stem)[0].exchanges] == ["Who?", "When?"]
    assert all(EVENT.validate_python(json.loads(line)) for line in path.read_bytes().splitlines())


def test_a_whole_last_line_without_its_end_is_kept():
    path = kept()
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    again, notes = resumed(None)
    assert notes == []
    again.record(turned(2, "When?", "May."))
    again.close()
    assert len(read_session(path.stem)[0].exchanges) == 2


def test_a_line_in_the_middle_that_is_none_is_named_and_fields_of_a_later_version_are_left_out():
    event = turned(2, "When?", "May.").model_dump(mode="json")
    event["reply"]["mood"] = "fine"
    path = kept(tail=b"nonsense\n" + json.dumps(event).encode() + b"\n")
    talk, notes = read_session(path.stem)
    assert [exchange.reply.answer for exchange in talk.exchanges] == ["Ada.", "May."]
    assert notes == [f"session {path.stem!r}, line 3: no event (not JSON); left out"]


def test_one_chat_at_a_time_writes_a_session():
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    with pytest.raises(RequestError, match="open in another chat"):
        resumed(session.name)
    with pytest.raises(RequestError, match="open in another chat"):
        delete_session(session.name)
    session.close()
    delete_session(session.name)
    assert session_names() == []
