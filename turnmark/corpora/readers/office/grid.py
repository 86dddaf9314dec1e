"""Writes the cells of a sheet as Markdown: its tables with header rows, and the lines around them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from turnmark.core.grouping import group_pairs, runs
from turnmark.corpora.readers.office.charts import Chart
from turnmark.corpora.readers.office.grid_tables import GridTable, description_of
from turnmark.corpora.tables.column_types import has_no_labels, join_labels
from turnmark.corpora.tables.data_tables import LARGE_CELLS, DataRow, pack_rows
from turnmark.corpora.tables.markdown_tables import row_markdown, rule_below, without_tags

MAX_ROWS = 1_048_576  # filled rows read from one sheet, the maximum of Excel
MAX_CELLS = 20_000_000  # filled cells read from one file
SAMPLE_ROWS = 20  # of a large table that the text shows
MAX_COLUMNS = 1_000
_MAX_SHOWN_CELLS = 400_000
_PACKED_ROWS = 2_000  # in one piece
_MAX_HEADER_ROW = 25  # a header is sought in the rows before it
_MAX_HEADING_LENGTH = 100  # characters of a line that may be a table title
_YEAR = re.compile(r"(?:19|20)\d\d")  # may be a column name
_NUMBER = re.compile(r"[-+−(]?[^\w\s]?\s?\d[\d.,'’ \u00a0\u202f]*\)?\s?(?:%|[^\w\s]|[A-Z]{3})?")


class Cell(NamedTuple):
    """The visible text of a cell, and whether it is words rather than a number or a date.

    Attributes:
        stored: the number or the ISO date that the workbook stores; empty if there is none.
    """

    text: str
    is_words: bool
    stored: str = ""


EMPTY_CELL = Cell("", False)


def data_row(number: int, row: Sequence[Cell]) -> DataRow:
    """Return a row with its number in the sheet."""
    stored = [cell.stored for cell in row] if any(cell.stored for cell in row) else []
    return DataRow(number, [cell.text for cell in row], stored)


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
        hidden: the positions of rows that are not shown; `hidden_rows` counts those with text.
        columns: the number of columns, including those after `MAX_COLUMNS`, which are not read.
        count, filled_rows: the number of rows that were added, and of those that are not blank.
        packed: the rows of a large sheet after those in `rows`; they continue its last table.
    """

    name: str
    rows: list[list[Cell]] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    cut: bool = False
    drawn: list[str] = field(default_factory=list)
    blank_formulas: int = 0
    packed: list[str] = field(default_factory=list)
    hidden: set[int] = field(default_factory=set)
    hidden_rows: int = 0
    columns: int = 0
    _filled: int = 0  # cells
    _filled_together: int = 0  # cells since the last blank row
    count: int = 0
    filled_rows: int = 0
    _waiting: list[DataRow] = field(default_factory=list)

    def take(self, row: list[Cell], budget: CellBudget) -> bool:
        """Append a row without the blank cells at its end. Return False, and mark the sheet as cut, at a limit.

        After `LARGE_CELLS` cells without a blank row, rows are packed to save memory. Many small tables on one sheet
        are written out up to `_MAX_SHOWN_CELLS`.
        """
        while row and not row[-1].text:
            row.pop()
        self.columns = max(self.columns, len(row))
        del row[MAX_COLUMNS:]
        filled = _filled(row)
        budget.cells -= filled
        self.cut = budget.cells < 0 or self.filled_rows + (filled > 0) > MAX_ROWS
        if self.cut:
            return False
        self.count += 1
        is_hidden = self.count - 1 in self.hidden
        self.hidden_rows += is_hidden and bool(row)
        self.filled_rows += bool(row)
        if self._filled_together < LARGE_CELLS and self._filled < _MAX_SHOWN_CELLS:
            self.rows.append(row)
            self._filled += filled
            self._filled_together = self._filled_together + filled if filled else 0
        elif row and not is_hidden:
            self._waiting.append(data_row(self.count, row))
            if len(self._waiting) >= _PACKED_ROWS:
                self.pack()
        return True

    def pack(self) -> None:
        """Pack the rows that wait; to be called after the last row."""
        if self._waiting:
            self.packed.append(pack_rows(self._waiting))
            self._waiting = []


@dataclass
class SheetText:
    """A sheet as Markdown, with its tables in order."""

    markdown: str
    tables: list[GridTable]


@dataclass
class CellBudget:
    """The number of filled cells of the file that may still be read."""

    cells: int = MAX_CELLS


def chart_sheet(chart: Chart) -> Sheet:
    """Return the numbers of a chart as a sheet without a name."""
    return Sheet("", [[cell_of_text(text) for text in row] for row in chart.rows])


def sheet_text(sheet: Sheet, level: int = 2) -> SheetText:
    """Return a sheet as Markdown below its name as a heading, with its tables; empty if the sheet is empty."""
    _fill_down(sheet)
    for index in sheet.hidden:
        if index < len(sheet.rows):
            sheet.rows[index] = []
    blocks = _tables(_blocks(sheet, _merges_by_row(sheet)))
    found = [piece for block in blocks for side in block.sides() for piece in side.pieces()]
    tables = [piece for piece in found if isinstance(piece, GridTable)]
    if sheet.packed and tables:
        tables[-1].packed = sheet.packed
    pieces = [piece if isinstance(piece, str) else _shown_table(piece, sheet.name) for piece in found]
    pieces += sheet.drawn
    if not pieces:
        return SheetText("", [])
    heading = [f"{'#' * level} {without_tags(_line(sheet.name))}"] if sheet.name else []
    return SheetText("\n\n".join(heading + _title_pieces(pieces, level + 1)) + "\n", tables)


def _shown_table(table: GridTable, sheet: str) -> str:
    """Return a table as Markdown; of a large one, a description and its first rows."""
    table.sheet = sheet
    labels = table.labels or [""] * len(table.columns)
    rows = table.rows
    description: list[str] = []
    if table.packed or len(table.rows) * len(table.columns) > LARGE_CELLS:
        rows = table.rows[:SAMPLE_ROWS]
        first, *columns = description_of(table, len(rows))
        table.description = first
        description = [first, "\n".join(f"- {escape_line(_line(column))}" for column in columns)]
    table.lines = 2 + len(rows)
    lines = [row_markdown(labels), rule_below(labels), *(row_markdown(row.cells) for row in rows)]
    return "\n\n".join([*description, "\n".join(lines)])


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
            row += [EMPTY_CELL] * (merge.left + 1 - len(row))
            row[merge.left] = cell


def _merges_by_row(sheet: Sheet) -> dict[int, list[Merge]]:
    """Return the horizontally merged cells by row."""
    merges = [merge for merge in sheet.merges if merge.right - merge.left > 1]
    return group_pairs((row, each) for each in merges for row in range(each.top, min(each.bottom, each.top + 10)))


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
        if len(columns) == 1:
            return {}
        return {
            column: grid[at][place].is_words
            and any(row[place].text and not row[place].is_words for row in grid[at + 1 :])
            for place, column in enumerate(columns)
        }

    def continues(self, figures: dict[int, bool]) -> bool:
        """Return whether the first row continues the table above: it has a figure in one of the figure columns."""
        return {*self._columns()} <= figures.keys() and any(
            cell.text and not cell.is_words and figures[column] and not _YEAR.fullmatch(cell.text)
            for column, cell in enumerate(self.rows[0][:MAX_COLUMNS])
        )

    def _grid(self, columns: Sequence[int]) -> list[list[Cell]]:
        return [[row[column] if column < len(row) else EMPTY_CELL for column in columns] for row in self.rows]

    def sides(self) -> list[_CellBlock]:
        """Split tables that are side by side, with blank columns between them.

        Their last rows differ, or each of them has names for its rows and figures.
        """
        groups = runs(self._columns(), lambda before, column: column == before + 1)
        if len(groups) < 2 or min(map(len, groups)) < 2:
            return [self]
        ends = {max(index for index, row in enumerate(self._grid(group)) if _filled(row)) for group in groups}
        if (len(ends) < len(groups) or max(ends) - min(ends) < 2) and not all(map(self._is_table, groups)):
            return [self]
        sides: list[_CellBlock] = []
        for group in groups:
            kept = {*group}
            rows = [[cell if index in kept else EMPTY_CELL for index, cell in enumerate(row)] for row in self.rows]
            filled = [index for index, row in enumerate(rows) if any(cell.text for cell in row)]
            sides.append(_CellBlock(self.first + filled[0], rows[filled[0] : filled[-1] + 1], self.spanned))
        return sides

    def _is_table(self, columns: Sequence[int]) -> bool:
        """Return whether columns have a header, and below it a different name for each row, and figures."""
        grid = [row for row in self._grid(columns) if any(cell.text for cell in row)]
        header, *rows = grid[_header_row(grid) :]
        names = [row[0].text for row in rows if row[0].is_words]
        is_named = len({*names}) == len(rows) > 1 and all(cell.is_words for cell in header)
        return is_named and any(cell.text and not cell.is_words for row in rows for cell in row)

    def pieces(self) -> list[str | GridTable]:
        """Return the lines as Markdown, and the table."""
        columns = self._columns()
        if len(columns) == 1:
            return [*_lines_of([row[columns[0]] if columns[0] < len(row) else EMPTY_CELL for row in self.rows])]
        grid = self._grid(columns)
        at = _header_row(grid)
        first = at
        header = [cell.text for cell in grid[at]]
        while at and (upper := self._upper_names(at - 1, columns, grid[at - 1], header)):
            header = _join_header_rows(upper, header)
            at -= 1
        above = [row for row in grid[:at] if any(cell.text for cell in row)]
        body = [(number, row) for number, row in enumerate(grid) if number > first and any(cell.text for cell in row)]
        below: list[list[Cell]] = []
        while body and len(columns) > 2 and _filled(body[-1][1]) == 1 and body[-1][1][0].is_words and len(body) > 1:
            below.insert(0, body.pop()[1])
        shown = [[cell.text for cell in row] for _, row in body]
        labels = [] if has_no_labels([cell.text for cell in grid[first]], shown) else header
        if not labels:
            body.insert(0, (first, grid[first]))
        elif shown and (joined := join_labels(labels, shown)):
            labels = joined
            body.pop(0)
        rows = [data_row(self.first + number + 1, row) for number, row in body]
        table = GridTable(0, [_line(label) for label in labels], columns, rows)
        return [*map(_join_row, above), table, *map(_join_row, below)]

    def _columns(self) -> list[int]:
        """Return the columns that are not empty."""
        return sorted({index for row in self.rows for index, cell in enumerate(row[:MAX_COLUMNS]) if cell.text})

    def _upper_names(
        self, index: int, columns: Sequence[int], upper: Sequence[Cell], lower: Sequence[str]
    ) -> list[str]:
        """Return the names of a row above the header, each over all columns that it groups; empty if it groups none."""
        merges = self.spanned.get(self.first + index, [])
        if any(0 < sum(merge.left <= column < merge.right for column in columns) < len(columns) for merge in merges):
            # A merged cell is repeated in each of its columns.
            places = [next((m.left for m in reversed(merges) if m.left <= at < m.right), at) for at in columns]
            row = self.rows[index]
            return [row[place].text if place < len(row) else "" for place in places]
        return _spread_names(upper, lower)


def _blocks(sheet: Sheet, spanned: dict[int, list[Merge]]) -> Iterable[_CellBlock]:
    begin: int | None = None
    for index, row in enumerate([*sheet.rows, []]):
        if any(cell.text for cell in row):
            begin = index if begin is None else begin
        elif begin is not None and (index not in sheet.hidden or index == len(sheet.rows)):
            yield _CellBlock(begin, sheet.rows[begin:index], spanned)
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


def _spread_names(upper: Sequence[Cell], lower: Sequence[str]) -> list[str]:
    """Repeat names above a header over the columns that they group, without merged cells; return [] if they group none.

    They group columns if they stand at equal distances, but not above the first column, or if they tell repeated names
    of the header apart, such as "Plan" and "Actual" above "Jan, Feb, Jan, Feb, Total".
    """
    starts = [at for at, cell in enumerate(upper) if cell.text]
    widths = {after - before for before, after in pairwise([*starts, len(upper)])}
    is_even = len(starts) > 1 and starts[0] > 0 and len(widths) == 1 and 1 not in widths
    repeated = {name for name, count in Counter(lower).items() if name and count > 1}
    if not all(_may_be_name(cell) for cell in upper if cell.text):
        return []
    name = ""
    spread: list[str] = []
    for cell, under in zip(upper, lower, strict=True):
        name = cell.text or name
        spread.append(cell.text or (name if is_even or under in repeated else ""))
    joined = [(over, under) for over, under in zip(spread, lower, strict=True) if under in repeated]
    return spread if is_even or (all(over for over, _ in joined) and len({*joined}) > len(repeated)) else []


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
            return _incomplete_header(grid, index, usual)
    return next((index for index, row in enumerate(grid) if _filled(row) > 1), 0)


def _incomplete_header(grid: Sequence[Sequence[Cell]], full: int, usual: Sequence[int]) -> int:
    """Return the row of names above the first full row of a table if that is a row of data; otherwise the full row.

    A row of data has figures. In a table of words, a row above it is a header if it has a name for most columns and for
    the last one.
    """
    named = [at for at in range(full) if all(_may_be_name(cell) for cell in grid[at] if cell.text)]
    named = [at for at in named if any(cell.text for cell in grid[at][1:])]
    if not named:
        return full
    best = max(named, key=lambda at: _filled(grid[at]))
    names_last = bool(grid[best][usual[-1]].text)
    first, *rows = [[cell.text for cell in row] for row in grid[full:]]
    if any(cell.text and not _may_be_name(cell) for cell in grid[full]):
        names_several = names_last or _filled(grid[best][1:]) > 1
        return best if names_several or has_no_labels(first, rows) else full  # the days of a month may be names
    has_figures = any(cell.text and not cell.is_words for row in grid[full + 1 :] for cell in row)
    count = sum(1 for column in usual if grid[best][column].text)
    return best if names_last and 2 * count > len(usual) > 2 and not has_figures else full


def _may_be_name(cell: Cell) -> bool:
    """Return whether a cell may be a column name: it has words or a year."""
    return cell.is_words or bool(_YEAR.fullmatch(cell.text))


def _join_header_rows(upper: Sequence[str], lower: Sequence[str]) -> list[str]:
    """Join the two rows of a header: "2023" above "Q1" becomes "2023 Q1"."""
    pairs = zip(upper, lower, strict=True)
    return [under if over == under or not over else f"{over} {under}".strip() for over, under in pairs]


def _join_row(row: Sequence[Cell]) -> str:
    """Return a row outside of tables as a line."""
    return escape_line(" ".join(cell.text for cell in row if cell.text))


def _lines_of(cells: Sequence[Cell]) -> list[str]:
    """Return a single column as lines of text, or as a list if they are short."""
    texts = [escape_line(_line(cell.text)) for cell in cells if cell.text]
    if len(texts) < 3 or sum(map(len, texts)) > 80 * len(texts):
        return texts
    return ["\n".join(f"- {text}" for text in texts)]


_BLOCK_START = re.compile(r"(?=[#>+*~`|=-]|\d{1,9}[.)](?:\s|$))")


def escape_line(line: str) -> str:
    """Escape a line that would be read as a heading, a list item, a rule or HTML."""
    line = without_tags(line)
    if _BLOCK_START.match(line):
        number = re.match(r"\d+", line)
        at = number.end() if number else 0
        return f"{line[:at]}\\{line[at:]}"
    return line


def _line(text: str) -> str:
    return " ".join(text.split())
