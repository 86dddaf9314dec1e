"""Divides lines at their dot leaders, so that a name and its figures become cells of a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from turnmark.corpora.readers.pdf.boxes import Segment
from turnmark.corpora.readers.pdf.page import Word

_LEADER = re.compile(r"(?:[.·…_]\s?){5,}|…(?:\s?…)+")
_DOT_LETTERS = ".·…_"
_DOTS = re.compile(r"[.·…_]+")


def without_leaders(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments, with each one divided where dot leaders run between two texts."""
    return [piece for segment in segments for piece in _divided(segment)]


def _divided(segment: Segment) -> list[Segment]:
    if not _LEADER.search(segment.text):
        return [segment]
    words = [piece for word in segment.words for piece in _cut(word)]
    pieces = [
        list(group) for is_dots, group in groupby(words, lambda word: bool(_DOTS.fullmatch(word.text))) if not is_dots
    ]
    if len(pieces) < 2:
        return [segment]
    for piece in pieces[1:]:
        piece[0] = replace(piece[0], text=piece[0].text.lstrip(_DOT_LETTERS) or piece[0].text)
    return [Segment(piece) for piece in pieces]


def _cut(word: Word) -> Iterable[Word]:
    """Yield the parts of a word before, within and after long runs of dots."""
    width = (word.x1 - word.x0) / len(word.text)
    at = 0
    for match in re.finditer(r"[.·…_]{4,}", word.text):
        for start, end in ((at, match.start()), match.span()):
            if start < end:
                yield _part(word, start, end, width)
        at = match.end()
    if at < len(word.text):
        yield _part(word, at, len(word.text), width) if at else word


def _part(word: Word, start: int, end: int, width: float) -> Word:
    x0 = word.x0 + start * width
    return replace(word, text=word.text[start:end], x0=x0, x1=word.x0 + end * width, spaced=word.spaced or start > 0)
