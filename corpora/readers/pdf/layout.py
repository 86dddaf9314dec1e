"""Turns pages into columns of lines and tables in reading order, and removes what is not text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.corpora.readers.pdf.aligned_tables import with_aligned_tables
from turnmark.corpora.readers.pdf.boxes import PdfColumn, Segment
from turnmark.corpora.readers.pdf.clutter import drop_line_numbers, drop_overlays
from turnmark.corpora.readers.pdf.columns import columns_in_order
from turnmark.corpora.readers.pdf.contents import Contents
from turnmark.corpora.readers.pdf.lines import lines_of, segments_of
from turnmark.corpora.readers.pdf.page import PdfPage
from turnmark.corpora.readers.pdf.ruled_tables import find_ruled_tables
from turnmark.corpora.readers.pdf.running_headers import drop_running_headers


@dataclass
class PageLayout:
    """The columns of one page.

    Attributes:
        page: its index from 0.
        wide: whether it is wider than tall, like a slide.
    """

    page: int
    columns: list[PdfColumn]
    wide: bool = False


def lay_out(pages: Sequence[PdfPage]) -> list[PageLayout]:
    """Return the columns of each page. Words that are not text are removed from the pages."""
    for page in pages:
        drop_line_numbers(page)
    drop_running_headers(pages)
    drop_overlays(pages)
    contents = Contents()
    return [PageLayout(index, _columns(page, contents), page.width > page.height) for index, page in enumerate(pages)]


def _columns(page: PdfPage, contents: Contents) -> list[PdfColumn]:
    segments = _without_contents(segments_of(page.words), contents)
    tables, rest = find_ruled_tables(segments, page.rules)
    return [with_aligned_tables(PdfColumn(lines_of(boxes))) for boxes in columns_in_order([*rest, *tables])]


def _without_contents(segments: list[Segment], contents: Contents) -> list[Segment]:
    if not contents.may_be_in([segment.text for segment in segments]):
        return segments
    columns = [PdfColumn(lines_of(boxes)) for boxes in columns_in_order([*segments])]
    lines = contents.lines([line for column in columns for line in column.lines])
    gone = {segment for line in lines for segment in line.segments}
    return [segment for segment in segments if segment not in gone]
