"""The prompt on a terminal: editing, history across sessions, completion, messages of several lines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from typing import get_args

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

from turnmark.assistant.repl.parts import EXPORTS, names_for
from turnmark.assistant.session import Rating
from turnmark.corpora.console import inert
from turnmark.corpora.home import home

HISTORY = "chat_history"
MENU_LINES = 5


def make_prompt(keep: bool, commands: Iterable[str]) -> Callable[[], str]:
    """Asks for the next message; KeyboardInterrupt at Ctrl-C, EOFError at Ctrl-D on an empty line."""
    session: PromptSession[str] = PromptSession(
        completer=ChatCompleter(commands),
        complete_while_typing=False,
        history=_history(keep),
        key_bindings=_keys(),
        multiline=True,
        prompt_continuation="… ",
        reserve_space_for_menu=MENU_LINES,
        enable_history_search=True,
    )
    return lambda: session.prompt("› ")


def _history(keep: bool) -> History:
    """What was typed, in this session and before, in a file of mode 0600; with --no-save, in this session alone."""
    if not keep:
        return InMemoryHistory()
    path = home() / HISTORY
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        os.close(file)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _keys() -> KeyBindings:
    """Enter sends, Alt-Enter or a backslash before Enter begins a new line."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state:
            buffer.complete_state = None
        elif buffer.document.is_cursor_at_the_end and buffer.text.endswith("\\"):
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.newline(copy_margin=False)

    return keys


class ChatCompleter(Completer):
    """Completes commands and what they take: spec names, indexes, file paths."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """See `prompt_toolkit.completion.Completer`."""
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, blank, arguments = text.partition(" ")
        if not blank:
            yield from _matching(command, self._commands)
            return
        first, blank, path = arguments.partition(" ")
        if command == "/export" and blank:
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
        elif not blank:
            role = command.removeprefix("/")
            named = {"rate": get_args(Rating), "export": EXPORTS}
            parts = names_for(role) if role in ("index", "retriever", "generator") else ()
            yield from _matching(first, named.get(role, parts))


def _matching(start: str, names: Iterable[str]) -> Iterator[Completion]:
    for name in sorted(names):
        if name.startswith(start):
            yield Completion(name, start_position=-len(start), display=inert(name))
