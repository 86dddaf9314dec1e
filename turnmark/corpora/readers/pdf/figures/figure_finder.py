"""Finds the figures of a page: pictures, and the charts and diagrams that are drawn with lines.

Shapes that are near each other and not separated by text form a group. A group is a figure if it has a picture, or is
drawn with curves, marks or boxes and has little text in it. Rules alone, tables, boxes around text and underlines are
no figures. The labels around a group are part of the figure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np

from turnmark.core.grouping import group_pairs, runs
from turnmark.corpora.readers.pdf.figures.shapes import DrawnShape, ShapeKind
from turnmark.corpora.readers.pdf.page.geometry import Box, box_around
from turnmark.corpora.readers.pdf.page.page_records import PdfFigure
from turnmark.corpora.readers.pdf.page.text_patterns import begins_as_caption
from turnmark.corpora.readers.pictures.collector import MIN_SIDE_PIXELS

_BACKGROUND_SHARE = 0.85  # of the page; a picture or drawing that covers more is behind the text
_FRAME_SHARE = 0.6  # of the page; a line or box around more is a frame
_BAND_SHARE = 0.95  # of the width or height of the page; a shape that long is a band across it
_MAX_BACKGROUND_CHARACTERS = 150  # on a page whose picture covers it; with more text, the picture is a background
_RULE_GAP = 14.0  # points between the curves of a figure and its axes or frame
_CELL = 4.0  # points; shapes in the same or neighboring cells of this size are one group
_MAX_CELLS = 2_000  # along a side of the page
_MAX_GROUPS = 200  # of one page; the rest are specks
_MAX_COMPARED = 2_000  # boxes, and rules, of one page that are compared with groups; a map has more
_MAX_TEXT_BOXES = 500  # of one page; with more large boxes, none is taken for a box around text
_JOINING_ROUNDS = 4
_REACH = 48.0  # points between groups of one figure, if no line of text is between them
_MIN_PICTURE_POINTS = 20.0  # of either side of a picture; a smaller one is an icon in a line
_MIN_DRAWN_POINTS = 40.0  # of either side of a drawing
_MAX_TEXT_SHARE = 0.45  # of the area of a drawing with curves that its words cover
_MAX_BOXED_TEXT_SHARE = 0.15  # the same without curves; boxes with more are a table or a text in boxes
_TEXT_BOX_SHARE = 0.22  # of a box; with more text it is a box around text
_MIN_TEXT_BOX_AREA = 2_500.0  # square points; a smaller one may be the node of a diagram
_MIN_CURVES = 3
_MIN_BOXES = 3
_MIN_FILLED_CELLS = 0.6  # of the boxes with text in them; then they are cells
_MAX_MEETING_BOXES = 300  # that are compared with each other
_MEETING_GAP = 2.0  # points
_MIN_MEETING_SHARE = 0.5
_MIN_CONNECTORS = 0.5  # lines and arrowheads for each box of a diagram
_MIN_ROW_WIDTH = 0.9  # of the group; so wide a box is a row
_MIN_LINES_IN_ROWS = 0.8  # of the lines of text; then the group is a listing or a table with shaded rows
_MIN_TEXT_LINES = 3
_MIN_LISTING_SHARE = 0.05  # of an area that the words of a text in it cover; those of a legend cover less
_EDGE_TOLERANCE = 3.0  # points
_MIN_ALIGNED_SHARE = 0.7  # of the lines in an area, which begin at one edge; then it is a text
_MAX_LINES_PER_PART = 3  # lines of text for each drawn part of a figure
_MIN_SHARED = 0.3  # of the smaller figure; overlapping figures are one
_MIN_INNER_RULES = 9  # and marks in a box, such as the bars of a chart
_MAX_INNER_RULE_LENGTH = 0.85  # of the box; longer rules make a table
_MAX_LABEL_LENGTH = 60  # characters of a line next to a figure that may be a label
_LABEL_GAP = 12.0  # points between a figure and its labels
_TITLE_GAP = 26.0  # points between a figure and the title of an axis
_MAX_TITLE_LENGTH = 45  # characters of such a title
_MAX_TITLE_SHIFT = 0.12  # of the side; from the middle of the side to the middle of the title
_LABEL_OVERHANG = 30.0  # points by which a label may be beyond a side
_MAX_LABEL_DISTANCE = 45.0  # points between a label and what is drawn
_MIN_SLANTED_SIDE = 20.0  # points of either side of the box around a slanted label
_LABEL_ROUNDS = 3  # numbers along the axis, its title, the title of the figure
_MIN_STACKED_LABELS = 3  # in a column of labels at a side, such as the names of studies
_STACK_GAP = 90.0  # points between a figure and a column of labels
_MAX_STACK_OVERHANG = 2  # labels of such a column above and below what is drawn, such as its heading
_MAX_STACK_STEP = 2.0  # of the usual distance between the labels of a column
_MAX_PROSE_LABEL_LENGTH = 25  # characters on average; longer lines may be prose next to the figure
_MAX_JUSTIFIED_DIFFERENCE = 1.0  # points between the widths of justified lines
_MIN_PROSE_SHARE = 0.5  # of such lines, which begin in lower case or fill the column; then they are prose
_MIN_SEPARATING_LENGTH = 35  # characters of a line that separates two figures
_MARGIN = 3.0  # points around a figure


class PlacedLine(NamedTuple):
    """A line of text with its box on the page."""

    text: str
    box: Box


class _Group:
    """Shapes that are near each other."""

    def __init__(self, shapes: list[DrawnShape], box: Box | None = None) -> None:
        self.shapes = shapes
        self.box = box or _bounding_box(shape.box for shape in shapes)

    def count(self, kind: ShapeKind) -> int:
        return sum(shape.parts for shape in self.shapes if shape.kind is kind)

    def joined(self, other: _Group) -> _Group:
        return _Group([*self.shapes, *other.shapes], _bounding_box((self.box, other.box)))


def figures_of(shapes: Sequence[DrawnShape], text: Callable[[], Sequence[PlacedLine]], bounds: Box) -> list[PdfFigure]:
    """Return the figures of a page from top to bottom.

    Args:
        text: returns the lines of the page. It is called only if shapes could be a figure.
        bounds: the box of the page.
    """
    if not any(shape.kind not in (ShapeKind.RULE, ShapeKind.MARK) for shape in shapes):
        return []
    lines = text()
    page = _FigurePage(shapes, lines, bounds)
    groups = [
        *_joined_groups(_group_near(page.seeds(), bounds), lines),
        *(_Group([shape]) for shape in page.in_front(ShapeKind.DRAWING)),
    ]
    drawings = [page.drawing(group) for group in groups]
    pictures = [
        _picture(group) for group in _group_near(page.in_front(ShapeKind.PICTURE), bounds) if _is_picture(group)
    ]
    found = _merge_figures([*filter(None, drawings), *pictures])
    within = [figure._replace(box=figure.box.within(bounds)) for figure in found]
    return sorted(within, key=lambda figure: (-figure.box.top, figure.box.left))


class _FigurePage:
    """The shapes and the text of a page, in lists that are short enough to be compared with each other."""

    def __init__(self, shapes: Sequence[DrawnShape], lines: Sequence[PlacedLine], bounds: Box) -> None:
        self._shapes, self._lines, self._bounds = shapes, lines, bounds
        self._rules = [shape.box for shape in shapes if shape.kind is ShapeKind.RULE][:_MAX_COMPARED]
        self._boxes = [shape.box for shape in shapes if shape.kind is ShapeKind.BOX][:_MAX_COMPARED]

    def in_front(self, kind: Literal[ShapeKind.PICTURE, ShapeKind.DRAWING]) -> list[DrawnShape]:
        """Return the pictures, or the drawings that were included as a whole, without those behind the text."""
        shapes = [shape for shape in self._shapes if shape.kind is kind]
        characters = sum(len(line.text) for line in self._lines)
        if kind is ShapeKind.PICTURE and characters <= _MAX_BACKGROUND_CHARACTERS:
            return shapes
        return [shape for shape in shapes if shape.box.share_of(self._bounds) < _BACKGROUND_SHARE]

    def seeds(self) -> list[DrawnShape]:
        """Return the other shapes that a figure can consist of: no rules, backgrounds, bands and boxes around text."""
        others = (ShapeKind.RULE, ShapeKind.PICTURE, ShapeKind.DRAWING)
        drawn = [shape for shape in self._shapes if shape.kind not in others]
        large = sum(shape.box.area >= _MIN_TEXT_BOX_AREA for shape in drawn)
        seeds = [
            shape
            for shape in drawn
            if shape.kind is ShapeKind.MARK
            or not (self._is_background(shape) or (large <= _MAX_TEXT_BOXES and self._is_around_text(shape.box)))
        ]
        return [] if all(shape.kind is ShapeKind.MARK for shape in seeds) else seeds

    def _is_around_text(self, box: Box) -> bool:
        return box.area >= _MIN_TEXT_BOX_AREA and _text_share(box, self._lines) > _TEXT_BOX_SHARE

    def _is_background(self, shape: DrawnShape) -> bool:
        """Return whether a shape is behind the text, the frame of the page, or a band across it."""
        box, page = shape.box, self._bounds
        is_band = box.width >= _BAND_SHARE * page.width or box.height >= _BAND_SHARE * page.height
        return is_band or shape.box.share_of(self._bounds) >= _FRAME_SHARE

    def drawing(self, group: _Group) -> PdfFigure | None:
        """Return the figure that a group forms, with its labels, or None if the group is not a figure."""
        if not self._is_figure(group):
            return None
        return PdfFigure(_with_labels(_with_rules(group.box, self._rules), self._lines))

    def _is_figure(self, group: _Group) -> bool:
        wide, high = group.box.width, group.box.height
        if min(wide, high) < _MIN_DRAWN_POINTS:
            return False
        text = _text_share(group.box, self._lines)
        curves = group.count(ShapeKind.CURVE) + group.count(ShapeKind.DRAWING)
        marks, boxes = group.count(ShapeKind.MARK), group.count(ShapeKind.BOX)
        inside = [rule for rule in self._rules if group.box.contains(rule.middle)]
        if self._is_text(group.box, curves + marks + boxes + len(inside)):
            return False
        if curves + marks >= _MIN_CURVES and curves:
            return text <= _MAX_TEXT_SHARE
        if text > _MAX_BOXED_TEXT_SHARE:
            return False
        if curves and (boxes or len(inside) >= 2):
            return True
        if boxes >= _MIN_BOXES:
            found = _BoxUse(group.box, self._boxes, self._lines)
            return not found.are_cells and (not found.have_text or marks + len(inside) >= _MIN_CONNECTORS * boxes)
        longest = _MAX_INNER_RULE_LENGTH * wide, _MAX_INNER_RULE_LENGTH * high
        short = sum(rule.right - rule.left < longest[0] and rule.top - rule.bottom < longest[1] for rule in inside)
        return boxes > 0 and short + marks >= _MIN_INNER_RULES

    def _is_text(self, area: Box, parts: int) -> bool:
        """Return whether an area is text with a few lines around it: a listing, or lines that begin at one edge."""
        inside = [line for line in self._lines if area.contains(line.box.middle)]
        if len(inside) < _MIN_TEXT_LINES or _text_share(area, inside) < _MIN_LISTING_SHARE:
            return False
        edges = Counter(round(line.box.left / _EDGE_TOLERANCE) for line in inside if len(line.text) > 3)
        aligned = max((edges[edge] + edges[edge + 1] for edge in edges), default=0)
        return len(inside) > _MAX_LINES_PER_PART * parts or aligned >= _MIN_ALIGNED_SHARE * len(inside)


def _is_picture(group: _Group) -> bool:
    """Return whether pictures show something, rather than an icon in a line."""
    side = min(group.box.width, group.box.height)
    density = max(shape.density for shape in group.shapes)
    return side >= _MIN_PICTURE_POINTS and side * density >= MIN_SIDE_PIXELS


def _picture(group: _Group) -> PdfFigure:
    places = (f"{shape.content}-{'-'.join(str(round(edge)) for edge in shape.box)}" for shape in group.shapes[:50])
    density, pixels = max(shape.density for shape in group.shapes), max(shape.pixels for shape in group.shapes)
    return PdfFigure(group.box, density, pixels, "/".join(places))


def _merge_figures(figures: Sequence[PdfFigure]) -> list[PdfFigure]:
    """Join figures that overlap, such as a screenshot and the arrows on it."""
    merged: list[PdfFigure] = []
    for figure in sorted(figures, key=lambda figure: -figure.box.area):
        for at, other in enumerate(merged):
            shared = figure.box.within(other.box).area
            if shared >= _MIN_SHARED * figure.box.area:
                density, pixels = max(figure.density, other.density), max(figure.pixels, other.pixels)
                merged[at] = PdfFigure(_bounding_box((figure.box, other.box)), density, pixels)
                break
        else:
            merged.append(figure)
    return merged


# --- groups ----------------------------------------------------------------------------------------------------------


def _group_near(shapes: Sequence[DrawnShape], bounds: Box) -> list[_Group]:
    """Divide shapes into groups of those that are near each other.

    The boxes of the shapes are drawn into a grid of small cells, and its connected areas are the groups: comparing each
    shape with each other would take minutes for a map.
    """
    from scipy import ndimage

    wide, high = int(bounds.width / _CELL) + 2, int(bounds.height / _CELL) + 2
    grid = np.zeros((min(high, _MAX_CELLS), min(wide, _MAX_CELLS)), dtype=np.bool_)
    places: list[tuple[int, int]] = []
    for shape in shapes:
        box = shape.box.within(bounds)
        x0, x1 = int((box.left - bounds.left) / _CELL), int((box.right - bounds.left) / _CELL)
        y0, y1 = int((box.bottom - bounds.bottom) / _CELL), int((box.top - bounds.bottom) / _CELL)
        grid[max(y0, 0) : y1 + 1, max(x0, 0) : x1 + 1] = True
        places.append((min(max(y0, 0), grid.shape[0] - 1), min(max(x0, 0), grid.shape[1] - 1)))
    areas, _ = ndimage.label(grid, structure=np.ones((3, 3)))
    groups = group_pairs((int(areas[place]), shape) for shape, place in zip(shapes, places, strict=True))
    return [_Group(part) for part in groups.values()]


def _joined_groups(groups: list[_Group], lines: Sequence[PlacedLine]) -> list[_Group]:
    """Join groups that are not far apart and have no line of text between them."""
    separating = [line for line in lines if len(line.text) >= _MIN_SEPARATING_LENGTH or begins_as_caption(line.text)]
    groups = sorted(groups, key=lambda group: -group.box.area)[:_MAX_GROUPS]
    for _ in range(_JOINING_ROUNDS):
        joined: list[_Group] = []
        for group in groups:
            for at, other in enumerate(joined):
                is_near = _gap(group.box, other.box) <= _REACH
                if is_near and not _are_separated(group.box, other.box, separating):
                    joined[at] = other.joined(group)
                    break
            else:
                joined.append(group)
        if len(joined) == len(groups):
            break
        groups = joined
    return groups


def _are_separated(first: Box, second: Box, lines: Iterable[PlacedLine]) -> bool:
    """Return whether a line of text is between two boxes, or in the box around them but in neither of them."""
    whole = _bounding_box((first, second))
    middles = (line.box.middle for line in lines)
    return any(whole.contains(each) and not first.contains(each) and not second.contains(each) for each in middles)


# --- which groups are figures ----------------------------------------------------------------------------------------


class _BoxUse:
    """What the boxes in an area are for.

    Attributes:
        have_text: whether most of them have text in them.
        are_cells: whether they are the cells or rows of a table or a listing, rather than bars or parts of a diagram.
    """

    def __init__(self, area: Box, page_boxes: Sequence[Box], lines: Sequence[PlacedLine]) -> None:
        boxes = [box for box in page_boxes if area.contains(box.middle)]
        middles = [line.box.middle for line in lines if area.contains(line.box.middle)]
        filled = [box for box in boxes if any(box.contains(middle) for middle in middles)]
        self.have_text = len(filled) >= _MIN_FILLED_CELLS * len(boxes)
        wide, high = area.width, area.height
        rows = [b for b in boxes if b.width > _MIN_ROW_WIDTH * wide and b.height < high / 2]
        in_rows = sum(any(row.contains(middle) for row in rows) for middle in middles)
        are_rows = bool(rows and middles) and in_rows >= _MIN_LINES_IN_ROWS * len(middles)
        self.are_cells = are_rows or (self.have_text and _meet(filled[:_MAX_MEETING_BOXES]))


def _meet(boxes: Sequence[Box]) -> bool:
    """Return whether most boxes touch or overlap another one, as cells do and the nodes of a diagram do not."""
    meeting = sum(any(other is not box and _gap(box, other) <= _MEETING_GAP for other in boxes) for box in boxes)
    return meeting >= _MIN_MEETING_SHARE * len(boxes)


def _text_share(box: Box, lines: Iterable[PlacedLine]) -> float:
    left, bottom, right, top = box
    covered = sum(
        (min(x1, right) - max(x0, left)) * (min(y1, top) - max(y0, bottom))
        for _, (x0, y0, x1, y1) in lines
        if x0 < right and x1 > left and y0 < top and y1 > bottom
    )
    return covered / max(box.area, 1.0)


def _with_rules(box: Box, rules: Sequence[Box]) -> Box:
    """Return the box around a figure and its rules, such as axes and grid lines."""
    for _ in range(2):
        near = [rule for rule in rules if _gap(rule, box) <= _RULE_GAP and _is_beside(rule, box)]
        box = _bounding_box((box, *near))
    return box


def _is_beside(rule: Box, box: Box) -> bool:
    return all(map(box.grown(_LABEL_OVERHANG).contains, rule.corners))


def _with_labels(box: Box, lines: Sequence[PlacedLine]) -> Box:
    """Return the box around a figure and the short lines of text next to it."""
    labels = [line for line in lines if len(line.text) <= _MAX_LABEL_LENGTH and not begins_as_caption(line.text)]
    drawn = box
    for _ in range(_LABEL_ROUNDS):
        near = [label for label in labels if _is_label(label, box, drawn)]
        beside = [label for side in (0, 2) for label in _stacked_labels(box, drawn, labels, side)]
        wider = _bounding_box((box, *(label.box for label in (*near, *beside))))
        if wider == box:
            break
        box = wider
    return box.grown(_MARGIN)


def _stacked_labels(box: Box, drawn: Box, lines: Sequence[PlacedLine], side: int) -> list[PlacedLine]:
    """Return the column of labels next to a figure, which may be far longer than other labels.

    Args:
        side: index of the edge of the box next to them: 0 for the left one, 2 for the right one.
    """
    level = [line for line in lines if drawn.bottom <= line.box.middle[1] <= drawn.top]
    beyond = [line for line in level if (line.box.right <= box.left if side == 0 else line.box.left >= box.right)]
    nearest = min(beyond, key=lambda line: _gap(line.box, box), default=None)
    if nearest is None or _gap(nearest.box, box) > _STACK_GAP:
        return []
    for edge in (0, 2):
        column = [line for line in lines if abs(line.box[edge] - nearest.box[edge]) <= _EDGE_TOLERANCE]
        stack = _run_of(nearest, sorted(column, key=lambda line: -line.box.top))
        inside = sum(drawn.bottom <= line.box.middle[1] <= drawn.top for line in stack)
        if inside >= max(_MIN_STACKED_LABELS, len(stack) - _MAX_STACK_OVERHANG) and not _is_prose(stack):
            return stack
    return []


def _run_of(line: PlacedLine, column: Sequence[PlacedLine]) -> list[PlacedLine]:
    """Return the lines of a column around one of them that follow each other at about the same distance."""
    steps = sorted(above.box.top - below.box.top for above, below in pairwise(column))
    stacks = runs(
        column, lambda above, below: above.box.top - below.box.top <= _MAX_STACK_STEP * steps[len(steps) // 2]
    )
    return next(stack for stack in stacks if line in stack)


def _is_prose(lines: Sequence[PlacedLine]) -> bool:
    """Return whether lines go on in each other, like those of the column next to a figure."""
    if sum(len(line.text) for line in lines) <= _MAX_PROSE_LABEL_LENGTH * len(lines):
        return False
    widest = max(line.box.width for line in lines)
    full = sum(line.box.width >= widest - _MAX_JUSTIFIED_DIFFERENCE for line in lines)
    going_on = sum(line.text[:1].islower() for line in lines)
    return max(full, going_on) >= _MIN_PROSE_SHARE * len(lines)


def _is_label(line: PlacedLine, box: Box, drawn: Box) -> bool:
    """Return whether a line belongs to a figure: it is next to it, or farther away but centered on a side.

    Args:
        box: the box of the figure with the labels found so far.
        drawn: the box of the figure without labels.
    """
    gap = _gap(line.box, box)
    # A slanted label below an axis reaches far down.
    is_slanted = min(line.box.width, line.box.height) > _MIN_SLANTED_SIDE
    is_beside = _is_beside(line.box._replace(bottom=line.box.top) if is_slanted else line.box, box)
    if gap > _TITLE_GAP or _gap(line.box, drawn) > _MAX_LABEL_DISTANCE or not is_beside:
        return False
    if gap <= _LABEL_GAP:
        return True
    (x, y), (middle_x, middle_y) = line.box.middle, box.middle
    is_across = abs(x - middle_x) <= _MAX_TITLE_SHIFT * box.width
    is_upright = line.box.height > line.box.width
    is_along = is_upright and abs(y - middle_y) <= _MAX_TITLE_SHIFT * box.height
    return len(line.text) <= _MAX_TITLE_LENGTH and (is_across or is_along)


# --- boxes -----------------------------------------------------------------------------------------------------------


def _bounding_box(boxes: Iterable[Box]) -> Box:
    return box_around([corner for box in boxes for corner in ((box.left, box.bottom), (box.right, box.top))])


def _gap(first: Box, second: Box) -> float:
    """Return the distance between two boxes, across or down, or 0 if they meet."""
    across = max(first.left, second.left) - min(first.right, second.right)
    down = max(first.bottom, second.bottom) - min(first.top, second.top)
    return max(across, down, 0.0)
