"""The commands of a chat, over a real index and a scripted model."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.assistant.talk import STARTER, Talk, scripted
from turnmark.assistant.repl.answers import edited
from turnmark.assistant.repl.loop import COMMANDS
from turnmark.assistant.session_files import list_sessions, read_session, session_names


@pytest.fixture
def talk(home: Path) -> Talk:
    return Talk()


def test_before_the_first_question_every_command_says_what_is_missing(talk):
    lines = "/why|/steps|/rate good|/edit x|/relevant 1|/retry|/undo|/grade|/revise shorter"
    for name in lines.split("|"):
        printed = talk(name)
        assert printed.strip(), name
        assert "Traceback" not in printed
    assert "nothing to export" in talk("/export markdown x.md")
    assert talk.last is None
    assert session_names() == []


def test_help_names_every_command(talk):
    printed = talk("/help")
    assert all(name in printed for name in COMMANDS)
    assert "did you mean /sources?" in talk("/source")


def test_why_steps_and_sources(talk):
    talk(STARTER)
    printed = talk("/why")
    assert "handbook/sourdough-starter-care.md" in printed
    assert "search 1" in printed
    assert f"query: {STARTER}" in printed
    assert "decided: answer, confidence" in printed
    assert "no language model was asked" in printed
    assert "retrieve" in printed.split("seconds:")[1]
    assert "1. Stir the starter" in talk("/steps")
    assert talk("/sources").count("handbook/") >= 2
    assert "Käthe Brannock" in talk("/sources 2") or "Käthe Brannock" in talk("/sources 1")
    assert "there is no source 99" in talk("/sources 99")
    assert "number of a source" in talk("/sources x")


def test_an_unknown_answer_rests_on_no_sources(talk):
    talk("Who won the 1998 World Cup?")
    assert talk.last.reply.decision == "unknown"
    assert "rests on no sources" in talk("/sources")


def test_rating(talk):
    talk(STARTER)
    assert "rated good" in talk("/rate GOOD just right")
    assert (talk.last.rating, talk.last.comment) == ("good", "just right")
    assert "good, neutral or bad was expected" in talk("/rate splendid")
    assert talk.last.rating == "good"


def test_an_edit_is_kept_beside_the_original_with_the_likeness_of_the_two(talk):
    talk(STARTER)
    original = talk.last.reply.answer
    printed = talk("/edit Feed it weekly [1].")
    assert "rouge_l.word 0." in printed
    assert talk.last.edit == "Feed it weekly [1]."
    assert talk.last.metric == "rouge_l.word"
    assert 0 < talk.last.score < 1
    assert talk.last.reply.answer == original
    assert talk.chat.history[-1].content == "Feed it weekly."
    assert "token_recall" in talk("/grade")
    assert "nothing was changed" in talk("/edit Feed it weekly [1].")


EDITOR = """\
import os, stat, sys
path = sys.argv[-1]
mode = stat.S_IMODE(os.stat(path).st_mode), stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode)
open(sys.argv[1], "w").write(repr(mode) + " " + " ".join(sys.argv[2:-1]))
text = open(path).read()
open(path, "w").write(text.replace("Stir", "Whirl"))
"""


def test_the_editor_gets_a_private_file_and_no_shell(talk, tmp_path, monkeypatch):
    program, report = tmp_path / "my editor.py", tmp_path / "told"
    program.write_text(EDITOR, encoding="utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{program}' {report} '$(touch {tmp_path}/pwned); x'")
    talk(STARTER)
    assert "edited" in talk("/edit")
    assert "1. Whirl the starter" in talk.last.edit
    assert report.read_text() == f"(384, 448) $(touch {tmp_path}/pwned); x"
    assert not (tmp_path / "pwned").exists()


def test_an_editor_that_fails_changes_nothing(talk, monkeypatch):
    talk(STARTER)
    monkeypatch.setenv("VISUAL", "false")
    assert "ended with 1; nothing was changed" in talk("/edit")
    monkeypatch.setenv("VISUAL", "/no/such/editor")
    assert "cannot be run" in talk("/edit")
    monkeypatch.setenv("VISUAL", "vim 'unclosed")
    assert "is not a command" in talk("/edit")
    monkeypatch.delenv("VISUAL")
    monkeypatch.delenv("EDITOR", raising=False)
    assert "set EDITOR" in talk("/edit")
    assert talk.last.edit is None


def test_what_is_edited_is_deleted_afterwards(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("VISUAL", "true")
    assert edited("text") == "text\n"
    assert list(tmp_path.iterdir()) == []


def test_passages_are_repaired_and_the_turn_answered_again(talk):
    talk(STARTER)
    before = [citation.id for citation in talk.last.reply.citations]
    talk("/rate good")
    printed = talk("/irrelevant 1")
    assert "answered again from" in printed
    assert talk.last.labels == {before[0]: False}
    assert before[0] not in {citation.id for citation in talk.last.reply.citations}
    assert talk.last.rating is None  # said of the answer before
    citations = talk.last.reply.citations
    talk("/relevant 2")
    assert [citation.id for citation in talk.last.reply.citations] == [citations[1].id]
    assert talk.last.labels == {before[0]: False, citations[1].id: True}
    assert {before[0], citations[1].id} <= {citation.id for citation in talk.last.seen}
    assert len(talk.chat.conversation.exchanges) == 1


def test_numbers_that_are_no_sources_are_all_named(talk):
    talk(STARTER)
    printed = talk("/relevant 0 x 99 -1")
    assert all(f"/relevant {word}: there are sources 1 to" in printed for word in ("0", "x", "99", "-1"))
    assert "which?" in talk("/relevant")
    assert talk.last.labels == {}


def test_undo_takes_an_exchange_back_and_retry_answers_again(home, tmp_path):
    talk = Talk(scripted(tmp_path, *(f"A sourdough starter is kept {how} [1]." for how in ("first", "next", "last"))))
    talk(STARTER)
    assert talk.last.reply.answer.startswith("A sourdough starter is kept first")
    talk("/retry")
    assert talk.last.reply.answer.startswith("A sourdough starter is kept next")
    assert len(talk.chat.history) == 2
    assert "taken back: How do I keep" in talk("/undo")
    assert talk.chat.history == []
    assert "nothing to take back" in talk("/undo")
    talk(STARTER)
    assert talk.last.turn == 2


def test_parts_are_swapped_in_the_middle_and_the_conversation_stays(talk, tmp_path):
    talk(STARTER)
    talk("/set passages 2")
    assert "the conversation goes on" in talk(f"/generator {scripted(tmp_path, 'It rests [1].')}")
    assert talk.chat.assistant.passages == 2
    assert len(talk.chat.history) == 2
    talk("How do I bake sourdough the way the Anvick Bakehouse does it?")
    assert talk.last.reply.answer.startswith("It rests")
    assert talk.last.generator.startswith("replay:")
    talk("/generator extractive")
    assert "extractive" in talk("/generator")
    talk("/retriever bm25")
    assert len(talk.chat.conversation.exchanges) == 2
    assert talk.chat.assistant.generator is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/generator bogus", "no generator is called 'bogus'"),
        ("/generator replay:/no/such/file", "cannot be read"),
        ("/retriever dense", "has no vectors"),
        ("/index nope", "no index is called 'nope'"),
        ("/index ../demo", "use up to 100 letters"),
        ("/set passages 0", "a whole number from 1 to"),
        ("/set passages x", "a whole number from 1 to"),
        ("/set nothing 1", "no setting is called 'nothing'"),
        ("/load nope", "no session is called 'nope'"),
        ("/load", "which?"),
        ("/sessions delete nope", "no session is called 'nope'"),
        ("/sessions what", "/sessions lists them"),
        ("/export pdf x", "a format (mtrag, kiwi, markdown) and a file"),
        ("/revise", "how?"),
    ],
)
def test_a_wrong_request_leaves_everything_as_it_was(talk, line, problem):
    talk(STARTER)
    parts, session, exchanges = talk.chat.opened, talk.chat.session, list(talk.chat.conversation.exchanges)
    assert problem in talk(line)
    assert talk.chat.opened is parts
    assert talk.chat.session is session
    assert talk.chat.conversation.exchanges == exchanges


def test_settings_are_shown_and_kept(talk):
    assert "passages = 3" in talk("/set")
    talk("/set passages 5")
    assert talk("/set passages").strip() == "passages = 5"
    talk(STARTER)
    assert read_session(talk.chat.session.name)[0].settings == {"passages": 5}


def test_sessions_are_named_listed_loaded_and_deleted(home):
    talk = Talk(confirm=lambda _: True)
    talk(STARTER)
    talk("/rate good")
    assert "kept as first" in talk("/save first")
    talk("/clear")
    assert talk.last is None
    talk("Who won the 1998 World Cup?")
    talk("/save second")
    assert "first" in talk("/sessions")
    assert "is the one you are in" in talk("/sessions delete second")
    assert "is the one you are in" in talk("/load second")
    printed = talk("/load first")
    assert STARTER in printed
    assert talk.last.rating == "good"
    assert "session second is deleted" in talk("/sessions delete second")
    assert [info.name for info in list_sessions()] == ["first"]
    talk("/undo")
    assert read_session("first")[0].exchanges == []


def test_a_session_whose_parts_are_gone_cannot_be_loaded_and_the_old_one_goes_on(home, tmp_path):
    spec = scripted(tmp_path, "It is fed [1].")
    gone = Talk(spec)
    gone(STARTER)
    gone("/save gone")
    gone.chat.session.close()
    (tmp_path / "script.jsonl").unlink()
    talk = Talk()
    talk(STARTER)
    assert "cannot be read" in talk("/load gone")
    assert talk.last.question == STARTER
    talk("Thanks!")
    assert len(read_session(talk.chat.session.name)[0].exchanges) == 2


def test_a_deletion_is_asked_about(home):
    talk = Talk()
    talk(STARTER)
    talk("/save one")
    talk("/clear")
    assert "nothing was deleted" in talk("/sessions delete one")
    assert session_names() == ["one"]


def test_an_error_while_a_turn_runs_is_told_and_nothing_kept(home, tmp_path):
    talk = Talk(scripted(tmp_path, "First [1]."))
    talk(STARTER)
    assert "no answer: " in talk("How do I bake sourdough the way the Anvick Bakehouse does it?")
    assert talk.chat.failed == 1
    assert len(read_session(talk.chat.session.name)[0].exchanges) == 1


def test_a_session_that_cannot_be_kept_is_told_and_the_answer_stands(talk, home):
    (home / "sessions").write_text("in the way", encoding="utf-8")
    printed = talk(STARTER)
    assert "could not be kept" in printed
    assert talk.last.question == STARTER
    assert "could not be kept" not in talk("Thanks!")


def test_ctrl_c_where_nobody_sits_ends_the_command(talk):
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    talk(STARTER)
    talk.chat.assistant.reply = interrupted
    assert "cancelled; the conversation goes on" in talk("What?")
    talk.chat.interactive = False
    with pytest.raises(KeyboardInterrupt):
        talk("What?")
    assert len(read_session(talk.chat.session.name)[0].exchanges) == 1
