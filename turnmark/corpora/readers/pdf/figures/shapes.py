"""Lists what a page draws besides text: rules, boxes, curves, pictures, and drawings that were included as a whole.

Positions are in the coordinates of the page, before it is turned upright.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Iterator
from enum import Enum
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from turnmark.corpora.readers.pdf.figures.drawings import MAX_NESTING, MAX_OBJECTS, MAX_RULE_WIDTH, rules_of_path
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import Rule

_MIN_MARK_SIZE = 0.4  # points; anything smaller is not visible
_MAX_MARK_SIZE = 9.0  # points; a shape at most this wide and high is a mark, such as a point of a chart or an arrowhead
_MAX_BOX_SEGMENTS = 8  # of an outline that may be a box; a line with more segments is a curve of a chart
_MAX_SUMMED_BYTES = 100_000  # of a picture; a larger one hardly ever has the size of another
_MAX_ROUNDED_SEGMENTS = 24  # of the outline of a box with rounded corners
_MAX_CORNER = 12.0  # points between two points of a rounded corner
_WHOLE_PAGE_SHARE = 0.7  # of the page; a form that covers more is a part of the page rather than a drawing
_MAX_LISTED_PARTS = 40  # of a form, to see whether it draws anything but text
_TOLERANCE = 0.05  # points, between the ends of a level line


class ShapeKind(Enum):
    """The kind of a shape."""

    PICTURE = "picture"
    DRAWING = "drawing"  # included as a whole, such as a chart from another program
    CURVE = "curve"  # anything drawn that is neither level nor upright, or has many corners
    BOX = "box"
    MARK = "mark"
    RULE = "rule"


class DrawnShape(NamedTuple):
    """Something that a page draws.

    Attributes:
        density: picture: pixels per point.
        pixels: picture: number of pixels.
        content: picture: number that tells it from others, its checksum or, if it is large, the number of its bytes.
        parts: drawing: number of objects in it; otherwise 1.
    """

    kind: ShapeKind
    box: Box
    density: float = 0.0
    pixels: int = 0
    content: int = 0
    parts: int = 1


def read_drawing(page: pypdfium2.PdfPage) -> tuple[list[DrawnShape], list[Rule]]:
    """Return what a page draws: its shapes in order, and its rules with the edges of its boxes.

    There are no rules on a page with very many objects: it is a map, which has no tables.
    """
    reader = _ShapeReader(page)
    return list(reader.read()), reader.rules


class _ShapeReader:
    def __init__(self, page: pypdfium2.PdfPage) -> None:
        self._page = page
        self._bounds = Box(*page.get_bbox())
        self._count = pdfium.FPDFPage_CountObjects(page)
        self._left = MAX_OBJECTS
        self.rules: list[Rule] = []
        self._edges = [ctypes.c_float() for _ in range(4)]
        self._places = [ctypes.byref(edge) for edge in self._edges]

    def read(self) -> Iterator[DrawnShape]:
        for index in range(min(self._count, MAX_OBJECTS)):
            drawn = pdfium.FPDFPage_GetObject(self._page, index)
            kind = pdfium.FPDFPageObj_GetType(drawn)
            if kind != pdfium.FPDF_PAGEOBJ_TEXT:
                yield from self._shapes(drawn, kind, None, 0)

    def _shapes(self, drawn: Any, kind: int, matrix: pypdfium2.PdfMatrix | None, depth: int) -> Iterator[DrawnShape]:
        self._left -= 1
        if self._left < 0:
            return
        if not pdfium.FPDFPageObj_GetBounds(drawn, *self._places):
            return
        box = Box(*(edge.value for edge in self._edges))
        if kind == pdfium.FPDF_PAGEOBJ_PATH and not depth and self._count <= MAX_OBJECTS:
            self.rules += rules_of_path(drawn, *box)
        box = Box(*matrix.on_rect(*box)) if matrix else box
        inside = box.within(self._bounds)
        if inside.width < 0 or inside.height < 0:
            return
        if kind == pdfium.FPDF_PAGEOBJ_PATH:
            if max(box.width, box.height) >= _MIN_MARK_SIZE:
                yield DrawnShape(_kind_of_path(drawn, box), box)
        elif kind == pdfium.FPDF_PAGEOBJ_IMAGE:
            yield _picture(drawn, box)
        elif kind == pdfium.FPDF_PAGEOBJ_FORM:
            yield from self._form(drawn, box, matrix, depth)

    def _form(self, form: Any, box: Box, matrix: pypdfium2.PdfMatrix | None, depth: int) -> Iterator[DrawnShape]:
        """Yield a form as one drawing, or the shapes in it if it is most of the page, or only a frame for a picture."""
        count = pdfium.FPDFFormObj_CountObjects(form)
        if depth >= MAX_NESTING or count <= 0:
            return
        own = pdfium.FS_MATRIX()
        if not pdfium.FPDFPageObj_GetMatrix(form, ctypes.byref(own)):
            return
        inner = pypdfium2.PdfMatrix.from_raw(own)
        inner = inner.multiply(matrix) if matrix else inner
        if count <= 2 or box.share_of(self._bounds) >= _WHOLE_PAGE_SHARE:
            for index in range(min(count, MAX_OBJECTS)):
                drawn = pdfium.FPDFFormObj_GetObject(form, index)
                yield from self._shapes(drawn, pdfium.FPDFPageObj_GetType(drawn), inner, depth + 1)
            return
        kinds = [
            pdfium.FPDFPageObj_GetType(pdfium.FPDFFormObj_GetObject(form, index))
            for index in range(min(count, _MAX_LISTED_PARTS))
        ]
        drawn = sum(kind != pdfium.FPDF_PAGEOBJ_TEXT for kind in kinds)
        if drawn:
            yield DrawnShape(ShapeKind.DRAWING, box.within(self._bounds), parts=drawn + max(0, count - len(kinds)))


def _picture(drawn: Any, box: Box) -> DrawnShape:
    width, height = ctypes.c_uint(), ctypes.c_uint()
    known = pdfium.FPDFImageObj_GetImagePixelSize(drawn, ctypes.byref(width), ctypes.byref(height))
    wide, high = max(box.width, 0.1), max(box.height, 0.1)
    # A picture may be turned by 90 degrees, so the longer sides are compared.
    density = max(width.value, height.value) / max(wide, high) if known else 1.0
    pixels = width.value * height.value if known else 0
    size = pdfium.FPDFImageObj_GetImageDataRaw(drawn, None, 0)
    if size <= _MAX_SUMMED_BYTES:
        data = ctypes.create_string_buffer(max(size, 1))
        pdfium.FPDFImageObj_GetImageDataRaw(drawn, data, size)
        size = zlib.crc32(data.raw)
    return DrawnShape(ShapeKind.PICTURE, box, density, pixels, size)


def _kind_of_path(path: Any, box: Box) -> ShapeKind:
    wide, high = box.width, box.height
    if max(wide, high) <= _MAX_MARK_SIZE:
        return ShapeKind.MARK
    if min(wide, high) <= MAX_RULE_WIDTH:
        return ShapeKind.RULE
    count = pdfium.FPDFPath_CountSegments(path)
    return ShapeKind.BOX if count <= _MAX_ROUNDED_SEGMENTS and _is_box(path, count) else ShapeKind.CURVE


def _is_box(path: Any, count: int) -> bool:
    """Return whether all lines of a path are level or upright, except for rounded corners."""
    before: tuple[float, float] | None = None
    is_rounded = False
    x, y = ctypes.c_float(), ctypes.c_float()
    for index in range(count):
        segment = pdfium.FPDFPath_GetPathSegment(path, index)
        kind = pdfium.FPDFPathSegment_GetType(segment)
        pdfium.FPDFPathSegment_GetPoint(segment, ctypes.byref(x), ctypes.byref(y))
        if before is not None and kind != pdfium.FPDF_SEGMENT_MOVETO:
            across, up = abs(x.value - before[0]), abs(y.value - before[1])
            is_curved = kind == pdfium.FPDF_SEGMENT_BEZIERTO
            is_rounded = is_rounded or is_curved
            if max(across, up) > _MAX_CORNER if is_curved else min(across, up) > _TOLERANCE:
                return False
        before = x.value, y.value
    return is_rounded or count <= _MAX_BOX_SEGMENTS
