"""Writes blocks as Markdown and records the offset of each block and page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from turnmark.corpora.readers.common.prose import fence_around
from turnmark.corpora.readers.pdf.layout.page_layout import PageLayout
from turnmark.corpora.readers.pdf.page.boxes import HAN, Style
from turnmark.corpora.readers.pdf.page.text_patterns import hyphenated_start
from turnmark.corpora.tables.markdown_tables import marked_row, rule_below
from turnmark.corpora.types import Block, BlockKind

_FIRST_WORD = re.compile(r"[^\W\d_]+")
_MAX_INDENT_LEVEL = 8  # of a list item


@dataclass
class BlockDraft:
    """A block to be written.

    Attributes:
        parts: the lines on each page (counted from 0), for all kinds but tables.
        level: heading: from 1; list item: from 0.
        rows: table: the cells of each row, with its page.
        x0: left edge, in points from the left edge of the page.
        style: style of a heading that is not run in with its paragraph.
        full: whether the last line reaches the right edge, so that the block may continue in the next column.
        note: whether it is a footnote or a caption, which may interrupt a paragraph.
        indented: whether the first line is indented.
    """

    kind: BlockKind
    parts: list[tuple[int, list[str]]] = field(default_factory=list)
    level: int = 0
    number: int | None = None
    rows: list[tuple[int, list[str]]] = field(default_factory=list)
    x0: float = 0.0
    style: Style | None = None
    bookmarked: bool = False
    full: bool = False
    note: bool = False
    indented: bool = False

    @property
    def texts(self) -> list[str]:
        """Its lines."""
        return [text for _, texts in self.parts for text in texts]

    @property
    def page(self) -> int:
        """The page that it begins on, counted from 0."""
        return (self.rows or self.parts)[0][0]

    def prepend(self, text: str) -> None:
        """Insert a text before the first line."""
        texts = self.parts[0][1]
        texts[0] = f"{text} {texts[0]}"

    def extend(self, draft: BlockDraft) -> None:
        """Append the content of another block of the same kind."""
        self.parts += draft.parts
        self.rows += draft.rows
        self.full = draft.full


class PdfText(NamedTuple):
    """A text, its blocks, and the offset of each page."""

    text: str
    blocks: tuple[Block, ...]
    pages: tuple[int, ...]


def write_markdown(drafts: Iterable[BlockDraft], page_count: int, words: set[str]) -> PdfText:
    """Write the blocks as one text. `words` (`vocabulary`) decides which hyphens at line ends are kept."""
    writer = _Writer(words)
    for draft in drafts:
        if draft.kind == "table" or any(text.strip() for text in draft.texts):
            writer.add(draft)
    return writer.finish(page_count)


def vocabulary(pages: Sequence[PageLayout]) -> set[str]:
    """Return the lower-case words in the middle of lines, with which hyphenated words are compared."""
    lines = (line for page in pages for column in page.columns for line in column.lines)
    return {word.text.lower().strip(".,;:!?()[]\"'“”‘’") for line in lines for word in line.words[:-1]}


class _Writer:
    def __init__(self, words: set[str]) -> None:
        self._words = words
        self._pieces: list[str] = []
        self._length = 0
        self._blocks: list[Block] = []
        self._pages = [0]

    def finish(self, page_count: int) -> PdfText:
        self._begin_pages(page_count - 1)
        return PdfText("".join(self._pieces), tuple(self._blocks), tuple(self._pages))

    def _begin_pages(self, page: int) -> None:
        """Record this offset as the start of all pages up to `page` (from 0) that have not begun yet."""
        while len(self._pages) <= page:
            self._pages.append(self._length)

    def _write(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def add(self, draft: BlockDraft) -> None:
        """Append a block."""
        if self._blocks:
            follows = draft.kind == "item" and self._blocks[-1].kind == "item"
            self._write("\n" if follows else "\n\n")
        if draft.kind == "item":
            self._write("  " * min(draft.level, _MAX_INDENT_LEVEL))
        self._begin_pages(draft.page)
        start = self._length
        if draft.kind == "table":
            self._write_table(draft)
        elif draft.kind == "code":
            self._write_code(draft)
        else:
            if draft.kind == "heading":
                self._write("#" * draft.level + " ")
            elif draft.kind == "item":
                self._write("- " if draft.number is None else f"{draft.number}. ")
            self._write_prose(draft)
        block = Block(kind=draft.kind, start=start, end=self._length, level=draft.level, number=draft.number)
        self._blocks.append(block)

    def _write_table(self, draft: BlockDraft) -> None:
        for index, (page, row) in enumerate(draft.rows):
            if index:
                self._write("\n")
            self._begin_pages(page)
            self._write(marked_row(row) if index else f"{marked_row(row)}\n{rule_below(row)}")

    def _write_code(self, draft: BlockDraft) -> None:
        fence = fence_around("\n".join(draft.texts))
        self._write(fence)
        for page, texts in draft.parts:
            self._write("\n")
            self._begin_pages(page)
            self._write("\n".join(texts))
        self._write(f"\n{fence}")

    def _write_prose(self, draft: BlockDraft) -> None:
        """Write lines as one, and join words that are hyphenated at line ends."""
        text = ""
        for page, texts in draft.parts:
            for index, line in enumerate(texts):
                line = " ".join(line.split())
                joined = self._join_line(text, line)
                if index == 0 and text:
                    # The start of this page's part may belong to a word of the previous page.
                    self._write(joined[: len(joined) - len(line)])
                    self._begin_pages(page)
                    text = line
                else:
                    text = joined
        self._write(text)

    def _join_line(self, text: str, line: str) -> str:
        if not text or not line:
            return text or line
        divided, first = hyphenated_start(text), _FIRST_WORD.match(line)
        if divided and first and line[0].islower():
            whole, hyphened = f"{divided}{first.group()}".lower(), f"{divided}-{first.group()}".lower()
            keeps = hyphened in self._words and whole not in self._words
            return text + line if keeps else text[:-1] + line
        goes_on = (
            (re.search(r"\w-$", text) and line[0].isalnum())
            or (HAN.match(text[-1]) and HAN.match(line[0]))
            or (re.search(r"https?://\S*/$", text) and not line[0].isupper())
        )
        return text + line if goes_on else f"{text} {line}"
