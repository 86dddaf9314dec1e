"""Finds tables without ruled lines, whose cells are only aligned."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.corpora.readers.pdf.page.boxes import LineOrTable, PdfColumn, PdfLine, PdfTable
from turnmark.corpora.readers.pdf.tables.table_cells import COLUMN_GAP, align_cells, table_of

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
