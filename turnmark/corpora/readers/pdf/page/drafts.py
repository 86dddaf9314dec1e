"""Intermediate records between lines and text: detected headings, and blocks to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from turnmark.corpora.readers.pdf.page.boxes import Style
from turnmark.corpora.types import BlockKind


class Heading(NamedTuple):
    """A heading that begins at a line.

    Attributes:
        level: 1 to 6.
        length: number of lines.
        bookmarked: whether a bookmark names it.
    """

    level: int
    length: int
    bookmarked: bool = False


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
