"""Reads what is drawn on a sheet of a workbook: charts, diagrams, text boxes and pictures."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from typing import Any

from turnmark.corpora.readers.office.archive import parse_part, related_parts
from turnmark.corpora.readers.office.charts import is_fallback, paragraph_text, picture_mark, read_chart, read_diagram
from turnmark.corpora.readers.office.grid import Sheet, cell_of_text, escape_line, sheet_markdown
from turnmark.corpora.readers.pictures.collector import PictureCollector

_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_R = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_OTHER_BOOK = re.compile(r"'?\[")


def read_sheet_drawings(packed: zipfile.ZipFile, sheet: str, pictures: PictureCollector) -> list[str]:
    """Return the charts, diagrams and text boxes on a sheet as pieces of Markdown, with the marks of pictures.

    The numbers of a chart that are in cells of the workbook are not repeated.

    Args:
        sheet: the part of the sheet.
    """
    pieces: list[str] = []
    for kind, place in related_parts(packed, sheet).values():
        drawing = parse_part(packed, place) if kind == "drawing" else None
        if drawing is not None:
            pieces += _pieces(packed, place, drawing, pictures)
    return pieces


def _pieces(packed: zipfile.ZipFile, part: str, drawing: Any, pictures: PictureCollector) -> Iterator[str]:
    related = related_parts(packed, part)
    for node in drawing.iter("{*}chart", "{*}relIds", "{*}txBody", "{*}pic"):
        name = str(node.tag).rpartition("}")[2]
        if any(map(is_fallback, node.iterancestors())):
            continue
        if name == "txBody":
            yield from (escape_line(text) for text in map(paragraph_text, node.iter(f"{_A}p")) if text)
            continue
        if name == "pic":
            if mark := picture_mark(packed, node, related, pictures):
                yield mark
            continue
        _, place = related.get(str(node.get(f"{_R}id" if name == "chart" else f"{_R}dm")), ("", ""))
        data = parse_part(packed, place)
        if data is not None and name == "chart":
            yield from _chart_pieces(data)
        elif data is not None and (lines := read_diagram(data)):
            yield "\n".join(f"- {escape_line(line)}" for line in lines)


def _chart_pieces(data: Any) -> Iterator[str]:
    chart = read_chart(data)
    sources = [str(formula.text or "") for formula in data.iter("{*}f")]
    if chart.rows and (not sources or any(map(_OTHER_BOOK.match, sources))):
        rows = [[cell_of_text(text) for text in row] for row in chart.rows]
        yield sheet_markdown(Sheet("", rows)).strip()
    elif chart.words:
        yield escape_line(chart.words)
