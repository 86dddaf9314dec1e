"""Finds tables with rules around their cells, or only between their rows."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

from turnmark.core.grouping import group_pairs, join_neighbors, runs
from turnmark.corpora.readers.pdf.page.boxes import PdfColumn, PdfLine, PdfTable, Segment, lines_of
from turnmark.corpora.readers.pdf.page.page_records import Rule
from turnmark.corpora.readers.pdf.tables.table_cells import align_cells, cut_segment, join_cell_lines, table_of

MAX_RULES = 4_000  # on one page; a plot has more
_MAX_PAIRS = 400_000  # of a horizontal and a vertical rule
_MAX_CELLS = 5_000
_MAX_MEETING_GAP = 3.0  # points; rules that end closer together meet
_MIN_ROW_RULE_LENGTH = 60  # points; a shorter rule does not separate rows
_MIN_COLUMN_LINES = 5  # of figures in one cell that make it a column of a table
_NUMBER_START = re.compile(r"[^\w\s]?\s?\d|[-–—.(]|X\b|n/?a\b", re.IGNORECASE)
_MAX_DIAGRAM_SHARE = 0.5  # of the length that the inner rules of a table would have
_MAX_END_DIFFERENCE = 4  # points between the ends of the rules of one table

RuleGrid = tuple[list[Rule], list[Rule]]  # horizontal and vertical rules
_CellSegments = list[Segment]
_TableSearch = tuple[PdfTable | None, list[Segment]]  # a table, and the segments outside it


def find_ruled_tables(segments: Sequence[Segment], rules: Sequence[Rule]) -> tuple[list[PdfTable], list[Segment]]:
    """Return the tables with rules around or between their rows, and the segments outside all of them."""
    rest = list(segments)
    if len(rules) > MAX_RULES:
        return [], rest
    across, down = _sorted_rules(rules)
    tables: list[PdfTable] = []
    grids = _grids(across, down)
    for grid in grids:
        table, rest = _grid_table(grid, rest)
        tables += [table] if table else []
    used = {rule for flat, _ in grids for rule in flat} if tables else set()
    for stripe in _rule_groups([rule for rule in across if rule not in used], rest):
        table, rest = _striped_table(stripe, rest)
        tables += [table] if table else []
    return tables, rest


def _merge_rules(rules: Iterable[Rule]) -> list[Rule]:
    """Join the pieces of horizontal rules that touch."""

    def join(last: Rule, rule: Rule) -> Rule | None:
        meets = abs(last.y0 - rule.y0) <= 1.5 and rule.x0 <= last.x1 + _MAX_MEETING_GAP
        return last._replace(x1=max(last.x1, rule.x1)) if meets else None

    return join_neighbors(sorted(rules, key=lambda rule: (round(rule.y0), rule.x0)), join)


def _merge_vertical_rules(rules: Iterable[Rule]) -> list[Rule]:
    turned = _merge_rules(Rule(rule.y0, rule.x0, rule.y1, rule.x1) for rule in rules)
    return [Rule(rule.y0, rule.x0, rule.y1, rule.x1) for rule in turned]


def _split_by_box(
    segments: Sequence[Segment], x0: float, x1: float, y0: float, y1: float
) -> tuple[list[Segment], list[Segment]]:
    """Return the segments inside a box, and the others."""
    inside: list[Segment] = []
    outside: list[Segment] = []
    for segment in segments:
        middle = (segment.x0 + segment.x1) / 2
        is_in = x0 - _MAX_MEETING_GAP <= middle <= x1 + _MAX_MEETING_GAP and y0 <= _height(segment) <= y1
        (inside if is_in else outside).append(segment)
    return inside, outside


def _height(segment: Segment) -> float:
    return segment.base + 0.3 * segment.size


# --- lines around cells ----------------------------------------------------------------------------------------------


def rule_grids(rules: Sequence[Rule]) -> list[RuleGrid]:
    """Return the groups of rules that meet; none on a page with as many rules as a plot."""
    return _grids(*_sorted_rules(rules)) if len(rules) <= MAX_RULES else []


def _sorted_rules(rules: Sequence[Rule]) -> RuleGrid:
    """Return the horizontal and the vertical rules, each with its pieces joined."""
    across = _merge_rules(rule for rule in rules if rule.y0 == rule.y1 and rule.x1 - rule.x0 > 8)
    return across, _merge_vertical_rules(rule for rule in rules if rule.x0 == rule.x1 and rule.y1 - rule.y0 > 4)


def _grids(across: Sequence[Rule], down: Sequence[Rule]) -> list[RuleGrid]:
    """Return the groups of rules that meet."""
    if not down or len(across) * len(down) > _MAX_PAIRS:
        return []
    parent = list(range(len(across) + len(down)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for first, flat in enumerate(across):
        for second, upright in enumerate(down, len(across)):
            meets = flat.x0 - _MAX_MEETING_GAP <= upright.x0 <= flat.x1 + _MAX_MEETING_GAP
            if meets and upright.y0 - _MAX_MEETING_GAP <= flat.y0 <= upright.y1 + _MAX_MEETING_GAP:
                parent[root(first)] = root(second)
    groups: dict[int, RuleGrid] = {}
    for index, rule in enumerate([*across, *down]):
        groups.setdefault(root(index), ([], []))[index >= len(across)].append(rule)
    return [(flat, upright) for flat, upright in groups.values() if len(flat) >= 2 and upright]


def _grid_table(grid: RuleGrid, segments: list[Segment]) -> _TableSearch:
    """Return the table whose cells a group of rules draws, or None if they frame text or are part of a picture."""
    across, down = grid
    ends = [end for rule in down for end in (rule.y0, rule.y1)]  # there may be no rule above the first row
    heights = _merge_close_values([*(rule.y0 for rule in across), min(ends), max(ends)])
    edges = _merge_close_values([*(r.x0 for r in down), min(r.x0 for r in across), max(r.x1 for r in across)])
    count = (len(heights) - 1) * (len(edges) - 1)
    if len(heights) < 3 or len(edges) < 3 or count > _MAX_CELLS:
        return None, segments
    if _is_diagram(grid, heights, edges):
        return None, segments
    box = edges[0], edges[-1], heights[0], heights[-1]
    inside, outside = _split_by_box(segments, *box)
    rows = _in_cells(inside, heights, edges)
    if sum(bool(cell) for row in rows for cell in row) < max(3, 0.3 * count):
        return None, segments
    texts = _split_rows(rows) if len(rows) <= 3 else None
    figures = [cell for cell in rows[-1] if _has_mostly_numbers(cell)]
    has_columns = any(len(cell) >= 1.6 * len(_lines(cell)) for cell in figures)  # wide gaps divide most lines
    if texts and figures and (len(texts) == len(rows) or has_columns):
        texts = _table_of_words(inside, heights[1]) or texts  # the rules separate neither rows nor columns
    if not texts:
        texts = [[join_cell_lines(_lines(cell)) for cell in row] for row in rows]
        _fill_spanning_cells(texts, grid, heights, edges)
    table = table_of(texts, *box)
    return (table, outside) if table else (None, segments)


def _fill_spanning_cells(
    rows: list[list[str]], grid: RuleGrid, heights: Sequence[float], edges: Sequence[float]
) -> None:
    """Repeat the text of each cell that spans rows in all of them; no rule divides its rows.

    Rules must divide these rows in most other columns, and the cell must have text in only one of them.
    """
    middles = [(left + right) / 2 for left, right in pairwise(edges)]
    ruled = [_ruled_at(middle, grid, heights) for middle in middles]
    for column in range(len(middles)):
        for start, end in pairwise(sorted(ruled[column])):
            filled = [text for row in rows[start:end] if (text := row[column])]
            divided = all(2 * sum(at in each for each in ruled) >= len(middles) for at in range(start + 1, end))
            if start and end - start > 1 and len(filled) == 1 and divided:
                for row in rows[start:end]:
                    row[column] = filled[0]


def _ruled_at(place: float, grid: RuleGrid, heights: Sequence[float]) -> set[int]:
    """Return the numbers of the row edges, from the top, that a rule draws at a place of the width."""
    drawn = [rule.y0 for rule in grid[0] if rule.x0 < place < rule.x1]
    return {
        index
        for index, height in enumerate(reversed(heights))
        if any(abs(edge - height) <= _MAX_MEETING_GAP for edge in drawn)
    }


def _is_diagram(grid: RuleGrid, heights: Sequence[float], edges: Sequence[float]) -> bool:
    """Return whether rules are boxes and connectors: neither those between rows nor those between columns go through.

    Args:
        heights: heights of the rules, ascending; `edges` are the places of the vertical ones.
    """
    across, down = grid
    flat = [rule.x1 - rule.x0 for rule in across if _is_inner(rule.y0, heights)]
    upright = [rule.y1 - rule.y0 for rule in down if _is_inner(rule.x0, edges)]
    wide = sum(flat) / max(1.0, (len(heights) - 2) * (edges[-1] - edges[0]))
    high = sum(upright) / max(1.0, (len(edges) - 2) * (heights[-1] - heights[0]))
    return max(wide, high) <= _MAX_DIAGRAM_SHARE


def _is_inner(place: float, places: Sequence[float]) -> bool:
    return places[0] + _MAX_MEETING_GAP < place < places[-1] - _MAX_MEETING_GAP


def _merge_close_values(values: Iterable[float]) -> list[float]:
    """Return the values in ascending order, merging those that are closer than the width of a rule."""
    return join_neighbors(sorted(values), lambda kept, value: kept if value - kept <= _MAX_MEETING_GAP else None)


def _in_cells(
    segments: Sequence[Segment], heights: Sequence[float], edges: Sequence[float]
) -> list[list[_CellSegments]]:
    rows, columns = len(heights) - 1, len(edges) - 1
    cells: list[list[_CellSegments]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for segment in segments:
        row = rows - min(rows, max(1, bisect_right(heights, _height(segment))))
        for piece in cut_segment(segment, edges):
            column = min(columns, max(1, bisect_right(edges, (piece.x0 + piece.x1) / 2))) - 1
            cells[row][column].append(piece)
    return cells


def _split_rows(rows: Sequence[Sequence[_CellSegments]]) -> list[list[str]] | None:
    """Split the rows of a grid into lines of text, wherever all cells of a row have equally many lines.

    Returns:
        None if the cells of a row do not begin at the same height.
    """
    split: list[list[str]] = []
    for row in rows:
        cells = [_lines(cell) for cell in row]
        counts = {len(lines) for lines in cells if lines}
        if len(counts) != 1 or counts == {1}:
            split.append([" ".join(lines) for lines in cells])
            continue
        lowest = [min(segment.base for segment in cell) for cell in row if cell]
        if max(lowest) - min(lowest) > 2:
            return None
        (count,) = counts
        split += [[lines[index] if lines else "" for lines in cells] for index in range(count)]
    return split


def _table_of_words(segments: Sequence[Segment], edge: float) -> list[list[str]] | None:
    """Return the rows and columns that words form below a rule; the words above it name the columns."""
    lines = _rows_of(segments)
    above = sum(line.base > edge for line in lines)
    rows, body = align_cells(lines), align_cells(lines[above:])
    if rows is None or body is None or len(rows) != above + len(body):
        return rows
    return [[join_cell_lines(list(filter(None, names))) for names in zip(*rows[:above], strict=True)], *rows[above:]]


def _has_mostly_numbers(cell: _CellSegments) -> bool:
    """Return whether a cell has many lines, most of which begin with a figure or a mark for a missing one."""
    lines = _lines(cell)
    figures = sum(bool(_NUMBER_START.match(line)) for line in lines)
    return len(lines) >= _MIN_COLUMN_LINES and figures > 0.8 * len(lines)


def _lines(cell: _CellSegments) -> list[str]:
    return [line.text for line in PdfColumn(lines_of(cell)).lines]


# --- lines between rows only -----------------------------------------------------------------------------------------


def _rule_groups(across: Sequence[Rule], segments: Sequence[Segment]) -> Iterator[list[Rule]]:
    """Yield groups of rules, from the top, that may form a table: equally long, with cells between them."""
    groups: list[list[Rule]] = []
    for rule in sorted(across, key=lambda rule: -rule.y0):
        if rule.x1 - rule.x0 >= _MIN_ROW_RULE_LENGTH:
            group = next((group for group in groups if _is_as_long(group[0], rule)), None)
            if group is None:
                groups.append(group := [])
            group.append(rule)
    for group in groups:
        yield from (run for run in runs(group, partial(_has_cells_between, segments)) if len(run) > 1)


def _is_as_long(first: Rule, second: Rule) -> bool:
    return abs(first.x0 - second.x0) <= _MAX_END_DIFFERENCE and abs(first.x1 - second.x1) <= _MAX_END_DIFFERENCE


def _has_cells_between(segments: Sequence[Segment], top: Rule, bottom: Rule) -> bool:
    """Return whether most rows between two rules have several cells and are not code."""
    inside, _ = _split_by_box(segments, top.x0, top.x1, bottom.y0, top.y0)
    rows = group_pairs((round(segment.base / 3), segment) for segment in inside)
    mono = sum(all(word.mono for word in segment.words) for segment in inside)
    if not rows or (len(rows) > 1 and mono > 0.9 * len(inside)):
        return False
    several = sum(len(row) > 1 for row in rows.values())
    long = sum(any(segment.x1 - segment.x0 > 0.75 * (top.x1 - top.x0) for segment in row) for row in rows.values())
    return several >= 0.4 * len(rows) and long <= 0.3 * len(rows)


def _striped_table(rules: Sequence[Rule], segments: list[Segment]) -> _TableSearch:
    """Return the table between rules: the first is above it, the last below."""
    top, *inner, bottom = rules
    box = top.x0, top.x1, bottom.y0, top.y0
    inside, outside = _split_by_box(segments, *box)
    # A table with longer or shorter rules may already contain all of the text.
    cells = align_cells(_rows_of(inside), breaks=[rule.y0 for rule in inner]) if inside else None
    table = table_of(cells, *box) if cells else None
    return (table, outside) if table else (None, segments)


def _rows_of(segments: Sequence[Segment]) -> list[PdfLine]:
    lines: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: (-segment.base, segment.x0)):
        if lines and abs(lines[-1][0].base - segment.base) < 0.35 * segment.size:
            lines[-1].append(segment)
        else:
            lines.append([segment])
    return [PdfLine(sorted(line, key=lambda segment: segment.x0)) for line in lines]
