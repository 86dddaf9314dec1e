"""Finds the lines of tables of contents and indexes, which only point to pages.

Dot leaders and numbers at line ends are not enough: price lists, code numbers and opening hours look the same. The
numbers must be those of pages, which shows in the rest of the document.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.page.boxes import PdfLine
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.text_patterns import letters_and_digits, without_numbering

_ROMAN = r"[ivxlcdm]{1,7}"
_LEADERS = re.compile(
    rf"^(?P<title>.*?)\s*(?:[.·…]\s?){{4,}}\s*(?:[A-Z]-?)?(?P<page>\d{{1,4}}|{_ROMAN})?(?:\s*,\s*\d{{1,4}})*\s*$"
)
_ENTRY_WITH_PAGE = re.compile(rf"^(?P<title>.*?)\s(?P<page>\d{{1,4}}|{_ROMAN})$")
_INDEX_LINE = re.compile(r"\D,\s?\d{1,4}(?:[,–-]\s?\d{1,4})*,?$")
_SEVERAL_NUMBERS = re.compile(r"[^\W\d_].*\d{1,4}(?:,\s?\d{1,4})+,?$")
_INDEX_PAGES = re.compile(r"\d{1,4}")
_HEAD = re.compile(
    r"(?:(?:short|brief|table of|list of)\s+)?(?:table of )?(?:contents|figures|tables|listings|toc)"
    r"|inhalt(?:sverzeichnis)?|table des matières|índice|sommaire",
    re.IGNORECASE,
)
_INDEX_HEAD = re.compile(r"(?:.{0,30}\s)?index|register|stichwortverzeichnis|índice alfabético", re.IGNORECASE)
_ENTRY_HINT = re.compile(rf"(?:\d|[.·…]\s?[.·…]|\b{_ROMAN})\s*$")
_MIN_ENTRY_SHARE = 0.6  # of the lines of a page
_MIN_CONTENTS_LINES = 3  # fewer are not a table of contents
_MIN_INDEX_LINES = 10  # an index has more
_MIN_TITLE_LENGTH = 4  # letters and digits; a shorter title is found by chance
_MAX_TITLE_LENGTH = 24  # letters and digits that are compared; a long title has several lines
_MIN_AGREEING_SHARE = 0.4  # of the entries whose numbers differ by the same from the pages of their titles
_MIN_FOUND_SHARE = 0.6  # of the entries whose titles are on later pages
_MIN_ASCENDING_SHARE = 0.9  # of the pairs of neighboring page numbers
_MIN_LINKED_SHARE = 0.5  # of the entries that are links into the document
_MIN_SEVERAL_SHARE = 0.25  # of the lines of an index that name several pages
_MIN_ALPHABETICAL_SHARE = 0.6  # of the neighboring lines of an index
_MAX_PAGE_RATIO = 1.1  # of the highest page number to the number of pages


class ContentsEntry(NamedTuple):
    """A line that may be an entry of a table of contents; the page is None if it is not an Arabic number."""

    title: str
    page: int | None


class Contents:
    """A detector of contents and index lines, which is given one page after the other: contents may span pages.

    Args:
        texts: the pieces of text of each page.
        links: the boxes of the links into the document on each page.
    """

    def __init__(self, texts: Sequence[Sequence[str]], links: Sequence[Sequence[Box]]) -> None:
        self._texts = texts
        self._links = links
        self._pages_of: dict[str, list[int]] = {}  # title -> the pages with a line that begins with it
        self._within = False
        self._in_index = False
        self._last = 0  # number of the last entry on the previous page

    def may_be_in(self, page: int) -> bool:
        """Return whether the next page, counted from 0, may have such lines."""
        return self._within or sum(bool(_ENTRY_HINT.search(text)) for text in self._texts[page]) >= _MIN_CONTENTS_LINES

    def lines(self, page: int, lines: Sequence[PdfLine]) -> list[PdfLine]:
        """Return the lines of the next page that only point to pages."""
        if not lines:
            return []
        texts = [line.text for line in lines]
        if self._is_index(texts):
            return list(lines)
        heads = [index for index, text in enumerate(texts) if _HEAD.fullmatch(text.strip())]
        places = self._places(texts, heads)
        entries = [_entry(texts[place]) for place in places]
        linked = sum(_is_linked(lines[place], self._links[page]) for place in places)
        by_links = linked >= _MIN_LINKED_SHARE * len(places)
        self._within = bool(places) and (by_links or self._are_pages(page, entries, bool(heads)))
        if not self._within:
            return []
        self._last = max((entry.page for entry in entries if entry.page is not None), default=self._last)
        is_dense = len(places) >= 0.5 * (places[-1] - places[0] + 1)
        gone = set(range(places[0], places[-1] + 1) if is_dense else places)
        gone |= {index for index in heads if any(abs(index - place) < 4 for place in places)}
        return [line for index, line in enumerate(lines) if index in gone]

    def _places(self, texts: Sequence[str], heads: Sequence[int]) -> list[int]:
        """Return the indexes of lines with dot leaders, or of lines that end with a page number if all of them do.

        Args:
            heads: indexes of the lines that are the title of a table of contents.
        """
        leaders = [bool(_LEADERS.search(text)) for text in texts]
        paged = [led or bool(_ENTRY_WITH_PAGE.search(text)) for led, text in zip(leaders, texts, strict=True)]
        by_leaders = sum(leaders) >= (1 if self._within else _MIN_CONTENTS_LINES)
        behind = paged[heads[0] + 1 :] if heads else paged
        by_pages = (bool(heads) or self._within) and sum(behind) >= max(
            _MIN_CONTENTS_LINES, _MIN_ENTRY_SHARE * len(behind)
        )
        if not by_leaders and not by_pages:
            return []
        marks = paged if by_pages or sum(paged) >= _MIN_ENTRY_SHARE * len(texts) else leaders
        return [index for index, mark in enumerate(marks) if mark]

    def _are_pages(self, page: int, entries: Sequence[ContentsEntry], headed: bool) -> bool:
        """Return whether the numbers of entries on a page are page numbers. `headed`: a title says so."""
        numbers = [entry.page for entry in entries if entry.page is not None]
        steps = [second >= first for first, second in pairwise(numbers)]
        ascending = sum(steps) >= _MIN_ASCENDING_SHARE * len(steps)
        begins = self._last if self._within else 0
        in_range = bool(numbers) and begins <= numbers[0] and max(numbers) <= _MAX_PAGE_RATIO * len(self._texts)
        if ascending and in_range and (headed or self._within):
            return True
        found = [(entry, self._pages_with(entry.title, page)) for entry in entries]
        offsets = Counter(
            offset
            for entry, pages in found
            if entry.page is not None
            for offset in {entry.page - at + shift for at in pages for shift in (0, 1)}
        )
        agreeing = offsets.most_common(1)[0][1] if offsets else 0
        if agreeing >= max(_MIN_AGREEING_SHARE * len(entries), 1 if self._within else 2):
            return True
        return ascending and sum(bool(pages) for _, pages in found) >= _MIN_FOUND_SHARE * len(entries)

    def _pages_with(self, title: str, page: int) -> list[int]:
        """Return the pages after a page, counted from 0, with a line that begins with a title."""
        wanted = without_numbering(title)[:_MAX_TITLE_LENGTH]
        if len(wanted) < _MIN_TITLE_LENGTH:
            return []
        if not self._pages_of:
            self._pages_of = group_pairs(
                (without_numbering(text)[:_MAX_TITLE_LENGTH], at)
                for at, texts in enumerate(self._texts)
                for text in texts
            )
        found = self._pages_of.get(wanted, [])
        return [at for at in found if at > page]

    def _is_index(self, texts: Sequence[str]) -> bool:
        """Return whether a page is one of an index: terms in alphabetical order, with their pages."""
        if len(texts) <= _MIN_INDEX_LINES:
            return False
        entries = [text for text in texts if _INDEX_LINE.search(text)]
        several = [text for text in texts if _SEVERAL_NUMBERS.search(text)]
        self._in_index = self._in_index or any(_INDEX_HEAD.fullmatch(text.strip()) for text in texts)
        # The numbers of an index may be those of lines of code.
        self._in_index = self._in_index and len(several) >= _MIN_SEVERAL_SHARE * len(texts) and _are_ordered(several)
        if self._in_index:
            return True
        if len(entries) < _MIN_ENTRY_SHARE * len(texts):
            return False
        numbers = [int(number) for text in entries for number in _INDEX_PAGES.findall(text[text.rfind(", ") :])]
        in_range = sum(number <= _MAX_PAGE_RATIO * len(self._texts) for number in numbers)
        return in_range >= 0.9 * len(numbers) and _are_ordered(entries)


def _are_ordered(entries: Sequence[str]) -> bool:
    initials = [letters[:1] for text in entries if (letters := letters_and_digits(text)) and letters[0].isalpha()]
    ordered = sum(first <= second for first, second in pairwise(initials))
    return len(initials) > 1 and ordered >= _MIN_ALPHABETICAL_SHARE * (len(initials) - 1)


def _is_linked(line: PdfLine, links: Sequence[Box]) -> bool:
    """Return whether a link covers a part of a line."""
    middle = line.base + 0.3 * line.size
    return any(link.bottom <= middle <= link.top and link.left < line.x1 and link.right > line.x0 for link in links)


def _entry(text: str) -> ContentsEntry:
    match = _LEADERS.search(text) or _ENTRY_WITH_PAGE.search(text)
    if match is None:
        return ContentsEntry(text, None)
    page = match["page"]
    return ContentsEntry(match["title"], int(page) if page and page.isdecimal() else None)
