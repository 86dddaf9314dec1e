"""Divides lines at their dot leaders, so that a name and its figures become cells of a row."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby

from turnmark.corpora.readers.pdf.page.boxes import PdfColumn, Segment, lines_of
from turnmark.corpora.readers.pdf.page.page_records import Word

_DOT_LETTERS = ".·…_"
_MIN_DOTS = 5  # of a leader; "…" counts as three
_MIN_JOINED_DOTS = 4  # within a word; fewer belong to it
_DOTS = re.compile(rf"[{_DOT_LETTERS}]+")
_JOINED_DOTS = re.compile(rf"[{_DOT_LETTERS}]{{{_MIN_JOINED_DOTS},}}")


def without_leaders(segments: Sequence[Segment]) -> list[Segment]:
    """Return the segments, with each one divided where dot leaders run between two texts of a line."""
    pieces: dict[Segment, list[Segment]] = {}
    for line in PdfColumn(lines_of(segments)).lines:
        if sum(_dots_in(segment.text) for segment in line.segments) >= _MIN_DOTS:
            pieces |= _divide_segments(line.segments)
    return [piece for segment in segments for piece in pieces.get(segment, [segment])]


def _dots_in(text: str) -> int:
    return sum(text.count(letter) for letter in _DOT_LETTERS) + 2 * text.count("…")


def _divide_segments(row: Sequence[Segment]) -> dict[Segment, list[Segment]]:
    """Return the pieces into which leaders divide the segments of a line. A leader may extend over several segments."""
    words = [(segment, piece) for segment in row for word in segment.words for piece in _cut(word)]
    runs = [list(run) for _, run in groupby(words, lambda entry: bool(_DOTS.fullmatch(entry[1].text)))]
    pieces: dict[Segment, list[Segment]] = {segment: [] for segment in row}
    after_leader, open_segment = False, None
    for at, run in enumerate(runs):
        if 0 < at < len(runs) - 1 and _is_leader([word for _, word in run]):
            after_leader, open_segment = True, None
            continue
        if at + 1 < len(runs) - 1 and _is_leader([word for _, word in runs[at + 1]]):
            segment, word = run[-1]
            run[-1] = segment, replace(word, text=word.text.rstrip(_DOT_LETTERS) or word.text)
        for segment, word in run:
            if segment is open_segment:
                pieces[segment][-1].words.append(word)
                continue
            text = word.text.lstrip(_DOT_LETTERS) if after_leader else ""
            pieces[segment].append(Segment([replace(word, text=text or word.text)], is_led=after_leader))
            after_leader, open_segment = False, segment
    return pieces


def _is_leader(words: Sequence[Word]) -> bool:
    return all(_DOTS.fullmatch(word.text) for word in words) and sum(_dots_in(word.text) for word in words) >= _MIN_DOTS


def _cut(word: Word) -> Iterable[Word]:
    """Yield the parts of a word before, within and after long runs of dots."""
    width = (word.x1 - word.x0) / len(word.text)
    at = 0
    for match in _JOINED_DOTS.finditer(word.text):
        for start, end in ((at, match.start()), match.span()):
            if start < end:
                yield _part(word, start, end, width)
        at = match.end()
    if at < len(word.text):
        yield _part(word, at, len(word.text), width) if at else word


def _part(word: Word, start: int, end: int, width: float) -> Word:
    x0 = word.x0 + start * width
    return replace(word, text=word.text[start:end], x0=x0, x1=word.x0 + end * width, spaced=word.spaced or start > 0)
