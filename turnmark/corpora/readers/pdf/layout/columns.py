"""Divides a page into columns and puts its boxes into reading order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby, pairwise

from turnmark.core.grouping import join_neighbors
from turnmark.corpora.readers.pdf.page.boxes import Segment, SegmentOrTable
from turnmark.corpora.readers.pdf.page.text_patterns import ends_sentence

_MIN_FILL = 0.55  # of the width of a column of prose
_MIN_JUSTIFIED_SHARE = 0.5  # of the lines of justified prose, which reach the right edge
MIN_LINE_LENGTH = 18  # characters on average in a column of prose
_MAX_GUTTER_OFFSET = 0.03  # of the width; distance of a gutter from where equal columns have it
_MIN_CARD_LINES = 20  # in a column of a reference card; a table without rules is hardly ever this long
_MAX_DEPTH = 4  # columns within columns
_MIN_BOXES = 8  # fewer are columns only if sentences go on from line to line on both sides
_MIN_FLOWING_BOXES = 4
_MIN_ROWS = 4  # of a column
_BIN_WIDTH = 2.0  # points
_MIN_BINS = 20  # a narrower area has no columns
_MARGIN_SHARE = 0.12  # of the width on either side, where no gutter is sought
_TABLE_CHARACTERS = 200  # length that a table counts as


def columns_in_order(
    boxes: list[SegmentOrTable], depth: int = 0, min_length: float = MIN_LINE_LENGTH
) -> list[list[SegmentOrTable]]:
    """Return the boxes by column, in reading order. A box that crosses the gutter comes before the boxes below it.

    Args:
        min_length: minimum characters on average in a line of a column of prose.
    """
    gutter = _gutter(boxes, min_length) if depth < _MAX_DEPTH else None
    if gutter is None:
        return [boxes]
    ordered: list[list[SegmentOrTable]] = []
    across: list[SegmentOrTable] = []  # boxes that are read line by line
    for left, right, crossing in _bands(boxes, gutter):
        if left and right:
            ordered += [across] if across else []
            ordered += [column for side in (left, right) for column in columns_in_order(side, depth + 1, min_length)]
            across = []
        else:  # e.g. the short line of a title: a column needs another one next to it
            across += [*left, *right]
        across += crossing
    return [*ordered, across] if across else ordered


def _bands(
    boxes: Sequence[SegmentOrTable], gutter: float
) -> Iterator[tuple[list[SegmentOrTable], list[SegmentOrTable], list[SegmentOrTable]]]:
    """Yield, from top to bottom, the boxes left and right of the gutter, and the crossing box below them."""
    left: list[SegmentOrTable] = []
    right: list[SegmentOrTable] = []
    for box in sorted(boxes, key=lambda box: -box.y1):
        if box.x0 < gutter < box.x1:
            yield left, right, [box]
            left, right = [], []
        else:
            (left if box.x1 <= gutter else right).append(box)
    yield left, right, []


def _gutter(boxes: Sequence[SegmentOrTable], min_length: float) -> float | None:
    """Return the position of the gutter between two columns of prose, or None if there is none."""
    if len(boxes) < _MIN_FLOWING_BOXES:
        return None
    low, high = min(box.x0 for box in boxes), max(box.x1 for box in boxes)
    width = high - low
    bins = int(width / _BIN_WIDTH) + 1
    if bins < _MIN_BINS:
        return None
    for start, end in _valleys(_count_crossing(boxes, low, bins), len(boxes)):
        middle = low + (start + end) / 2 * _BIN_WIDTH
        left = [box for box in boxes if box.x1 <= middle]
        right = [box for box in boxes if box.x0 >= middle]
        place = (middle - low) / width
        even = any(abs(place - part) < _MAX_GUTTER_OFFSET for part in (1 / 2, 1 / 3, 2 / 3, 1 / 4, 3 / 4))
        halved = start * _BIN_WIDTH <= width / 2 <= end * _BIN_WIDTH
        few = len(boxes) < _MIN_BOXES
        if _flow_on(left) and _flow_on(right) if few else _are_columns(left, right, even, halved, min_length):
            return middle
    return None


def _count_crossing(boxes: Sequence[SegmentOrTable], low: float, bins: int) -> list[int]:
    """Return the number of boxes that cross each bin, from the left edge `low`."""
    changes = [0] * (bins + 2)
    for box in boxes:
        changes[int((box.x0 - low) / _BIN_WIDTH) + 1] += 1
        changes[int((box.x1 - low) / _BIN_WIDTH)] -= 1
    return list(accumulate(changes[:bins]))


def _valleys(crossing: Sequence[int], total: int) -> list[tuple[int, int]]:
    """Return the ranges of bins that few boxes cross, best first."""
    inner = range(int(len(crossing) * _MARGIN_SHARE), int(len(crossing) * (1 - _MARGIN_SHARE)))
    most = min(crossing[index] for index in inner) + (max(1, total // 50) if total >= _MIN_BOXES else 0)
    if most > 0.45 * total:
        return []
    runs = [list(run) for is_low, run in groupby(inner, lambda index: crossing[index] <= most) if is_low]
    return [(run[0], run[-1] + 1) for run in sorted(runs, key=len, reverse=True)[:4]]


def _are_columns(
    left: Sequence[SegmentOrTable], right: Sequence[SegmentOrTable], even: bool, halved: bool, min_length: float
) -> bool:
    """Return whether two sides are columns to be read one after the other, rather than cells of the same rows.

    Args:
        even: whether the gutter is where equally wide columns would have it.
        halved: whether the gutter contains the middle of the page.
    """
    if min(len(left), len(right)) < _MIN_ROWS:
        return False
    sides = (_GutterSide(left), _GutterSide(right))
    few, many = sorted(sides, key=lambda side: len(side.rows))
    if len(few.rows) < _MIN_ROWS:
        return False
    if all(side.fill >= _MIN_FILL and side.characters >= min_length for side in sides):
        return True
    if (
        halved
        and any(side.is_justified for side in sides)
        and all(side.characters >= MIN_LINE_LENGTH / 2 for side in sides)
    ):
        return True  # a short table of contents next to prose
    if not all(side.characters >= 0.8 * MIN_LINE_LENGTH for side in sides):
        return False
    if even and len(few.rows) >= _MIN_CARD_LINES and all(side.reach >= _MIN_FILL for side in sides):
        return True  # a reference card with terms and explanations in each column
    aligned = sum(any(abs(row - other) < 2 for other in many.rows) for row in few.rows) / len(few.rows)
    return aligned < 0.5 and len(few.rows) >= 6


def _flow_on(side: Sequence[SegmentOrTable]) -> bool:
    """Return whether each line of a side goes on in the line below it: in the middle of a sentence, in lower case."""
    lines = [box for box in sorted(side, key=lambda box: -box.base) if isinstance(box, Segment)]
    goes_on = [below.text[:1].islower() and not ends_sentence(above.text) for above, below in pairwise(lines)]
    return len(lines) == len(side) and bool(goes_on) and all(goes_on)


_RowExtent = tuple[float, float, float]  # its height, and its left and right edge


def _joined_rows(row: _RowExtent, box: _RowExtent) -> _RowExtent | None:
    return (row[0], min(row[1], box[1]), max(row[2], box[2])) if abs(row[0] - box[0]) <= 2 else None


class _GutterSide:
    """Measurements of the boxes on one side of a gutter.

    Attributes:
        rows: heights of the rows, in points.
        fill: share of the width that is text.
        reach: the same, with the gaps between cells counted as text.
        characters: mean number of characters per row.
        filled: share of the rows that reach the right edge.
    """

    def __init__(self, boxes: Sequence[SegmentOrTable]) -> None:
        places = sorted(((box.base, box.x0, box.x1) for box in boxes), reverse=True)
        rows = join_neighbors(places, _joined_rows)
        self.rows = [base for base, _, _ in rows]
        right = max(box.x1 for box in boxes)
        extent = right - min(box.x0 for box in boxes)
        full = max(1.0, extent * len(self.rows))
        self.fill = sum(box.x1 - box.x0 for box in boxes) / full
        self.reach = sum(end - start for _, start, end in rows) / full
        self.characters = sum(len(box.text) if isinstance(box, Segment) else _TABLE_CHARACTERS for box in boxes) / len(
            self.rows
        )
        self.filled = sum(end >= right - 0.02 * extent for _, _, end in rows) / len(rows)

    @property
    def is_justified(self) -> bool:
        """Whether most of its lines reach its right edge, as in prose but not in cells."""
        return self.filled >= _MIN_JUSTIFIED_SHARE and self.characters >= 2 * MIN_LINE_LENGTH and len(self.rows) >= 8
