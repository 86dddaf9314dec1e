"""Finds where a figure of a page stands in the text of the document, and its caption.

A figure stands at its caption, or else after the block above it on the page.
"""

from __future__ import annotations

from collections.abc import Sequence

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.blocks.markdown_writer import PdfText
from turnmark.corpora.readers.pdf.layout.page_layout import PageLayout
from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfLine
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import PdfFigure, PdfPage
from turnmark.corpora.readers.pdf.page.text_patterns import begins_as_caption
from turnmark.corpora.types import Block

_MAX_GAP_BELOW = 70.0  # points between a figure and its caption below; an included drawing has a wide empty margin
_MAX_GAP_ABOVE = 30.0  # points between a figure and its caption above
_MAX_OVERLAP = 20.0  # points by which a caption may be inside the box of its figure
_WHOLE_PAGE_SHARE = 0.6  # of the page; a figure that covers more stands after all of its text
_MIN_SEARCHED_WORDS = 2  # of a line that is sought in the text


class FigurePlaces:
    """The places of the figures of a document.

    Args:
        layouts: the pages, each perhaps followed by its asides.
        written: the text of the document.
    """

    def __init__(self, layouts: Sequence[PageLayout], written: PdfText) -> None:
        self._written = written
        upright = (layout for layout in layouts if not layout.aside)
        self._items = group_pairs(
            (layout.page, item) for layout in upright for column in layout.columns for item in column.items
        )

    def place(self, index: int, page: PdfPage, figure: PdfFigure) -> tuple[int, str]:
        """Return the end of the block after which a figure stands, and its caption; empty if it has none.

        Args:
            index: the page of the figure, counted from 0.
        """
        box = page.upright(figure.box)
        items = [item for item in self._items.get(index, ()) if item.x0 < box.right and item.x1 > box.left]
        covers = box.area > _WHOLE_PAGE_SHARE * page.width * page.height
        caption = _caption(items, box)
        block = self._block_of(index, caption) if caption is not None else None
        if block is not None:
            return block.end, self._written.text[block.start : block.end]
        if not covers:
            for item in sorted((item for item in items if item.base >= box.top), key=lambda item: item.base):
                if block := self._block_of(index, item):
                    return block.end, ""
            for item in sorted((item for item in items if item.base <= box.bottom), key=lambda item: -item.base):
                if block := self._block_of(index, item):
                    return self._end_before(block.start), ""
        return self._end_before(self._page_end(index)), ""

    def _page_end(self, index: int) -> int:
        pages = self._written.pages
        return pages[index + 1] if index + 1 < len(pages) else len(self._written.text) + 1

    def _end_before(self, offset: int) -> int:
        """Return the end of the last block that begins before an offset, or 0 if there is none."""
        return max((block.end for block in self._written.blocks if block.start < offset), default=0)

    def _block_of(self, index: int, item: LineOrTable) -> Block | None:
        """Return the block that contains a line of a page. The writer may have joined its first and last words."""
        words = (item.text if isinstance(item, PdfLine) else max(item.rows[-1], key=len)).split()
        text, start, end = self._written.text, self._written.pages[index], self._page_end(index)
        for part in (words, words[1:-1], words[: len(words) // 2]):
            if len(part) >= min(_MIN_SEARCHED_WORDS, len(words)):
                at = text.find(" ".join(part), start, end)
                if part and at >= 0:
                    return next((block for block in self._written.blocks if block.start <= at < block.end), None)
        return None


def _caption(items: Sequence[LineOrTable], box: Box) -> PdfLine | None:
    """Return the first line of a figure's caption, below the figure or else just above it, or None if there is none."""
    captions = [item for item in items if isinstance(item, PdfLine) and begins_as_caption(item.text)]
    below = [item for item in captions if -_MAX_OVERLAP <= box.bottom - item.base <= _MAX_GAP_BELOW]
    above = [item for item in captions if -_MAX_OVERLAP <= item.base - box.top <= _MAX_GAP_ABOVE]
    return max(below, key=lambda item: item.base) if below else min(above, key=lambda item: item.base, default=None)
