"""Tables of a page: those with ruled lines, and those whose cells are only aligned."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from turnmark.corpora.readers.pdf.glyphs import Rule, Word
from turnmark.corpora.readers.pdf.layout import Column, Item, Line, Segment, Table

MAX_RULES = 4_000  # of a page; a plot has more
_NEAR = 3.0  # points: lines that end this near to each other meet
_GAP = 4.0  # points between two columns
_SENTENCE = 45  # characters: longer cells beside a term explain it
_MARKER = re.compile(r"(?:[•‣◦▪–—*·■□○●✓➢-]|\(?(?:\d{1,3}|[A-Za-z]|[ivx]{1,5})[.)]|\[\d{1,3}\])$")
_NUMBER = re.compile(r"(?:(?:Chapter|Appendix|Part|Section)\s+)?(?:[A-Z]|\d{1,3})(?:\.\d{1,3})*[.:]?$", re.IGNORECASE)
_WORDY = re.compile(r"[^\W\d_]{2}|\d")  # a word or a number, as few pieces of a formula are
_EQUATION = re.compile(r"\(\d{1,3}(?:\.\d{1,3})?[a-z]?\)$")


def ruled_tables(segments: Sequence[Segment], rules: Sequence[Rule]) -> tuple[list[Table], list[Segment]]:
    """The tables that lines are drawn around or between, and the segments that are in none of them."""
    if not rules or len(rules) > MAX_RULES:
        return [], list(segments)
    across = _merged([rule for rule in rules if rule.y0 == rule.y1 and rule.x1 - rule.x0 > 8])
    down = _merged_down([rule for rule in rules if rule.x0 == rule.x1 and rule.y1 - rule.y0 > 4])
    tables: list[Table] = []
    rest = list(segments)
    for group_across, group_down in _grids(across, down):
        table, rest = _grid_table(group_across, group_down, rest)
        tables += [table] if table else []
    used = {rule for group, _ in _grids(across, down) for rule in group} if tables else set()
    for top, bottom, inner in _stripes([rule for rule in across if rule not in used], rest):
        table, rest = _lined_table(top, bottom, inner, rest)
        tables += [table] if table else []
    return tables, rest


def _merged(rules: Sequence[Rule]) -> list[Rule]:
    """Lines across; pieces that touch are one."""
    merged: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: (round(rule.y0), rule.x0)):
        last = merged[-1] if merged else None
        if last and abs(last.y0 - rule.y0) <= 1.5 and rule.x0 <= last.x1 + _NEAR:
            merged[-1] = last._replace(x1=max(last.x1, rule.x1))
        else:
            merged.append(rule)
    return merged


def _merged_down(rules: Sequence[Rule]) -> list[Rule]:
    turned = _merged([Rule(rule.y0, rule.x0, rule.y1, rule.x1) for rule in rules])
    return [Rule(rule.y0, rule.x0, rule.y1, rule.x1) for rule in turned]


def _grids(across: Sequence[Rule], down: Sequence[Rule]) -> list[tuple[list[Rule], list[Rule]]]:
    """Groups of lines that meet; each has lines across and down."""
    if not down or len(across) * len(down) > 400_000:
        return []
    parent = list(range(len(across) + len(down)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    for first, flat in enumerate(across):
        for second, upright in enumerate(down, len(across)):
            meets = flat.x0 - _NEAR <= upright.x0 <= flat.x1 + _NEAR
            if meets and upright.y0 - _NEAR <= flat.y0 <= upright.y1 + _NEAR:
                parent[root(first)] = root(second)
    groups: dict[int, tuple[list[Rule], list[Rule]]] = {}
    for index, rule in enumerate([*across, *down]):
        groups.setdefault(root(index), ([], []))[index >= len(across)].append(rule)
    return [group for group in groups.values() if len(group[0]) >= 2 and len(group[1]) >= 1]


def _distinct(values: Iterable[float]) -> list[float]:
    """Values in ascending order, those nearer than a line is thick once."""
    distinct: list[float] = []
    for value in sorted(values):
        if not distinct or value - distinct[-1] > _NEAR:
            distinct.append(value)
    return distinct


def _grid_table(
    across: Sequence[Rule], down: Sequence[Rule], segments: list[Segment]
) -> tuple[Table | None, list[Segment]]:
    """The table whose cells a group of lines draws; None where they frame a text or draw a picture."""
    ends = [*(rule.y0 for rule in down), *(rule.y1 for rule in down)]  # no line may be drawn above the first row
    heights = _distinct([*(rule.y0 for rule in across), min(ends), max(ends)])
    edges = _distinct([*(rule.x0 for rule in down), min(r.x0 for r in across), max(r.x1 for r in across)])
    if len(heights) < 2 or len(edges) < 3:
        return None, segments
    x0, x1, y0, y1 = edges[0], edges[-1], heights[0], heights[-1]
    inside, outside = _parted(segments, x0, x1, y0, y1)
    rows, columns = len(heights) - 1, len(edges) - 1
    if not inside or rows * columns < 2 or rows * columns > 5000:
        return None, segments
    grid: list[list[list[Segment]]] = [[[] for _ in range(columns)] for _ in range(rows)]
    for segment in inside:
        middle = segment.base + 0.3 * segment.size
        row = rows - min(rows, max(1, bisect_right(heights, middle)))
        for piece in _pieces(segment, edges):
            column = min(columns, max(1, bisect_right(edges, (piece.x0 + piece.x1) / 2))) - 1
            grid[row][column].append(piece)
    cells = [[_cell(cell) for cell in row] for row in grid]
    filled = sum(bool(cell) for row in cells for cell in row)
    if rows == 1 and columns > 1:
        return None, segments
    if filled < max(3, 0.3 * rows * columns):
        return None, segments
    if rows <= 3:
        split = _split_rows(grid)
        cells = split if split is not None else cells
    return _table(cells, x0, x1, y0, y1), outside


def _split_rows(grid: list[list[list[Segment]]]) -> list[list[str]] | None:
    """A grid without lines between its rows: a line of text is a row where all cells of a row have as many lines."""
    rows: list[list[str]] = []
    for row in grid:
        cells = [_cell_lines(cell) for cell in row]
        counts = {len(lines) for lines in cells if lines}
        if len(counts) != 1 or counts == {1}:
            rows.append([" ".join(lines) for lines in cells])
            continue
        bases = [[segment.base for segment in cell] for cell in row if cell]
        if max(map(min, bases)) - min(map(min, bases)) > 2:
            return None
        (count,) = counts
        rows += [[lines[index] if lines else "" for lines in cells] for index in range(count)]
    return rows


def _pieces(segment: Segment, edges: Sequence[float]) -> list[Segment]:
    """A segment, cut where a line down goes between its words."""
    pieces: list[list[Word]] = []
    last = -1
    for word in segment.words:
        column = bisect_right(edges, (word.x0 + word.x1) / 2)
        if column != last:
            pieces.append([])
            last = column
        pieces[-1].append(word)
    return [segment] if len(pieces) == 1 else [Segment(words) for words in pieces]


def _parted(
    segments: Sequence[Segment], x0: float, x1: float, y0: float, y1: float
) -> tuple[list[Segment], list[Segment]]:
    """The segments inside a box, and the others."""
    inside: list[Segment] = []
    outside: list[Segment] = []
    for segment in segments:
        middle, height = (segment.x0 + segment.x1) / 2, segment.base + 0.3 * segment.size
        is_in = x0 - _NEAR <= middle <= x1 + _NEAR and y0 <= height <= y1
        (inside if is_in else outside).append(segment)
    return inside, outside


def _cell_lines(segments: Sequence[Segment]) -> list[str]:
    lines: list[tuple[float, list[str]]] = []
    for segment in sorted(segments, key=lambda segment: (-round(segment.base), segment.x0)):
        if lines and abs(lines[-1][0] - segment.base) < 0.4 * segment.size:
            lines[-1][1].append(segment.text)
        else:
            lines.append((segment.base, [segment.text]))
    return [" ".join(texts) for _, texts in lines]


def _cell(segments: Sequence[Segment]) -> str:
    return join_lines(_cell_lines(segments))


def join_lines(lines: Sequence[str]) -> str:
    """Lines of a cell as one; a word divided at the end of a line is whole again."""
    text = ""
    for line in lines:
        if re.search(r"(?<![^\s(])[^\W\d_]{2,}-$", text) and line[:1].islower():
            text = text[:-1] + line
        elif re.search(r"\w-$", text) and line[:1].isalnum():
            text += line
        else:
            text = f"{text} {line}" if text else line
    return text


def _table(rows: list[list[str]], x0: float, x1: float, y0: float, y1: float) -> Table | None:
    """A table without its empty rows and columns; None if no two columns and two rows are left."""
    rows = [row for row in rows if any(row)]
    kept = [index for index in range(len(rows[0]) if rows else 0) if any(row[index] for row in rows)]
    if len(kept) < 2 or len(rows) < 2:
        return None
    return Table([[row[index] for index in kept] for row in rows], x0, x1, y0, y1)


# --- lines between rows only -----------------------------------------------------------------------------------------


def _stripes(across: Sequence[Rule], segments: Sequence[Segment]) -> list[tuple[Rule, Rule, list[Rule]]]:
    """Top line, bottom line and the lines between of what may be tables: lines as long as each other, cells between."""
    groups: list[list[Rule]] = []
    for rule in sorted(across, key=lambda rule: -rule.y0):
        if rule.x1 - rule.x0 < 60:
            continue
        same = [g for g in groups if abs(g[0].x0 - rule.x0) <= 4 and abs(g[0].x1 - rule.x1) <= 4]
        if same:
            same[0].append(rule)
        else:
            groups.append([rule])
    found = []
    for group in groups:
        run: list[Rule] = []
        for top, bottom in pairwise(group):
            inside, _ = _parted(segments, top.x0, top.x1, bottom.y0, top.y0)
            if _is_tabular(inside, top.x1 - top.x0):
                run = [*run, bottom] if run else [top, bottom]
            elif run:
                found.append((run[0], run[-1], run[1:-1]))
                run = []
        if run:
            found.append((run[0], run[-1], run[1:-1]))
    return found


def _is_tabular(segments: Sequence[Segment], width: float) -> bool:
    """Whether most rows between two lines have several cells."""
    rows: dict[int, list[Segment]] = {}
    for segment in segments:
        rows.setdefault(round(segment.base / 3), []).append(segment)
    if not rows:
        return False
    if any(all(word.mono for word in segment.words) for segment in segments) and len(rows) > 1:
        mono = sum(all(word.mono for word in segment.words) for segment in segments)
        if mono > 0.9 * len(segments):
            return False
    several = sum(len(row) > 1 for row in rows.values())
    long = sum(any(segment.x1 - segment.x0 > 0.75 * width for segment in row) for row in rows.values())
    return several >= 0.4 * len(rows) and long <= 0.3 * len(rows)


def _lined_table(
    top: Rule, bottom: Rule, inner: Sequence[Rule], segments: list[Segment]
) -> tuple[Table | None, list[Segment]]:
    inside, outside = _parted(segments, top.x0, top.x1, bottom.y0, top.y0)
    lines = _rows_of(inside)
    cells = cells_of(lines, breaks=[rule.y0 for rule in inner])
    if cells is None:
        return None, segments
    table = _table(cells, top.x0, top.x1, bottom.y0, top.y0)
    return (table, outside) if table else (None, segments)


def _rows_of(segments: Sequence[Segment]) -> list[Line]:
    lines: list[list[Segment]] = []
    for segment in sorted(segments, key=lambda segment: (-segment.base, segment.x0)):
        if lines and abs(lines[-1][0].base - segment.base) < 0.35 * segment.size:
            lines[-1].append(segment)
        else:
            lines.append([segment])
    return [Line(sorted(line, key=lambda segment: segment.x0)) for line in lines]


# --- no lines at all -------------------------------------------------------------------------------------------------


def with_open_tables(column: Column) -> Column:
    """The column with the runs of lines that are rows of a table as tables."""
    items: list[Item] = []
    run: list[Line] = []
    for item in [*column.items, None]:
        if isinstance(item, Line) and _joins(run, item):
            run.append(item)
            continue
        items += _closed(run)
        run = [item] if isinstance(item, Line) and _has_cells(item) else []
        if item is not None and not run:
            items.append(item)
    return Column(items)


def _has_cells(line: Line) -> bool:
    first, *others = line.segments
    if not others or line.share("mono") > 0.9:
        return False
    if len(others) == 1 and (_MARKER.match(first.text) or _EQUATION.match(others[0].text)):
        return False
    return not (_NUMBER.match(first.text) and line.share("bold") > 0.5)


def _joins(run: Sequence[Line], line: Line) -> bool:
    """Whether a line goes on with the rows before it: it has cells itself, or continues one of theirs."""
    if not run:
        return False
    gap = run[-1].base - line.base
    if gap > 3.2 * max(line.size, 6) or line.share("mono") > 0.9 > run[0].share("mono"):
        return False
    if _has_cells(line):
        return True
    starts = [segment.x0 for segment in run[0].segments] + [segment.x0 for segment in run[-1].segments]
    if gap > 1.5 * line.size or len(line.segments) != 1:
        return False
    inner = [start for start in starts if start > run[0].x0 + 5]
    fits = any(abs(line.x0 - start) < 4 for start in inner)
    # A cell of the first column that goes on ends before the second begins.
    in_first = abs(line.x0 - run[0].x0) < 4 and bool(inner) and line.x1 < min(inner) - _GAP
    return fits or in_first


def _closed(run: Sequence[Line]) -> list[Item]:
    """A run of lines as a table if it is one."""
    while run and not _has_cells(run[-1]) and len(run) > 1 and abs(run[-1].x0 - run[0].x0) < 4:
        head, tail = list(run[:-1]), run[-1]
        return [*_closed(head), tail]
    several = [line for line in run if _has_cells(line)]
    if len(several) < 3 and not (len(several) == 2 and min(len(line.segments) for line in several) > 2):
        return list(run)
    cells = cells_of(run) if not all(line.bold for line in run) else None
    if cells is None:
        return list(run)
    texts = [cell for row in cells for cell in row if cell]
    if sum(bool(_WORDY.search(text)) for text in texts) < 0.6 * len(texts):
        return list(run)
    filled = len(texts) / (len(cells) * len(cells[0]))
    longest = max(sum(len(row[index]) for row in cells) / len(cells) for index in range(len(cells[0]) - 1))
    if filled < 0.45 or longest > 70:
        return list(run)
    x0, x1 = min(line.x0 for line in run), max(line.x1 for line in run)
    table = _table(cells, x0, x1, run[-1].segments[0].y0, run[0].segments[0].y1)
    if table is None:
        return list(run)
    table.terms = len(table.rows[0]) == 2 and sum(len(row[1]) for row in table.rows) > _SENTENCE * len(table.rows)
    return [table]


@dataclass(frozen=True)
class _Cells:
    """A line of a table: its texts by column."""

    base: float
    size: float
    texts: tuple[str, ...]

    @property
    def filled(self) -> int:
        return sum(bool(text) for text in self.texts)


def cells_of(lines: Sequence[Line], breaks: Sequence[float] = ()) -> list[list[str]] | None:
    """The rows of cells of lines that are aligned; `breaks` are heights of lines drawn between rows.

    None where no gap goes down through all lines.
    """
    edges = _edges(lines)
    if not edges:
        return None
    rows: list[_Cells] = []
    places: list[list[Segment]] = [[] for _ in range(len(edges) + 1)]
    for line in lines:
        texts = [""] * (len(edges) + 1)
        for segment in line.segments:
            spans = sum(segment.x0 < edge < segment.x1 for edge in edges)
            for piece in _pieces(segment, edges) if spans < 2 else [segment]:
                index = bisect_right(edges, piece.x0 + min(2.0, (piece.x1 - piece.x0) / 2))
                texts[index] = f"{texts[index]} {piece.text}".strip()
                places[index].append(piece)
        rows.append(_Cells(line.base, line.size, tuple(texts)))
    if not all(_aligned(pieces) for pieces in places[1:]):
        return None
    return [[*row.texts] for row in _joined_rows(rows, breaks)]


def _aligned(pieces: Sequence[Segment]) -> bool:
    """Whether most pieces of a column begin, end or are centred at one place, as cells do, and justified text not."""
    if len(pieces) < 3:
        return True
    for place in (
        [piece.x0 for piece in pieces],
        [piece.x1 for piece in pieces],
        [(piece.x0 + piece.x1) / 2 for piece in pieces],
    ):
        rounded = sorted(place)
        usual = max(sum(abs(value - other) < 3 for value in rounded) for other in rounded)
        if usual >= 0.55 * len(pieces):
            return True
    return False


def _edges(lines: Sequence[Line]) -> list[float]:
    """The middles of the gaps that go down through the lines; one line in ten may cross them."""
    segments = [segment for line in lines for segment in line.segments]
    low, high = min(segment.x0 for segment in segments), max(segment.x1 for segment in segments)
    covered = [0] * (int(high - low) + 2)
    for segment in segments:
        for index in range(max(0, int(segment.x0 - low)), int(segment.x1 - low) + 1):
            covered[index] += 1
    allowed = len(lines) // 10
    edges, start = [], None
    for index, count in enumerate(covered):
        if count <= allowed and start is None:
            start = index
        elif count > allowed and start is not None:
            if index - start >= _GAP and start > 0:
                edges.append(low + (start + index) / 2)
            start = None
    return edges


def _joined_rows(rows: Sequence[_Cells], breaks: Sequence[float]) -> list[_Cells]:
    """Lines to rows: what continues the cells above it is joined to them."""
    gaps = [above.base - below.base for above, below in pairwise(rows)]
    least = sorted(gaps)[len(gaps) // 5] if gaps else 0.0
    spread = [gap > 1.2 * least for gap in gaps]
    inner = [row for row, wide in zip(rows[1:], spread, strict=True) if not wide]
    # Rows are set apart by space only if the lines within one do not fill all cells.
    by_space = sum(spread) >= 2 and bool(inner) and sum(r.filled < len(r.texts) for r in inner) >= 0.7 * len(inner)
    joined: list[_Cells] = []
    for row in rows:
        above = joined[-1] if joined else None
        ruled = above is not None and any(row.base < height < above.base for height in breaks)
        if above is None or ruled:
            joined.append(row)
            continue
        gap = above.base - row.base
        near = gap <= 1.2 * least + 0.5 if by_space else gap <= 1.45 * max(row.size, 5)
        continues = by_space or (not row.texts[0] and 2 * row.filled <= len(row.texts))
        if near and continues:
            texts = tuple(
                join_lines([a, b]) if a and b else a or b for a, b in zip(above.texts, row.texts, strict=True)
            )
            joined[-1] = replace(above, base=row.base, texts=texts)
        else:
            joined.append(row)
    return joined
