"""Turns a column of lines and tables into blocks: headings, paragraphs, list items, footnotes, tables, code."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_high

from turnmark.corpora.readers.pdf.blocks.markdown_writer import BlockDraft
from turnmark.corpora.readers.pdf.blocks.paragraphs import Paragraphs, shape_of
from turnmark.corpora.readers.pdf.headings.heading_finder import Headings, RunIn
from turnmark.corpora.readers.pdf.headings.outline import Heading
from turnmark.corpora.readers.pdf.headings.styled_headings import Body
from turnmark.corpora.readers.pdf.page.boxes import PdfColumn, PdfLine, PdfTable
from turnmark.corpora.readers.pdf.page.text_patterns import (
    begins_footnote,
    begins_with_prompt,
    is_box_title,
)

_MAX_GAP_SPACES = 80  # characters


def code_lines(lines: Sequence[PdfLine]) -> list[str]:
    """Return the lines of a listing, including its blank lines."""
    width = max(0.5, median_high((word.x1 - word.x0) / len(word.text) for line in lines for word in line.words))
    left = min(line.x0 for line in lines)
    gaps = [above.base - below.base for above, below in pairwise(lines)]
    usual = sorted(gaps)[len(gaps) // 3] if gaps else 0.0
    texts = [_with_spaces(lines[0], left, width)]
    for line, gap in zip(lines[1:], gaps, strict=True):
        if usual and gap > 1.6 * usual:
            texts.append("")
        texts.append(_with_spaces(line, left, width))
    return texts


def _with_spaces(line: PdfLine, left: float, width: float) -> str:
    """Return a line with as many spaces as its gaps are wide.

    Args:
        left: left edge of lines without an indent, in points.
        width: width of a character, in points.
    """
    text = " " * min(_MAX_GAP_SPACES, round((line.x0 - left) / width)) + line.words[0].text
    for before, word in pairwise(line.words):
        gap = (word.x0 - before.x1) / width
        text += " " * min(_MAX_GAP_SPACES, max(round(gap), int(word.spaced and gap > 0.3))) + word.text
    return text


_MAX_FOOTNOTE_RATIO = 0.93  # of the body size; footnotes are smaller
_MIN_CODE_SHARE = 0.75  # share of fixed-width characters in a line that continues a code listing


class ColumnReader:
    """A reader of one column; `page` is its page, counted from 0."""

    def __init__(self, page: int, column: PdfColumn, headings: Headings, body: Body) -> None:
        self._page = page
        self._items = column.items
        self._headings = headings
        self._body = body
        self._drafts: list[BlockDraft] = []
        self._shape = shape_of(column, body.size)
        self._text = Paragraphs(self._drafts, page, self._shape)
        self._notes = self._notes_begin()

    def read(self) -> list[BlockDraft]:
        """Return the blocks of the column from top to bottom."""
        index = 0
        while index < len(self._items):
            index += self._take(index)
        self._text.close()
        return self._drafts

    def _take(self, index: int) -> int:
        """Read the block that begins at an index and return its number of items."""
        item = self._items[index]
        if isinstance(item, PdfTable):
            return self._take_table(item)
        if heading := self._headings.at(item):
            return self._take_heading(index, item, heading)
        in_text = index < self._notes
        if in_text and self._text.begins(item) and (run_in := self._headings.run_in(self._items, index)):
            return self._take_run_in(run_in)
        if self._is_code(index, item):
            return self._take_code(index)
        if in_text:
            self._text.take(item)
        else:
            self._text.take_note(item)
        return 1

    def _take_table(self, table: PdfTable) -> int:
        self._text.close()
        if table.terms:
            terms = [" ".join(filter(None, row)) for row in table.rows]
            self._drafts += [
                BlockDraft("paragraph", [(self._page, [term])], note=len(table.rows[0]) < 2) for term in terms
            ]
        else:
            self._drafts.append(BlockDraft("table", rows=[(self._page, row) for row in table.rows], x0=table.x0))
        return 1

    def _take_heading(self, index: int, line: PdfLine, heading: Heading) -> int:
        self._text.end()
        texts = [item.text for item in self._items[index : index + heading.length] if isinstance(item, PdfLine)]
        whole = " ".join(texts)
        if is_box_title(whole):
            self._drafts.append(BlockDraft("paragraph", [(self._page, [f"**{whole}**"])]))
        else:
            parts = [(self._page, texts)]
            self._drafts.append(
                BlockDraft("heading", parts, heading.level, style=line.style, bookmarked=heading.bookmarked)
            )
        return heading.length

    def _take_run_in(self, heading: RunIn) -> int:
        self._text.end()
        self._drafts.append(BlockDraft("heading", [(self._page, heading.texts)], heading.level))
        if heading.rest is not None:
            self._text.take(heading.rest)
        return len(heading.texts)

    def _take_code(self, index: int) -> int:
        self._text.close()
        lines = self._code_lines(index)
        self._drafts.append(BlockDraft("code", [(self._page, code_lines(lines))]))
        return len(lines)

    def _is_code(self, index: int, line: PdfLine) -> bool:
        """Return whether a line begins a code listing, rather than text that starts with a long name in code font."""
        if self._body.typewritten or not (line.mono or begins_with_prompt(line.text)):
            return False
        above = self._items[index - 1] if index else None
        last = self._text.last
        if last is None or not isinstance(above, PdfLine) or above.mono:
            return True
        near = above.base - line.base < 1.25 * self._shape.leading
        return not near or abs(last.x0 - line.x0) >= 0.5 * line.size

    def _code_lines(self, index: int) -> list[PdfLine]:
        lines: list[PdfLine] = []
        for item in self._items[index:]:
            if not isinstance(item, PdfLine) or self._headings.at(item):
                break
            is_code = item.share("mono") >= _MIN_CODE_SHARE or begins_with_prompt(item.text)
            if lines and (not is_code or lines[-1].base - item.base > 3.2 * item.size):
                break
            lines.append(item)
        return lines

    def _notes_begin(self) -> int:
        """Return the index of the first footnote line: smaller text that begins with a mark and ends the column."""
        first = len(self._items)
        for index in range(len(self._items) - 1, -1, -1):
            item = self._items[index]
            if not isinstance(item, PdfLine) or item.size > _MAX_FOOTNOTE_RATIO * self._body.size:
                break
            if begins_footnote(item.text):
                first = index
        return first
