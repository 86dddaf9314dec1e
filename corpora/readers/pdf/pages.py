"""What of all pages is no text: running headers and footers, page numbers, contents pages and indexes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from turnmark.corpora.readers.pdf.glyphs import Page, Word
from turnmark.corpora.readers.pdf.layout import Column, Line, in_order, joined_words, lines_of, segments_of
from turnmark.corpora.readers.pdf.tables import ruled_tables, with_open_tables

_EDGE_ROWS = 3  # lines from the top and from the bottom that may be running headers and footers
_LEVEL = 3.0  # points: how exactly a running header keeps its height
_SHIFTED = 0.35  # of the size: how far the raised and lowered letters of a logo are from the line they are on
_SLIDE = 250  # words that a slide has at most
_MOST_SLIDES = 0.4  # of all pages: a line at the top of more is no title of a slide
_NUMBERED_LINES = 15  # of a page
_MANY = 3  # pages: what is on so many at the same place is no text
_ROMAN = r"[ivxlcdm]{1,7}"
_NUMBERED = re.compile(rf"\d+|(?:(?<=^)|(?<=\s)){_ROMAN}(?=$|\s)")
_LEADERS = re.compile(rf"(?:[.·…]\s?){{4,}}\s*(?:[A-Z]-?)?(?:\d{{1,4}}|{_ROMAN})?(?:\s*,\s*\d{{1,4}})*\s*$")
_ENDS_WITH_PAGE = re.compile(rf"\s(?:\d{{1,4}}|{_ROMAN})$")
_INDEX_LINE = re.compile(r"\D,\s?\d{1,4}(?:[,–-]\s?\d{1,4})*,?$")
_CONTENTS = re.compile(
    r"(?:(?:short|brief|table of|list of)\s+)?(?:table of )?(?:contents|figures|tables|listings|toc)"
    r"|inhalt(?:sverzeichnis)?|table des matières|índice|sommaire",
    re.IGNORECASE,
)
_MAY_BE_CONTENTS = re.compile(rf"(?:\d|[.·…]\s?[.·…]|\b{_ROMAN})\s*$")
_CONTENTS_SHARE = 0.6  # of a page's lines


@dataclass
class _Row:
    """All words of a page at one height.

    Attributes:
        key: what rows on several pages have in common.
        pattern: the text without its numbers.
        number: what it begins or ends with, which may be the page's number.
    """

    base: float
    size: float
    words: list[Word]
    text: str
    key: str
    pattern: str
    number: int | None


def drop_overlays(pages: Sequence[Page]) -> None:
    """Empty slides that the next one only adds to: a talk shows its points one by one, each time as a page."""
    for page, following in pairwise(pages):
        if 0 < len(page.words) <= min(_SLIDE, len(following.words)):
            shown = {(word.text, round(word.x0), round(word.base)) for word in following.words}
            again = sum((word.text, round(word.x0), round(word.base)) in shown for word in page.words)
            if again > 0.95 * len(page.words):
                page.words = []


def drop_line_numbers(page: Page) -> None:
    """Take the numbers of lines out of the margins, as papers under review have them."""
    places: dict[int, list[Word]] = {}
    for word in page.words:
        if word.text.isdecimal() and len(word.text) <= 5:
            for edge in {round(word.x1 / 4), round(word.x1 / 4 + 0.5)}:
                places.setdefault(edge, []).append(word)
    for numbers in places.values():
        if len(numbers) < _NUMBERED_LINES:
            continue
        numbers.sort(key=lambda word: -word.base)
        steps = Counter(int(below.text) - int(above.text) for above, below in pairwise(numbers))
        step, often = steps.most_common(1)[0]
        gone = {id(word) for word in numbers}
        others = [word for word in page.words if id(word) not in gone and not word.text.isdecimal()]
        left, right = min(word.x0 for word in numbers), max(word.x1 for word in numbers)
        beside = sum(word.x1 > left and word.x0 < right for word in others)
        outside = all(word.x0 > left for word in others) or all(word.x1 < right for word in others)
        if step in (1, 5) and often >= 0.8 * len(numbers) and outside and not beside:
            page.words = [word for word in page.words if id(word) not in gone]


def _edge_rows(page: Page, large: float) -> tuple[list[_Row], list[_Row]]:
    """The first rows of a page from the top, and from the bottom."""
    levels: list[list[Word]] = []
    for word in sorted(page.words, key=lambda word: -word.base):
        if levels and levels[-1][-1].base - word.base < max(2, _SHIFTED * word.size):
            levels[-1].append(word)
        else:
            levels.append([word])
    return (
        [_row(level, large) for level in levels[:_EDGE_ROWS]],
        [_row(level, large) for level in reversed(levels[-_EDGE_ROWS:])],
    )


def _row(words: list[Word], large: float) -> _Row:
    words = sorted(words, key=lambda word: word.x0)
    text, size = joined_words(words).lower(), max(word.size for word in words)
    pattern = _NUMBERED.sub("#", text)
    # "Chapter 1" and "Chapter 2" in large letters are headings.
    key = text if size > large and pattern != "#" else pattern
    ends = [word for word in (text.split()[:1] + text.split()[-1:]) if word.isdecimal() and len(word) <= 5]
    return _Row(words[0].base, size, words, text, key, pattern, int(ends[0]) if ends else None)


def _count_pages(edges: Sequence[tuple[list[_Row], list[_Row]]], side: int, needed: int) -> None:
    """Give the outermost rows in large letters one key if their number is the page's: it grows with the pages."""
    outermost = [(index, rows[side][0]) for index, rows in enumerate(edges) if rows[side]]
    offsets = Counter((row.pattern, row.number - index) for index, row in outermost if row.number is not None)
    for index, row in outermost:
        if row.number is not None and offsets[row.pattern, row.number - index] >= needed:
            row.key = row.pattern


def drop_running(pages: Sequence[Page]) -> None:
    """Take running headers, footers and page numbers out of the pages.

    They are the outermost lines whose words, numbers aside, are at the same height of several pages, and what is at the
    height that most pages have such lines at.
    """
    sizes = Counter(round(word.size) for page in pages for word in page.words)
    large = 1.15 * (sizes.most_common(1)[0][0] if sizes else 10)
    edges = [_edge_rows(page, large) for page in pages]
    needed = _MANY if len(pages) > 4 else 2
    kept = _slide_titles(pages, edges, large)
    for side in (0, 1):
        _count_pages(edges, side, needed)
        seen: Counter[tuple[str, int]] = Counter()
        variants: dict[str, set[str]] = {}  # what is said with other numbers on other pages
        for rows in edges:
            seen.update({(row.key, level) for row in rows[side] for level in _levels(row)})
            for row in rows[side]:
                variants.setdefault(row.key, set()).add(row.text)
        known: Counter[int] = Counter()
        for rows in edges:
            for row in rows[side]:
                if any(seen[row.key, level] >= needed for level in _levels(row)):
                    known.update(_levels(row))
                else:
                    break
        for page, rows in zip(pages, edges, strict=True):
            if not rows[side] or id(rows[side][0]) not in kept:
                _drop(page, rows[side], seen, known, variants, needed, len(pages))


def _slide_titles(pages: Sequence[Page], edges: Sequence[tuple[list[_Row], list[_Row]]], large: float) -> set[int]:
    """The ids of the rows that name slides: in large letters at the top of pages wider than high.

    They are all at one height, and slides about the same thing have the same. What is on most slides names none.
    """
    tops = [
        rows[0]
        for page, (rows, _) in zip(pages, edges, strict=True)
        if rows and rows[0].size > large and page.width > page.height
    ]
    often = Counter(row.text for row in tops)
    return {id(row) for row in tops if often[row.text] < _MOST_SLIDES * len(pages)}


def _boxed(page: Page, row: _Row) -> bool:
    """Whether a row is between two ruled lines, as the header of a table is."""
    heights = [rule.y0 - row.base for rule in page.rules if rule.y0 == rule.y1 and rule.x0 < row.words[-1].x1]
    above = any(0.5 * row.size < height < 2.2 * row.size for height in heights)
    return above and any(-1.6 * row.size < height < 0 for height in heights)


def _levels(row: _Row) -> tuple[int, int]:
    level = int(row.base // _LEVEL)
    return level, level + (1 if row.base % _LEVEL > _LEVEL / 2 else -1)


def _drop(
    page: Page,
    rows: Sequence[_Row],
    seen: Counter[tuple[str, int]],
    known: Counter[int],
    variants: dict[str, set[str]],
    needed: int,
    pages: int,
) -> None:
    gone: set[int] = set()
    for index, row in enumerate(rows):
        repeated = any(seen[row.key, level] >= needed for level in _levels(row))
        usual = any(known[level] >= max(3, 0.4 * pages) for level in _levels(row))
        apart = index + 1 >= len(rows) or abs(rows[index + 1].base - row.base) > 1.6 * row.size
        # The header of a table that goes on over pages is not apart from its rows.
        below = rows[index + 1] if index + 1 < len(rows) else None
        framed = below is not None and any(seen[below.key, level] >= needed for level in _levels(below))
        running = repeated and (len(variants[row.key]) > 1 or ((apart or framed) and not _boxed(page, row)))
        if not running and not (usual and apart and len(row.key) < 120):
            break
        gone |= {id(word) for word in row.words}
    if gone:
        page.words = [word for word in page.words if id(word) not in gone]


class ContentsFilter:
    """Drops contents pages and indexes; `within` a contents that goes on over pages."""

    def __init__(self) -> None:
        self.within = False

    def columns(self, page: Page) -> list[Column]:
        """The columns of the next page as they are read, without lines that only say where something is."""
        segments = segments_of(page.words)
        if self.within or sum(bool(_MAY_BE_CONTENTS.search(segment.text)) for segment in segments) >= 3:
            columns = [Column(lines_of(boxes)) for boxes in in_order(list(segments), 0)]
            gone = self._contents([line for column in columns for line in column.lines])
            dropped = {id(segment) for line in gone for segment in line.segments}
            segments = [segment for segment in segments if id(segment) not in dropped]
        tables, rest = ruled_tables(segments, page.rules)
        return [with_open_tables(Column(lines_of(boxes))) for boxes in in_order([*rest, *tables], 0)]

    def _contents(self, lines: Sequence[Line]) -> list[Line]:
        if not lines:
            return []
        heads = [index for index, line in enumerate(lines) if _CONTENTS.fullmatch(line.text.strip())]
        leaders = [bool(_LEADERS.search(line.text)) for line in lines]
        paged = [
            is_leader or bool(_ENDS_WITH_PAGE.search(line.text)) for is_leader, line in zip(leaders, lines, strict=True)
        ]
        indexed = sum(bool(_INDEX_LINE.search(line.text)) for line in lines)
        if len(lines) > 10 and indexed >= _CONTENTS_SHARE * len(lines):
            return list(lines)
        by_leaders = sum(leaders) >= 3 or (self.within and sum(leaders) >= 1)
        first = heads[0] if heads else 0
        behind = paged[first + 1 :] if heads else paged
        by_pages = (bool(heads) or self.within) and sum(behind) >= max(3, _CONTENTS_SHARE * len(behind))
        self.within = by_leaders or by_pages
        if not self.within:
            return []
        marks = paged if by_pages or sum(paged) >= _CONTENTS_SHARE * len(lines) else leaders
        places = [index for index, mark in enumerate(marks) if mark]
        if not places:
            return []
        if sum(marks) >= 0.5 * (places[-1] - places[0] + 1):
            gone = set(range(places[0], places[-1] + 1))
        else:
            gone = set(places)
        gone |= {index for index in heads if any(abs(index - place) < 4 for place in places)}
        return [line for index, line in enumerate(lines) if index in gone]
