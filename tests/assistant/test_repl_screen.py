"""The screen of a turn, and completion at the prompt."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from tests.assistant.exchanges import reply
from tests.assistant.talk import STARTER, Talk
from turnmark.assistant.repl.loop import COMMANDS
from turnmark.assistant.repl.screen import TurnView
from turnmark.assistant.types import Checks, Event


@pytest.fixture
def talk(home: Path) -> Talk:
    return Talk()


# -- the screen of a turn


def test_notes_and_rewrites_never_stand_in_the_middle_of_a_line():
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True, color_system=None), streaming=True)
    view.on_event(Event(step="understand", text="the whole question"))
    view.on_event(Event(step="answer", delta="It is fed weekly"))
    view.on_event(Event(step="note", text="cut \x1b[2J short"))
    view.on_event(Event(step="answer", delta=" and more"))
    view.stop()
    drawn = out.getvalue().replace("\r\x1b[2K", "<gone>")
    assert "thinking …<gone>→ the whole question\n" in drawn
    assert "It is fed weekly\nnote: cut  short\n" in drawn
    assert "\x1b" not in drawn


def test_an_answer_that_checking_changed_is_drawn_again():
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True, color_system=None), streaming=True)
    view.on_event(Event(step="answer", delta="It is fed [1]. It is red [9]."))
    mended = reply("It is fed [1].", "a").model_copy(update={"checks": Checks(grounded=1.0, repaired=True)})
    view.finish(mended)
    drawn = out.getvalue().split("\r\x1b[2K")[-1]
    lines = [line.rstrip() for line in drawn.split("\n")]
    assert lines[:3] == ["It is fed [1]. It is red [9].", "after checking:", "It is fed [1]."]
    assert lines[3] == "  [1] A — a"
    assert lines[4].startswith("answer · grounded 1.00 · 1 source · repaired")


def test_on_a_terminal_that_cannot_move_nothing_does(monkeypatch):
    monkeypatch.setenv("TERM", "dumb")
    out = io.StringIO()
    view = TurnView(Console(file=out, width=60, force_terminal=True), streaming=True)
    view.on_event(Event(step="retrieve", text="3 passages"))
    view.on_event(Event(step="answer", delta="It is **fed** [1]."))
    view.finish(reply("It is **fed** [1].", "a"))
    assert out.getvalue().startswith("It is **fed** [1].\n")
    assert "\x1b" not in out.getvalue()


# -- completion


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("/so", ["/sources"]),
        ("/s", ["/save", "/sessions", "/set", "/sources", "/steps"]),
        ("/rate ", ["bad", "good", "neutral"]),
        ("/export m", ["markdown", "mtrag"]),
        ("/index d", ["demo"]),
        ("/set pass", ["passages"]),
        ("/load k", ["kept"]),
        ("/sessions d", ["delete"]),
        ("/sessions delete ", ["kept"]),
        ("/generator ext", ["extractive"]),
        ("/retriever bm", ["bm25"]),
        ("/rate good so", []),
        ("/why ", []),
        ("what is /so", []),
    ],
)
def test_completion(talk, typed, offered):
    talk(STARTER)
    talk("/save kept")
    assert completions(talk, typed) == offered


def completions(talk: Talk, typed: str) -> list[str]:
    from prompt_toolkit.completion import CompleteEvent
    from prompt_toolkit.document import Document

    from turnmark.assistant.repl.prompt import ChatCompleter

    completer = ChatCompleter(talk.chat, COMMANDS)
    return [completion.text for completion in completer.get_completions(Document(typed), CompleteEvent())]


def test_completion_of_paths(talk, tmp_path):
    (tmp_path / "notes.jsonl").touch()
    assert completions(talk, f"/export markdown {tmp_path}/no") == ["tes.jsonl"]
    assert completions(talk, f"/generator replay:{tmp_path}/no") == ["tes.jsonl"]
