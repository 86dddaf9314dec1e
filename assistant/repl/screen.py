"""A turn on a terminal: what is being done, the answer as it comes, its sources as footnotes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.text import Text

from turnmark.assistant.repl.markdown import MarkdownStream
from turnmark.assistant.session import full_text
from turnmark.assistant.show import TurnView, checks_line, says_same, sources_used, where
from turnmark.assistant.types import Citation, Event, Reply
from turnmark.corpora.console import inert

# What is being done after an event of a step has come: an event tells the end of its step.
_NEXT = {
    "understand": "searching …",
    "search": "searching …",
    "retrieve": "weighing the passages …",
    "decide": "writing …",
    "answer": "checking …",
}


class TerminalView:
    """A turn on a terminal. One line says what is being done, and goes; everything else stays where it was drawn.

    Args:
        streaming: the answer is drawn as it comes, not when it has been checked.
    """

    def __init__(self, console: Console, streaming: bool) -> None:
        self._console, self._streaming = console, streaming
        self._stream = MarkdownStream(console)
        self._told = ""
        self._said = ""
        self._status("thinking …")

    def on_event(self, event: Event) -> None:
        """Draw one event."""
        if event.delta:
            self._said += event.delta
            if self._streaming:
                self._status("")
                self._stream.feed(event.delta)
            return
        if event.step == "understand" and event.text:
            self._above(Text(f"→ {inert(event.text)}", style="dim"))
        elif event.step == "note":
            self._above(Text(f"note: {inert(event.text)}", style="yellow"))
        # Not into the middle of a line of the answer.
        if not (self._streaming and self._said) and (doing := _NEXT.get(event.step)):
            self._status(doing)

    def finish(self, reply: Reply) -> None:
        """Draw the end of the turn: the answer unless it stands there already, sources, checks."""
        self._status("")
        streamed = self._streaming and bool(self._said)
        if streamed:
            self._stream.end()
        # A streamed answer ends with its steps; it is drawn again only when checking changed its words.
        if not streamed or not says_same(self._said, reply):
            if streamed:
                self._console.print(Text("after checking:", style="dim"))
            draw_markdown(self._console, full_text(reply))
        footnotes(self._console, sources_used(reply))
        self._console.print(Text(checks_line(reply), style="dim"))

    def stop(self) -> None:
        """The turn ended without a reply."""
        self._status("")
        if self._streaming and self._said:
            self._stream.end()

    def _above(self, text: Text) -> None:
        """A line of its own, whatever is being drawn."""
        self._status("")
        if self._streaming and self._said:
            self._stream.end()
        self._console.print(text)

    def _status(self, text: str) -> None:
        if text == self._told:
            return
        if self._told:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self._told = text
        if text:
            cut = text[: max(1, self._console.width - 1)]
            self._console.print(Text(cut, style="dim"), end="", soft_wrap=True)
            self._console.file.flush()


def moving(console: Console) -> bool:
    """Whether the console is a terminal on which a line can be taken back."""
    return console.is_terminal and not console.is_dumb_terminal


def view_of(console: Console, streaming: bool) -> TerminalView | TurnView:
    """The view that fits the console."""
    return TerminalView(console, streaming) if moving(console) else TurnView(console, streaming)


def draw_markdown(console: Console, text: str) -> None:
    """A whole text as Markdown."""
    stream = MarkdownStream(console)
    stream.feed(text)
    stream.end()


def footnotes(console: Console, sources: Sequence[Citation]) -> None:
    """The sources of an answer under it, a number and where it is."""
    if not sources:
        return
    from rich.table import Table

    table = Table.grid(padding=(0, 1))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(style="dim", overflow="fold")
    for source in sources:
        table.add_row(f"  \\[{source.n}]", Text(where(source)))
    console.print(table)


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """What is typed while an answer comes is not echoed into it; it stands at the next prompt. Ctrl-C works."""
    try:
        import termios

        file = sys.stdin.fileno()
        previous = termios.tcgetattr(file)
    except (ImportError, OSError, ValueError, AttributeError):
        yield
        return
    silent: list[Any] = [*previous]
    silent[3] &= ~termios.ECHO
    with suppress(termios.error):
        termios.tcsetattr(file, termios.TCSANOW, silent)
    try:
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(file, termios.TCSANOW, previous)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Ctrl-C does nothing to us: what is done in here is done whole. A child process still gets its own."""
    import signal
    import threading

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
