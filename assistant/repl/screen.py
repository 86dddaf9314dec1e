"""A turn as a person sees it: what is being done, the answer as it comes, its sources. What they hold is untrusted.

On a terminal the answer is drawn as Markdown a block at a time, quotations line by line; what is being done is shown
below it, and goes. On a pipe, or a terminal that cannot move its cursor, the answer is text as it is. No control
sequence of a model or a document reaches the terminal, and a link shows where it leads.
"""

from __future__ import annotations

import re
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import Any, ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live
from rich.markdown import CodeBlock, Heading, ListElement, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.table import Table
from rich.text import Text

from turnmark.assistant.session import cite, link, says_same, sources_used
from turnmark.assistant.steps.marks import escape_marks
from turnmark.assistant.types import Event, Reply
from turnmark.core.console import inert, printable
from turnmark.corpora.text import lines
from turnmark.retrieval.index import Index

# What is being done after an event of a step has come: an event reports the end of its step.
_NEXT = {"understand": "searching …", "retrieve": "reading …", "decide": "writing …", "answer": "checking …"}
EVERY = 0.08
"""Seconds after which the paragraph that comes is drawn anew."""
CALL = re.compile(r"(?:search|read|documents): ")
"""How the event of a call that a model makes to look at the documents begins."""


def say(console: Console, text: str, style: str | Style = "", indent: int = 0) -> None:
    """A line or more to the person; on a terminal every line of it is indented."""
    if console.is_terminal:
        console.print(Padding(Text(text, style=style), (0, 0, 0, indent)) if indent else Text(text, style=style))
    else:
        console.print(Text(" " * indent + text, style=style), soft_wrap=True)


class TurnView:
    """Draws the events of a turn as they come, then what is only known at its end. What is drawn stays where it is.

    Args:
        streaming: the answer is drawn as it comes, not when it has been checked.
        index: whose files the sources are linked to; None: to none.
    """

    def __init__(self, console: Console, streaming: bool, index: Index | None = None) -> None:
        self._console, self._index = console, index
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
            url = link(self._index, source) if self._moving else ""
            style = Style(dim=True, link=url or None)
            self._line(f"[{source.n}] {cite(source, section=not quoted)}", style, indent=2)
        self._line(checks_line(reply))

    def _stop(self) -> None:
        self._stream.end()
        self._calls, self._doing = [], ""
        self._live.stop()

    def _line(self, text: str, style: str | Style = "dim", indent: int = 0) -> None:
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


# --- Markdown --------------------------------------------------------------------------------------------------------

_ITEM = re.compile(r"^ ?(?:[-*+]|\d{1,9}[.)])[ \t]")
_GAP = re.compile(r"\n[ \t]*\n\s*$")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_ARROW = " › "
_ALONE = re.compile(r"\n(\[\d+\])(?=\n\n|$)")


class _Title(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Padding(Text(self.text.plain.rstrip("\n"), style="cyan"), (0, 0, 0, 2))


class _List(ListElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = Table.grid(padding=(0, 1, 0, 0))
        rows.add_column(no_wrap=True)
        rows.add_column(overflow="fold")
        for number, item in enumerate(self.items, self.list_start or 0):
            rows.add_row("  •" if self.list_type == "bullet_list_open" else f"  {number}.", item.elements)
        yield rows


@cache
def _parser() -> MarkdownIt:
    # No HTML, images, entities or definitions of links: these hide what they hold. Indented text is an item's.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["image", "entity", "reference", "code"])


class SafeMarkdown(Markdown):
    """rich's Markdown for text of unknown origin, with the numbers of lists as they were written."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "heading_open": _Title, "fence": _Code, "bullet_list_open": _List,
        "ordered_list_open": _List,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(printable(dedent(text)))
        quoted = 0
        for token in self.parsed:
            quoted += token.nesting * (token.tag == "blockquote")
            token.children = list(_repaired(token.children or (), quoted > 0)) or token.children

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = iter(super().__rich_console__(console, options))
        first = next(drawn, Segment.line())
        if first != Segment.line():  # rich begins a list or a quotation with an empty line
            yield first
        yield from drawn


def _repaired(tokens: Iterable[Token], quoted: bool) -> Iterator[Token]:
    """Inline Markdown in which rows and quotations keep their lines, and bold needs no spaces (Chinese has none)."""
    above = ""
    for token in tokens:
        if token.type == "softbreak" and (quoted or above.endswith("|")):
            token.type = "hardbreak"
        above = token.content or above
        if token.type != "text":
            yield token
            continue
        for n, part in enumerate(_BOLD.split(token.content)):
            yield from [Token("strong_open", "strong", 1)] * (n % 2)
            yield Token("text", "", 0, content=part)
            yield from [Token("strong_close", "strong", -1)] * (n % 2)


class MarkdownStream:
    """Draws Markdown while it comes: a paragraph, an item or a block of code when it is complete; then it stays."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rest = self._previous = ""

    @property
    def pending(self) -> SafeMarkdown:
        """What has come and is not drawn yet."""
        return SafeMarkdown(self._rest)

    def feed(self, text: str) -> None:
        """More of the text."""
        self._rest += text
        if "\n" not in text:  # it ends no block, and to parse at every word would take quadratic time
            return
        starts = list(_starts(self._rest))
        blocks = [self._rest[start:end] for start, end in pairwise(starts)]
        self._rest = self._rest[starts[-1] :] if starts else self._rest
        for block in blocks:
            self._draw(block)

    def end(self) -> None:
        """The text is complete: draw the rest of it."""
        block, self._rest = self._rest, ""
        self._draw(block)
        self._previous = ""

    def _draw(self, block: str) -> None:
        if not block.strip():
            return
        in_list = _ITEM.match(self._previous) and _ITEM.match(block)
        if _GAP.search(self._previous) and not in_list:
            self._console.print()
        self._console.print(SafeMarkdown(block))
        self._previous = block


def _starts(text: str) -> Iterator[int]:
    """Where each block of Markdown begins: a paragraph, a heading, an item with what is under it, a table, code."""
    begun = {
        token.map[0]
        for token in _parser().parse(text[: text.rfind("\n") + 1])
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))
    }
    yield from (offset for n, (offset, _) in enumerate(lines(text)) if n in begun)


def draw_answer(console: Console, reply: Reply) -> None:
    """The answer as Markdown, a quotation under its heading path."""
    for n, (heading, text) in enumerate(split_quotations(reply)):
        if n:
            console.print()
        if heading:
            console.print(Text(heading, style="dim italic"))
        stream = MarkdownStream(console)
        stream.feed(text)
        stream.end()


def split_quotations(reply: Reply) -> Iterator[tuple[str, str]]:
    """Heading path and text of each quotation of a reply, in order; without a heading, what is said before them.

    A quotation begins with a line that is a source's title, alone or with headings below it, and ends before the next.
    """
    names = [
        escape_marks(name) for source in reply.citations for name in (source.title, *source.section.split(_ARROW)[:1])
    ]
    heading, text, above = "", list[str](), ""
    rows = printable(reply.answer).split("\n")
    for row, below in zip(rows, [*rows[1:], ""], strict=True):
        named = any(name and f"{row.strip()}{_ARROW}".startswith(f"{name}{_ARROW}") for name in names)
        if named and not above.strip() and below.strip():
            yield from [(heading, _joined(text))] if text else []
            heading, text = row.strip(), []
        else:
            text.append(row)
        above = row
    yield heading, _joined(text)


def _joined(rows: list[str]) -> str:
    return _ALONE.sub("\n\n\\1", "\n".join(rows).strip("\n"))  # a mark below a table is no row of it


# --- the keyboard ----------------------------------------------------------------------------------------------------


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
