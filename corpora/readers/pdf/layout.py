"""The words of a page as lines and tables in reading order, column by column."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from turnmark.corpora.readers.pdf.glyphs import Word
from turnmark.corpora.text import CJK

CELL_GAP = 0.9  # of the size: a wider gap between two words is a gap between cells, or columns
_RAISED = 0.65  # of the size: how far a superscript may be from the line it is on
_SAME = 0.3  # of the size: how far apart the parts of a line may be in height
_FILL = 0.55  # of its width: a column of prose is filled at least this far
_JUSTIFIED = 0.5  # of its lines: so many of a column of justified prose reach its right edge
_SIDE = 18  # characters: a line of a column of prose has at least this many on average
_EVEN = 0.03  # of the width: how far from even columns a gutter may be
_LONG = 20  # lines: a column of a reference card, and hardly a table without ruled lines
_MAX_DEPTH = 4  # columns within columns
_BIN = 2.0  # points
_HAN = re.compile(f"[{CJK}]")
_RAISED_DIGITS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass
class Segment:
    """Words of one line without a wide gap between them."""

    words: list[Word]

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
        """The height of the largest word, so that no superscript says where the line is."""
        return max(self.words, key=lambda word: (word.size, len(word.text))).base

    @cached_property
    def text(self) -> str:
        raised = [
            word.text.isdecimal() and word.size < 0.85 * self.size and word.base > self.base + 0.15 * self.size
            for word in self.words
        ]
        if not any(raised):
            return joined_words(self.words)
        words = [
            replace(word, text=word.text.translate(_RAISED_DIGITS), spaced=False) if is_raised else word
            for word, is_raised in zip(self.words, raised, strict=True)
        ]
        return joined_words(words)

    @property
    def y0(self) -> float:
        return self.base - 0.25 * self.size

    @property
    def y1(self) -> float:
        return self.base + 0.8 * self.size


@dataclass
class Line:
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
        sizes: dict[float, int] = {}
        for word in self.words:
            size = round(word.size, 1)
            sizes[size] = sizes.get(size, 0) + len(word.text)
        return max(sizes, key=lambda size: sizes[size])

    @cached_property
    def text(self) -> str:
        return " ".join(segment.text for segment in self.segments)

    def share(self, style: str) -> float:
        """The share of its characters that are `bold`, `italic` or `mono`."""
        total = sum(len(word.text) for word in self.words)
        return sum(len(word.text) for word in self.words if getattr(word, style)) / max(1, total)

    @cached_property
    def bold(self) -> bool:
        """Whether its words are bold; names in a fixed width font may be as they are elsewhere."""
        words = [word for word in self.words if not word.mono] or self.words
        return sum(len(word.text) for word in words if word.bold) > 0.9 * sum(len(word.text) for word in words)

    @cached_property
    def mono(self) -> bool:
        return self.share("mono") > 0.9


@dataclass
class Table:
    """Rows of cells; the first row is its header."""

    rows: list[list[str]]
    x0: float
    x1: float
    y0: float
    y1: float
    terms: bool = False  # no table, but terms with their explanations beside them

    @property
    def base(self) -> float:
        return self.y0


Item = Line | Table


@dataclass
class Column:
    """Lines and tables from top to bottom."""

    items: list[Item] = field(default_factory=list)

    @property
    def lines(self) -> list[Line]:
        return [item for item in self.items if isinstance(item, Line)]


def joined_words(words: Sequence[Word]) -> str:
    """The words as text, with a space wherever the page has one."""
    pieces: list[str] = []
    for before, word in pairwise([None, *words]):
        assert word is not None
        if before is not None and _apart(before, word):
            pieces.append(" ")
        pieces.append(word.text)
    return "".join(pieces)


def _apart(before: Word, word: Word) -> bool:
    gap = word.x0 - before.x1
    size = min(before.size, word.size)
    if gap > 0.35 * size:
        return True
    if _HAN.match(before.text[-1]) and _HAN.match(word.text[0]):
        return False
    return word.spaced and gap > -0.5 * size


def segments_of(words: Iterable[Word]) -> list[Segment]:
    """Words to segments: first as they are drawn, then by their places, since bold words may be drawn later."""
    runs: list[list[Word]] = []
    for word in words:
        if runs and _goes_on(runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    segments = [Segment(run) for run in runs]
    rows: dict[int, list[Segment]] = {}
    for segment in segments:
        rows.setdefault(round(segment.base / 2), []).append(segment)
    merged: list[Segment] = []
    for key in sorted(rows, reverse=True):
        row = sorted(rows[key], key=lambda segment: segment.x0)
        for segment in row:
            last = merged[-1] if merged else None
            if last and _same_line(last, segment) and -last.size < segment.x0 - last.x1 < CELL_GAP * last.size:
                merged[-1] = Segment(sorted([*last.words, *segment.words], key=lambda word: word.x0))
            else:
                merged.append(segment)
    return _with_raised(merged)


def _goes_on(before: Word, word: Word) -> bool:
    """Whether a word follows another in its line."""
    size = max(before.size, word.size)
    return (
        abs(before.base - word.base) < _RAISED * size
        and (abs(before.base - word.base) < _SAME * size or min(before.size, word.size) < 0.9 * size)
        and -0.5 * size < word.x0 - before.x1 < CELL_GAP * size
    )


def _same_line(first: Segment, second: Segment) -> bool:
    return abs(first.base - second.base) < _SAME * min(first.size, second.size)


def _with_raised(segments: list[Segment]) -> list[Segment]:
    """Small raised pieces, drawn apart from their line, joined to the segment that they touch."""
    small = [segment for segment in segments if len(segment.text) <= 4]
    if not small or len(small) > 200:
        return segments
    gone: set[int] = set()
    for piece in small:
        for other in segments:
            if other is piece or id(other) in gone or piece.size > 0.85 * other.size or len(other.text) <= 4:
                continue
            near = other.x0 - 0.3 * other.size < piece.x0 < other.x1 + 0.4 * other.size
            if near and 0 < abs(piece.base - other.base) < _RAISED * other.size:
                # Its segment is made anew, since what a segment says of itself is kept.
                words = sorted([*other.words, *piece.words], key=lambda word: word.x0)
                segments[segments.index(other)] = Segment(words)
                gone.add(id(piece))
                break
    return [segment for segment in segments if id(segment) not in gone]


def lines_of(boxes: Iterable[Segment | Table]) -> list[Item]:
    """The lines and tables of a column from top to bottom."""
    items: list[Item] = []
    row: list[Segment] = []
    for box in sorted(boxes, key=lambda box: (-box.base if isinstance(box, Segment) else -box.y1, box.x0)):
        if isinstance(box, Segment) and row and abs(row[0].base - box.base) < _SAME * max(row[0].size, box.size):
            row.append(box)
            continue
        if row:
            items.append(Line(sorted(row, key=lambda segment: segment.x0)))
            row = []
        if isinstance(box, Segment):
            row = [box]
        else:
            items.append(box)
    if row:
        items.append(Line(sorted(row, key=lambda segment: segment.x0)))
    return items


# --- columns ---------------------------------------------------------------------------------------------------------

Box = Segment | Table


def in_order(boxes: list[Box], depth: int) -> list[list[Box]]:
    """The boxes by column, as they are read. What crosses the gutter is read before what is below it."""
    gutter = _gutter(boxes) if depth < _MAX_DEPTH else None
    if gutter is None:
        return [boxes]
    ordered: list[list[Box]] = []
    left: list[Box] = []
    right: list[Box] = []

    across: list[Box] = []  # what is read line by line

    def flush() -> None:
        nonlocal across
        if left and right:
            if across:
                ordered.append(across)
                across = []
            for side in (left, right):
                ordered.extend(in_order(list(side), depth + 1))
        else:  # a title's short line, say: no column without another beside it
            across += [*left, *right]
        left.clear()
        right.clear()

    for box in sorted(boxes, key=lambda box: -box.y1):
        if box.x0 < gutter < box.x1:
            flush()
            across.append(box)
        else:
            (left if box.x1 <= gutter else right).append(box)
    flush()
    if across:
        ordered.append(across)
    return ordered


def _gutter(boxes: Sequence[Box]) -> float | None:
    """Where the boxes are divided into two columns of prose, if they are."""
    if len(boxes) < 8:
        return None
    low, high = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
    bins = int((high - low) / _BIN) + 1
    if bins < 20:
        return None
    changes = [0] * (bins + 2)
    for box in boxes:
        changes[int((box.x0 - low) / _BIN) + 1] += 1
        changes[int((box.x1 - low) / _BIN)] -= 1
    crossing, covered = [], 0
    for change in changes[:bins]:
        covered += change
        crossing.append(covered)
    for start, end in _valleys(crossing, len(boxes)):
        middle = low + (start + end) / 2 * _BIN
        left = [box for box in boxes if box.x1 <= middle]
        right = [box for box in boxes if box.x0 >= middle]
        place = (middle - low) / (high - low)
        even = any(abs(place - part) < _EVEN for part in (1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4))
        halved = start * _BIN <= (high - low) / 2 <= end * _BIN
        if _are_columns(left, right, even, halved):
            return middle
    return None


def _valleys(crossing: Sequence[int], total: int) -> list[tuple[int, int]]:
    """Ranges of bins that few boxes cross, the best first."""
    inner = range(int(len(crossing) * 0.12), int(len(crossing) * 0.88))
    if not inner:
        return []
    least = min(crossing[index] for index in inner)
    most = least + max(1, total // 50)
    if most > 0.45 * total:
        return []
    found: list[tuple[int, int]] = []
    start = None
    for index in [*inner, len(crossing)]:
        low = index < len(crossing) and crossing[index] <= most
        if low and start is None:
            start = index
        elif not low and start is not None:
            found.append((start, index))
            start = None
    return sorted(found, key=lambda pair: pair[0] - pair[1])[:4]


def _are_columns(left: Sequence[Box], right: Sequence[Box], even: bool, halved: bool) -> bool:
    """Whether two sides are columns to be read one after the other, and no cells of the same rows.

    `even`: the gutter is where it is if all columns of the page are equally wide; `halved`: it has the middle in it.
    """
    sides = (_Side(left), _Side(right))
    if min(len(side.rows) for side in sides) < 4:
        return False
    if all(side.fill >= _FILL and side.characters >= _SIDE for side in sides):
        return True
    if halved and any(side.is_justified for side in sides) and all(side.characters >= _SIDE / 2 for side in sides):
        return True  # a short list of contents beside prose
    if not all(side.characters >= 0.8 * _SIDE for side in sides):
        return False
    few, many = sorted(sides, key=lambda side: len(side.rows))
    if even and len(few.rows) >= _LONG and all(side.reach >= _FILL for side in sides):
        return True  # a card with terms and their explanations in each column
    aligned = sum(any(abs(row - other) < 2 for other in many.rows) for row in few.rows) / len(few.rows)
    return aligned < 0.5 and len(few.rows) >= 6


class _Side:
    """Measures of what is on one side of a gutter."""

    def __init__(self, boxes: Sequence[Box]) -> None:
        self.rows: list[float] = []
        spans: list[list[float]] = []
        widths = letters = 0.0
        for box in sorted(boxes, key=lambda box: -box.base):
            if not self.rows or abs(self.rows[-1] - box.base) > 2:
                self.rows.append(box.base)
                spans.append([box.x0, box.x1])
            spans[-1] = [min(spans[-1][0], box.x0), max(spans[-1][1], box.x1)]
            widths += box.x1 - box.x0
            letters += len(box.text) if isinstance(box, Segment) else 200
        extent = max((box.x1 for box in boxes), default=0) - min((box.x0 for box in boxes), default=0)
        full = max(1.0, extent * len(self.rows))
        self.fill = widths / full  # the share of its width that has text
        self.reach = sum(end - start for start, end in spans) / full  # gaps between cells counted too
        self.characters = letters / max(1, len(self.rows))
        edge = max((box.x1 for box in boxes), default=0) - 0.02 * extent
        self.filled = sum(end >= edge for _, end in spans) / max(1, len(spans))

    @property
    def is_justified(self) -> bool:
        """Whether most of its lines reach its right edge, as those of prose do and those of cells do not."""
        return self.filled >= _JUSTIFIED and self.characters >= 2 * _SIDE and len(self.rows) >= 8
