"""Headings by their looks: larger than the text, or bold and apart from it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence

from turnmark.corpora.readers.pdf.body import Body
from turnmark.corpora.readers.pdf.boxes import LineOrTable, PdfLine, Style
from turnmark.corpora.readers.pdf.draft import Heading
from turnmark.corpora.readers.pdf.heading_levels import MAX_SIZE_DIFFERENCE, levels_of
from turnmark.corpora.readers.pdf.layout import PageLayout
from turnmark.corpora.readers.pdf.text_patterns import (
    begins_as_caption,
    begins_with_bullet,
    begins_with_number,
    ends_sentence,
    has_words,
    match_list_mark,
    numbering_depth,
)

MAX_HEADING_LENGTH = 200  # characters
_MIN_HEADING_RATIO = 1.1  # times the size of the text: a heading
_MIN_LARGE_RATIO = 1.3
_MIN_BOLD_RATIO = 0.93  # times the size of the text: what is smaller is no heading
_MIN_REPEATED_HEADINGS = 3  # headings of one style, from which on it is a style of headings
_MAX_HEADING_LINES, _MAX_BOLD_LINES = 4, 3  # that a heading has at most, and one of the usual size
_MAX_BOLD_HEADING_LENGTH = 120  # characters
_MIN_SPACE_ABOVE = 1.6875  # of the size: the least distance of bold lines from what is above them
_MAX_SPACE_BELOW = 4  # of the size: the text that a heading is over is nearer
_ROMAN = re.compile(r"[IVX\d]{1,5}\.?")
_SENTENCE = re.compile(r"[.,;:]$")

_Candidate = tuple[PdfLine, int]  # the first line of what may be a heading, and how many lines it has


def slide_titles(pages: Sequence[PageLayout], taken: Container[LineOrTable]) -> dict[PdfLine, Heading]:
    """The titles of slides, if the pages are slides: the first line of each, if it is larger than all other lines.

    So may be the second line, which is a heading below the title.
    """
    slides = [page for page in pages if page.wide and page.columns]
    if len(slides) < max(3, 0.8 * len(pages)):
        return {}
    titles: dict[PdfLine, Heading] = {}
    for page in slides:
        items = [item for column in page.columns for item in column.items]
        for place, line in enumerate(items[:2]):
            if not isinstance(line, PdfLine) or line in taken or not has_words(line.text):
                break
            if place and (match_list_mark(line.text) or ends_sentence(line.text)):
                break
            sizes = [item.size for item in items[place + 1 :] if isinstance(item, PdfLine)]
            if not sizes or line.size <= (1 + MAX_SIZE_DIFFERENCE / 2) * max(sizes):
                break
            titles[line] = Heading(level=2 + place, length=1)
    return titles


def headings_by_style(
    pages: Sequence[PageLayout], body: Body, known: Mapping[PdfLine, Heading]
) -> dict[PdfLine, Heading]:
    """Lines that look like headings, those that are known aside; numbered ones have their level by their number."""
    looks = _StyleTester(body, known)
    candidates = [found for page in pages for column in page.columns for found in looks.candidates(column.items)]
    styles: dict[Style, Counter[int]] = {}  # of known headings: their levels
    for line, heading in known.items():
        styles.setdefault(line.style, Counter())[heading.level] += 1
    candidates = _with_bold_ones(candidates, body, styles)
    levels = levels_of([line.style for line, _ in candidates], styles)
    least: dict[Style, int] = {}  # depth of the numbers of headings
    for line, _ in candidates:
        if depth := numbering_depth(line.text):
            least[line.style] = min(depth, least.get(line.style, depth))
    headings: dict[PdfLine, Heading] = {}
    for line, count in candidates:
        level, depth = levels[line.style], numbering_depth(line.text)
        if depth and line.style not in styles:
            level += depth - least[line.style]
        headings[line] = Heading(min(6, level), count)
    return headings


def _with_bold_ones(candidates: list[_Candidate], body: Body, known: Mapping[Style, Counter[int]]) -> list[_Candidate]:
    """Where headings are bold, without text that is a little larger: authors, quotations in large letters."""
    if sum(line.bold for line, _ in candidates) + sum(style.bold for style in known) < _MIN_REPEATED_HEADINGS:
        return candidates
    often = Counter(line.style for line, _ in candidates)
    return [
        (line, count)
        for line, count in candidates
        if line.bold
        or line.size > _MIN_LARGE_RATIO * body.size
        or line.style in known
        or numbering_depth(line.text)
        or (line.style.italic and often[line.style] >= _MIN_REPEATED_HEADINGS)
    ]


class _StyleTester:
    """Tells which lines of a document look like headings; `known` are headings already."""

    def __init__(self, body: Body, known: Mapping[PdfLine, Heading]) -> None:
        self._body = body
        self._known = known

    def candidates(self, items: Sequence[LineOrTable]) -> Iterator[_Candidate]:
        """What may be headings among the items of a column."""
        index = 0
        while index < len(items):
            item, length = items[index], 1
            if isinstance(item, PdfLine) and item in self._known:
                length = self._known[item].length
            elif isinstance(item, PdfLine) and (count := self._length(items, index, item)):
                yield item, count
                length = count
            index += length

    def _length(self, items: Sequence[LineOrTable], index: int, line: PdfLine) -> int:
        """How many lines the heading that begins with a line, at an index, has; 0 if none begins there."""
        if not self._may_begin(line):
            return 0
        lines = self._of_one_style(items[index : index + _MAX_HEADING_LINES + 1], line)
        whole = " ".join(each.text for each in lines)
        if len(whole) > MAX_HEADING_LENGTH or len(lines) > _MAX_HEADING_LINES:
            return 0
        above = items[index - 1] if index else None
        below = items[index + len(lines)] if index + len(lines) < len(items) else None
        if self._is_larger(line) or _stands_alone(lines, whole, above, below):
            return len(lines)
        return 0

    def _is_larger(self, line: PdfLine) -> bool:
        return line.size >= _MIN_HEADING_RATIO * self._body.size

    def _may_begin(self, line: PdfLine) -> bool:
        """Whether a heading may begin with a line, by its style and its first words."""
        larger = self._is_larger(line)
        text = line.text.strip()
        if not larger:
            bold = line.bold and line.size > _MIN_BOLD_RATIO * self._body.size
            if not bold or (line.mono and not self._body.typewritten) or text[:1].islower():
                return False
        if not has_words(text) and not _ROMAN.fullmatch(text):
            return False
        return not begins_as_caption(text) and not begins_with_bullet(text)

    def _of_one_style(self, items: Sequence[LineOrTable], first: PdfLine) -> list[PdfLine]:
        """The first of the items, a line, and those that go on with it in its style."""
        lines = [first]
        for item in items[1:]:
            if not isinstance(item, PdfLine) or item in self._known:
                break
            if item.style[:2] != first.style[:2] or lines[-1].base - item.base > 1.7 * first.size:
                break
            if begins_with_number(item.text) and begins_with_number(first.text.strip()):
                break
            lines.append(item)
        return lines


def _stands_alone(lines: Sequence[PdfLine], whole: str, above: LineOrTable | None, below: LineOrTable | None) -> bool:
    """Whether bold lines of the usual size are a heading: apart from what is above them, and no sentence.

    Args:
        whole: what the lines say together.
        above: what is before the lines in their column, `below` what is behind them.
    """
    first, last = lines[0], lines[-1]
    if len(first.segments) > 1 and not numbering_depth(first.text):
        return False  # the header of a table
    if below is None or len(lines) > _MAX_BOLD_LINES or len(whole) > _MAX_BOLD_HEADING_LENGTH:
        return False
    if _SENTENCE.search(whole) and not numbering_depth(whole):
        return False
    if isinstance(above, PdfLine) and above.base - first.base <= _MIN_SPACE_ABOVE * first.size:
        return False
    if not isinstance(below, PdfLine):
        return True
    distance = last.base - below.base
    if abs(distance) < 1 or below.x0 > first.x0 + first.size:
        return False  # a term, whose definition is indented below it
    return distance < _MAX_SPACE_BELOW * first.size
