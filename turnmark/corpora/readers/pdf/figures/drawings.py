"""Finds what a page has besides its text: rules, boxes, links and form fields."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from typing import Any

import pypdfium2
import pypdfium2.raw as pdfium

from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import Rule

MAX_OBJECTS = 20_000  # of one page that are looked at; a map has more
MAX_ANNOTATIONS = 2_000  # on one page in which fields are sought
MAX_NESTING = 4  # of form objects within form objects
MAX_RULE_WIDTH = 2.5  # points; a box at most this thick is a rule
_MIN_RULE_WIDTH, _MIN_RULE_HEIGHT = 8, 4  # points; a shorter line is a dash


def rules_of_path(path: Any, x0: float, y0: float, x1: float, y1: float) -> Iterator[Rule]:
    """Yield the rules that a path draws, given its bounding box."""
    wide, high = x1 - x0, y1 - y0
    if wide > _MIN_RULE_WIDTH and high <= MAX_RULE_WIDTH:
        yield Rule(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
    elif high > _MIN_RULE_HEIGHT and wide <= MAX_RULE_WIDTH:
        yield Rule((x0 + x1) / 2, y0, (x0 + x1) / 2, y1)
    elif wide > _MIN_RULE_WIDTH and high > _MIN_RULE_HEIGHT and _is_stroked_box(path):
        yield Rule(x0, y0, x1, y0)
        yield Rule(x0, y1, x1, y1)
        yield Rule(x0, y0, x0, y1)
        yield Rule(x1, y0, x1, y1)


def _is_stroked_box(path: Any) -> bool:
    """Return whether a path is a rectangle drawn as an outline."""
    if pdfium.FPDFPath_CountSegments(path) not in (4, 5):
        return False
    mode, stroke = ctypes.c_int(), ctypes.c_int()
    drawn = pdfium.FPDFPath_GetDrawMode(path, ctypes.byref(mode), ctypes.byref(stroke))
    return bool(drawn and stroke.value)


def has_fields(page: pypdfium2.PdfPage) -> bool:
    """Return whether a page has form fields or typed annotations, which are not part of its text."""
    for index in range(min(pdfium.FPDFPage_GetAnnotCount(page), MAX_ANNOTATIONS)):
        note = pdfium.FPDFPage_GetAnnot(page, index)
        kind = pdfium.FPDFAnnot_GetSubtype(note)
        pdfium.FPDFPage_CloseAnnot(note)
        if kind in (pdfium.FPDF_ANNOT_WIDGET, pdfium.FPDF_ANNOT_FREETEXT):
            return True
    return False


def links_of(page: pypdfium2.PdfPage) -> Iterator[Box]:
    """Yield the boxes of the links to places in the document."""
    place, link, edges = ctypes.c_int(0), pdfium.FPDF_LINK(), pdfium.FS_RECTF()
    for _ in range(MAX_ANNOTATIONS):
        if not pdfium.FPDFLink_Enumerate(page, ctypes.byref(place), ctypes.byref(link)):
            return
        action = pdfium.FPDFLink_GetAction(link)
        inside = pdfium.FPDFLink_GetDest(page.pdf, link) or (
            action and pdfium.FPDFAction_GetType(action) == pdfium.PDFACTION_GOTO
        )
        if inside and pdfium.FPDFLink_GetAnnotRect(link, ctypes.byref(edges)):
            yield Box(edges.left, edges.bottom, edges.right, edges.top)
