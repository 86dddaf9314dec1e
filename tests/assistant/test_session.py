"""Sessions: what stands after their events, and the files that keep them."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.assistant.exchanges import citation, reply, turned
from turnmark.assistant.session import (
    EVENT,
    Again,
    Began,
    Changed,
    Conversation,
    Edited,
    Labelled,
    Rated,
    Swapped,
    Turned,
    Undone,
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
from turnmark.assistant.types import Event, RevisedAnswer, Step
from turnmark.corpora.errors import RequestError, TurnmarkError

BEGAN = Began(index="notes", generator="extractive")


def folded(*events: object) -> Conversation:
    conversation = Conversation()
    for event in events:
        conversation.apply(event)  # type: ignore[arg-type]
    return conversation


# -- what stands after events


def test_a_conversation_is_what_was_said_without_marks():
    talk = folded(BEGAN, turned(1, "Who?", "Ada [1]. So it is [2]."), turned(2, "When?", "In May."))
    assert [message.content for message in talk.history()] == ["Who?", "Ada. So it is.", "When?", "In May."]
    assert [message.role for message in talk.history(1)] == ["user", "assistant"]


def test_an_edit_takes_the_answers_place_and_the_original_stays():
    talk = folded(BEGAN, turned(1, "Who?", "Ada."), Edited(turn=1, text="Ben [1].", metric="m", score=0.5))
    assert talk.history()[-1].content == "Ben."
    assert talk.last.reply.answer == "Ada."
    assert talk.last.approved == "Ben."


def test_another_reply_keeps_the_labels_and_drops_the_verdict():
    talk = folded(
        BEGAN, turned(1, "Who?", "Ada.", "a", "b"), Rated(turn=1, rating="bad"), Edited(turn=1, text="x"),
        Labelled(turn=1, labels={"a": False, "z": True}, passages=(citation(1, "a"), citation(2, "z"))),
        Again.model_validate({"turn": 1, "why": "evidence", "reply": reply("Ben.", "c")}),
    )  # fmt: skip
    last = talk.last
    assert (last.reply.answer, last.rating, last.edit) == ("Ben.", None, None)
    assert last.labels == {"a": False, "z": True}
    assert {passage.id for passage in last.seen} == {"a", "b", "c", "z"}


def test_what_is_taken_back_is_gone_and_its_number_is_not_used_again():
    talk = folded(
        BEGAN, turned(1, "Who?", "Ada."), turned(2, "When?", "May."), Undone(turn=2), Rated(turn=2, rating="good")
    )
    assert len(talk.exchanges) == 1
    assert talk.turns == 2
    assert talk.last.rating is None


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


def test_steps_are_a_part_of_what_was_said():
    turn = Turned.model_validate(
        {"turn": 1, "question": "How?", "reply": reply("Do it [1].", procedure=(Step(step="Stir", citations=(1,)),))}
    )
    assert folded(BEGAN, turn).history()[-1].content == "Do it.\n\n1. Stir"


def test_only_what_a_person_stands_behind_is_approved():
    steps = reply("Do it [1].", procedure=(Step(step="Stir", citations=(1,)), Step(step="Rest", citations=(1,))))
    turn = Turned.model_validate({"turn": 1, "question": "How?", "reply": steps})
    neutral = folded(BEGAN, turn, Rated(turn=1, rating="neutral")).last
    good = folded(BEGAN, turn, Rated(turn=1, rating="good")).last
    assert neutral.approved is None
    assert neutral.touched
    assert good.approved == "Do it.\n\n1. Stir\n2. Rest"


def test_parts_and_settings_are_those_of_the_time():
    talk = folded(
        BEGAN, turned(1, "a", "b"), Swapped(index="other", generator="replay:x", retriever="bm25"),
        Changed(setting="passages", value=5), turned(2, "c", "d"),
    )  # fmt: skip
    assert [exchange.index for exchange in talk.exchanges] == ["notes", "other"]
    assert (talk.index, talk.generator, talk.retriever, talk.settings) == ("other", "replay:x", "bm25", {"passages": 5})


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
    assert isinstance(again, Turned)
    stored = again.events[0].detail["x"]
    if isinstance(value, float) and not math.isfinite(value):
        assert stored is None
    elif isinstance(value, int | bool):
        assert stored == value


# -- files


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


def torn(name: str, tail: bytes) -> Path:
    path = sessions_folder() / f"{name}.jsonl"
    with open(path, "ab") as file:
        file.write(tail)
    return path


@pytest.mark.parametrize(
    "tail", [b'{"event": "rate", "turn": 1, "rat', b"\xff\xfe", b'{"event": "no such"}', b"[" * 100_000]
)
def test_a_torn_last_line_is_left_out_with_a_note_and_the_rest_goes_on(tail):
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.close()
    path = torn(session.name, tail)
    talk, notes = read_session(session.name)
    assert len(talk.exchanges) == 1
    assert len(notes) == 1
    again, notes = resumed(session.name)
    assert "only in part" in notes[0]
    again.record(turned(2, "When?", "May."))
    again.close()
    assert [exchange.question for exchange in read_session(session.name)[0].exchanges] == ["Who?", "When?"]
    assert all(EVENT.validate_python(json.loads(line)) for line in path.read_bytes().splitlines())


def test_a_whole_last_line_without_its_end_is_kept():
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.close()
    path = sessions_folder() / f"{session.name}.jsonl"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    again, notes = resumed(None)
    assert notes == []
    again.record(turned(2, "When?", "May."))
    again.close()
    assert len(read_session(session.name)[0].exchanges) == 2


def test_a_line_in_the_middle_that_is_none_is_named_and_the_rest_read():
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    torn(session.name, b"nonsense\n")
    session.record(turned(2, "When?", "May."))
    session.close()
    talk, notes = read_session(session.name)
    assert len(talk.exchanges) == 2
    assert notes == [f"session {session.name!r}, line 3: no event (not JSON); left out"]


def test_fields_of_a_later_version_are_left_out():
    session = new_session(BEGAN)
    event = turned(1, "Who?", "Ada.").model_dump(mode="json")
    event["reply"]["mood"] = "fine"
    session.record(turned(1, "x", "y"))
    torn(session.name, json.dumps({**event, "turn": 2}).encode() + b"\n")
    session.close()
    assert read_session(session.name)[0].exchanges[-1].reply.answer == "Ada."


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


def test_resuming_without_keeping_changes_nothing_on_the_disk():
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.close()
    before = (sessions_folder() / f"{session.name}.jsonl").read_bytes()
    again, _ = resumed(None, keep=False)
    again.record(turned(2, "When?", "May."))
    assert len(again.conversation.exchanges) == 2
    assert (sessions_folder() / f"{session.name}.jsonl").read_bytes() == before
    again.save("copy")
    again.close()
    assert len(read_session("copy")[0].exchanges) == 2


def test_what_is_not_there_is_named_with_what_is():
    with pytest.raises(RequestError, match="no session to resume yet"):
        resumed(None)
    with pytest.raises(RequestError, match="none yet"):
        read_session("talk")
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    session.save("mine")
    session.close()
    with pytest.raises(RequestError, match="there are: mine"):
        read_session("talk")


def test_a_folder_that_cannot_be_made_is_told():
    sessions_folder().parent.mkdir(parents=True, exist_ok=True)
    sessions_folder().write_text("a file in its place", encoding="utf-8")
    session = new_session(BEGAN)
    with pytest.raises(TurnmarkError, match="goes on without being kept"):
        session.record(turned(1, "Who?", "Ada."))


def test_a_disk_that_takes_nothing_more_does_not_end_the_conversation():
    """`/dev/full` is a disk that is always full."""
    session = new_session(BEGAN)
    session.record(turned(1, "Who?", "Ada."))
    full = os.open("/dev/full", os.O_WRONLY)
    os.dup2(full, session._file)
    os.close(full)
    with pytest.raises(TurnmarkError, match="goes on without being kept"):
        session.record(turned(2, "When?", "May."))
    session.record(turned(3, "Why?", "So."))
    assert len(session.conversation.exchanges) == 3
    assert len(read_session(session.name)[0].exchanges) == 1
