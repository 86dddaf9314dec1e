"""Markdown: the text stays as it is, and markdown-it's map of line ranges says where its blocks are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from corpora.readers.prose import stem
from corpora.text import heading_text, lines, trimmed
from corpora.types import Block, BlockKind, Document

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

MAX_TITLE = 200  # characters; what is longer is cut at a word
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<body>.*?)(?:^|\n)(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE = re.compile(r"^title[ \t]*:[ \t]*(?P<title>\S.*?)[ \t]*$", re.MULTILINE)


def parse(text: str, relative: str) -> Document:
    """A Markdown file's Document; `text` has "\\n" for newlines."""
    front = _FRONT_MATTER.match(text)
    body = text
    if front:  # blanked out, so that offsets and line numbers stay
        body = re.sub(r"[^\n]", " ", front.group()) + text[front.end() :]
    found = tuple(blocks(body))
    top = next((block for block in found if block.kind == "heading" and block.level == 1), None)
    title = heading_text(text[top.start : top.end]) if top else ""
    if not title and front and (named := _FRONT_TITLE.search(front["body"])):
        title = " ".join(re.sub(r"^(['\"])(.*)\1$", r"\2", named["title"]).split())
    return Document(id=relative, title=shorten(title) or stem(relative), text=text, path=relative, blocks=found)


def shorten(title: str) -> str:
    """A title of at most `MAX_TITLE` characters."""
    if len(title) <= MAX_TITLE:
        return title
    return title[:MAX_TITLE].rsplit(" ", 1)[0] + "…"


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    parser.core.ruler.disable("inline")  # only the block structure is wanted, and it is the cheap part
    return parser


@dataclass
class _Item:
    """A list item that is open: its own text ends where the first list inside it begins."""

    depth: int
    number: int | None
    first: int
    end: int
    closed: bool = False


@dataclass
class _Walk:
    """Turns markdown-it's tokens into blocks."""

    text: str
    starts: list[int]
    items: list[_Item] = field(default_factory=list)
    found: list[Block] = field(default_factory=list)

    def add(self, kind: BlockKind, first: int, end: int, level: int = 0, number: int | None = None) -> None:
        """A block of the lines from `first` to before `end`."""
        start, stop = trimmed(self.text, self.starts[first], self.starts[min(end, len(self.starts) - 1)])
        if start < stop:
            self.found.append(Block(kind=kind, start=start, end=stop, level=level, number=number))

    def flush(self, item: _Item) -> None:
        """Emit an item, once: it ends with its own text."""
        if not item.closed and item.end > item.first:
            self.add("item", item.first, item.end, item.depth, item.number)
        item.closed = True

    def take(self, token: Token) -> None:
        """One token of the flat list."""
        if token.type == "list_item_close":
            self.flush(self.items.pop())
        if token.map is None:
            return
        first, end = token.map
        if token.type in ("bullet_list_open", "ordered_list_open") and self.items:
            self.flush(self.items[-1])
        elif token.type == "list_item_open":
            number = int(token.info) if token.info.isdigit() else None
            self.items.append(_Item(len(self.items), number, first, first))
        elif token.type in _KINDS:
            if self.items and not self.items[-1].closed:
                self.items[-1].end = max(self.items[-1].end, end)
            else:
                level = int(token.tag[1]) if token.type == "heading_open" else 0
                self.add(_KINDS[token.type], first, end, level)


_KINDS: dict[str, BlockKind] = {
    "heading_open": "heading",
    "paragraph_open": "paragraph",
    "html_block": "paragraph",
    "fence": "code",
    "code_block": "code",
    "table_open": "table",
}


def blocks(text: str) -> Sequence[Block]:
    """The blocks of a Markdown text, in order. A list item is one block, the items nested in it are others."""
    starts = [offset for offset, _ in lines(text)]
    starts.append(len(text))
    walk = _Walk(text, starts)
    for token in _parser().parse(text):
        walk.take(token)
    return _in_order(walk.found)


def _in_order(found: list[Block]) -> list[Block]:
    """Sorted, and without overlaps: several items that begin in one line ("- 1. a") share that line."""
    ordered: list[Block] = []
    for block in sorted(found, key=lambda block: (block.start, block.end)):
        if not ordered or block.start >= ordered[-1].end:
            ordered.append(block)
    return ordered
