"""Words to segments, and segments to the lines of a column."""

from __future__ import annotations

from collections.abc import Iterable

from turnmark.corpora.readers.pdf.boxes import LineOrTable, PdfLine, Segment, SegmentOrTable
from turnmark.corpora.readers.pdf.page import Word

_MIN_CELL_GAP = 0.9  # of the size: a wider gap between two words is a gap between cells, or columns
_MAX_RISE = 0.65  # of the size: how far a superscript may be from the line it is on
_MAX_HEIGHT_DIFFERENCE = 0.3  # of the size: how far apart the parts of a line may be in height
_MAX_PIECE_LENGTH = 4  # characters that a superscript has at most
_MAX_PIECES = 200  # of a page; a drawing has more


def segments_of(words: Iterable[Word]) -> list[Segment]:
    """Words to segments: first as they are drawn, then by their places, since bold words may be drawn later."""
    runs: list[list[Word]] = []
    for word in words:
        if runs and _follows(runs[-1][-1], word):
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


def _follows(before: Word, word: Word) -> bool:
    """Whether a word follows another in its line."""
    size = max(before.size, word.size)
    rise = abs(before.base - word.base)
    is_level = rise < _MAX_HEIGHT_DIFFERENCE * size or (
        rise < _MAX_RISE * size and min(before.size, word.size) < 0.9 * size
    )
    return is_level and -0.5 * size < word.x0 - before.x1 < _MIN_CELL_GAP * size


def _meets(first: Segment, second: Segment) -> bool:
    """Whether a segment begins, in the same line, where another ends."""
    is_level = abs(first.base - second.base) < _MAX_HEIGHT_DIFFERENCE * min(first.size, second.size)
    return is_level and -first.size < second.x0 - first.x1 < _MIN_CELL_GAP * first.size


def _join(first: Segment, second: Segment) -> Segment:
    return Segment(sorted([*first.words, *second.words], key=lambda word: word.x0))


def _join_raised(segments: list[Segment]) -> list[Segment]:
    """Small raised pieces, drawn apart from their line, joined to the segment that they touch."""
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
    """Whether a piece stands above or below the line of a segment, and touches it."""
    size = segment.size
    return (
        len(segment.text) > _MAX_PIECE_LENGTH
        and piece.size <= 0.85 * size
        and segment.x0 - 0.3 * size < piece.x0 < segment.x1 + 0.4 * size
        and 0 < abs(piece.base - segment.base) < _MAX_RISE * size
    )


def lines_of(boxes: Iterable[SegmentOrTable]) -> list[LineOrTable]:
    """The lines and tables of a column from top to bottom."""
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
