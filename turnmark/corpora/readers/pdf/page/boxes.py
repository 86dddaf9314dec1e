"""Segments, lines, tables and columns, which the words of a page form.

They are compared by identity, so they can be dictionary keys. Their properties are cached: to add words, make a new
object.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Literal, NamedTuple

from turnmark.core.grouping import group_pairs, join_neighbors, runs
from turnmark.corpora.readers.pdf.page.page_records import Word
from turnmark.corpora.text.segmentation import CJK

HAN = re.compile(f"[{CJK}]")
_RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(eq=False)
class Segment:
    """Words of one line without a wide gap between them; `is_led`: dot leaders lead to them."""

    words: list[Word]
    is_led: bool = False

    @cached_property
    def x0(self) -> float:
        return min(word.x0 for word in self.words)

    @cached_property
    def x1(self) -> float:
        return max(word.x1 for word in self.words)

    @cached_property
    def size(self) -> float:
        """The size of the largest word."""
        return max(word.size for word in self.words)

    @cached_property
    def base(self) -> float:
        """The baseline of the largest word, so that a superscript does not shift the line."""
        return max(self.words, key=lambda word: (word.size, len(word.text))).base

    @cached_property
    def text(self) -> str:
        """The text, with raised numbers as superscript digits."""
        return join_words([self._raised(word) for word in self.words])

    def _raised(self, word: Word) -> Word:
        if word.text.isdecimal() and word.size < 0.85 * self.size and word.base > self.base + 0.15 * self.size:
            return replace(word, text=word.text.translate(_RAISED_DIGITS), spaced=False)
        return word

    @property
    def y0(self) -> float:
        return self.base - 0.25 * self.size

    @property
    def y1(self) -> float:
        return self.base + 0.8 * self.size


class Style(NamedTuple):
    """The style of a line; its size is rounded to half a point."""

    size: float
    bold: bool
    italic: bool


@dataclass(eq=False)
class PdfLine:
    """A line of one column: its segments from left to right."""

    segments: list[Segment]

    @cached_property
    def words(self) -> list[Word]:
        return [word for segment in self.segments for word in segment.words]

    @cached_property
    def x0(self) -> float:
        return self.segments[0].x0

    @cached_property
    def x1(self) -> float:
        return max(segment.x1 for segment in self.segments)

    @cached_property
    def base(self) -> float:
        return max(self.segments, key=lambda segment: segment.size).base

    @cached_property
    def size(self) -> float:
        """The size of most of its characters."""
        sizes = Counter[float]()
        for word in self.words:
            sizes[round(word.size, 1)] += len(word.text)
        return sizes.most_common(1)[0][0]

    @cached_property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    @cached_property
    def plain_text(self) -> str:
        """Its words in ordinary fonts: without those of formulas and of music."""
        return " ".join(word.text for word in self.words if not word.notation)

    def share(self, style: Literal["bold", "italic", "mono"]) -> float:
        """Return the share of its characters that have a style."""
        total = sum(len(word.text) for word in self.words)
        return sum(len(word.text) for word in self.words if getattr(word, style)) / total

    @cached_property
    def bold(self) -> bool:
        """Whether its words are bold. Words in a fixed-width font are ignored unless there are no others."""
        words = [word for word in self.words if not word.mono] or self.words
        return sum(len(word.text) for word in words if word.bold) > 0.9 * sum(len(word.text) for word in words)

    @cached_property
    def mono(self) -> bool:
        return self.share("mono") > 0.9

    @cached_property
    def style(self) -> Style:
        return Style(round(self.size * 2) / 2, self.bold, self.share("italic") > 0.9)


@dataclass(eq=False)
class PdfTable:
    """Rows of cells; the first row is its header."""

    rows: list[list[str]]
    x0: float
    x1: float
    y0: float
    y1: float
    terms: bool = False  # not a table, but rows of text: terms with explanations next to them, or labels of a figure

    @property
    def base(self) -> float:
        return self.y0


SegmentOrTable = Segment | PdfTable
LineOrTable = PdfLine | PdfTable


@dataclass
class PdfColumn:
    """Lines and tables from top to bottom."""

    items: list[LineOrTable]

    @property
    def lines(self) -> list[PdfLine]:
        return [item for item in self.items if isinstance(item, PdfLine)]


def join_words(words: Sequence[Word]) -> str:
    """Return the words as text, with a space wherever the page has one."""
    pieces = [word.text for word in words[:1]]
    for before, word in pairwise(words):
        pieces.append(f" {word.text}" if _are_apart(before, word) else word.text)
    return "".join(pieces)


def _are_apart(before: Word, word: Word) -> bool:
    gap = word.x0 - before.x1
    size = min(before.size, word.size)
    if gap > 0.35 * size:
        return True
    if HAN.match(before.text[-1]) and HAN.match(word.text[0]):
        return False
    return word.spaced and gap > -0.5 * size


_MIN_CELL_GAP = 0.9  # of the size; a wider gap between two words separates cells or columns
_MAX_RISE = 0.65  # of the size; of a superscript from its line
_MAX_HEIGHT_DIFFERENCE = 0.3  # of the size; between the parts of a line
_MAX_PIECE_LENGTH = 4  # characters of a superscript
_MAX_PIECES = 200  # on one page; a drawing has more


def segments_of(words: Iterable[Word]) -> list[Segment]:
    """Join words into segments: first in drawing order, then by position, since bold words may be drawn later."""
    rows = group_pairs((round(segment.base / 2), segment) for segment in map(Segment, runs(words, follows)))
    by_place = (
        each for height in sorted(rows, reverse=True) for each in sorted(rows[height], key=lambda each: each.x0)
    )
    return _join_raised(join_neighbors(by_place, _joined_if_level))


def follows(before: Word, word: Word) -> bool:
    """Return whether a word follows another on the same line."""
    size = max(before.size, word.size)
    rise = abs(before.base - word.base)
    is_level = rise < _MAX_HEIGHT_DIFFERENCE * size or (
        rise < _MAX_RISE * size and min(before.size, word.size) < 0.9 * size
    )
    return is_level and -0.5 * size < word.x0 - before.x1 < _MIN_CELL_GAP * size


def _joined_if_level(first: Segment, second: Segment) -> Segment | None:
    """Return two segments as one, or None if the second does not begin where the first ends on the same line."""
    is_level = abs(first.base - second.base) < _MAX_HEIGHT_DIFFERENCE * min(first.size, second.size)
    meets = is_level and -first.size < second.x0 - first.x1 < _MIN_CELL_GAP * first.size
    return _join(first, second) if meets else None


def _join(first: Segment, second: Segment) -> Segment:
    return Segment(sorted([*first.words, *second.words], key=lambda word: word.x0))


def _join_raised(segments: list[Segment]) -> list[Segment]:
    """Join each small raised piece that is drawn separately to the segment that it touches."""
    pieces = [segment for segment in segments if len(segment.text) <= _MAX_PIECE_LENGTH]
    if len(pieces) > _MAX_PIECES:
        return segments
    joined: set[Segment] = set()
    for piece in pieces:
        for index, segment in enumerate(segments):
            if _is_raised(piece, segment):
                segments[index] = _join(segment, piece)
                joined.add(piece)
                break
    return [segment for segment in segments if segment not in joined]


def _is_raised(piece: Segment, segment: Segment) -> bool:
    """Return whether a piece is raised above or lowered below a segment, and touches it."""
    size = segment.size
    return (
        len(segment.text) > _MAX_PIECE_LENGTH
        and piece.size <= 0.85 * size
        and segment.x0 - 0.3 * size < piece.x0 < segment.x1 + 0.4 * size
        and 0 < abs(piece.base - segment.base) < _MAX_RISE * size
    )


def lines_of(boxes: Iterable[SegmentOrTable]) -> list[LineOrTable]:
    """Return the lines and tables of a column from top to bottom."""
    items: list[LineOrTable] = []
    row: list[Segment] = []

    def close() -> None:
        if row:
            items.append(PdfLine(sorted(row, key=lambda segment: segment.x0)))
            row.clear()

    for box in sorted(boxes, key=lambda box: (-box.base if isinstance(box, Segment) else -box.y1, box.x0)):
        if not isinstance(box, Segment):
            close()
            items.append(box)
            continue
        if row and abs(row[0].base - box.base) >= _MAX_HEIGHT_DIFFERENCE * max(row[0].size, box.size):
            close()
        row.append(box)
    close()
    return items
