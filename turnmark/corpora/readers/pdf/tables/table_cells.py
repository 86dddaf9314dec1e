"""Arranges lines of words into the rows and columns of a table."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from turnmark.core.grouping import join_neighbors
from turnmark.corpora.readers.pdf.page.boxes import PdfLine, PdfTable, Segment

COLUMN_GAP = 4.0  # minimum, in points
_LEADERS = re.compile(r"\s*\.(?:\s?\.){3,}$")  # dot leaders between a name and its figures


def align_cells(lines: Sequence[PdfLine], breaks: Sequence[float] = ()) -> list[list[str]] | None:
    """Return the rows of cells that aligned lines form.

    Args:
        breaks: heights of the rules between rows.

    Returns:
        None if no gap runs through all lines, or the columns are not aligned.
    """
    edges = _edges(lines)
    if not edges:
        return None
    rows: list[_RowCells] = []
    places: list[list[Segment]] = [[] for _ in range(len(edges) + 1)]
    for line in lines:
        texts = [""] * (len(edges) + 1)
        for segment in line.segments:
            spans = sum(segment.x0 < edge < segment.x1 for edge in edges)
            for piece in cut_segment(segment, edges) if spans < 2 else [segment]:
                index = bisect_right(edges, piece.x0 + min(2.0, (piece.x1 - piece.x0) / 2))
                texts[index] = f"{texts[index]} {piece.text}".strip()
                places[index].append(piece)
        rows.append(_RowCells(line.base, line.size, tuple(texts)))
    if not all(_are_aligned(pieces) for pieces in places[1:]):
        return None
    return [[*row.texts] for row in _joined_rows(rows, breaks)]


def table_of(rows: Sequence[Sequence[str]], x0: float, x1: float, y0: float, y1: float) -> PdfTable | None:
    """Return a table without empty rows and columns, or None if fewer than two rows or two columns remain."""
    rows = [row for row in rows if any(row)]
    rows = [[_LEADERS.sub("", cell) for cell in row] for row in rows]
    kept = [index for index, column in enumerate(zip(*rows, strict=True)) if any(column)]
    if len(kept) < 2 or len(rows) < 2:
        return None
    return PdfTable([[row[index] for index in kept] for row in rows], x0, x1, y0, y1)


def cut_segment(segment: Segment, edges: Sequence[float]) -> list[Segment]:
    """Cut a segment wherever a column edge runs between its words."""
    pieces = groupby(segment.words, lambda word: bisect_right(edges, (word.x0 + word.x1) / 2))
    cut = [Segment(list(words)) for _, words in pieces]
    return [segment] if len(cut) == 1 else cut


def join_cell_lines(lines: Sequence[str]) -> str:
    """Join the lines of a cell, and the parts of words that are hyphenated at a line end."""
    text = ""
    for line in lines:
        if re.search(r"(?<![^\s(])[^\W\d_]{2,}-$", text) and line[:1].islower():
            text = text[:-1] + line
        elif re.search(r"\w-$", text) and line[:1].isalnum():
            text += line
        else:
            text = f"{text} {line}" if text else line
    return text


@dataclass(frozen=True)
class _RowCells:
    """The texts of a line of a table by column."""

    base: float
    size: float
    texts: tuple[str, ...]

    @property
    def filled(self) -> int:
        return sum(bool(text) for text in self.texts)

    def followed_by(self, below: _RowCells) -> _RowCells:
        """Return this row joined with the line below it."""
        both = zip(self.texts, below.texts, strict=True)
        return replace(self, base=below.base, texts=tuple(join_cell_lines(list(filter(None, texts))) for texts in both))


def _edges(lines: Sequence[PdfLine]) -> list[float]:
    """Return the centers of the gaps that run through the lines. One line in ten may cross a gap."""
    segments = [segment for line in lines for segment in line.segments]
    low, high = min(segment.x0 for segment in segments), max(segment.x1 for segment in segments)
    covered = [0] * (int(high - low) + 2)  # number of segments at each point of the width
    for segment in segments:
        for index in range(int(segment.x0 - low), int(segment.x1 - low) + 1):
            covered[index] += 1
    runs = groupby(range(len(covered)), lambda index: covered[index] <= len(lines) // 10)
    gaps = [list(run) for is_gap, run in runs if is_gap]
    inner = [gap for gap in gaps if len(gap) >= COLUMN_GAP and gap[0] > 0 and gap[-1] + 1 < len(covered)]
    return [low + (gap[0] + gap[-1] + 1) / 2 for gap in inner]


def _are_aligned(pieces: Sequence[Segment]) -> bool:
    """Return whether most pieces of a column are aligned left, right or centered, unlike justified text."""
    if len(pieces) < 3:
        return True
    edges = ((piece.x0, piece.x1, (piece.x0 + piece.x1) / 2) for piece in pieces)
    return any(
        max(sum(abs(place - other) < 3 for other in places) for place in places) >= 0.55 * len(pieces)
        for places in zip(*edges, strict=True)
    )


def _joined_rows(rows: Sequence[_RowCells], breaks: Sequence[float]) -> list[_RowCells]:
    """Join each line that continues the cells above it to their row."""
    gaps = [above.base - below.base for above, below in pairwise(rows)]
    least = sorted(gaps)[len(gaps) // 5] if gaps else 0.0
    by_space = _are_set_apart(rows, [gap > 1.2 * least for gap in gaps])

    def join(above: _RowCells, row: _RowCells) -> _RowCells | None:
        gap = above.base - row.base
        near = gap <= 1.2 * least + 0.5 if by_space else gap <= 1.45 * max(row.size, 5)
        continues = by_space or (not row.texts[0] and 2 * row.filled <= len(row.texts))
        ruled = any(row.base < height < above.base for height in breaks)
        return above.followed_by(row) if near and continues and not ruled else None

    return join_neighbors(rows, join)


def _are_set_apart(rows: Sequence[_RowCells], wide: Sequence[bool]) -> bool:
    """Return whether space separates the rows, and the lines within a row do not fill all cells.

    Args:
        wide: for each line but the first, whether the space above it is larger than usual.
    """
    inner = [row for row, is_wide in zip(rows[1:], wide, strict=True) if not is_wide]
    partly = sum(row.filled < len(row.texts) for row in inner)
    return sum(wide) >= 2 and bool(inner) and partly >= 0.7 * len(inner)
