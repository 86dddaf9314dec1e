"""Finds headings by their style, larger than the body text, or bold and set apart from it, and determines their levels.

Bookmarks take precedence, then larger sizes rank higher.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from statistics import mode
from typing import NamedTuple

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.headings.outline import Heading
from turnmark.corpora.readers.pdf.layout.page_layout import PageLayout
from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfLine, Style
from turnmark.corpora.readers.pdf.page.text_patterns import (
    begins_as_caption,
    begins_with_bullet,
    begins_with_number,
    ends_sentence,
    has_words,
    match_list_mark,
    numbering_depth,
)


class Body(NamedTuple):
    """The size of the body text in points, and whether it is set in a fixed-width font."""

    size: float
    typewritten: bool


def body_of(lines: Sequence[PdfLine]) -> Body:
    """Return the style that most of the text in the lines has."""
    sizes = Counter[float]()
    mono = 0
    for line in lines:
        if line.mono:
            mono += len(line.text)
        else:
            sizes[line.style.size] += len(line.text)
    size = sizes.most_common(1)[0][0] if sizes else 10.0
    return Body(size, mono > 0.7 * (mono + sizes.total()))


MAX_SIZE_DIFFERENCE = 0.08  # of the size; smaller differences are ignored
_MAX_LEVEL = 6


def _interpolated_levels(known: Mapping[Style, int], styles: Iterable[Style]) -> dict[Style, int]:
    """Return the level, 1 to 6, of each style, given the usual levels of some."""
    levels = dict(known)
    deepest, smallest = max(known.values()), min(style.size for style in known)
    for style in styles:
        if style in levels:
            continue
        larger = [level for other, level in levels.items() if other.size >= style.size]
        near = [
            level
            for other, level in levels.items()
            if other.bold == style.bold and abs(other.size - style.size) <= MAX_SIZE_DIFFERENCE * style.size
        ]
        if near:
            levels[style] = near[0]
        elif not larger:
            levels[style] = 1
        elif style.size <= smallest:
            levels[style] = min(_MAX_LEVEL, deepest + 1)
        else:
            levels[style] = max(larger)
    return levels


def _ranked_levels(styles: Iterable[Style]) -> dict[Style, int]:
    """Return the levels of styles by decreasing size. If two styles have the same size, the bold one is higher."""
    levels: dict[Style, int] = {}
    level, last = 0, None
    for style in sorted(set(styles), key=lambda style: (-style.size, not style.bold, style.italic)):
        if last is None or last.size - style.size > MAX_SIZE_DIFFERENCE * style.size or last[1:] != style[1:]:
            level += 1
        levels[style] = min(_MAX_LEVEL, level)
        last = style
    return levels


MAX_HEADING_LENGTH = 200  # characters
_MIN_HEADING_RATIO = 1.1  # of the body size
_MIN_LARGE_RATIO = 1.3
_MIN_BOLD_RATIO = 0.93  # of the body size; smaller text is not a heading
_MIN_REPEATED_HEADINGS = 3  # headings that make a style a heading style
_MAX_HEADING_LINES, _MAX_BOLD_LINES = 4, 3  # of a larger heading, and of a bold one in the body size
_MAX_BOLD_HEADING_LENGTH = 120  # characters
_MIN_SPACE_ABOVE = 1.6875  # of the size; between a bold heading and what is above it
_MAX_SPACE_BELOW = 4  # of the size; between a heading and its text
_ROMAN = re.compile(r"[IVX\d]{1,5}\.?")
_SENTENCE = re.compile(r"[.,;:]$")

_Candidate = tuple[PdfLine, int]  # the first line of a possible heading, and its number of lines


def slide_titles(pages: Sequence[PageLayout], taken: Container[LineOrTable]) -> dict[PdfLine, Heading]:
    """Return the titles of slides if the pages are slides: the first line of each if it is larger than the others.

    The second line may be large too. It is then a heading below the title.
    """
    slides = [page for page in pages if page.wide and page.columns]
    if len(slides) < max(3, 0.8 * sum(not page.aside for page in pages)):
        return {}
    titles: dict[PdfLine, Heading] = {}
    for page in slides:
        items = [item for column in page.columns for item in column.items]
        for place, line in enumerate(items[:2]):
            if not isinstance(line, PdfLine) or line in taken or not has_words(line.plain_text):
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
    """Return further headings by their style. A numbered heading gets its level from its number."""
    looks = _StyleTester(body, known)
    candidates = [found for page in pages for column in page.columns for found in looks.candidates(column.items)]
    by_style = group_pairs((line.style, heading.level) for line, heading in known.items())
    usual = {style: mode(levels) for style, levels in by_style.items()}
    candidates = _with_bold_ones(candidates, body, usual)
    of_candidates = [line.style for line, _ in candidates]
    levels = _interpolated_levels(usual, of_candidates) if usual else _ranked_levels(of_candidates)
    least: dict[Style, int] = {}  # smallest depth of the numbers of headings
    for line, _ in candidates:
        if depth := numbering_depth(line.text):
            least[line.style] = min(depth, least.get(line.style, depth))
    headings: dict[PdfLine, Heading] = {}
    for line, count in candidates:
        level, depth = levels[line.style], numbering_depth(line.text)
        if depth and line.style not in usual:
            level += depth - least[line.style]
        headings[line] = Heading(min(6, level), count)
    return headings


def _with_bold_ones(candidates: list[_Candidate], body: Body, known: Mapping[Style, int]) -> list[_Candidate]:
    """Drop slightly larger candidates, such as authors or large quotations, if headings are bold."""
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
    """Tests whether lines have the style of headings; `known` are the headings found before."""

    def __init__(self, body: Body, known: Mapping[PdfLine, Heading]) -> None:
        self._body = body
        self._known = known

    def candidates(self, items: Sequence[LineOrTable]) -> Iterator[_Candidate]:
        """Yield the possible headings among the items of a column."""
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
        """Return the number of lines of the heading that begins at an index, or 0 if none begins there."""
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
        """Return whether a heading may begin with a line, judging by its style and first words."""
        larger = self._is_larger(line)
        text = line.text.strip()
        if not larger:
            bold = line.bold and line.size > _MIN_BOLD_RATIO * self._body.size
            if not bold or (line.mono and not self._body.typewritten) or text[:1].islower():
                return False
        if not has_words(line.plain_text) and not _ROMAN.fullmatch(text):
            return False
        return not begins_as_caption(text) and not begins_with_bullet(text)

    def _of_one_style(self, items: Sequence[LineOrTable], first: PdfLine) -> list[PdfLine]:
        """Return the first line and the following lines of the same style."""
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
    """Return whether bold lines in the body size are a heading: set apart from what is above, and not a sentence.

    Args:
        whole: the joined text of the lines.
        above: the item above the lines in their column; `below` is the item below.
    """
    first, last = lines[0], lines[-1]
    if len(first.segments) > 1 and not numbering_depth(first.text):
        return False  # they are the header of a table
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
        return False  # the lines are a term whose definition is indented below it
    return distance < _MAX_SPACE_BELOW * first.size
