"""Turns the words of a page upright, and divides those that run in several directions.

Most of the text decides how the page is turned. Short labels in other directions, in cells or above columns of a
table, stay where they are, as words of their cell. Other text in another direction, such as a sideways table or a
label in the margin, becomes a page of its own, which is read after the rest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median_high

from turnmark.core.grouping import group_pairs, join_neighbors
from turnmark.corpora.readers.pdf.extraction.right_to_left import as_left_to_right
from turnmark.corpora.readers.pdf.page.boxes import HAN
from turnmark.corpora.readers.pdf.page.geometry import MAX_SLANT_DEGREES, Box, angle_between, quadrant, slant
from turnmark.corpora.readers.pdf.page.page_records import DOWNWARD_DEGREES, PdfPage, Rule, Word
from turnmark.corpora.readers.pdf.tables.turned_labels import place_labels

_MIN_VERTICAL_SHARE = 0.6  # of the Chinese and Japanese letters of a page that stand above each other
_MIN_LETTERS = 10  # on a page
_MIN_STEP, _MAX_STEP = 0.7, 1.7  # of the size; from a letter to the one below it
_MAX_ACROSS = 3  # characters next to each other within a line that runs down, e.g. "12"

DirectedWord = tuple[float, Word]


def as_downward(words: Sequence[DirectedWord]) -> list[DirectedWord]:
    """Return the words of a page with its vertical lines given their direction, downwards."""
    letters = sum(len(HAN.findall(word.text)) for degrees, word in words if not degrees)
    if letters < _MIN_LETTERS:
        return list(words)
    stacked = _find_stacked([word for degrees, word in words if not degrees and len(word.text) <= _MAX_ACROSS])
    if sum(len(HAN.findall(word.text)) for word in stacked) < _MIN_VERTICAL_SHARE * letters:
        return list(words)
    return [
        (float(DOWNWARD_DEGREES), _turn_word(word)) if word in stacked else (degrees, word) for degrees, word in words
    ]


def _find_stacked(words: Sequence[Word]) -> set[Word]:
    """Return the words that have another one directly above or below them."""
    # By the right edge, since punctuation begins further right.
    columns = group_pairs((round(word.x1 / max(1.0, word.size / 2)), word) for word in words)
    stacked: set[Word] = set()
    for column in columns.values():
        column.sort(key=lambda word: -word.base)
        for above, below in pairwise(column):
            if _MIN_STEP * above.size <= above.base - below.base <= _MAX_STEP * above.size:
                stacked |= {above, below}
    return stacked


def _turn_word(word: Word) -> Word:
    """Return an upright word as a part of a line that runs down, in the coordinates of its direction."""
    top = word.base + 0.88 * word.size
    return replace(word, x0=-top, x1=-top + word.size, base=word.x1 - word.size, spaced=False)


_MIN_SKEW_DEGREES = 0.3  # of a page; with less, its lines are level
_MIN_LEVEL_CHARACTERS = 20  # of level text, so that slanted text is not the main text
_MAX_LETTER_GAP = 0.1  # of the size; a space is wider


def upright_pages(words: Sequence[DirectedWord], box: Box, rules: Sequence[Rule], links: Sequence[Box]) -> PdfPage:
    """Return the page with its words, rules and links turned upright.

    Args:
        words: each with its direction, placed in the coordinates of that direction.
        box: the box of the page.
        links: boxes of the links to places in the document.
    """

    def turned(found: Sequence[DirectedWord], direction: float) -> PdfPage:
        return _turned_page(found, box, direction, rules, links)

    words = as_downward(words)
    main = _main_direction(words)
    sides: dict[int, list[DirectedWord]] = {}  # by the difference from the main direction: 0, 90, 180 or 270
    for degrees, word in words:
        beyond = angle_between(degrees, main)
        if abs(slant(beyond)) <= MAX_SLANT_DEGREES:
            sides.setdefault(quadrant(beyond), []).append((degrees, word))
    directions = {side: _direction(found, (main + side) % 360) for side, found in sides.items()}
    level = directions.pop(0, main)
    page = turned(sides.get(0, ()), level)
    page.slanted = len(words) - sum(map(len, sides.values()))
    for side, direction in sorted(directions.items()):
        other = turned(sides[side], direction)
        page.words += place_labels(other, side, page)
        if other.words:
            page.asides.append(_turn_left_to_right(other))
    return _turn_left_to_right(page)


def _turn_left_to_right(page: PdfPage) -> PdfPage:
    page.words, page.rules = as_left_to_right(page.words, page.rules, page.width)
    return page


def _main_direction(words: Iterable[DirectedWord]) -> float:
    """Return the direction of most of the text. Slanted text, such as a watermark, counts only if there is no other."""
    characters = Counter[float]()
    for degrees, word in words:
        characters[round(degrees) % 360] += len(word.text)
    level = Counter[float]()
    for degrees, count in characters.items():
        if abs(slant(degrees)) <= MAX_SLANT_DEGREES:
            level[quadrant(degrees)] += count
    if level and (level.total() >= _MIN_LEVEL_CHARACTERS or level.total() == characters.total()):
        return level.most_common(1)[0][0]
    return characters.most_common(1)[0][0] if characters else 0.0


def _direction(words: Sequence[DirectedWord], near: float) -> float:
    """Return the direction in which most of the words run: exactly `near` unless they are skewed."""
    skew = median_high(angle_between(degrees, near) for degrees, word in words for _ in word.text)
    return near if abs(skew) < _MIN_SKEW_DEGREES else (near + skew) % 360


def _turned_page(
    words: Iterable[DirectedWord], box: Box, direction: float, rules: Sequence[Rule], links: Sequence[Box]
) -> PdfPage:
    """Return a page whose text of a direction is upright, and whose lower left corner is at 0."""
    right_angle = quadrant(direction)
    turned = box.turned(right_angle)
    across, up = -turned.left, -turned.bottom

    def placed_box(each: Box) -> Box:
        return each.turned(right_angle).moved(across, up)

    placed = [word.turned(direction - degrees) for degrees, word in words]
    if direction:
        placed = _joined_letters(placed)
    if across or up:
        placed = [word.moved(across, up) for word in placed]
    width, height = max(turned.right - turned.left, 1.0), max(turned.top - turned.bottom, 1.0)
    turned_rules = [Rule(*placed_box(Box(*rule))) for rule in rules]
    turned_links = list(map(placed_box, links))
    return PdfPage(width, height, _without_duplicates(placed), turned_rules, degrees=right_angle, links=turned_links)


def _joined_letters(words: Iterable[Word]) -> list[Word]:
    """Join words that touch. On a page that is not upright, pdfium orders letters that are drawn one by one wrongly."""

    def join(last: Word, word: Word) -> Word | None:
        touches = abs(last.base - word.base) < 1 and abs(word.x0 - last.x1) < _MAX_LETTER_GAP * word.size
        return replace(last, text=last.text + word.text, x1=max(last.x1, word.x1)) if touches else None

    by_place = sorted(words, key=lambda word: (-round(word.base), word.x0))
    return join_neighbors((replace(word, spaced=True) for word in by_place), join)


def _without_duplicates(words: Iterable[Word]) -> list[Word]:
    """Return each word once. Bold text is sometimes drawn twice, slightly shifted."""
    kept: dict[tuple[str, int, int], Word] = {}
    for word in words:
        kept.setdefault((word.text, round(word.x0 / 2), round(word.base / 2)), word)
    return list(kept.values())
