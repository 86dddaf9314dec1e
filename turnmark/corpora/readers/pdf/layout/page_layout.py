"""Turns pages into columns of lines and tables in reading order, and removes what is not text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from turnmark.corpora.readers.pdf.layout.clutter import drop_line_numbers, drop_overlays
from turnmark.corpora.readers.pdf.layout.columns import MIN_LINE_LENGTH, columns_in_order
from turnmark.corpora.readers.pdf.layout.contents import Contents
from turnmark.corpora.readers.pdf.layout.dot_leaders import without_leaders
from turnmark.corpora.readers.pdf.layout.running_headers import drop_running_headers
from turnmark.corpora.readers.pdf.page.boxes import HAN, PdfColumn, PdfLine, PdfTable, Segment, lines_of, segments_of
from turnmark.corpora.readers.pdf.page.page_records import DOWNWARD_DEGREES, PdfPage
from turnmark.corpora.readers.pdf.tables.aligned_tables import with_aligned_tables
from turnmark.corpora.readers.pdf.tables.ruled_tables import find_ruled_tables

_MAX_DRAWING_SHARE = 0.6  # of the page; what covers more is a page with lines and boxes, such as a form

_MAX_SHORT_LABEL = 45  # characters of the label of a drawing
_MAX_LONG_LABELS = 2  # in a drawing; with more, it is text in boxes
_MAX_CODE_SHARE = 0.1  # of the words in a drawing


@dataclass
class PageLayout:
    """The columns of one page.

    Attributes:
        page: its index from 0.
        wide: whether it is wider than tall, like a slide.
        aside: whether it is text of that page in another direction than the rest.
    """

    page: int
    columns: list[PdfColumn]
    wide: bool = False
    aside: bool = False


def lay_out(pages: Sequence[PdfPage]) -> tuple[list[PageLayout], Counter[str]]:
    """Return the columns of each page, each followed by its asides, and what was left out: reason -> count.

    Words that are not text are removed from the pages.
    """
    left_out = Counter[str]()
    left_out["words of watermarks"] = sum(page.slanted for page in pages)
    left_out["line numbers"] = sum(map(drop_line_numbers, pages))
    for degrees in sorted({each.degrees for page in pages for each in (page, *page.asides)}):
        headers = drop_running_headers([_in_direction(page, degrees) for page in pages])
        left_out["running headers and page numbers"] += headers
    left_out["slides that the next one repeats"] = drop_overlays(pages)
    segments = [segments_of(page.words) for page in pages]
    contents = Contents([[segment.text for segment in each] for each in segments], [page.links for page in pages])
    layouts: list[PageLayout] = []
    for index, page in enumerate(pages):
        gone = _contents_lines(index, segments[index], contents)
        left_out["lines of contents and indexes"] += len(gone)
        pointers = {segment for line in gone for segment in line.segments}
        kept = [segment for segment in segments[index] if segment not in pointers]
        layouts.append(PageLayout(index, _columns(kept, page), page.width > page.height))
        for aside in page.asides:
            columns = _columns(segments_of(aside.words), aside)
            left_out["numbers along the axes of drawings"] += sum(map(_drop_wordless_lines, columns))
            layouts.append(PageLayout(index, columns, aside=True))
    return layouts, +left_out


def _in_direction(page: PdfPage, degrees: int) -> PdfPage:
    """Return the page, or its aside, whose text runs in a direction: headers are upright on turned pages too."""
    found = (each for each in (page, *page.asides) if each.degrees == degrees)
    return next(found, None) or PdfPage(page.width, page.height, [], [])


def _columns(segments: Sequence[Segment], page: PdfPage) -> list[PdfColumn]:
    labels, rest = _figure_labels(without_leaders(segments), page)
    tables, rest = find_ruled_tables(rest, page.rules)
    runs_down = page.degrees == DOWNWARD_DEGREES and sum(bool(HAN.match(each.text)) for each in rest) > len(rest) / 2
    # Two tiers of such lines are level and short like cells, since a letter says more than a Latin one.
    length = MIN_LINE_LENGTH / 2 if runs_down else MIN_LINE_LENGTH
    ordered = columns_in_order([*rest, *tables, *labels], min_length=length)
    return [with_aligned_tables(PdfColumn(lines_of(boxes))) for boxes in ordered]


def _figure_labels(segments: Sequence[Segment], page: PdfPage) -> tuple[list[PdfTable], list[Segment]]:
    """Return the labels of each drawing, row by row, and the segments outside the drawings.

    Labels neither continue a caption or a paragraph, nor are they tables, headings or list items.
    """
    labels: list[PdfTable] = []
    rest = list(segments)
    for figure in page.figures:
        box = page.upright(figure.box)
        inside = [each for each in rest if box.contains(((each.x0 + each.x1) / 2, each.base))]
        is_drawing = not figure.density and box.area <= _MAX_DRAWING_SHARE * page.width * page.height
        if inside and is_drawing and _are_labels(inside):
            texts: list[str] = []
            for line in PdfColumn(lines_of(inside)).lines:
                if texts and not any(map(str.isalpha, texts[-1] + line.text)):  # numbers along an axis
                    texts[-1] += f" {line.text}"
                else:
                    texts.append(line.text)
            labels.append(PdfTable([[text] for text in texts], box.left, box.right, box.bottom, box.top, terms=True))
            taken = set(inside)
            rest = [each for each in rest if each not in taken]
    return labels, rest


def _are_labels(segments: Sequence[Segment]) -> bool:
    """Return whether texts are short, and not code: so they are labels rather than text in boxes."""
    code = sum(word.mono for each in segments for word in each.words)
    long = sum(len(each.text) > _MAX_SHORT_LABEL for each in segments)
    return long <= _MAX_LONG_LABELS and code <= _MAX_CODE_SHARE * sum(len(each.words) for each in segments)


def _drop_wordless_lines(column: PdfColumn) -> int:
    """Remove the lines without letters, which turned text has along an axis, and return their number."""
    kept = [item for item in column.items if not isinstance(item, PdfLine) or any(map(str.isalpha, item.text))]
    dropped = len(column.items) - len(kept)
    column.items = kept
    return dropped


def _contents_lines(index: int, segments: list[Segment], contents: Contents) -> list[PdfLine]:
    """Return the lines of a page that only point to pages."""
    if not contents.may_be_in(index):
        return []
    columns = [PdfColumn(lines_of(boxes)) for boxes in columns_in_order([*segments])]
    return contents.lines(index, [line for column in columns for line in column.lines])
