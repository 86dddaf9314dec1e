"""Reads the charts of OpenDocument files, which are objects with a part of their own."""

from __future__ import annotations

import posixpath
import zipfile
from collections import Counter
from typing import Any

from turnmark.corpora.readers.office.archive import clean_text, parse_extra
from turnmark.corpora.readers.office.charts import Chart

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_CHART = "{urn:oasis:names:tc:opendocument:xmlns:chart:1.0}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_MAX_ROWS = 5_000


def chart_of(packed: zipfile.ZipFile, drawn: Any, left_out: Counter[str]) -> Chart | None:
    """Return the chart that a `draw:object` shows; None if it is something else.

    Args:
        left_out: counts broken objects.
    """
    href = str(drawn.get(_HREF) or "")
    folder = posixpath.normpath(href.removeprefix("./"))
    tree = parse_extra(packed, f"{folder}/content.xml", left_out) if href and not folder.startswith("..") else None
    chart = tree.find(f".//{_CHART}chart") if tree is not None else None
    if chart is None:
        return None
    title = " ".join(" ".join(found.itertext()) for found in chart.iterfind(f"{_CHART}title"))
    rows = [
        [" ".join(clean_text(" ".join(cell.itertext())).split()) for cell in row.iterchildren(f"{_TABLE}table-cell")]
        for row in chart.iter(f"{_TABLE}table-row")
    ]
    rows = [row for row in rows[:_MAX_ROWS] if any(row)]
    title = " ".join(clean_text(title).split())
    if rows and rows[0] and not rows[0][0]:
        rows[0][0] = title or rows[0][-1] * (len(rows[0]) == 2)
    return Chart(title, rows if len(rows) > 1 else [])
