"""Removes running headers, footers and page numbers: outermost lines that several pages have in common."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, takewhile

from turnmark.core.grouping import runs
from turnmark.corpora.readers.pdf.page.boxes import join_words
from turnmark.corpora.readers.pdf.page.page_records import PdfPage, Word

_MAX_ROWS = 3  # at the top and at the bottom that may be running headers or footers
_HEIGHT_STEP = 3.0  # points; running headers differ less in height
_MAX_BASELINE_SHIFT = 0.35  # of the size; of raised and lowered letters in a logo
_MIN_LARGE_RATIO = 1.15  # of the usual size
_MIN_REPEATED_PAGES = 3  # with the same line in the same place
_MIN_PAGE_SHARE = 0.4  # of the pages with running lines at a height, so that any line there is one
_MAX_LINE_LENGTH = 120  # characters of a running line
_MIN_COUNTING_SHARE = 0.8  # of the pages from which the numbers of a line rise with the pages
_MAX_PAGES_PER_PAGE = 2  # by which a page number rises from one page to the next
_MIN_RISING_PAGES = 6  # from which numbers that always rise are not taken for content
_MAX_DIGITS = 9
_LETTER = re.compile(r"[^\W\d_]")
_MAX_TITLE_SHARE = 0.4  # of all pages; a line at the top of more pages is not a slide title
_MAX_SPARSE_RATIO = 2.5  # of all words of a page to those of its running rows, on a page of little else
_MAX_NUMBERED_RATIO = 1.5  # the same for rows with a number that rises with the pages
_NUMBER = re.compile(r"\d+|(?<!\S)[ivxlcdm]{1,7}(?!\S)")


def drop_running_headers(pages: Sequence[PdfPage]) -> int:
    """Remove running headers, footers and page numbers from the pages, and return the number of these lines.

    They are outermost lines with the same words, except for numbers that rise with the pages, at the same height on
    several pages, and other lines at a height where many pages have such lines. Other numbers, such as the total of an
    invoice on each page, are content.
    """
    sizes = Counter(round(word.size) for page in pages for word in page.words)
    large = _MIN_LARGE_RATIO * (sizes.most_common(1)[0][0] if sizes else 10)
    rows = [_rows_of(page) for page in pages]
    tops = _PageEdge(pages, [[_margin_row(words, large) for words in each[:_MAX_ROWS]] for each in rows])
    tops.keep_titles(large)
    bottoms = _PageEdge(pages, [[_margin_row(words, large) for words in each[::-1][:_MAX_ROWS]] for each in rows])
    running = [
        {row.base: row for row in (*above, *below)}
        for above, below in zip(tops.running(), bottoms.running(), strict=True)
    ]
    _keep_content(pages, running)
    for page, dropped in zip(pages, running, strict=True):
        gone = {word for row in dropped.values() for word in row.words}
        page.words = [word for word in page.words if word not in gone] if gone else page.words
    return sum(map(len, running))


def _keep_content(pages: Sequence[PdfPage], running: Sequence[dict[float, _MarginRow]]) -> None:
    """Take the first occurrence of each row out of the running ones if the pages with such rows say little else.

    Badges, tickets and payslips repeat the same lines on every page.
    """
    places = defaultdict[str, list[tuple[int, _MarginRow]]](list)
    ratios: list[float] = []  # of each page
    for index, (page, rows) in enumerate(zip(pages, running, strict=True)):
        ratios.append(len(page.words) / max(1, sum(len(row.words) for row in rows.values())))
        for row in rows.values():
            places[row.pattern].append((index, row))

    def is_content(pattern: str) -> bool:
        most = _MAX_NUMBERED_RATIO if "#" in pattern else _MAX_SPARSE_RATIO
        return 2 * sum(ratios[index] < most for index, _ in places[pattern]) > len(places[pattern])

    content = list(filter(is_content, places))
    if any("#" not in pattern for pattern in content):  # otherwise, the rows are page numbers
        for found in map(places.__getitem__, filter(_LETTER.search, content)):
            seen = set[str]()
            for index, row in found:
                if row.text not in seen:
                    seen.add(row.text)
                    del running[index][row.base]


def _rows_of(page: PdfPage) -> list[list[Word]]:
    """Group the words of a page by height, from the top."""
    words = sorted(page.words, key=lambda word: -word.base)
    return runs(words, lambda above, word: above.base - word.base < max(2, _MAX_BASELINE_SHIFT * word.size))


@dataclass
class _MarginRow:
    """All words of a page at one height.

    Attributes:
        key: text that identifies the same row on several pages.
        pattern: the text without its numbers.
        number: number at its start or end, which may be the page number.
    """

    base: float
    size: float
    words: list[Word]
    text: str
    key: str
    pattern: str
    number: int | None

    @property
    def levels(self) -> tuple[int, int]:
        """The two nearest height steps. A row at about the same height shares one of them."""
        level = int(self.base // _HEIGHT_STEP)
        return level, level + (1 if self.base % _HEIGHT_STEP > _HEIGHT_STEP / 2 else -1)


def _margin_row(words: list[Word], large: float) -> _MarginRow:
    words = sorted(words, key=lambda word: word.x0)
    text, size = join_words(words).lower(), max(word.size for word in words)
    pattern = _NUMBER.sub("#", text)
    # "Chapter 1" and "Chapter 2" in large letters are headings.
    key = text if size > large and pattern != "#" else pattern
    ends = [word for word in (text.split()[:1] + text.split()[-1:]) if word.isdecimal() and len(word) <= 5]
    return _MarginRow(words[0].base, size, words, text, key, pattern, int(ends[0]) if ends else None)


class _PageEdge:
    """The outermost rows at the top, or at the bottom, of all pages; the outermost row of each page comes first."""

    def __init__(self, pages: Sequence[PdfPage], rows: Sequence[Sequence[_MarginRow]]) -> None:
        self._pages = pages
        self._rows = rows
        self._needed = _MIN_REPEATED_PAGES if len(pages) > 4 else 2
        self._share_page_numbers()
        self._separate_content()
        self._seen = Counter[tuple[str, int]]()  # number of pages on which a key is at a level
        self._numbered = set[tuple[str, int]]()  # keys at levels where the numbers of the rows differ
        texts: dict[tuple[str, int], str] = {}
        for page in rows:
            self._seen.update({(row.key, level) for row in page for level in row.levels})
            for row in page:
                for level in row.levels:
                    if texts.setdefault((row.key, level), row.text) != row.text:
                        self._numbered.add((row.key, level))
        self._usual = self._levels_of_repeated()
        self._titled: set[int] = set()  # indexes of slides whose first row is their title

    def keep_titles(self, large: float) -> None:
        """Keep the titles of slides: rows in large letters at the top of pages that are wider than tall.

        They are all at the same height, and slides on one topic share a title. A row on most slides is not a title.
        """
        titles = {
            index: rows[0].text
            for index, (page, rows) in enumerate(zip(self._pages, self._rows, strict=True))
            if rows and rows[0].size > large and page.width > page.height
        }
        often = Counter(titles.values())
        self._titled = {index for index, text in titles.items() if often[text] < _MAX_TITLE_SHARE * len(self._pages)}

    def _share_page_numbers(self) -> None:
        """Give the outermost large rows one key if their number is the page number, which grows with the pages."""
        outermost = [(index, page[0]) for index, page in enumerate(self._rows) if page]
        offsets = Counter((row.pattern, row.number - index) for index, row in outermost if row.number is not None)
        for index, row in outermost:
            if row.number is not None and offsets[row.pattern, row.number - index] >= self._needed:
                row.key = row.pattern

    def _separate_content(self) -> None:
        """Give rows with the same words but numbers that do not rise with the pages keys of their own."""
        places = defaultdict[tuple[str, int], dict[int, list[int | None]]](dict)
        for index, page in enumerate(self._rows):
            for row in page:
                for level in row.levels:
                    places[row.key, level].setdefault(index, _numbers_in(row.text))
        content = {place for place, numbers in places.items() if not _count_pages(numbers)}
        for page in self._rows:
            for row in page:
                if all((row.key, level) in content for level in row.levels):
                    row.key = row.text

    def _levels_of_repeated(self) -> Counter[int]:
        """Return how often rows that are on several pages occur at each level."""
        repeated = (row for page in self._rows for row in takewhile(self._is_repeated, page))
        return Counter(level for row in repeated for level in row.levels)

    def _is_repeated(self, row: _MarginRow) -> bool:
        return any(self._seen[row.key, level] >= self._needed for level in row.levels)

    def running(self) -> Iterator[list[_MarginRow]]:
        """Yield the running rows of each page."""
        for index, (page, rows) in enumerate(zip(self._pages, self._rows, strict=True)):
            found: list[_MarginRow] = []
            for row, inner in zip(rows, [*rows[1:], None], strict=False):
                if index in self._titled or not self._is_running(page, row, inner):
                    break
                found.append(row)
            yield found

    def _is_running(self, page: PdfPage, row: _MarginRow, inner: _MarginRow | None) -> bool:
        """Return whether a row is a running header or footer; `inner` is the next row towards the middle."""
        apart = inner is None or abs(inner.base - row.base) > 1.6 * row.size
        if self._is_repeated(row):
            # The header of a table that spans pages is not set apart from its rows.
            framed = inner is not None and self._is_repeated(inner)
            is_numbered = any((row.key, level) in self._numbered for level in row.levels)
            if is_numbered or ((apart or framed) and not _is_between_rules(page, row)):
                return True
        often = max(3, _MIN_PAGE_SHARE * len(self._pages))
        return apart and len(row.key) < _MAX_LINE_LENGTH and any(self._usual[level] >= often for level in row.levels)


def _numbers_in(text: str) -> list[int | None]:
    """Return the numbers of a row; None for those in Roman letters, which may be words, and for very long ones."""
    found = _NUMBER.findall(text)
    return [int(number) if number.isdecimal() and len(number) <= _MAX_DIGITS else None for number in found]


def _count_pages(numbers: Mapping[int, Sequence[int | None]]) -> bool:
    """Return whether all numbers of a row, by page, stay the same or rise with the pages, or begin again at 1."""
    pages = list(numbers)
    for column in zip(*numbers.values(), strict=False):
        known = [(page, number) for page, number in zip(pages, column, strict=True) if number is not None]
        steps = list(pairwise(known))
        counting = sum(
            0 <= number - before <= _MAX_PAGES_PER_PAGE * (page - page_before) or number == 1
            for (page_before, before), (page, number) in steps
        )
        rising = sum(number >= before for (_, before), (_, number) in steps)
        is_rising = len(known) >= _MIN_RISING_PAGES and rising >= _MIN_COUNTING_SHARE * len(steps)
        if counting < _MIN_COUNTING_SHARE * len(steps) and not is_rising:
            return False
    return True


def _is_between_rules(page: PdfPage, row: _MarginRow) -> bool:
    """Return whether a row is between two rules, like the header of a table."""
    heights = [rule.y0 - row.base for rule in page.rules if rule.y0 == rule.y1 and rule.x0 < row.words[-1].x1]
    above = any(0.5 * row.size < height < 2.2 * row.size for height in heights)
    return above and any(-1.6 * row.size < height < 0 for height in heights)
