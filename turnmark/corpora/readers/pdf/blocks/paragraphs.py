"""Joins lines of text into paragraphs, list items and footnotes."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import NamedTuple

from turnmark.corpora.readers.pdf.blocks.markdown_writer import BlockDraft
from turnmark.corpora.readers.pdf.headings.styled_headings import MAX_SIZE_DIFFERENCE
from turnmark.corpora.readers.pdf.page.boxes import PdfColumn, PdfLine
from turnmark.corpora.readers.pdf.page.text_patterns import (
    ListMark,
    begins_as_caption,
    begins_footnote,
    ends_sentence,
    match_list_mark,
)

_MIN_PARAGRAPH_GAP = 1.35  # of the usual line distance; a larger one begins a paragraph
_MIN_INDENT = 0.8  # of the font size


class ColumnShape(NamedTuple):
    """The left and right edge of the lines of a column, and their usual distance, in points."""

    left: float
    right: float
    leading: float

    @property
    def width(self) -> float:
        return self.right - self.left


def shape_of(column: PdfColumn, size: float) -> ColumnShape:
    """Return the shape of a column; `size` is the body size of the document."""
    lines = column.lines
    gaps = [
        above.base - below.base
        for above, below in pairwise(column.items)
        if isinstance(above, PdfLine) and isinstance(below, PdfLine) and abs(above.size - below.size) < 0.5
    ]
    usual = Counter(round(gap) for gap in gaps if 0.8 < gap / max(size, 1) < 2.2)
    return ColumnShape(
        left=min((line.x0 for line in lines), default=0.0),
        right=sorted(line.x1 for line in lines)[int(len(lines) * 0.9)] if lines else 0.0,
        leading=float(usual.most_common(1)[0][0]) if usual else 1.25 * size,
    )


class _OpenListItem(NamedTuple):
    """An open list item: its depth, its mark, and the left edge of its text."""

    level: int
    mark: ListMark
    x0: float


class Paragraphs:
    """Joins the lines of a column into blocks, which are appended to `drafts`.

    Args:
        page: page of the column, counted from 0.
    """

    def __init__(self, drafts: list[BlockDraft], page: int, shape: ColumnShape) -> None:
        self._drafts = drafts
        self._page = page
        self._shape = shape
        self._lines: list[PdfLine] = []  # lines of the open block
        self._item: _OpenListItem | None = None  # the list item that the open block is
        self._number = 0  # number of the last list item
        self._marks: list[float] = []  # left edges of the marks of open lists, from the outermost
        self._noting = False  # whether footnotes have begun

    @property
    def last(self) -> PdfLine | None:
        """The last line of the open block, or None if no block is open."""
        return self._lines[-1] if self._lines else None

    def take(self, line: PdfLine) -> None:
        """Add a line of text."""
        mark = match_list_mark(line.text)
        if mark is not None and self._is_item(line, mark):
            self.close()
            words = line.words
            content = words[1].x0 if len(words) > 1 else line.x0 + 1.5 * line.size
            self._item = _OpenListItem(self._level(line.x0), mark, content)
            self._number = mark.number or 0
        elif self._lines and self.begins(line):
            inside = self._item is not None and abs(line.x0 - self._item.x0) < 0.6 * line.size
            self.close()
            if not inside and self._marks and line.x0 < self._marks[0] + 2:
                self._marks.clear()
        self._lines.append(line)

    def take_note(self, line: PdfLine) -> None:
        """Add a line of the footnotes."""
        if begins_footnote(line.text):
            self.close()
        self._noting = True
        self._lines.append(line)

    def end(self) -> None:
        """Complete the open block and all lists, because what follows, e.g. a heading, interrupts them."""
        self.close()
        self._marks.clear()

    def close(self) -> None:
        """Complete the open block."""
        lines, self._lines = self._lines, []
        item, self._item = self._item, None
        if not lines:
            return
        first, last = lines[0], lines[-1]
        texts = [line.text for line in lines]
        draft = BlockDraft(
            "paragraph", [(self._page, texts)], x0=first.x0, full=last.x1 > self._shape.right - 2.5 * last.size
        )
        if item is None:
            draft.note = self._noting or bool(begins_as_caption(first.text))
            draft.indented = first.x0 > self._shape.left + _MIN_INDENT * first.size
        else:
            draft.kind, draft.level, draft.number = "item", item.level, item.mark.number
            said = item.mark.is_bullet or item.mark.number is not None
            texts[0] = item.mark.rest if said else f"{item.mark.mark} {item.mark.rest}"
        self._drafts.append(draft)

    def _is_item(self, line: PdfLine, mark: ListMark) -> bool:
        """Return whether a line that begins with a mark is a list item, rather than a sentence with a number here."""
        words = line.words
        begins = self.begins(line) or any(abs(line.x0 - place) < 3 for place in self._marks)
        gap = len(words) > 1 and words[1].x0 - words[0].x1 > 0.45 * line.size
        if mark.mark in "-–—*" and not mark.rest.strip():
            return False
        if mark.is_bullet:
            return mark.mark not in "-–—*·" or begins or gap
        follows = mark.number is not None and mark.number in (1, self._number + 1)
        return (begins and (gap or follows or mark.number is None)) or (follows and gap)

    def _level(self, x0: float) -> int:
        """Return the depth of a list item whose mark has this left edge."""
        while self._marks and x0 < self._marks[-1] - 3:
            self._marks.pop()
        if not self._marks or x0 > self._marks[-1] + 4:
            self._marks.append(x0)
        return len(self._marks) - 1

    def begins(self, line: PdfLine) -> bool:
        """Return whether a line begins a new block."""
        above = self.last
        if above is None:
            return True
        gap, size = above.base - line.base, max(line.size, 1.0)
        if gap > _MIN_PARAGRAPH_GAP * max(min(self._shape.leading, 2.0 * size), size) or gap < 0:
            return True
        if abs(line.size - above.size) > MAX_SIZE_DIFFERENCE * size and min(len(line.text), len(above.text)) > 3:
            return True
        is_lead = above.bold and not line.bold and len(self._lines) == 1
        if is_lead and above.x1 < self._shape.right - 3 * size:
            return True
        if begins_as_caption(line.text):
            return True
        if self._item is not None:
            return self._leaves_item(line, self._item, size)
        return self._is_moved(line, above, size)

    def _leaves_item(self, line: PdfLine, item: _OpenListItem, size: float) -> bool:
        """Return whether a line begins left of the open list item, or right of its text."""
        if line.x0 < self._lines[0].x0 - 0.5 * size:
            return True
        moved = line.x0 > item.x0 + 1.5 * size and line.x0 > self._lines[-1].x0 + size
        return moved and len(self._lines) > 1

    def _is_moved(self, line: PdfLine, above: PdfLine, size: float) -> bool:
        """Return whether a line does not align with the open paragraph, or the paragraph's last line ends early."""
        if len(self._lines) == 1:
            indent, short = line.x0 - above.x0, above.x1 < self._shape.right - 0.2 * self._shape.width
            return indent < -3.5 * size or (abs(indent) > _MIN_INDENT * size and short)
        usual = min(each.x0 for each in self._lines[1:])
        if not usual - _MIN_INDENT * size <= line.x0 <= usual + _MIN_INDENT * size:
            return True
        early = above.x1 < self._shape.right - 0.3 * self._shape.width
        return early and line.text[:1].isupper() and bool(ends_sentence(above.text))
