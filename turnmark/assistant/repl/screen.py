"""Draw a turn: the current step, the answer while it is streamed, and its sources. All texts are untrusted.

On a terminal the answer is drawn as Markdown, block by block, quotations line by line, with the current step below it
while the turn runs. On a pipe, or on a terminal without cursor movement, the answer is plain text. No control sequence
from a model or a document reaches the terminal, and links show their targets.
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
from rich.containers import Renderables
from rich.live import Live
from rich.markdown import BlockQuote, CodeBlock, Heading, ListElement, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.style import Style
from rich.text import Text

from turnmark.assistant.config import EXTRACTIVE_SPEC
from turnmark.assistant.sessions.conversation import (
    calls_line,
    cite,
    has_same_words,
    picture_line,
    picture_url,
    source_url,
    sources_used,
)
from turnmark.assistant.types import Event, Reply
from turnmark.core.plural import count_phrase
from turnmark.core.untrusted import make_printable, one_line
from turnmark.corpora.text.segmentation import lines
from turnmark.retrieval.index.index_api import Index

# Step -> status line after the event that reports its end.
_STATUS_AFTER_STEP = {
    "understand": "searching …",
    "retrieve": "reading …",
    "decide": "writing …",
    "answer": "checking …",
}
MAX_UNSUPPORTED_LINES = 3
"""Maximum sentences without support that are shown below an answer; `/why` shows all of them."""
REDRAW_SECONDS = 0.08
"""Minimum seconds between two redraws of the unfinished paragraph."""


def say(console: Console, text: str, style: str | Style = "", indent: int = 0) -> None:
    """Print a text; on a terminal, all of its lines are indented."""
    if not console.is_terminal:
        console.print(Text(" " * indent + text, style=style), soft_wrap=True)
    elif indent:
        console.print(Padding(Text(text, style=style), (0, 0, 0, indent)))
    else:
        console.print(Text(text, style=style))


def is_moving(console: Console) -> bool:
    """Return whether the console is a terminal on which the cursor can be moved."""
    return console.is_terminal and not console.is_dumb_terminal


class TurnView:
    """Draws the events of a turn as they occur, then its reply. Finished output is never redrawn.

    Args:
        streaming: whether to draw the answer while it is streamed. If False, it is drawn after it is checked.
        index: index whose files the sources link to, or None for no links.

    Attributes:
        streaming: whether the answer is drawn while it is streamed, which takes a terminal.
    """

    def __init__(self, console: Console, streaming: bool, index: Index | None = None) -> None:
        self._console, self._index = console, index
        self._moving = is_moving(console)
        self.streaming = streaming and self._moving
        self._stream = MarkdownStream(console)
        self._draft, self._doing, self._calls = "", "thinking …", list[str]()
        # Notes are held back until the answer begins. If the turn fails, its error says the same.
        self._notes: list[str] | None = []
        # This class refreshes it: a thread of rich could lose lines that are printed at the same time.
        self._live = Live(
            self, console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        )
        self._refreshed = 0.0

    def __rich__(self) -> RenderableType:
        """The text below the finished output: the unfinished paragraph, or the current step."""
        if self.streaming and self._draft:
            return self._stream.pending
        return Text("\n".join([*self._calls, self._doing]), style="dim")

    def __enter__(self) -> TurnView:
        if self._moving:
            self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def on_event(self, event: Event) -> None:
        """Draw an event: a rewrite, a model's tool call, a piece of the answer, or a note."""
        if event.delta:
            self._show_notes()
            self._draft += event.delta
            if self.streaming:
                self._stream.feed(event.delta)
        elif event.step == "note":
            if self._notes is None:
                self._line(f"note: {one_line(event.text)}", "yellow")
            else:
                self._notes.append(event.text)
        elif event.step == "wait":
            self._line(one_line(event.text), "yellow")
        elif event.step == "understand" and event.text:
            self._line(f"→ {one_line(event.text)}")
        elif "found" in event.detail:
            self._calls[-1:] = [one_line(event.text)]
        elif "tool" in event.detail:
            self._stream.end()  # text before a tool call is not part of the answer
            self._draft = ""
            self._calls.append(one_line(event.text))
        self._doing = _STATUS_AFTER_STEP.get(event.step, self._doing)
        if not event.delta or time.monotonic() - self._refreshed > REDRAW_SECONDS:
            self._live.refresh()
            self._refreshed = time.monotonic()

    def finish(self, reply: Reply) -> None:
        """Draw the answer unless it was streamed, then the unsupported sentences, the sources and the checks."""
        self._stop()
        self._show_notes()
        streamed = self.streaming and bool(self._draft)
        if not streamed or not has_same_words(self._draft, reply):
            if streamed:
                self._line("after checking:")
            show_answer(self._console, reply)
        for line in check_lines(reply):
            self._line(line)
        is_quoted = reply.generator == EXTRACTIVE_SPEC  # each quotation stands below its headings
        for source in sources_used(reply):
            url = source_url(self._index, source) if self._moving else ""
            style = Style(dim=True, link=url or None)
            self._line(f"[{source.n}] {cite(source, section=not is_quoted)}", style, indent=2)
            if source.statement:
                self._line(f"computed: {one_line(source.statement)}", indent=6)
            if about_picture := picture_line(source):
                link = picture_url(self._index, source) if self._moving else ""
                self._line(about_picture, Style(dim=True, link=link or None), indent=6)
        self._line(checks_line(reply))

    def _show_notes(self) -> None:
        """Print the notes that wait; from now on, a note is printed at once."""
        notes, self._notes = self._notes, None
        for note in dict.fromkeys(notes or ()):
            self._line(f"note: {one_line(note)}", "yellow")

    def _stop(self) -> None:
        self._stream.end()
        self._calls, self._doing = [], ""
        self._live.stop()

    def _line(self, text: str, style: str | Style = "dim", indent: int = 0) -> None:
        self._stream.end()  # a line never interrupts the answer
        say(self._console, text, style, indent)


def check_lines(reply: Reply) -> list[str]:
    """Return lines with the first sentences of the answer that no section supports, and a count of the others."""
    unsupported = reply.checks.unsupported
    lines = [f"not in the documents: {one_line(sentence)}" for sentence in unsupported[:MAX_UNSUPPORTED_LINES]]
    more = len(unsupported) - len(lines)
    if more:
        lines.append(f"not in the documents: {count_phrase(more, 'more sentence')}")
    if not reply.checks.wording_checked:
        lines.append("only numbers, names and code were checked: the documents are in another language")
    return lines


def checks_line(reply: Reply) -> str:
    """Summarize a reply in one line: `answer · 3 searches · 2 sections · 1/2 parts · 0.4 s`."""
    is_quoted = reply.generator == EXTRACTIVE_SPEC
    label = "not supported" if reply.decision == "answer" and reply.checks.grounded == 0 else str(reply.decision)
    items = ["closest passages" if is_quoted and label == "partial" else label]
    if reply.trace.calls:
        items.append(calls_line(reply.trace.calls))
    count = len(sources_used(reply))
    if count:
        items.append(count_phrase(count, "section"))
    if len(reply.sub_questions) > 1:
        answered = sum(part.answered for part in reply.sub_questions)
        items.append(f"{answered}/{len(reply.sub_questions)} parts")
    items.append(f"{sum(reply.timings.values()):.1f} s")
    return " · ".join(items)


# --- Markdown --------------------------------------------------------------------------------------------------------

_LIST_ITEM = re.compile(r"^ ?(?:[-*+]|\d{1,9}[.)])[ \t]")
_BLANK_LINE_AT_END = re.compile(r"\n[ \t]*\n\s*$")
_BOLD = re.compile(r"\*\*(.+?)\*\*")
_LONE_MARK = re.compile(r"\n(\[\d+\])(?=\n\n|$)")
"""A citation mark below a table, which a blank line keeps from becoming one of its rows."""


class _PlainHeading(Heading):
    LEVEL_ALIGN: ClassVar = {}


class _PlainCode(CodeBlock):
    """A block of code. The terminal wraps long lines, so that a copied line is whole; rich would break them."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        style = console.get_style("cyan")
        for line in self.text.plain.rstrip("\n").split("\n"):
            yield Segment(f"  {line}", style)
            yield Segment.line()


class _PlainList(ListElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        bullets = self.list_type == "bullet_list_open"
        first = self.list_start or 0
        markers = ["  •" if bullets else f"  {number}." for number in range(first, first + len(self.items))]
        width = max(map(len, markers), default=0)
        for marker, item in zip(markers, self.items, strict=True):
            yield from _prefix_lines(f"{marker:<{width}} ", " " * (width + 1), item.elements, console, options)


class _PlainQuote(BlockQuote):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from _prefix_lines("▌ ", "▌ ", self.elements, console, options)


def _prefix_lines(
    first: str, others: str, elements: Renderables, console: Console, options: ConsoleOptions
) -> Iterator[Segment]:
    """Yield the lines of elements behind a prefix. Lines of code may be longer than the screen."""
    narrower = options.update(width=max(1, options.max_width - len(first)))
    prefix = first
    for line in Segment.split_lines(console.render(elements, narrower)):
        yield Segment(prefix)
        yield from line
        yield Segment.line()
        prefix = others


@cache
def _parser() -> MarkdownIt:
    # HTML, images, entities and link definitions are off, since they hide their content. Indented text is not code: it
    # belongs to a list item.
    parser = MarkdownIt("commonmark", {"html": False}).enable(["strikethrough", "table"])
    return parser.disable(["image", "entity", "reference", "code"])


class SafeMarkdown(Markdown):
    """Rich's Markdown, safe for untrusted text; numbered lists keep their numbers."""

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements, "heading_open": _PlainHeading, "fence": _PlainCode, "blockquote_open": _PlainQuote,
        "bullet_list_open": _PlainList, "ordered_list_open": _PlainList,
    }  # fmt: skip

    def __init__(self, text: str) -> None:
        super().__init__("", hyperlinks=False)
        self.parsed = _parser().parse(make_printable(dedent(text)))
        quoted = 0
        for token in self.parsed:
            quoted += token.nesting * (token.tag == "blockquote")
            token.children = list(_repair_tokens(token.children or (), quoted > 0)) or token.children

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        drawn = iter(super().__rich_console__(console, options))
        first = next(drawn, Segment.line())
        if first != Segment.line():  # rich starts a list or a quotation with an empty line
            yield first
        yield from drawn


def _repair_tokens(tokens: Iterable[Token], quoted: bool) -> Iterator[Token]:
    """Yield inline tokens such that table rows and quotations keep their lines. Bold needs no spaces, as in Chinese."""
    above = ""
    for token in tokens:
        if token.type == "softbreak" and (quoted or above.endswith("|")):
            token.type = "hardbreak"
        above = token.content or above
        if token.type != "text":
            yield token
            continue
        for index, piece in enumerate(_BOLD.split(token.content)):
            is_bold = index % 2 == 1
            if is_bold:
                yield Token("strong_open", "strong", 1)
            yield Token("text", "", 0, content=piece)
            if is_bold:
                yield Token("strong_close", "strong", -1)


class MarkdownStream:
    """Draws streamed Markdown: each paragraph, list item or code block once, when it is complete."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._rest = self._previous = ""

    @property
    def pending(self) -> SafeMarkdown:
        """The text that is not drawn yet."""
        return SafeMarkdown(self._rest)

    def feed(self, text: str) -> None:
        """Add a piece of text, and draw the blocks that are now complete."""
        self._rest += text
        if "\n" not in text:  # no block ends here, and parsing after every word would take quadratic time
            return
        starts = list(_block_starts(self._rest))
        blocks = [self._rest[start:end] for start, end in pairwise(starts)]
        self._rest = self._rest[starts[-1] :] if starts else self._rest
        for block in blocks:
            self._draw(block)

    def end(self) -> None:
        """Draw the rest of the text, since no more follows."""
        block, self._rest = self._rest, ""
        self._draw(block)
        self._previous = ""

    def _draw(self, block: str) -> None:
        if not block.strip():
            return
        in_list = _LIST_ITEM.match(self._previous) and _LIST_ITEM.match(block)
        if _BLANK_LINE_AT_END.search(self._previous) and not in_list:
            self._console.print()
        self._console.print(SafeMarkdown(block), crop=False)
        self._previous = block


def _block_starts(text: str) -> Iterator[int]:
    """Yield the offset of each Markdown block: paragraph, heading, list item with its content, table or code."""
    first_lines = {
        token.map[0]
        for token in _parser().parse(text[: text.rfind("\n") + 1])
        if token.map and (token.level == 0 or (token.level == 1 and token.type == "list_item_open"))
    }
    for number, (offset, _) in enumerate(lines(text)):
        if number in first_lines:
            yield offset


def show_answer(console: Console, reply: Reply) -> None:
    """Print the answer: as Markdown on a terminal, and as plain text elsewhere."""
    if not is_moving(console):
        say(console, make_printable(reply.answer))
        return
    stream = MarkdownStream(console)
    stream.feed(_LONE_MARK.sub("\n\n\\1", reply.answer))
    stream.end()


# --- the keyboard ----------------------------------------------------------------------------------------------------


@contextmanager
def suppress_echo() -> Iterator[None]:
    """Do not echo keys while an answer is drawn; they appear at the next prompt. Ctrl-C still works."""
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
def ignore_interrupts() -> Iterator[None]:
    """Ignore Ctrl-C in this process within this context; child processes still receive it."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
