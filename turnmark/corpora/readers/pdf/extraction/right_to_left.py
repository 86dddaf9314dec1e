"""Mirrors pages that are read from right to left, so that columns, lines and tables are found as on other pages."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import replace

from turnmark.corpora.readers.pdf.page.page_records import Rule, Word

_FIRST_RTL_LETTER = "\u0590"  # the first code point of Hebrew and Arabic
_MAX_WORD_GAP = 0.9  # of the size; between words of one run


def is_right_to_left(letter: str) -> bool:
    """Return whether the next letter follows on the left."""
    return letter >= _FIRST_RTL_LETTER and unicodedata.bidirectional(letter) in ("R", "AL")


def as_left_to_right(words: Sequence[Word], rules: Sequence[Rule], width: float) -> tuple[list[Word], list[Rule]]:
    """Return the words and rules of a page as if it were written from left to right.

    Neighboring words of the opposite direction are joined into one.
    """
    leftward = sum(map(is_right_to_left, "".join(word.text for word in words if not word.text.isascii())))
    if not leftward:
        return list(words), list(rules)
    others = sum(letter.isalpha() for word in words for letter in word.text) - leftward
    if leftward <= others:
        return _join_words(words, leftward=True), list(rules)
    mirrored = [replace(word, x0=width - word.x1, x1=width - word.x0) for word in _join_words(words, leftward=False)]
    return mirrored, [Rule(width - rule.x1, rule.y0, width - rule.x0, rule.y1) for rule in rules]


def _join_words(words: Iterable[Word], leftward: bool) -> list[Word]:
    joined: list[Word] = []
    for word in words:
        if joined and _is_run(joined[-1], word, leftward):
            last = joined[-1]
            first, second = (last, word) if (word.x0 < last.x0) == leftward else (word, last)
            text = f"{first.text}{' ' if word.spaced else ''}{second.text}"
            joined[-1] = replace(last, text=text, x0=min(last.x0, word.x0), x1=max(last.x1, word.x1))
        else:
            joined.append(word)
    return joined


def _is_run(last: Word, word: Word, leftward: bool) -> bool:
    """Return whether two words are neighbors in this direction. One of them may be a number."""
    gap = max(last.x0 - word.x1, word.x0 - last.x1)
    letters = [letter for letter in last.text + word.text if letter.isalpha()]
    if not any(map(str.isalnum, last.text)) or not any(map(str.isalnum, word.text)):
        return False
    is_near = abs(last.base - word.base) < 1 and -0.3 * word.size < gap < _MAX_WORD_GAP * word.size
    return is_near and bool(letters) and all(is_right_to_left(letter) == leftward for letter in letters)
