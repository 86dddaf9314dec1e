"""What lies between the lines of pages and the text: headings that were found, and blocks that are to be written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from turnmark.corpora.readers.pdf.boxes import Style
from turnmark.corpora.types import BlockKind


class Heading(NamedTuple):
    """A heading that begins at a line.

    Attributes:
        level: 1 to 6.
        length: how many lines it has.
        bookmarked: whether a bookmark says that it is one.
    """

    level: int
    length: int
    bookmarked: bool = False


@dataclass
class BlockDraft:
    """A block to be.

    Attributes:
        parts: its lines, by the page that they are on, counted from 0; of all kinds but tables.
        level: of a heading from 1, of a list item from 0.
        rows: of a table: the cells of each row, with the page that it is on.
        x0: where it begins, in points from the left edge of the page.
        style: of a heading that is not run in with its paragraph.
        full: its last line reaches the right edge, so it may go on in the next column.
        note: a footnote or a caption, over which a paragraph goes on.
        indented: its first line begins further right than its column.
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
        """Put a text before its first line."""
        texts = self.parts[0][1]
        texts[0] = f"{text} {texts[0]}"

    def extend(self, draft: BlockDraft) -> None:
        """Put what another block of the same kind says behind it."""
        self.parts += draft.parts
        self.rows += draft.rows
        self.full = draft.full
