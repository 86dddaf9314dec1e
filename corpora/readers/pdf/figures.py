"""Finds the figures of a page: pictures, and the charts and diagrams that are drawn with lines.

Shapes that are near each other and not separated by text form a group. A group is a figure if it has a picture, or is
drawn with curves, marks or boxes and has little text in it. Rules alone, tables, boxes around text and underlines are
no figures. The labels around a group are part of the figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from turnmark.corpora.readers.pdf.page import PdfFigure
from turnmark.corpora.readers.pdf.shapes import DrawnShape, ShapeKind
from turnmark.corpora.readers.pdf.text_patterns import begins_as_caption
from turnmark.corpora.readers.pdf.turning import Box

_BACKGROUND_SHARE = 0.85  # of the page; a shape that covers more is behind the text
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
_MIN_PIXELS = 64  # of either side of a picture
_MAX_TEXT_SHARE = 0.45  # of the area of a drawing with curves that its words cover
_MAX_BOXED_TEXT_SHARE = 0.15  # the same without curves; boxes with more are a table or a text in boxes
_TEXT_BOX_SHARE = 0.22  # of a box; with more text it is a box around text
_MIN_TEXT_BOX_AREA = 2_500.0  # square points; a smaller one may be the node of a diagram
_MIN_CURVES = 3
_MIN_BOXES = 3
_MIN_FILLED_CELLS = 0.6  # of the boxes with text in them; then they are cells
_MIN_ROW_WIDTH = 0.9  # of the group; so wide a box is a row
_MIN_LINES_IN_ROWS = 0.8  # of the lines of text; then the group is a listing or a table with shaded rows
_MIN_INNER_RULES = 5  # in a box, such as the bars of a chart
_MAX_INNER_RULE_LENGTH = 0.85  # of the box; longer rules make a table
_MAX_LABEL_LENGTH = 60  # characters of a line next to a figure that may be a label
_LABEL_GAP = 12.0  # points between a figure and its labels
_TITLE_GAP = 26.0  # points between a figure and the title of an axis
_MAX_TITLE_LENGTH = 45  # characters of such a title
_MAX_TITLE_SHIFT = 0.12  # of the side; from the middle of the side to the middle of the title
_LABEL_OVERHANG = 30.0  # points by which a label may be beyond a side
_LABEL_ROUNDS = 3  # numbers along the axis, its title, the title of the figure
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
        self.box = box or _around(shape.box for shape in shapes)

    def count(self, kind: ShapeKind) -> int:
        return sum(shape.parts for shape in self.shapes if shape.kind is kind)

    def joined(self, other: _Group) -> _Group:
        return _Group([*self.shapes, *other.shapes], _around((self.box, other.box)))


def figures_of(shapes: Sequence[DrawnShape], text: Callable[[], Sequence[PlacedLine]], bounds: Box) -> list[PdfFigure]:
    """Return the figures of a page from top to bottom.

    Args:
        text: returns the lines of the page. It is called only if shapes could be a figure.
        bounds: the box of the page.
    """
    if not any(shape.kind not in (ShapeKind.RULE, ShapeKind.MARK) for shape in shapes):
        return []
    lines = text()
    seeds = _seeds(shapes, lines, bounds)
    if not seeds:
        return []
    rules = [shape.box for shape in shapes if shape.kind is ShapeKind.RULE][:_MAX_COMPARED]
    boxes = [shape.box for shape in shapes if shape.kind is ShapeKind.BOX][:_MAX_COMPARED]
    groups = _joined_groups(_near(seeds, bounds), lines)
    figures: list[PdfFigure] = []
    for group in groups:
        if _is_figure(group, lines, rules, boxes):
            is_picture = all(shape.kind is ShapeKind.PICTURE for shape in group.shapes)
            box = group.box if is_picture else _with_labels(_with_rules(group.box, rules), lines)
            figures.append(_figure(group, box.within(bounds)))
    return sorted(_without_nested(figures), key=lambda figure: (-figure.box.top, figure.box.left))


def _figure(group: _Group, box: Box) -> PdfFigure:
    pictures = [shape for shape in group.shapes if shape.kind is ShapeKind.PICTURE]
    if not pictures:
        return PdfFigure(box)
    is_only_pictures = len(pictures) == len(group.shapes)
    places = "/".join(f"{shape.size}-{'-'.join(str(round(edge)) for edge in shape.box)}" for shape in pictures[:50])
    density, pixels = max(shape.density for shape in pictures), max(shape.pixels for shape in pictures)
    return PdfFigure(box, density, pixels, places if is_only_pictures else "")


def _seeds(shapes: Sequence[DrawnShape], lines: Sequence[PlacedLine], bounds: Box) -> list[DrawnShape]:
    """Return the shapes that a figure can consist of: no rules, backgrounds and boxes around text."""
    characters = sum(len(line.text) for line in lines)
    large = sum(shape.kind is not ShapeKind.PICTURE and _area(shape.box) >= _MIN_TEXT_BOX_AREA for shape in shapes)
    seeds: list[DrawnShape] = []
    for shape in shapes:
        if shape.kind is ShapeKind.RULE:
            continue
        covers = _area(shape.box.within(bounds)) >= _BACKGROUND_SHARE * _area(bounds)
        if covers and (shape.kind is not ShapeKind.PICTURE or characters > _MAX_BACKGROUND_CHARACTERS):
            continue
        if shape.kind is not ShapeKind.PICTURE and large <= _MAX_TEXT_BOXES and _is_text_box(shape.box, lines):
            continue
        seeds.append(shape)
    marks_only = all(shape.kind is ShapeKind.MARK for shape in seeds)
    return [] if marks_only else seeds


def _is_text_box(box: Box, lines: Sequence[PlacedLine]) -> bool:
    return _area(box) >= _MIN_TEXT_BOX_AREA and _text_share(box, lines) > _TEXT_BOX_SHARE


# --- groups ----------------------------------------------------------------------------------------------------------


def _near(shapes: Sequence[DrawnShape], bounds: Box) -> list[_Group]:
    """Divide shapes into groups of those that are near each other.

    The boxes of the shapes are drawn into a grid of small cells, and its connected areas are the groups: comparing each
    shape with each other would take minutes for a map.
    """
    from scipy import ndimage

    wide, high = int((bounds.right - bounds.left) / _CELL) + 2, int((bounds.top - bounds.bottom) / _CELL) + 2
    grid = np.zeros((min(high, _MAX_CELLS), min(wide, _MAX_CELLS)), dtype=np.bool_)
    places: list[tuple[int, int]] = []
    for shape in shapes:
        box = shape.box.within(bounds)
        x0, x1 = int((box.left - bounds.left) / _CELL), int((box.right - bounds.left) / _CELL)
        y0, y1 = int((box.bottom - bounds.bottom) / _CELL), int((box.top - bounds.bottom) / _CELL)
        grid[max(y0, 0) : y1 + 1, max(x0, 0) : x1 + 1] = True
        places.append((min(max(y0, 0), grid.shape[0] - 1), min(max(x0, 0), grid.shape[1] - 1)))
    areas, _ = ndimage.label(grid, structure=np.ones((3, 3)))
    groups: dict[int, list[DrawnShape]] = {}
    for shape, place in zip(shapes, places, strict=True):
        groups.setdefault(int(areas[place]), []).append(shape)
    return [_Group(part) for part in groups.values()]


def _joined_groups(groups: list[_Group], lines: Sequence[PlacedLine]) -> list[_Group]:
    """Join groups that are not far apart and have no line of text between them."""
    separating = [line for line in lines if len(line.text) >= _MIN_SEPARATING_LENGTH or begins_as_caption(line.text)]
    groups = sorted(groups, key=lambda group: -_area(group.box))[:_MAX_GROUPS]
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
    whole = _around((first, second))
    for line in lines:
        middle = _middle(line.box)
        if _has(whole, middle) and not _has(first, middle) and not _has(second, middle):
            return True
    return False


# --- which groups are figures ----------------------------------------------------------------------------------------


def _is_figure(group: _Group, lines: Sequence[PlacedLine], rules: Sequence[Box], page_boxes: Sequence[Box]) -> bool:
    wide, high = group.box.right - group.box.left, group.box.top - group.box.bottom
    pictures = [shape for shape in group.shapes if shape.kind is ShapeKind.PICTURE]
    if pictures and sum(_area(shape.box) for shape in pictures) >= 0.3 * _area(group.box):
        density = max(shape.density for shape in pictures)
        return min(wide, high) >= _MIN_PICTURE_POINTS and min(wide, high) * density >= _MIN_PIXELS
    if min(wide, high) < _MIN_DRAWN_POINTS:
        return False
    text = _text_share(group.box, lines)
    curves = group.count(ShapeKind.CURVE) + group.count(ShapeKind.DRAWING)
    marks, boxes = group.count(ShapeKind.MARK), group.count(ShapeKind.BOX)
    if curves + marks >= _MIN_CURVES and curves:
        return text <= _MAX_TEXT_SHARE
    if text > _MAX_BOXED_TEXT_SHARE:
        return False
    inside = [rule for rule in rules if _has(group.box, _middle(rule))]
    if curves and (boxes or len(inside) >= 2):
        return True
    if boxes >= _MIN_BOXES:
        return marks >= _MIN_CURVES or not _are_cells(group.box, page_boxes, lines)
    short = sum(
        rule.right - rule.left < _MAX_INNER_RULE_LENGTH * wide
        and rule.top - rule.bottom < _MAX_INNER_RULE_LENGTH * high
        for rule in inside
    )
    return boxes > 0 and short + marks >= _MIN_INNER_RULES


def _are_cells(area: Box, page_boxes: Sequence[Box], lines: Sequence[PlacedLine]) -> bool:
    """Return whether the boxes in an area are the cells or rows of a table or of a listing, rather than bars."""
    boxes = [box for box in page_boxes if _has(area, _middle(box))]
    middles = [_middle(line.box) for line in lines if _has(area, _middle(line.box))]
    filled = sum(any(_has(box, middle) for middle in middles) for box in boxes)
    wide, high = area.right - area.left, area.top - area.bottom
    rows = [box for box in boxes if box.right - box.left > _MIN_ROW_WIDTH * wide and box.top - box.bottom < high / 2]
    in_rows = sum(any(_has(row, middle) for row in rows) for middle in middles)
    return filled >= _MIN_FILLED_CELLS * len(boxes) or (bool(rows) and in_rows >= _MIN_LINES_IN_ROWS * len(middles))


def _text_share(box: Box, lines: Iterable[PlacedLine]) -> float:
    """Return the share of a box that lines of text cover."""
    left, bottom, right, top = box
    covered = 0.0
    for _, (x0, y0, x1, y1) in lines:
        if x0 < right and x1 > left and y0 < top and y1 > bottom:
            covered += (min(x1, right) - max(x0, left)) * (min(y1, top) - max(y0, bottom))
    return covered / max(_area(box), 1.0)


def _with_rules(box: Box, rules: Sequence[Box]) -> Box:
    """Return the box around a figure and its rules, such as axes and grid lines."""
    for _ in range(2):
        near = [rule for rule in rules if _gap(rule, box) <= _RULE_GAP and _is_beside(rule, box)]
        box = _around((box, *near))
    return box


def _is_beside(rule: Box, box: Box) -> bool:
    return (
        rule.left >= box.left - _LABEL_OVERHANG
        and rule.right <= box.right + _LABEL_OVERHANG
        and rule.bottom >= box.bottom - _LABEL_OVERHANG
        and rule.top <= box.top + _LABEL_OVERHANG
    )


def _with_labels(box: Box, lines: Sequence[PlacedLine]) -> Box:
    """Return the box around a figure and the short lines of text next to it."""
    labels = [line for line in lines if len(line.text) <= _MAX_LABEL_LENGTH and not begins_as_caption(line.text)]
    for _ in range(_LABEL_ROUNDS):
        wider = _around((box, *(label.box for label in labels if _is_label(label, box))))
        if wider == box:
            break
        box = wider
    return Box(box.left - _MARGIN, box.bottom - _MARGIN, box.right + _MARGIN, box.top + _MARGIN)


def _is_label(line: PlacedLine, box: Box) -> bool:
    """Return whether a line belongs to a figure: it is next to it, or a little further in the middle of a side."""
    gap = _gap(line.box, box)
    if gap > _TITLE_GAP or not _is_beside(line.box, box):
        return False
    if gap <= _LABEL_GAP:
        return True
    (x, y), (middle_x, middle_y) = _middle(line.box), _middle(box)
    is_across = abs(x - middle_x) <= _MAX_TITLE_SHIFT * (box.right - box.left)
    is_upright = line.box.top - line.box.bottom > line.box.right - line.box.left
    is_along = is_upright and abs(y - middle_y) <= _MAX_TITLE_SHIFT * (box.top - box.bottom)
    return len(line.text) <= _MAX_TITLE_LENGTH and (is_across or is_along)


def _without_nested(figures: Sequence[PdfFigure]) -> list[PdfFigure]:
    """Drop figures that are inside of others."""
    kept: list[PdfFigure] = []
    for figure in sorted(figures, key=lambda figure: -_area(figure.box)):
        if not any(_has(other.box, _middle(figure.box)) for other in kept):
            kept.append(figure)
    return kept


# --- boxes -----------------------------------------------------------------------------------------------------------


def _around(boxes: Iterable[Box]) -> Box:
    found = list(boxes)
    return Box(
        min(box.left for box in found),
        min(box.bottom for box in found),
        max(box.right for box in found),
        max(box.top for box in found),
    )


def _area(box: Box) -> float:
    return max(0.0, box.right - box.left) * max(0.0, box.top - box.bottom)


def _clipped(box: Box, bounds: Box) -> Box:
    return Box(
        max(box.left, bounds.left),
        max(box.bottom, bounds.bottom),
        min(box.right, bounds.right),
        min(box.top, bounds.top),
    )


def _gap(first: Box, second: Box) -> float:
    """Return the distance between two boxes, across or down; 0 if they meet."""
    across = max(first.left, second.left) - min(first.right, second.right)
    down = max(first.bottom, second.bottom) - min(first.top, second.top)
    return max(across, down, 0.0)


def _middle(box: Box) -> tuple[float, float]:
    return (box.left + box.right) / 2, (box.bottom + box.top) / 2


def _has(box: Box, point: tuple[float, float]) -> bool:
    return box.left <= point[0] <= box.right and box.bottom <= point[1] <= box.top
