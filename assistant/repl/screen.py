"""A turn as a person sees it: what is being done, the answer as it comes, its sources. Everything is made printable.

On a terminal the answer is drawn as Markdown, and one line says what is being done, and goes; on a pipe, or a terminal
that cannot move its cursor, it is text as it stands.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console
from rich.control import Control
from rich.segment import ControlType
from rich.table import Table
from rich.text import Text

from turnmark.assistant.repl.markdown import MarkdownStream
from turnmark.assistant.session import says_same, sources_used, where
from turnmark.assistant.types import Event, Reply, numbered
from turnmark.corpora.console import inert
from turnmark.corpora.text import printable

# What is being done after an event of a step has come: an event tells the end of its step.
_NEXT = {
    "understand": "searching …",
    "search": "searching …",
    "retrieve": "weighing the passages …",
    "decide": "writing …",
    "answer": "checking …",
}


class PlainStream:
    """Draws text as it comes, for what cannot show Markdown."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._inside = False  # a line is begun

    def feed(self, text: str) -> None:
        """More of the text."""
        self._console.print(Text(printable(text)), end="", soft_wrap=True)
        self._inside = not text.endswith("\n")

    def end(self) -> None:
        """End a line that was begun."""
        if self._inside:
            self._console.print()
        self._inside = False


class TurnView:
    """Draws the events of a turn as they come, then what is only known at its end. What is drawn stays where it is.

    Args:
        streaming: the answer is drawn as it comes, not when it has been checked.
    """

    def __init__(self, console: Console, streaming: bool) -> None:
        self._console, self._streaming = console, streaming
        self._moving = console.is_terminal and not console.is_dumb_terminal
        self._stream = MarkdownStream(console) if self._moving else PlainStream(console)
        self._draft = ""
        self._status_text = ""
        self._status("thinking …")

    def on_event(self, event: Event) -> None:
        """Draw one event: the rewrite above the answer, the answer as it comes, notes."""
        if event.delta:
            self._draft += event.delta
            if self._streaming:
                self._status("")
                self._stream.feed(event.delta)
            return
        if event.step == "understand" and event.text:
            self._line(f"→ {inert(event.text)}", "dim")
        elif event.step == "note":
            self._line(f"note: {inert(event.text)}", "yellow")
        if not (self._streaming and self._draft):  # not into the middle of a line of the answer
            self._status(_NEXT.get(event.step, self._status_text))

    def finish(self, reply: Reply) -> None:
        """Draw the end of the turn: the answer unless it stands there already, sources, checks."""
        self.stop()
        streamed = self._streaming and bool(self._draft)
        # A streamed answer ends with its steps; it is drawn again only when checking changed its words.
        if not streamed or not says_same(self._draft, reply):
            if streamed:
                self._line("after checking:", "dim")
            self._draw_answer(reply)
        self._draw_sources(reply)
        self._line(checks_line(reply), "dim")

    def stop(self) -> None:
        """End what is being drawn: at the end of the turn, or where it gives no reply."""
        self._status("")
        self._stream.end()

    def _line(self, text: str, style: str) -> None:
        """A line of its own, whatever is being drawn."""
        self.stop()
        self._console.print(Text(text, style=style), soft_wrap=not self._moving)

    def _draw_answer(self, reply: Reply) -> None:
        if self._moving:
            draw_markdown(self._console, reply.whole)
            return
        lines = [reply.answer, *(f"  {step}" for step in numbered(reply.procedure))]
        self._console.print(Text(printable("\n".join(lines))), soft_wrap=not self._console.is_terminal)

    def _draw_sources(self, reply: Reply) -> None:
        """A number and a place for each source that the answer refers to."""
        sources = sources_used(reply)
        if self._moving and sources:
            table = Table.grid(padding=(0, 1))
            table.add_column(style="dim", no_wrap=True)
            table.add_column(style="dim", overflow="fold")
            for source in sources:
                table.add_row(f"  \\[{source.n}]", Text(where(source)))
            self._console.print(table)
        else:
            for source in sources:
                self._line(f"  [{source.n}] {where(source)}", "dim")

    def _status(self, text: str) -> None:
        """Say what is being done, in the place of what was said before."""
        if not self._moving or text == self._status_text:
            return
        if self._status_text:
            self._console.control(Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2)))
        self._status_text = text
        if text:
            cut = text[: max(1, self._console.width - 1)]
            self._console.print(Text(cut, style="dim"), end="", soft_wrap=True)
            self._console.file.flush()


def draw_markdown(console: Console, text: str) -> None:
    """A whole text as Markdown."""
    stream = MarkdownStream(console)
    stream.feed(text)
    stream.end()


def checks_line(reply: Reply) -> str:
    """One line of what was checked: `answer · grounded 0.93 · 5 sources · 2/2 parts · 7 steps · 0.42 s`."""
    parts: list[str] = [reply.decision]
    if reply.checks.grounded is not None:
        parts.append(f"grounded {reply.checks.grounded:.2f}")
    if source_count := len(sources_used(reply)):
        parts.append(f"{source_count} source{'s'[: source_count != 1]}")
    if reply.checks.parts_answered is not None:
        answered = sum(part.answered for part in reply.sub_questions)
        parts.append(f"{answered}/{len(reply.sub_questions)} part{'s'[: len(reply.sub_questions) != 1]}")
    if reply.procedure:
        parts.append(f"{len(reply.procedure)} steps")
    if reply.checks.repaired:
        parts.append("repaired")
    return " · ".join([*parts, f"{sum(reply.timings.values()):.2f} s"])


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
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
