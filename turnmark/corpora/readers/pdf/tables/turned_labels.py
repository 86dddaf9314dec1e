"""Places short turned labels, such as column names that are written upwards, in the table that they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from turnmark.core.grouping import group_pairs, join_neighbors, runs
from turnmark.corpora.readers.pdf.page.boxes import Segment, segments_of
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import PdfPage, Word
from turnmark.corpora.readers.pdf.tables.ruled_tables import RuleGrid, rule_grids

_MAX_LABELS = 300  # on one page; a map has more
_MAX_CELL_LINES = 5  # lines of turned text next to each other in one cell
_MIN_LABELS = 3  # above columns without rules between them
_MAX_EDGE_DIFFERENCE = 3.0  # points between the lower ends of such labels
_MAX_DISTANCE_BELOW = 3.0  # of the size; from a label to the column below it
_MEETING_GAP = 2.0  # points by which a rule may miss a corner


@dataclass(eq=False)
class _Label:
    """A line of turned text, with its box on the upright page."""

    segment: Segment
    box: Box


def place_labels(aside: PdfPage, side: int, page: PdfPage) -> list[Word]:
    """Return the labels of a table as words of the upright page, and remove their words from the aside.

    Args:
        aside: the text in one other direction.
        side: by how many degrees it is turned further than the text of the page: 90, 180 or 270.
    """
    segments = segments_of(aside.words)
    if side == 180 or len(segments) > _MAX_LABELS:
        return []
    labels = [_Label(segment, _box_on(page, segment, side)) for segment in segments]
    placed: list[Word] = []
    taken: set[_Label] = set()
    for grid in rule_grids(page.rules):
        inside = _labels_inside(grid, labels, page.words)
        for cell, lines in _in_cells(inside, grid):
            taken.update(lines)
            placed += [_as_word(lines, top - lines[0].segment.size) for top in _row_tops(cell, grid)]
    for group in _above_columns([label for label in labels if label not in taken], page.words):
        taken.update(group)
        placed.append(_as_word(group, min(label.box.bottom for label in group) + 0.25 * group[0].segment.size))
    gone = {word for label in taken for word in label.segment.words}
    aside.words = [word for word in aside.words if word not in gone]
    return placed


def _box_on(page: PdfPage, segment: Segment, side: int) -> Box:
    if side == 90:
        return Box(page.width - segment.y1, segment.x0, page.width - segment.y0, segment.x1)
    return Box(segment.y0, page.height - segment.x1, segment.y1, page.height - segment.x0)


def _as_word(lines: Sequence[_Label], base: float) -> Word:
    """Return lines of turned text as one word, which is narrow so that it does not meet its neighbors."""
    lines = sorted(lines, key=lambda label: -label.segment.base)
    middle = (min(label.box.left for label in lines) + max(label.box.right for label in lines)) / 2
    first = lines[0].segment.words[0]
    text = " ".join(label.segment.text for label in lines)
    return replace(first, text=text, x0=middle - 0.1 * first.size, x1=middle + 0.1 * first.size, base=base, spaced=True)


def _labels_inside(grid: RuleGrid, labels: Iterable[_Label], words: Iterable[Word]) -> list[_Label]:
    """Return the labels within a grid; none if it has more turned lines than upright words, so that all is turned."""
    across, down = grid
    left, right = min(rule.x0 for rule in across), max(rule.x1 for rule in across)
    around = Box(left, min(rule.y0 for rule in down), right, max(rule.y1 for rule in down))
    inside = [label for label in labels if around.contains(label.box.middle)]
    upright = sum(around.contains(((word.x0 + word.x1) / 2, word.base)) for word in words) if inside else 0
    return inside if len(inside) <= upright else []


def _in_cells(labels: Iterable[_Label], grid: RuleGrid) -> Iterator[tuple[Box, list[_Label]]]:
    """Yield the narrow cells between rules, with the labels inside each."""
    placed = ((_cell_around(label.box, grid), label) for label in labels)
    yield from group_pairs(
        (cell, label) for cell, label in placed if cell and cell.width <= _MAX_CELL_LINES * 1.2 * label.segment.size
    ).items()


def _cell_around(box: Box, grid: RuleGrid) -> Box | None:
    """Return the cell that the nearest rules form around a box, or None if a side has no rule."""
    x, y = box.middle
    across, down = grid
    beside = [rule.x0 for rule in down if rule.y0 - _MEETING_GAP <= y <= rule.y1 + _MEETING_GAP]
    level = [rule.y0 for rule in across if rule.x0 - _MEETING_GAP <= x <= rule.x1 + _MEETING_GAP]
    left, right = [edge for edge in beside if edge <= x], [edge for edge in beside if edge > x]
    below, above = [edge for edge in level if edge <= y], [edge for edge in level if edge > y]
    if not left or not right or not below or not above:
        return None
    return Box(max(left), max(below), min(right), min(above))


def _row_tops(cell: Box, grid: RuleGrid) -> list[float]:
    """Return the upper edges of the rows next to a cell: a cell that spans rows repeats its text in each of them."""
    beside = {
        rule.y0
        for rule in grid[0]
        if rule.x0 - _MEETING_GAP <= cell.right < rule.x1 and cell.bottom + _MEETING_GAP < rule.y0 < cell.top
    }
    tops = sorted({*beside, cell.top}, reverse=True)
    return join_neighbors(tops, lambda kept, top: kept if kept - top <= _MEETING_GAP else None)


def _above_columns(labels: Sequence[_Label], words: Sequence[Word]) -> Iterator[list[_Label]]:
    """Yield the labels, each with its lines, that end at one height just above a column of words."""
    over = [label for label in labels if any(_is_over(label, word) for word in words)]
    rows = [
        [other for other in over if abs(label.box.bottom - other.box.bottom) <= _MAX_EDGE_DIFFERENCE] for label in over
    ]
    row = max(rows, key=len, default=[])
    row.sort(key=lambda label: label.box.left)
    # The next line of a label is close to the one before.
    columns = runs(row, lambda before, label: label.box.left - before.box.right < 0.2 * label.segment.size)
    if len(columns) >= _MIN_LABELS:
        yield from columns


def _is_over(label: _Label, word: Word) -> bool:
    gap = label.box.bottom - (word.base + 0.7 * word.size)
    margin = 0.5 * label.segment.size
    return (
        -0.5 * word.size < gap < _MAX_DISTANCE_BELOW * label.segment.size
        and word.x0 < label.box.right + margin
        and word.x1 > label.box.left - margin
    )
