"""Writes the cells of a sheet as Markdown: its tables with header rows, and the lines around them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

MAX_ROWS = 50_000  # filled rows read from one sheet
MAX_CELLS = 400_000  # filled cells read from one file
MAX_COLUMNS = 1_000
_MAX_HEADER_ROW = 25  # a header is sought in the rows before it
_MAX_HEADING_LENGTH = 100  # characters of a line that may be a table title
_YEAR = re.compile(r"(?:19|20)\d\d")  # may be a column name
_NUMBER = re.compile(r"[-+−(]?[^\w\s]?\s?\d[\d.,'’ \u00a0\u202f]*\)?\s?(?:%|[^\w\s]|[A-Z]{3})?")


class Cell(NamedTuple):
    """The visible text of a cell, and whether it is words rather than a number or a date."""

    text: str
    is_words: bool


EMPTY = Cell("", False)


def cell_of_text(text: str) -> Cell:
    """Make a cell from text that may be a number, as in CSV."""
    line = " ".join(text.split())
    return Cell(line, bool(line) and not _NUMBER.fullmatch(line) and not re.fullmatch(r"\d{4}-\d\d-\d\d.*", line))


class Merge(NamedTuple):
    """A merged range, counted from 0. `bottom` and `right` are one past the last row and column."""

    top: int
    left: int
    bottom: int
    right: int


@dataclass
class Sheet:
    """A sheet: its name, its rows of cells, its merged cells, and whether only its beginning was read.

    Attributes:
        drawn: what charts, diagrams and text boxes on the sheet say, as Markdown.
        blank_formulas: the number of cells whose formula has no stored value, so that they are blank.
    """

    name: str
    rows: list[list[Cell]] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    cut: bool = False
    drawn: list[str] = field(default_factory=list)
    blank_formulas: int = 0


class CellBudget:
    """The numbers of rows of a sheet and cells of a file that may still be read."""

    def __init__(self) -> None:
        self.rows = MAX_ROWS
        self.cells = MAX_CELLS

    def next_sheet(self) -> None:
        """Begin another sheet."""
        self.rows = MAX_ROWS

    def takes(self, row: Sequence[Cell]) -> bool:
        """Count a row, and return False if the limit is exceeded."""
        filled = sum(1 for cell in row if cell.text)
        self.rows -= filled > 0
        self.cells -= filled
        return self.rows >= 0 and self.cells >= 0


def sheet_markdown(sheet: Sheet, level: int = 2) -> str:
    """Return a sheet as Markdown below its name as a heading; empty if the sheet is empty."""
    _fill_down(sheet)
    spanned = _spanned(sheet)
    pieces: list[str] = []
    for block in _tables(_blocks(sheet.rows, spanned)):
        for side in block.sides():
            pieces += side.pieces()
    pieces += sheet.drawn
    if not pieces:
        return ""
    heading = [f"{'#' * level} {without_tags(_line(sheet.name))}"] if sheet.name else []
    return "\n\n".join(heading + _title_pieces(pieces, level + 1)) + "\n"


def _title_pieces(pieces: Sequence[str], level: int) -> list[str]:
    """Turn a short line directly above a table into a heading, even with a blank row between them."""
    result = list(pieces)
    for index in range(len(result) - 1):
        line = result[index]
        lone = "\n" not in line and not line.startswith(("|", "- ", "#")) and len(line) <= _MAX_HEADING_LENGTH
        follows_text = index > 0 and not result[index - 1].startswith(("|", "#"))
        if lone and result[index + 1].startswith("|") and not follows_text and not line.endswith((".", ":", ";")):
            result[index] = f"{'#' * level} {line}"
    return result


def _fill_down(sheet: Sheet) -> None:
    """Repeat the text of a vertically merged cell in every row."""
    for merge in sheet.merges:
        if merge.top >= len(sheet.rows) or merge.left >= len(sheet.rows[merge.top]):
            continue
        cell = sheet.rows[merge.top][merge.left]
        if not cell.text:
            continue
        for index in range(merge.top + 1, min(merge.bottom, len(sheet.rows))):
            row = sheet.rows[index]
            row += [EMPTY] * (merge.left + 1 - len(row))
            row[merge.left] = cell


def _spanned(sheet: Sheet) -> dict[int, list[Merge]]:
    """Return the horizontally merged cells by row."""
    spanned: dict[int, list[Merge]] = {}
    for merge in sheet.merges:
        if merge.right - merge.left > 1:
            for row in range(merge.top, min(merge.bottom, merge.top + 10)):
                spanned.setdefault(row, []).append(merge)
    return spanned


@dataclass
class _CellBlock:
    """Rows without a blank row between them; `first` is the index of the first row in the sheet."""

    first: int
    rows: list[list[Cell]]
    spanned: dict[int, list[Merge]]

    def figure_columns(self) -> dict[int, bool]:
        """Return for each column whether it has a name with figures below; empty if there is no table."""
        columns = self._columns()
        grid = self._grid(columns)
        at = _header_row(grid)
        found: dict[int, bool] = {}
        for place, column in enumerate(columns):
            below = any(row[place].text and not row[place].is_words for row in grid[at + 1 :])
            found[column] = grid[at][place].is_words and below
        return found if len(columns) > 1 else {}

    def continues(self, figures: dict[int, bool]) -> bool:
        """Return whether the first row continues the table above: it has a figure in one of the figure columns."""
        if not {*self._columns()} <= figures.keys():
            return False
        for column, cell in enumerate(self.rows[0][:MAX_COLUMNS]):
            if cell.text and not cell.is_words and figures[column] and not _YEAR.fullmatch(cell.text):
                return True
        return False

    def _grid(self, columns: Sequence[int]) -> list[list[Cell]]:
        return [[row[column] if column < len(row) else EMPTY for column in columns] for row in self.rows]

    def sides(self) -> list[_CellBlock]:
        """Split tables that are side by side, with blank columns between them and different last rows."""
        groups: list[list[int]] = []
        for column in self._columns():
            if groups and column == groups[-1][-1] + 1:
                groups[-1].append(column)
            else:
                groups.append([column])
        ends = {self._last_row(group) for group in groups}
        if len(groups) < 2 or len(ends) < len(groups) or min(map(len, groups)) < 2 or max(ends) - min(ends) < 2:
            return [self]
        sides: list[_CellBlock] = []
        for group in groups:
            kept = {*group}
            rows = [[cell if index in kept else EMPTY for index, cell in enumerate(row)] for row in self.rows]
            filled = [index for index, row in enumerate(rows) if any(cell.text for cell in row)]
            sides.append(_CellBlock(self.first + filled[0], rows[filled[0] : filled[-1] + 1], self.spanned))
        return sides

    def _last_row(self, columns: Sequence[int]) -> int:
        filled = 0
        for index, row in enumerate(self.rows):
            if any(row[column].text for column in columns if column < len(row)):
                filled = index
        return filled

    def pieces(self) -> list[str]:
        """Return the lines and the table as pieces of Markdown."""
        columns = self._columns()
        if len(columns) == 1:
            return _lines_of([row[columns[0]] if columns[0] < len(row) else EMPTY for row in self.rows])
        grid = self._grid(columns)
        at = _header_row(grid)
        above = [row for row in grid[:at] if any(cell.text for cell in row)]
        header = [cell.text for cell in grid[at]]
        while above and self._spans(at - 1, columns):
            header = _joined(self._spread(at - 1, columns), header)
            above.pop()
            at -= 1
            if at == 0:
                break
        body = [row for row in grid[_header_row(grid) + 1 :] if any(cell.text for cell in row)]
        below: list[list[Cell]] = []
        while body and len(columns) > 2 and _filled(body[-1]) == 1 and body[-1][0].is_words and len(body) > 1:
            below.insert(0, body.pop())
        pieces = [_joined_row(row) for row in above]
        pieces.append(_table(header, [[cell.text for cell in row] for row in body]))
        return pieces + [_joined_row(row) for row in below]

    def _columns(self) -> list[int]:
        """Return the columns that are not empty."""
        filled: set[int] = set()
        for row in self.rows:
            filled.update(index for index, cell in enumerate(row[:MAX_COLUMNS]) if cell.text)
        return sorted(filled)

    def _spans(self, index: int, columns: Sequence[int]) -> bool:
        """Return whether a row above the header groups columns: it has merged cells, but none over all columns."""
        merges = self.spanned.get(self.first + index, [])
        return any(0 < sum(merge.left <= column < merge.right for column in columns) < len(columns) for merge in merges)

    def _spread(self, index: int, columns: Sequence[int]) -> list[str]:
        """Return the text of a row above the header, with a merged cell repeated in each of its columns."""
        row = self.rows[index]
        words: list[str] = []
        for column in columns:
            place = column
            for merge in self.spanned.get(self.first + index, []):
                if merge.left <= column < merge.right:
                    place = merge.left
            words.append(row[place].text if place < len(row) else "")
        return words


def _blocks(rows: Sequence[list[Cell]], spanned: dict[int, list[Merge]]) -> Iterable[_CellBlock]:
    begin: int | None = None
    for index, row in enumerate([*rows, []]):
        if any(cell.text for cell in row):
            begin = index if begin is None else begin
        elif begin is not None:
            yield _CellBlock(begin, list(rows[begin:index]), spanned)
            begin = None


def _tables(blocks: Iterable[_CellBlock]) -> Iterator[_CellBlock]:
    """Yield the blocks. A block without column names is joined to the table above the blank row."""
    last: _CellBlock | None = None
    figures: dict[int, bool] = {}
    for block in blocks:
        if last is not None and block.continues(figures):
            last.rows += [[] for _ in range(block.first - last.first - len(last.rows))] + block.rows
            continue
        if last is not None:
            yield last
        last, figures = block, block.figure_columns()
    if last is not None:
        yield last


def _filled(row: Sequence[Cell]) -> int:
    return sum(1 for cell in row if cell.text)


def _header_row(grid: Sequence[Sequence[Cell]]) -> int:
    """Return the index of the header: the first row with a name for every commonly filled column except the first."""
    most = max(_filled(row) for row in grid)
    full_rows = [row for row in grid if 2 * _filled(row) >= most]
    width = len(grid[0])
    usual = [
        column for column in range(width) if sum(1 for row in full_rows if row[column].text) >= 0.6 * len(full_rows)
    ]
    for index, row in enumerate(grid[:_MAX_HEADER_ROW]):
        missing = [column for column in usual if not row[column].text]
        if _filled(row) > 1 and (not missing or missing == usual[:1]):
            return index
    return next((index for index, row in enumerate(grid) if _filled(row) > 1), 0)


def _joined(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Join the two rows of a header: "2023" above "Q1" becomes "2023 Q1"."""
    joined: list[str] = []
    for over, under in zip(upper, lower, strict=True):
        joined.append(under if over == under or not over else f"{over} {under}".strip())
    return joined


def _joined_row(row: Sequence[Cell]) -> str:
    """Return a row outside of tables as a line."""
    return escaped(" ".join(cell.text for cell in row if cell.text))


def _lines_of(cells: Sequence[Cell]) -> list[str]:
    """Return a single column as lines of text, or as a list if they are short."""
    texts = [escaped(_line(cell.text)) for cell in cells if cell.text]
    if len(texts) < 3 or sum(map(len, texts)) > 80 * len(texts):
        return texts
    return ["\n".join(f"- {text}" for text in texts)]


_BLOCK_START = re.compile(r"(?=[#>+*~`|=-]|\d{1,9}[.)](?:\s|$))")


_TAG_START = re.compile(r"<(?=[A-Za-z/!?])")


def without_tags(line: str) -> str:
    """Escape angle brackets that would be read as HTML."""
    return _TAG_START.sub(r"\\<", line)


def escaped(line: str) -> str:
    """Escape a line that would be read as a heading, a list item, a rule or HTML."""
    line = without_tags(line)
    if _BLOCK_START.match(line):
        number = re.match(r"\d+", line)
        at = number.end() if number else 0
        return f"{line[:at]}\\{line[at:]}"
    return line


def _line(text: str) -> str:
    return " ".join(text.split())


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [_row(header), "|" + "---|" * len(header)]
    lines += [_row(row) for row in rows]
    return "\n".join(lines)


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(without_tags(_line(cell)).replace('|', chr(92) + '|') for cell in cells)} |"
