"""Removes line numbers in the margins, and slides that the next slide repeats with additions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.page.page_records import PdfPage, Word

_MAX_SLIDE_WORDS = 250  # on one slide
_MIN_NUMBERED_LINES = 15  # on one page


def drop_overlays(pages: Sequence[PdfPage]) -> int:
    """Empty each slide that the next one only adds to, and return their number.

    Slides that reveal their points one by one become one page per point, and only the last page is kept. Pages of
    one form differ in their numbers, so all of them are kept.
    """
    dropped = 0
    for page, following in pairwise(pages):
        if 0 < len(page.words) <= min(_MAX_SLIDE_WORDS, len(following.words)):
            shown = {_place(word) for word in following.words}
            other = [word for word in page.words if _place(word) not in shown]
            if len(other) < 0.05 * len(page.words) and all(_may_change(word, following) for word in other):
                page.words = []
                dropped += 1
    return dropped


def _may_change(word: Word, following: PdfPage) -> bool:
    """Return whether a word that the next slide lacks may differ: it has no digits, or is the number of the slide."""
    if not any(map(str.isdigit, word.text)):
        return True
    if not word.text.isdecimal() or len(word.text) > 4:
        return False
    return any(other.text == str(int(word.text) + 1) and abs(other.base - word.base) < 1 for other in following.words)


def _place(word: Word) -> tuple[str, int, int]:
    return word.text, round(word.x0), round(word.base)


def drop_line_numbers(page: PdfPage) -> int:
    """Remove line numbers from the margins, and return how many. Papers under review have them."""
    count = len(page.words)
    places = group_pairs(
        (edge, word)
        for word in page.words
        if word.text.isdecimal() and len(word.text) <= 5
        for edge in {round(word.x1 / 4), round(word.x1 / 4 + 0.5)}
    )
    for numbers in places.values():  # by their right edge
        if len(numbers) >= _MIN_NUMBERED_LINES and _counts_lines(numbers) and _are_in_margin(numbers, page.words):
            gone = set(numbers)
            page.words = [word for word in page.words if word not in gone]
    return count - len(page.words)


def _counts_lines(numbers: Sequence[Word]) -> bool:
    """Return whether numbers increase from top to bottom by 1, or by 5."""
    ordered = sorted(numbers, key=lambda word: -word.base)
    steps = Counter(int(below.text) - int(above.text) for above, below in pairwise(ordered))
    step, often = steps.most_common(1)[0]
    return step in (1, 5) and often >= 0.8 * len(numbers)


def _are_in_margin(numbers: Sequence[Word], words: Sequence[Word]) -> bool:
    """Return whether numbers stand alone on one side of all words that are not numbers."""
    others = [word for word in words if not word.text.isdecimal()]
    left, right = min(word.x0 for word in numbers), max(word.x1 for word in numbers)
    return all(word.x0 >= right for word in others) or all(word.x1 <= left for word in others)
