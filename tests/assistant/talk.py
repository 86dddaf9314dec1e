"""A chat for tests, over the demo index."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from tests.assistant.notes import script
from turnmark.assistant.open import open_parts
from turnmark.assistant.repl.chat import Chat
from turnmark.assistant.repl.loop import handle
from turnmark.assistant.session import Began
from turnmark.assistant.session_files import new_session
from turnmark.evaluation.metrics.overlap import grade_exchange

STARTER = "How do I keep a sourdough starter?"


class Talk:
    """A chat, and what it has said since it was last asked."""

    def __init__(self, generator: str = "extractive", keep: bool = True, confirm: Callable[[str], bool] | None = None):
        opened = open_parts("demo", generator)
        session = new_session(Began(index="demo", generator=generator), keep)
        self._out = io.StringIO()
        console = Console(file=self._out, width=100, highlight=False)
        self.chat = Chat(opened.assistant, console, session, opened, grade_exchange, confirm)

    def __call__(self, line: str) -> str:
        assert handle(self.chat, line)
        printed = self._out.getvalue()
        self._out.seek(0)
        self._out.truncate()
        return printed

    @property
    def last(self):
        return self.chat.conversation.last


def scripted(folder: Path, *texts: str) -> str:
    """The spec of a model that answers so, turn by turn, and takes every message as it is."""
    understood = [{"text": "{}", "match": "The user's new message:"} for _ in texts]
    return script(folder, *understood, *({"text": text, "match": "Sections of the documents:"} for text in texts))
