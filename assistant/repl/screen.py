"""A turn as a person sees it: what is being done, the answer as it comes, its sources. Everything is made printable.

On a terminal the answer is drawn as Markdown, and what is being done is shown below it, and goes; on a pipe, or a
terminal that cannot move its cursor, the answer is text as it is.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.console import Console, RenderableType
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from turnmark.assistant.repl.markdown import MarkdownStream, draw_answer, split_quotations
from turnmark.assistant.session import cite, says_same, sources_used
from turnmark.assistant.types import Event, Reply
from turnmark.corpora.console import inert
from turnmark.corpora.text import printable

# What is being done after an event of a step has come: an event reports the end of its step.
_NEXT = {
    "understand": "searching …",
    "retrieve": "reading …",
    "decide": "writing …",
    "answer": "checking …",
}
EVERY = 0.08
"""Seconds after which the paragraph that comes is drawn anew."""
CALL = re.compile(r"(?:search|read|documents): ")
"""How the event of a call that a model makes to look at the documents begins."""


def say(console: Console, text: str, style: str = "", indent: int = 0) -> None:
    """A line or more to the person; on a terminal every line of it is indented."""
    if console.is_terminal:
        console.print(Padding(Text(text, style=style), (0, 0, 0, indent)) if indent else Text(text, style=style))
    else:
        console.print(Text(" " * indent + text, style=style), soft_wrap=True)


class TurnView:
    """Draws the events of a turn as they come, then what is only known at its end. What is drawn stays where it is.

    Args:
        streaming: the answer is drawn as it comes, not when it has been checked.
    """

    def __init__(self, console: Console, streaming: bool) -> None:
        self._console = console
        moving = console.is_terminal and not console.is_dumb_terminal
        self._moving, self._streaming = moving, streaming and moving
        self._stream = MarkdownStream(console)
        self._draft, self._doing, self._calls = "", "thinking …", list[str]()
        # Drawn anew by us, not by a thread of rich's: printing while that draws can lose a line.
        self._live = Live(
            self, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._refreshed = 0.0

    def __rich__(self) -> RenderableType:
        """What is shown below what is drawn: the paragraph that comes, or what is being done."""
        if self._streaming and self._draft:
            return self._stream.pending
        return Text("\n".join([*self._calls, self._doing]), style="dim")

    def __enter__(self) -> TurnView:
        if self._moving:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def on_event(self, event: Event) -> None:
        """Draw one event: the rewrite above the answer, the calls of a model, the answer as it comes, notes."""
        if event.delta:
            self._draft += event.delta
            if self._streaming:
                self._stream.feed(event.delta)
        elif event.step == "note":
            self._line(f"note: {inert(event.text)}", "yellow")
        elif event.step == "understand" and event.text:
            self._line(f"→ {inert(event.text)}")
        elif event.step == "retrieve" and CALL.match(event.text):
            self._stream.end()  # what the model said before the call is no part of its answer
            self._draft = ""
            self._calls.append(inert(event.text))
        self._doing = _NEXT.get(event.step, self._doing)
        if not event.delta or time.monotonic() - self._refreshed > EVERY:
            self._live.refresh()
            self._refreshed = time.monotonic()

    def finish(self, reply: Reply) -> None:
        """Draw the end of the turn: the answer unless it is there already, what no source supports, sources, checks."""
        self._stop()
        streamed = self._streaming and bool(self._draft)
        if not streamed or not says_same(self._draft, reply):
            if streamed:
                self._line("after checking:")
            if self._moving:
                draw_answer(self._console, reply)
            else:
                say(self._console, printable(reply.answer))
        for sentence in reply.checks.unsupported:
            self._line(f"not in the documents: {inert(sentence)}")
        quoted = any(heading for heading, _ in split_quotations(reply))
        for source in sources_used(reply):
            self._line(f"[{source.n}] {cite(source, section=not quoted)}", indent=2)
        self._line(checks_line(reply))

    def _stop(self) -> None:
        self._stream.end()
        self._calls, self._doing = [], ""
        self._live.stop()

    def _line(self, text: str, style: str = "dim", indent: int = 0) -> None:
        self._stream.end()  # never in the middle of the answer
        say(self._console, text, style, indent)


def checks_line(reply: Reply) -> str:
    """How the answer came out, in one line: `answer · 2 sections · 1/2 parts · 0.4 s`."""
    parts: list[str] = [reply.decision]
    if count := len(sources_used(reply)):
        parts.append(f"{count} section{'s'[: count != 1]}")
    if len(reply.sub_questions) > 1:
        parts.append(f"{sum(part.answered for part in reply.sub_questions)}/{len(reply.sub_questions)} parts")
    return " · ".join([*parts, f"{sum(reply.timings.values()):.1f} s"])


@contextmanager
def quiet_keyboard() -> Iterator[None]:
    """What is typed while an answer comes is not echoed into it; it appears at the next prompt. Ctrl-C works."""
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
    """Ctrl-C does nothing to us in here. A child process still gets its own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
