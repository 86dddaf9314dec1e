"""Answers on a terminal: Markdown a block at a time, and quotations line by line. What they hold is untrusted.

No control sequence of a model or a document reaches the terminal, and a link shows where it leads.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from textwrap import dedent
from typing import ClassVar

from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, ListElement, Markdown, MarkdownElement
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from turnmark.assistant.steps.marks import escape_marks
from turnmark.assistant.types import Reply
from turnmark.corpora.text import lines, printable

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


# --- a reply ---------------------------------------------------------------------------------------------------------


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
