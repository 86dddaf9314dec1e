"""The answer of a model is checked while the user types."""

from __future__ import annotations

import io
import threading
from pathlib import Path

import pytest
from rich.console import Console

from tests.assistant.notes import KETTLE, over, scripted
from tests.patience import PATIENCE
from turnmark.assistant.repl.terminal_chat import TerminalChat
from turnmark.assistant.steps.step_results import CheckedDraft, Draft, UnderstoodMessage
from turnmark.assistant.steps.turn_state import Turn
from turnmark.assistant.steps.verify.verify_answer import Verification
from turnmark.core.errors import TurnmarkError

ANSWER = "The kettle is red. [1] It was built in Lisbon by a famous cook. [1]"
UNSUPPORTED = "It was built in Lisbon by a famous cook."


class SlowVerify(Verification):
    """The verify step, which waits until it may begin."""

    def __init__(self, failure: str = "") -> None:
        self.may_begin = threading.Event()
        self.failure = failure

    def __call__(self, turn: Turn, understood: UnderstoodMessage, draft: Draft, /) -> CheckedDraft:
        assert self.may_begin.wait(PATIENCE)
        if self.failure:
            raise TurnmarkError(self.failure)
        return super().__call__(turn, understood, draft)


def chat_on_terminal(tmp_path: Path, verify: SlowVerify) -> tuple[TerminalChat, io.StringIO]:
    assistant = over(tmp_path, scripted(tmp_path, ANSWER), steps=("understand=rules",), kettle=KETTLE)
    assistant.steps.verify = verify
    screen = io.StringIO()
    console = Console(file=screen, force_terminal=True, width=200, highlight=False)
    return TerminalChat(assistant, console, interactive=True), screen


def test_prompt_returns_before_the_answer_is_checked(tmp_path):
    verify = SlowVerify()
    chat, screen = chat_on_terminal(tmp_path, verify)
    chat.ask("What color is the kettle?")
    assert chat.is_checking
    assert not chat.has_news
    assert "The kettle is red." in screen.getvalue()
    assert "1 section" in screen.getvalue()
    assert chat.conversation.last is None

    verify.may_begin.set()
    chat.settle()
    assert chat.conversation.last is not None
    assert chat.conversation.last.reply.checks.unsupported == (UNSUPPORTED,)
    assert screen.getvalue().count(f"not in the documents: {UNSUPPORTED}") == 1
    recorded = [event.step for event in chat.conversation.last.events]
    assert recorded[-2:] == ["decide", "verify"]


def test_leaving_records_an_answer_that_is_not_checked_yet(tmp_path, monkeypatch):
    verify = SlowVerify()
    chat, _ = chat_on_terminal(tmp_path, verify)
    chat.ask("What color is the kettle?")
    background = chat._unsettled[0]  # type: ignore[index]

    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(background, "reply", interrupt)
    with pytest.raises(KeyboardInterrupt):
        chat.settle()
    assert chat.conversation.last is None
    chat.settle(leaving=True)
    assert chat.conversation.last is not None
    assert chat.conversation.last.reply.checks.grounded is None
    verify.may_begin.set()


def test_failed_check_keeps_the_answer_and_is_reported(tmp_path):
    verify = SlowVerify("the embedder is damaged")
    chat, screen = chat_on_terminal(tmp_path, verify)
    chat.ask("What color is the kettle?")
    verify.may_begin.set()
    chat.settle()
    assert "the answer could not be checked: the embedder is damaged" in screen.getvalue()
    assert chat.conversation.last is not None
    assert chat.conversation.last.reply.answer == ANSWER
