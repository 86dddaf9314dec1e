"""The loop of `turnmark chat`: a prompt with editing, history and completion on a terminal, or the lines of a pipe."""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import get_args

import click
import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.styles import Style
from rich.console import Console
from rich.text import Text

from turnmark.assistant.repl.chat_commands import (
    COMMANDS,
    EXPORT_FORMATS,
    names_for,
    parts_line,
    run_command,
    show_session,
)
from turnmark.assistant.repl.terminal_chat import Grade, TerminalChat
from turnmark.assistant.sessions.conversation import AssistantSwapped, Rating, SessionBegan
from turnmark.assistant.sessions.session_files import ChatSession, new_session
from turnmark.assistant.turn.assistant import Assistant
from turnmark.core.console import stdin_is_terminal, stdin_lines
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.home import home
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import one_line, valid_text
from turnmark.retrieval.types import Query

HISTORY_FILE = "chat_history"
LOADING_SECONDS = 10.0
"""Maximum time that the exiting process waits for models that are being loaded."""
LEAVE_WORDS = ("quit", "exit", "bye", ":q")
"""Messages that leave the chat like `/quit`."""
MENU_LINES = 5
NEWS_POLL_SECONDS = 0.2
"""Seconds between checks for news while the prompt is waiting."""


def run_chat(
    assistant: Assistant,
    console: Console,
    resumed: ChatSession | None,
    keep: bool,
    grade: Grade | None,
    news: SimpleQueue[str],
    question: str = "",
    typed: str = "",
    status: Callable[[], str] = lambda: "",
) -> None:
    """Run a conversation until the user leaves.

    Args:
        news: lines from the watcher of the documents, shown between turns and above a waiting prompt.
        question: a line that the user has already entered, or "" if there is none.
        typed: the beginning of a line that the user has typed.
        status: returns a line to show below the prompt, or "".

    Raises:
        TurnmarkError: the input is a pipe, and a question could not be answered.
    """
    config = assistant.config
    interactive = stdin_is_terminal()
    session = resumed or new_session(SessionBegan(**dict(config)), keep)
    chat = TerminalChat(assistant, console, session, grade, confirm if interactive else None, interactive, news)
    if resumed is not None:
        if session.conversation.config != config:
            chat.record(AssistantSwapped(**dict(config)))
        show_session(chat)
    console.print(Text(f"{parts_line(assistant)} · /help", style="dim"), soft_wrap=not console.is_terminal)
    try:
        if interactive:
            begin_loading(assistant)
        for line in _typed_lines(chat, question, typed, status) if interactive else _piped_lines(chat):
            if not handle_line(chat, line):
                break
    finally:
        chat.session.close()
    if chat.failed and not interactive:
        raise TurnmarkError(f"{count_phrase(chat.failed, 'question')} could not be answered")


def begin_loading(assistant: Assistant) -> None:
    """Load what a search needs in another thread, while the user types the first question."""

    def search() -> None:
        with suppress(TurnmarkError):  # the first question reports it
            if assistant.retriever is not None:
                assistant.retriever.search([Query(text="first")], 1)

    thread = threading.Thread(target=search, name="turnmark-loading", daemon=True)
    thread.start()
    # A thread in native code would abort the process when the interpreter exits.
    atexit.register(thread.join, LOADING_SECONDS)


def handle_line(chat: TerminalChat, line: str) -> bool:
    """Answer a message or run a command; return False when the conversation is over."""
    line = valid_text(line).strip()
    if not line:
        return True
    try:
        chat.take_news()
        line = "/quit" if line.lower() in LEAVE_WORDS else line
        if line.startswith("/"):
            run_command(chat, line)
        else:
            chat.ask(line)
    except TurnmarkError as error:
        chat.complain(error)
    except KeyboardInterrupt:
        if not chat.interactive:
            raise
        chat.say("canceled", style="yellow")
    return not chat.over


def _piped_lines(chat: TerminalChat) -> Iterator[str]:
    """Yield the lines of a pipe; print each line before it is answered."""
    for line in stdin_lines():
        if line.strip():
            chat.console.print(Text(f"\n› {one_line(line.strip())}", style="bold"), soft_wrap=True)
        yield line


def _typed_lines(chat: TerminalChat, question: str, typed: str, status: Callable[[], str]) -> Iterator[str]:
    """Yield the lines that the user types; for the arguments see `run_chat`."""
    ask = make_prompt(chat, COMMANDS, status)
    interrupted = False
    if question:
        yield question
    while True:
        try:
            if interrupted:  # within `try`, since the second Ctrl-C may come during the output
                chat.say("press Ctrl-C again, or Ctrl-D, to leave", style="dim")
            chat.take_news()
            line, typed = ask(typed), ""
        except KeyboardInterrupt:
            if interrupted:
                return
            interrupted = True
            continue
        except EOFError:
            return
        interrupted = False
        yield line


def confirm(question: str) -> bool:
    """Ask the user a yes-no question; leaving it is no."""
    try:
        return click.confirm(question)
    except click.Abort:
        return False


def choose_index(console: Console, errors: ErrorCollector) -> str:
    """Return the only index, or the one that the user chooses. Return "" if there is none, or no terminal.

    Args:
        errors: mistakes of the request, to which a missing index is added. With a mistake, nothing is asked.
    """
    from turnmark.retrieval.search.opened_index import list_indexes, only_index

    names = [manifest.name for manifest in list_indexes()]
    if len(names) < 2 or not stdin_is_terminal():
        return errors.collect(only_index) or ""
    errors.raise_all()
    from rich.prompt import Prompt

    try:
        for number, name in enumerate(names, 1):
            console.print(f"{number:3}  {name}", markup=False)
        numbers = {str(number): name for number, name in enumerate(names, 1)} | {name: name for name in names}
        ask = Prompt("Which index?", console=console, choices=list(numbers), show_choices=False)
        return numbers[ask(default="1")]
    except EOFError:  # the user left
        console.print()
        raise typer.Exit from None


# --- the prompt ------------------------------------------------------------------------------------------------------


def prompt_session(commands: Iterable[str], keep: bool) -> PromptSession[str]:
    """Return a prompt with editing and completion, and with the input history if `keep` is set."""
    return PromptSession(
        completer=ChatCompleter(commands), complete_while_typing=False, history=_history(keep),
        key_bindings=_key_bindings(), multiline=True, prompt_continuation="… ", reserve_space_for_menu=MENU_LINES,
        enable_history_search=True, style=Style.from_dict({"bottom-toolbar": "noreverse"}),
    )  # fmt: skip


def make_prompt(
    chat: TerminalChat, commands: Iterable[str], status: Callable[[], str] = lambda: ""
) -> Callable[[str], str]:
    """Return a function that reads the next message, beginning with a text that was typed already.

    While it waits, news is shown above the prompt, and the status below it. The function raises KeyboardInterrupt on
    Ctrl-C, and EOFError on Ctrl-D in an empty line.
    """
    session = prompt_session(commands, chat.session.keep)

    async def show_news() -> None:
        while True:
            await asyncio.sleep(NEWS_POLL_SECONDS)
            if chat.has_news:
                await run_in_terminal(chat.show_news)  # draws the prompt again below, with the text typed so far

    def begin() -> None:
        session.app.create_background_task(show_news())  # ends with the prompt

    def ask(typed: str) -> str:
        session.bottom_toolbar = status if status() else None
        # Only a status changes by itself. A prompt that is always drawn again disturbs screen readers.
        interval = NEWS_POLL_SECONDS if status() else 0
        return session.prompt("› ", default=typed, pre_run=begin, refresh_interval=interval)

    return ask


def _history(keep: bool) -> History:
    """Return the input history: a file with mode 0600, or with --no-save only memory."""
    if not keep:
        return InMemoryHistory()
    path = home() / HISTORY_FILE
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        os.close(file)
    except OSError:
        return InMemoryHistory()
    return FileHistory(path)


def _key_bindings() -> KeyBindings:
    """Return the key bindings: Enter sends; Alt-Enter, or a backslash before Enter, starts a new line."""
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
    """Completes commands and their arguments: spec names, indexes, file paths."""

    def __init__(self, commands: Iterable[str]) -> None:
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        text = document.text_before_cursor
        if not text.startswith("/") or "\n" in text:
            return
        command, blank, arguments = text.partition(" ")
        if not blank:
            yield from _complete_from(command, self._commands)
            return
        first, blank, path = arguments.partition(" ")
        if command == "/export" and blank:
            yield from self._paths.get_completions(Document(path, len(path)), complete_event)
        elif not blank:
            yield from _complete_from(first, _argument_names(command.removeprefix("/")))


def _argument_names(command: str) -> Iterable[str]:
    if command == "rate":
        return get_args(Rating)
    if command == "export":
        return EXPORT_FORMATS
    return names_for(command) if command in ("index", "retriever", "generator") else ()


def _complete_from(start: str, names: Iterable[str]) -> Iterator[Completion]:
    for name in sorted(names):
        if name.startswith(start):
            yield Completion(name, start_position=-len(start), display=one_line(name))
