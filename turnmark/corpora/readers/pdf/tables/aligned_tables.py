"""Arranges lines of words into the rows and columns of a table, and finds tables without ruled lines, whose cells are
only aligned.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfColumn, PdfLine, PdfTable, Segment
from turnmark.corpora.readers.pdf.page.page_records import Word

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
    pieces: list[list[Word]] = []
    last = -1
    for word in segment.words:
        column = bisect_right(edges, (word.x0 + word.x1) / 2)
        if column != last:
            pieces.append([])
            last = column
        pieces[-1].append(word)
    return [segment] if len(pieces) == 1 else [Segment(words) for words in pieces]


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
    for places in (
        [piece.x0 for piece in pieces],
        [piece.x1 for piece in pieces],
        [(piece.x0 + piece.x1) / 2 for piece in pieces],
    ):
        usual = max(sum(abs(place - other) < 3 for other in places) for place in places)
        if usual >= 0.55 * len(pieces):
            return True
    return False


def _joined_rows(rows: Sequence[_RowCells], breaks: Sequence[float]) -> list[_RowCells]:
    """Join each line that continues the cells above it to their row."""
    gaps = [above.base - below.base for above, below in pairwise(rows)]
    least = sorted(gaps)[len(gaps) // 5] if gaps else 0.0
    by_space = _are_set_apart(rows, [gap > 1.2 * least for gap in gaps])
    joined = list(rows[:1])
    for row in rows[1:]:
        above = joined[-1]
        gap = above.base - row.base
        near = gap <= 1.2 * least + 0.5 if by_space else gap <= 1.45 * max(row.size, 5)
        continues = by_space or (not row.texts[0] and 2 * row.filled <= len(row.texts))
        ruled = any(row.base < height < above.base for height in breaks)
        if near and continues and not ruled:
            joined[-1] = above.followed_by(row)
        else:
            joined.append(row)
    return joined


def _are_set_apart(rows: Sequence[_RowCells], wide: Sequence[bool]) -> bool:
    """Return whether space separates the rows, and the lines within a row do not fill all cells.

    Args:
        wide: for each line but the first, whether the space above it is larger than usual.
    """
    inner = [row for row, is_wide in zip(rows[1:], wide, strict=True) if not is_wide]
    partly = sum(row.filled < len(row.texts) for row in inner)
    return sum(wide) >= 2 and bool(inner) and partly >= 0.7 * len(inner)


_MIN_EXPLANATION_LENGTH = 45  # characters on average; longer cells next to a term explain it
_MAX_CELL_LENGTH = 70  # characters on average; longer cells, except in the last column, are running text
_MARKER = re.compile(r"(?:[•‣◦▪–—*·■□○●✓➢-]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)]|\[\d{1,3}\])$")
_NUMBER = re.compile(r"(?:(?:Chapter|Appendix|Part|Section)\s+)?(?:[A-Z]|\d{1,3})(?:\.\d{1,3})*[.:]?$", re.IGNORECASE)
_WORD_OR_DIGIT = re.compile(r"[^\W\d_]{2}|\d")  # a word or a number; most pieces of a formula are neither
_EQUATION = re.compile(r"\(\d{1,3}(?:\.\d{1,3})?[a-z]?\)$")


def with_aligned_tables(column: PdfColumn) -> PdfColumn:
    """Return the column with each run of lines that form table rows replaced by a table."""
    items: list[LineOrTable] = []
    run: list[PdfLine] = []
    for item in column.items:
        if isinstance(item, PdfLine) and _joins(run, item):
            run.append(item)
            continue
        items += _table_or_lines(run)
        run = []
        if isinstance(item, PdfLine) and _has_cells(item):
            run.append(item)
        else:
            items.append(item)
    return PdfColumn([*items, *_table_or_lines(run)])


def _has_cells(line: PdfLine) -> bool:
    first, *others = line.segments
    if not others or line.mono:
        return False
    if len(others) == 1 and (_MARKER.match(first.text) or _EQUATION.match(others[0].text)):
        return False
    return not (_NUMBER.match(first.text) and line.share("bold") > 0.5)


def _joins(run: Sequence[PdfLine], line: PdfLine) -> bool:
    """Return whether a line continues the rows above it, because it has cells or continues one of their cells."""
    if not run:
        return False
    first, last = run[0], run[-1]
    gap = last.base - line.base
    if gap > 3.2 * max(line.size, 6) or (line.mono and not first.mono):
        return False
    if _has_cells(line):
        return True
    if gap > 1.5 * line.size or len(line.segments) != 1:
        return False
    inner = [segment.x0 for segment in [*first.segments, *last.segments] if segment.x0 > first.x0 + 5]
    fits = any(abs(line.x0 - start) < 4 for start in inner)
    # A continued cell of the first column ends before the second column begins.
    in_first = abs(line.x0 - first.x0) < 4 and bool(inner) and line.x1 < min(inner) - COLUMN_GAP
    return fits or in_first


def _table_or_lines(run: Sequence[PdfLine]) -> list[LineOrTable]:
    """Return a run of lines as a table if it is one. Lines after its last row stay lines."""
    if len(run) > 1 and not _has_cells(run[-1]) and abs(run[-1].x0 - run[0].x0) < 4:
        return [*_table_or_lines(run[:-1]), run[-1]]
    table = _table_of(run)
    return [table] if table else [*run]


def _table_of(run: Sequence[PdfLine]) -> PdfTable | None:
    """Return the table that lines form, or None if they are too few, are not words, or are running text."""
    rows = [line for line in run if _has_cells(line)]
    led = _led_cells(run)
    if len(rows) < 3 and not (len(rows) == 2 and (led or min(len(row.segments) for row in rows) > 2)):
        return None
    cells = led or (align_cells(run) if not all(line.bold for line in run) else None)
    if cells is None:
        return None
    texts = [cell for row in cells for cell in row if cell]
    if sum(bool(_WORD_OR_DIGIT.search(text)) for text in texts) < 0.6 * len(texts):
        return None
    if len(texts) / (len(cells) * len(cells[0])) < 0.45 or _longest_mean_length(cells) > _MAX_CELL_LENGTH:
        return None
    x0, x1 = min(line.x0 for line in run), max(line.x1 for line in run)
    table = table_of(cells, x0, x1, run[-1].segments[0].y0, run[0].segments[0].y1)
    if table is not None:
        columns, explained = len(table.rows[0]), sum(len(row[1]) for row in table.rows)
        table.terms = columns == 2 and explained > _MIN_EXPLANATION_LENGTH * len(table.rows)
    return table


def _led_cells(run: Sequence[PdfLine]) -> list[list[str]] | None:
    """Return the names and figures of lines with dot leaders, which need not end at the same place.

    Returns:
        None if the lines have no dot leaders, or hardly any figures.
    """
    if not all(len(line.segments) == 2 and line.segments[1].is_led for line in run):
        return None
    cells = [[segment.text for segment in line.segments] for line in run]
    return cells if sum(any(map(str.isdigit, figures)) for _, figures in cells) >= len(cells) / 2 else None


def _longest_mean_length(cells: Sequence[Sequence[str]]) -> float:
    """Return the mean cell length of the longest column, except the last one, which may contain running text."""
    return max(sum(map(len, column)) / len(cells) for column in list(zip(*cells, strict=True))[:-1])
