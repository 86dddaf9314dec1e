"""Finds text that is written from top to bottom, in columns from right to left, as in Japanese and Chinese."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from turnmark.corpora.readers.pdf.boxes import HAN
from turnmark.corpora.readers.pdf.page import Word

DOWNWARDS = 270  # direction of lines that run down
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
    stacked = _stacked([word for degrees, word in words if not degrees and len(word.text) <= _MAX_ACROSS])
    if sum(len(HAN.findall(word.text)) for word in stacked) < _MIN_VERTICAL_SHARE * letters:
        return list(words)
    return [(float(DOWNWARDS), _turned(word)) if word in stacked else (degrees, word) for degrees, word in words]


def _stacked(words: Sequence[Word]) -> set[Word]:
    """Return the words that have another one directly above or below them."""
    columns: defaultdict[int, list[Word]] = defaultdict(list)
    for word in words:
        columns[round(word.x1 / max(1.0, word.size / 2))].append(word)  # punctuation begins further right
    stacked: set[Word] = set()
    for column in columns.values():
        column.sort(key=lambda word: -word.base)
        for above, below in pairwise(column):
            if _MIN_STEP * above.size <= above.base - below.base <= _MAX_STEP * above.size:
                stacked |= {above, below}
    return stacked


def _turned(word: Word) -> Word:
    """Return an upright word as a part of a line that runs down, in the coordinates of its direction."""
    top = word.base + 0.88 * word.size
    return replace(word, x0=-top, x1=-top + word.size, base=word.x1 - word.size, spaced=False)
