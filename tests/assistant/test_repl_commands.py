"""The commands of a chat, with a real index and a scripted model."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path
from signal import SIGINT, raise_signal

import pytest
from rich.console import Console

from tests.assistant.notes import scripted
from tests.opened import assistant_over
from tests.servers import Say, ScriptedServer
from turnmark.assistant.repl.chat_commands import COMMANDS
from turnmark.assistant.repl.chat_loop import handle_line
from turnmark.assistant.repl.terminal_chat import TerminalChat
from turnmark.assistant.sessions.conversation import SessionBegan
from turnmark.assistant.sessions.session_files import new_session, read_session, session_names, sessions_folder
from turnmark.evaluation.metrics.overlap import grade_exchange

STARTER = "How do I keep a sourdough starter?"


class Talk:
    """A chat that returns its output since the last input."""

    def __init__(self, generator: str = "extractive"):
        assistant = assistant_over("demo", generator)
        session = new_session(SessionBegan(index="demo", generator=generator))
        self._out = io.StringIO()
        console = Console(file=self._out, width=100, highlight=False)
        self.chat = TerminalChat(assistant, console, session, grade_exchange)

    def __call__(self, line: str) -> str:
        assert handle_line(self.chat, line)
        printed = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return printed

    @property
    def last(self):
        return self.chat.conversation.last


@pytest.fixture
def talk(home: Path) -> Talk:
    return Talk()


def test_commands_before_the_first_question_say_what_is_missing(talk):
    assert len(COMMANDS) == 18
    for name in "/why|/rate good|/edit x|/retry|/grade|/revise shorter|/export markdown x.md".split("|"):
        assert " yet" in talk(name), name
    assert all(name in talk("/help") for name in COMMANDS)
    assert "did you mean /save?" in talk("/sav")
    assert "/clear all: /clear takes no argument" in talk("/clear all")
    assert talk.last is None
    assert session_names() == []


def test_why_and_rate(talk):
    talk(STARTER)
    printed = talk("/why")
    assert "handbook/sourdough-starter-care.md" in printed.split("search 1")[1]
    assert f"query: {STARTER}" in printed
    assert "retrieve" in printed.split("seconds:")[1]
    source = talk.last.reply.citations[0]
    assert source.text in talk(f"/why {source.n}").replace("\n\n\n", "\n\n")
    assert "/why 99: unknown source (expected one of: 1" in talk("/why 99")
    assert "rated good" in talk("/rate GOOD just right")
    assert "expected good, neutral or bad" in talk("/rate splendid")
    assert (talk.last.rating, talk.last.comment) == ("good", "just right")
    assert "rated: good (just right)" in talk("/why")


def test_edit_is_stored_with_the_original_and_graded_against_it(talk):
    talk(STARTER)
    original = talk.last.reply.answer
    assert "edited" in talk("/edit Feed the starter weekly [1].")
    assert talk.last.edit == "Feed the starter weekly [1]."
    assert talk.last.reply.answer == original
    assert talk.chat.history[-1].content == "Feed the starter weekly."
    grades = talk("/grade")
    assert "against your version" in grades.split("rouge_l.word ")[1]
    assert "token_recall" in grades
    assert "nothing was changed" in talk("/edit Feed the starter weekly [1].")


def test_ctrl_c_while_an_index_is_opened_does_not_end_the_chat(talk, monkeypatch):
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("turnmark.assistant.repl.terminal_chat.up_to_date", interrupted)
    assert "canceled" in talk(STARTER)


EDITOR = """\
import os, stat, sys
path = sys.argv[-1]
mode = stat.S_IMODE(os.stat(path).st_mode)
open(sys.argv[1], "w").write(repr(mode) + " " + " ".join(sys.argv[2:-1]))
text = open(path).read()
open(path, "w").write(text + "More.")
"""


def test_editor_gets_a_private_file_without_a_shell_and_may_fail(talk, tmp_path, monkeypatch):
    program, report = tmp_path / "my editor.py", tmp_path / "report"
    program.write_text(EDITOR, encoding="utf-8")
    monkeypatch.setenv("VISUAL", f"{sys.executable} '{program}' {report} '$(touch {tmp_path}/pwned); x'")
    talk(STARTER)
    assert "edited" in talk("/edit")
    assert talk.last.edit == f"{talk.last.reply.answer}\nMore."
    assert report.read_text() == f"384 $(touch {tmp_path}/pwned); x"
    assert not (tmp_path / "pwned").exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("VISUAL", "true")
    before = set(tmp_path.iterdir())
    assert "nothing was changed" in talk("/edit")
    assert set(tmp_path.iterdir()) == before
    for command in ("false", "/no/such", "vim '"):
        monkeypatch.setenv("VISUAL", command)
        assert "nothing was changed" in talk("/edit")
    assert talk.last.edit.endswith("\nMore.")


def test_switching_parts_and_retrying_keep_the_conversation(talk, tmp_path):
    talk(STARTER)
    talk("/rate bad")
    spec = scripted(tmp_path, *(f"A sourdough starter is kept {how} [1]." for how in ("first", "next")))
    assert "the conversation continues" in talk(f"/generator {spec}")
    talk("/retry")
    assert "kept first" in talk.last.reply.answer
    assert (talk.last.config.generator, talk.last.rating, talk.last.turn) == (spec, None, 1)
    talk("/retry")
    assert "kept next" in talk.last.reply.answer
    talk("/generator extractive")
    talk("/retriever bm25")
    assert "retriever: bm25" in talk("/retriever")
    assert [message.role for message in talk.chat.history] == ["user", "assistant"]
    assert talk.chat.assistant.generator is None
    kept, _ = read_session(talk.chat.session.name)
    assert kept.last.reply == talk.last.reply
    assert kept.config.retriever == "bm25"
    talk("/retriever default")
    assert "retriever: default (available: bm25, " in talk("/retriever")
    assert talk.chat.assistant.config.retriever is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("/generator bogus", "no generator is called 'bogus'"),
        ("/retriever dense", "has no vectors"),
        ("/index nope", "no index is called 'nope'"),
        ("/export pdf x", "a format (mtrag, kiwi, markdown) and a file"),
        ("/export mtrag /etc/passwd", "mtrag needs a folder"),
        ("/revise", "an instruction is missing"),
        ("/save ../x", "use up to 100 letters"),
    ],
)
def test_invalid_command_changes_nothing(talk, line, problem):
    talk(STARTER)
    parts, session, exchanges = talk.chat.assistant, talk.chat.session, list(talk.chat.conversation.exchanges)
    assert problem in talk(line)
    assert talk.chat.assistant is parts
    assert talk.chat.session is session
    assert talk.chat.conversation.exchanges == exchanges


def test_failed_or_canceled_turn_changes_neither_conversation_nor_file(home, tmp_path):
    talk = Talk(scripted(tmp_path, "A sourdough starter is fed weekly [1]."))
    talk(STARTER)
    file = sessions_folder() / f"{talk.chat.session.name}.jsonl"
    history, content = talk.chat.history, file.read_bytes()
    for line in ("How do I bake sourdough the way the Anvick Bakehouse does it?", "/retry", "/revise in Latin, please"):
        assert "no answer: " in talk(line)
        assert talk.chat.history == history
    assert talk.chat.failed == 3

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    reply, talk.chat.assistant.reply = talk.chat.assistant.reply, interrupted
    assert "canceled; this question is not part" in talk("What?")
    talk.chat.interactive = False
    with pytest.raises(KeyboardInterrupt):
        talk("What?")
    assert (talk.chat.history, file.read_bytes()) == (history, content)
    talk.chat.assistant.reply = reply
    talk("/generator extractive")
    talk("How is bread baked?")
    assert talk.chat.history[:2] == history
    assert talk.chat.history[2].content == "How is bread baked?"


def test_why_shows_what_a_canceled_turn_found(home):
    def stop(_: object) -> Say:
        raise_signal(SIGINT)
        return Say("late", stall=5)

    calls = [("search", '{"query": "rye starter"}'), ("grep", '{"words": "starter"}')]
    with ScriptedServer(Say("{}"), Say("", calls=calls), stop) as server:
        talk = Talk(f"openai:tiny@{server.url}?retries=0")
        printed = talk("Which pages mention a starter?")
        assert "canceled; this question is not part of the conversation; /why shows what was found" in printed
        assert talk.chat.history == []
        shown = talk("/why")
        assert "canceled: Which pages mention a starter?\nthe model searched: 1 search, 1 count\n" in shown
        assert re.search(r"1\. grep: starter → \d+ times in \d+ sections of \d+ of \d+ documents \[\d+\]\n", shown)
        server.replies = [Say("{}"), Say("It is fed weekly [1].")]
        talk(STARTER)
        assert "canceled" not in talk("/why")
    name = talk.chat.session.name
    talk.chat.session.close()
    kept = (sessions_folder() / f"{name}.jsonl").read_text(encoding="utf-8")
    assert '"event": "stopped"' in kept
    assert [exchange.question for exchange in read_session(name)[0].exchanges] == [STARTER]


def test_another_session_is_continued_with_its_own_assistant(home):
    talk = Talk()
    talk(STARTER)
    talk("/where path=nothing*")
    talk("/save first")
    talk("/clear")
    talk("Thanks!")
    second = talk.chat.session.name
    listed = talk("/sessions")
    assert "1 turn" in listed
    assert STARTER[:40] in listed
    assert f"this is {second}; /resume NAME continues another" in listed
    assert "name another session" in talk("/resume")
    assert "name another session" in talk(f"/resume {second}")
    assert "did you mean 'first'?" in talk("/resume frist")
    assert talk.chat.session.name == second
    talk("/where off")
    shown = talk("/resume first")
    assert "session first: 1 turn so far" in shown
    assert STARTER in shown
    assert talk.last.question == STARTER
    assert talk.chat.assistant.config.where == ("path=nothing*",)
    talk.chat.session.close()


def test_session_gets_a_name_and_continues_if_it_cannot_be_saved(home):
    talk = Talk()
    talk(STARTER)
    assert "saved as first" in talk("/save first")
    talk("/clear")
    assert talk.last is None
    assert session_names() == ["first"]
    talk.chat.session.close()
    (home / "sessions" / "first.jsonl").unlink()
    (home / "sessions").rmdir()
    (home / "sessions").write_text("in the way", encoding="utf-8")
    assert "cannot be saved" in talk(STARTER)
    assert talk.last.question == STARTER
    assert "cannot be saved" not in talk("Thanks!")
