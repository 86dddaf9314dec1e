"""Finds headings by the outline of a file: the lines with the text of its bookmarks."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

import pypdfium2

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.page.boxes import PdfLine
from turnmark.corpora.readers.pdf.page.letters import normalize_letters
from turnmark.corpora.readers.pdf.page.text_patterns import letters_and_digits, without_numbering

MAX_BOOKMARKS = 20_000
_MAX_HEADING_LINES = 5  # of a heading


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


class Bookmark(NamedTuple):
    """An entry of the outline: its title, its depth from 1, and its target page, counted from 0."""

    title: str
    level: int
    page: int


def bookmarks_of(document: pypdfium2.PdfDocument) -> list[Bookmark]:
    """Return the bookmarks with a target page, up to the first broken bookmark."""
    bookmarks: list[Bookmark] = []
    try:
        for bookmark in document.get_toc(max_depth=6):
            destination = bookmark.get_dest()
            page = destination.get_index() if destination else None
            title = " ".join(normalize_letters(bookmark.get_title()).split())
            if title and page is not None:
                bookmarks.append(Bookmark(title, bookmark.level + 1, page))
            if len(bookmarks) >= MAX_BOOKMARKS:
                break
    except (pypdfium2.PdfiumError, ValueError):
        pass  # headings are also found by their style
    return bookmarks


def bookmarked_headings(lines: Sequence[tuple[int, PdfLine]], bookmarks: Sequence[Bookmark]) -> dict[PdfLine, Heading]:
    """Return the headings that bookmarks name, by their first line.

    Args:
        lines: the lines, each with its page, counted from 0.
    """
    by_page = group_pairs(lines)
    headings: dict[PdfLine, Heading] = {}
    top = min((bookmark.level for bookmark in bookmarks), default=1)
    for bookmark in bookmarks:
        title = without_numbering(bookmark.title)
        for page in (bookmark.page, bookmark.page + 1):
            found = _find(by_page.get(page, ()), title, headings) if title else None
            if found:
                line, count = found
                headings[line] = Heading(min(6, bookmark.level - top + 1), count, bookmarked=True)
                break
    return headings


def _find(lines: Sequence[PdfLine], title: str, taken: Container[PdfLine]) -> tuple[PdfLine, int] | None:
    """Return the first line and the number of lines that contain a title; the largest if there are several."""
    lengths = (
        (line, _length(lines[index : index + _MAX_HEADING_LINES], title))
        for index, line in enumerate(lines)
        if line not in taken
    )
    found = [(line, length) for line, length in lengths if length]
    return max(found, key=lambda each: each[0].size + 0.5 * each[0].bold, default=None)


def _length(lines: Sequence[PdfLine], title: str) -> int:
    """Return how many lines from the first make up a title, or 0 if they do not."""
    whole = ""
    for count, line in enumerate(lines, 1):
        whole = f"{whole} {line.text}".strip()
        said = without_numbering(whole)
        if title in (said, letters_and_digits(whole)):
            return count
        if len(said) > len(title) + 20:
            break
    return 0
