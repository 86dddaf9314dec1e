"""Joins words into segments, and segments into the lines of a column."""

from __future__ import annotations

from collections.abc import Iterable

from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfLine, Segment, SegmentOrTable
from turnmark.corpora.readers.pdf.page.page_records import Word

_MIN_CELL_GAP = 0.9  # of the size; a wider gap between two words separates cells or columns
_MAX_RISE = 0.65  # of the size; of a superscript from its line
_MAX_HEIGHT_DIFFERENCE = 0.3  # of the size; between the parts of a line
_MAX_PIECE_LENGTH = 4  # characters of a superscript
_MAX_PIECES = 200  # on one page; a drawing has more


def segments_of(words: Iterable[Word]) -> list[Segment]:
    """Join words into segments: first in drawing order, then by position, since bold words may be drawn later."""
    runs: list[list[Word]] = []
    for word in words:
        if runs and follows(runs[-1][-1], word):
            runs[-1].append(word)
        else:
            runs.append([word])
    rows: dict[int, list[Segment]] = {}
    for segment in map(Segment, runs):
        rows.setdefault(round(segment.base / 2), []).append(segment)
    merged: list[Segment] = []
    for height in sorted(rows, reverse=True):
        for segment in sorted(rows[height], key=lambda segment: segment.x0):
            if merged and _meets(merged[-1], segment):
                merged[-1] = _join(merged[-1], segment)
            else:
                merged.append(segment)
    return _join_raised(merged)


def follows(before: Word, word: Word) -> bool:
    """Return whether a word follows another on the same line."""
    size = max(before.size, word.size)
    rise = abs(before.base - word.base)
    is_level = rise < _MAX_HEIGHT_DIFFERENCE * size or (
        rise < _MAX_RISE * size and min(before.size, word.size) < 0.9 * size
    )
    return is_level and -0.5 * size < word.x0 - before.x1 < _MIN_CELL_GAP * size


def _meets(first: Segment, second: Segment) -> bool:
    """Return whether a segment begins where another ends on the same line."""
    is_level = abs(first.base - second.base) < _MAX_HEIGHT_DIFFERENCE * min(first.size, second.size)
    return is_level and -first.size < second.x0 - first.x1 < _MIN_CELL_GAP * first.size


def _join(first: Segment, second: Segment) -> Segment:
    return Segment(sorted([*first.words, *second.words], key=lambda word: word.x0))


def _join_raised(segments: list[Segment]) -> list[Segment]:
    """Join each small raised piece that is drawn separately to the segment that it touches."""
    pieces = [segment for segment in segments if len(segment.text) <= _MAX_PIECE_LENGTH]
    if len(pieces) > _MAX_PIECES:
        return segments
    joined: set[Segment] = set()
    for piece in pieces:
        for index, segment in enumerate(segments):
            if _is_raised(piece, segment):
                segments[index] = _join(segment, piece)
                joined.add(piece)
                break
    return [segment for segment in segments if segment not in joined]


def _is_raised(piece: Segment, segment: Segment) -> bool:
    """Return whether a piece is raised above or lowered below a segment, and touches it."""
    size = segment.size
    return (
        len(segment.text) > _MAX_PIECE_LENGTH
        and piece.size <= 0.85 * size
        and segment.x0 - 0.3 * size < piece.x0 < segment.x1 + 0.4 * size
        and 0 < abs(piece.base - segment.base) < _MAX_RISE * size
    )


def lines_of(boxes: Iterable[SegmentOrTable]) -> list[LineOrTable]:
    """Return the lines and tables of a column from top to bottom."""
    items: list[LineOrTable] = []
    row: list[Segment] = []

    def close() -> None:
        if row:
            items.append(PdfLine(sorted(row, key=lambda segment: segment.x0)))
            row.clear()

    for box in sorted(boxes, key=lambda box: (-box.base if isinstance(box, Segment) else -box.y1, box.x0)):
        if not isinstance(box, Segment):
            close()
            items.append(box)
            continue
        if row and abs(row[0].base - box.base) >= _MAX_HEIGHT_DIFFERENCE * max(row[0].size, box.size):
            close()
        row.append(box)
    close()
    return items
