"""Markdown: what a person reads of it, line by line, and markdown-it's map of line ranges says where its blocks are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnmark.corpora.readers.front_matter import split_front_matter
from turnmark.corpora.readers.html import render
from turnmark.corpora.readers.inline import block_parser, strip_inline
from turnmark.corpora.readers.prose import shorten, stem
from turnmark.corpora.readers.site_syntax import strip_site_syntax
from turnmark.corpora.text import heading_text, lines, plain, trimmed
from turnmark.corpora.types import Block, BlockKind, Document

if TYPE_CHECKING:
    from markdown_it.token import Token


def parse(text: str, relative: str) -> Document:
    """A Markdown file's Document; `text` has "\\n" for newlines.

    The document's text is what a person reads: front matter, site syntax, links' targets, HTML and navigation are gone
    from it, and offsets count in it. The title is the front matter's, else the first heading of level 1.
    """
    title, body = split_front_matter(text)
    body = strip_inline(strip_site_syntax(body, title), render).strip("\n") + "\n"
    found = tuple(blocks(body))
    top = next((block for block in found if block.kind == "heading" and block.level == 1), None)
    title = " ".join(plain(title).split()) or (heading_text(body[top.start : top.end]) if top else "")
    return Document(id=relative, title=shorten(title) or stem(relative), text=body, path=relative, blocks=found)


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
    for token in block_parser().parse(text):
        walk.take(token)
    return _in_order(walk.found)


def _in_order(found: list[Block]) -> list[Block]:
    """Sorted, and without overlaps: several items that begin in one line ("- 1. a") share that line."""
    ordered: list[Block] = []
    for block in sorted(found, key=lambda block: (block.start, block.end)):
        if not ordered or block.start >= ordered[-1].end:
            ordered.append(block)
    return ordered
