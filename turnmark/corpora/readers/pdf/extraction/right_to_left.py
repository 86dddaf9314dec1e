"""Puts text that is written from right to left into reading order.

Pages with such text are mirrored, so that columns, lines and tables are found as on other pages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from unicodedata import bidirectional

from turnmark.core.grouping import join_neighbors
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import Rule, Word

_FIRST_RTL_LETTER = "\u0590"  # the first code point of Hebrew and Arabic
_MAX_WORD_GAP = 0.9  # of the size; between words of one run


def is_right_to_left(letter: str) -> bool:
    """Return whether the next letter follows on the left."""
    return letter >= _FIRST_RTL_LETTER and bidirectional(letter) in ("R", "AL")


_BLANKS = " \r\n\t\xa0"
_MIRRORED = {**dict(zip("([{«<", ")]}»>", strict=True)), **dict(zip(")]}»>", "([{«<", strict=True))}
_OPENING = "([{«<"


def reading_order(letters: Sequence[str], box_at: Callable[[int], Box]) -> list[tuple[int, str, bool]]:
    """Return the characters of a page in reading order: each with its index, and whether its word is in leftward text.

    Pdfium orders whole words, but not the parts of a number or an address in a leftward line, nor the letters of a
    ligature; and it names a bracket by its shape.
    """
    if not any(map(is_right_to_left, letters)):
        return [(index, letter, False) for index, letter in enumerate(letters)]
    ordered: list[tuple[int, str, bool]] = []
    for is_end, line in groupby(range(len(letters)), lambda index: letters[index] in "\r\n"):
        words = [list(word) for _, word in groupby(line, lambda index: letters[index] in _BLANKS)]
        leftward = [any(is_right_to_left(letters[index]) for index in word) for word in words]
        others = sum(any(letters[index].isalpha() for index in word) for word in words) - sum(leftward)
        for word, is_leftward in zip(words, leftward, strict=True):
            is_leftward = is_leftward or (not is_end and sum(leftward) > others)
            found = _sorted_word(letters, word, box_at) if is_leftward and letters[word[0]] not in _BLANKS else word
            ordered += [(index, letters[index], is_leftward) for index in found]
    return list(_with_turned_brackets(ordered))


def _sorted_word(letters: Sequence[str], word: list[int], box_at: Callable[[int], Box]) -> Iterator[int]:
    """Yield the characters between two spaces of a leftward line in reading order."""
    for is_leftward, group in groupby(
        word, lambda index: bidirectional(letters[index]) == "NSM" or is_right_to_left(letters[index])
    ):
        run = list(group)
        if is_leftward:
            yield from _with_ordered_ligatures(letters, run, box_at)
            continue
        run.sort(key=lambda index: box_at(index).left)
        core = [at for at, index in enumerate(run) if bidirectional(letters[index]) in ("L", "EN", "AN", "ET")]
        first, last = (core[0], core[-1] + 1) if core else (len(run), len(run))
        yield from (*reversed(run[last:]), *run[first:last], *reversed(run[:first]))


def _with_ordered_ligatures(letters: Sequence[str], run: list[int], box_at: Callable[[int], Box]) -> Iterator[int]:
    """Yield leftward letters with the parts of each ligature from right to left, and each mark after its letter."""
    while run:
        index, box = run[0], box_at(run[0])
        count = 1
        while count < len(run) and _stands_within(box_at(run[count]), box, letters[index], letters[run[count]]):
            count += 1
        yield from sorted(run[:count], key=lambda at: (bidirectional(letters[at]) == "NSM", -box_at(at).right))
        del run[:count]


def _stands_within(box: Box, first: Box, first_letter: str, letter: str) -> bool:
    """Return whether a character is of the same ligature or letter as the one before it: it is not left of that."""
    if "NSM" in (bidirectional(first_letter), bidirectional(letter)):
        return (
            abs(box.left + box.right - first.left - first.right) / 2
            < max(first.right - first.left, box.right - box.left) / 2
        )
    return box.left >= first.left - 0.5 and box.right >= first.right - 1.5


def _with_turned_brackets(ordered: Sequence[tuple[int, str, bool]]) -> Iterator[tuple[int, str, bool]]:
    """Yield the characters with brackets in leftward lines that open or close what is next to them."""
    around = [" ", *(letter for _, letter, _ in ordered), " "]
    for at, (index, letter, is_leftward) in enumerate(ordered):
        if is_leftward and letter in _MIRRORED:
            before, after = around[at], around[at + 2]
            opens = before in _BLANKS or before in _MIRRORED or not (before.isalnum() or after.isalnum())
            closes = after in _BLANKS or after in _MIRRORED or not after.isalnum()
            if opens != closes and opens != (letter in _OPENING):
                letter = _MIRRORED[letter]
        yield index, letter, is_leftward


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
    def join(last: Word, word: Word) -> Word | None:
        if not _is_run(last, word, leftward):
            return None
        first, second = (last, word) if (word.x0 < last.x0) == leftward else (word, last)
        text = f"{first.text}{' ' if word.spaced else ''}{second.text}"
        return replace(last, text=text, x0=min(last.x0, word.x0), x1=max(last.x1, word.x1))

    return join_neighbors(words, join)


def _is_run(last: Word, word: Word, leftward: bool) -> bool:
    """Return whether two words are neighbors in this direction. One of them may be a number."""
    gap = max(last.x0 - word.x1, word.x0 - last.x1)
    letters = [letter for letter in last.text + word.text if letter.isalpha()]
    if not any(map(str.isalnum, last.text)) or not any(map(str.isalnum, word.text)):
        return False
    is_near = abs(last.base - word.base) < 1 and -0.3 * word.size < gap < _MAX_WORD_GAP * word.size
    return is_near and bool(letters) and all(is_right_to_left(letter) == leftward for letter in letters)
