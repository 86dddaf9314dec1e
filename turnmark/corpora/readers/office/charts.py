"""Reads what Office files draw: a chart as rows of numbers, a diagram (SmartArt) as its lines, pictures as marks."""

from __future__ import annotations

import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from turnmark.corpora.readers.common.prose import clean_text
from turnmark.corpora.readers.office.archive import parse_extra, read_open_part
from turnmark.corpora.readers.office.number_format import format_value
from turnmark.corpora.readers.pictures.collector import PictureCollector

DRAWING = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
RELATIONSHIP = "{http://schemas.openxmlformats.org/officeDocument/2006/relationships}"
_CHART = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"
_MAX_POINTS = 5_000  # of one series


class Chart(NamedTuple):
    """A chart. `rows` has a row of names, then a row per category with a column per series; empty without numbers."""

    title: str
    rows: list[list[str]]

    @property
    def series(self) -> list[str]:
        """The names of the series."""
        return [name for name in self.rows[0][1:] if name] if self.rows else []

    @property
    def words(self) -> str:
        """The title and the names of the series in one line, for a chart whose numbers are elsewhere."""
        series = f" ({', '.join(self.series)})" if self.series and self.series != [self.title] else ""
        if self.title:
            return f"Chart: {self.title}{series}"
        return f"Chart{series}" if series else ""


def read_chart(tree: Any) -> Chart:
    """Read a chart part. The title names the first column of its rows.

    A chart of a single series without a title is shown with the name of the series.
    """
    if str(tree.tag).endswith("}chartSpace") and not str(tree.tag).startswith(_CHART):
        return _read_extended(tree)
    names: dict[str, str] = {}
    columns: list[dict[str, str]] = []
    heads: list[str] = []
    for series in tree.iter(f"{_CHART}ser"):
        name = series.find(f"{_CHART}tx")
        literal = str(name.findtext(f"{_CHART}v") or "") if name is not None else ""
        heads.append(" ".join(_points(name).values()) or clean_text(literal))
        values, categories = series.find(f"{_CHART}val"), series.find(f"{_CHART}cat")
        columns.append(_points(series.find(f"{_CHART}yVal") if values is None else values))
        names = _points(series.find(f"{_CHART}xVal") if categories is None else categories) | names
    return _chart(tree, heads, names, columns)


def _chart(tree: Any, heads: list[str], names: dict[str, str], columns: list[dict[str, str]]) -> Chart:
    title = " ".join(filter(None, map(paragraph_text, tree.iterfind(f"{{*}}chart/{{*}}title//{DRAWING}p"))))
    if not any(columns):
        return Chart(title, [])
    places = sorted({place for column in columns for place in column}, key=lambda place: (len(place), place))
    body = [[names.get(place, ""), *(column.get(place, "") for column in columns)] for place in places[:_MAX_POINTS]]
    return Chart(title, [[title or heads[0] * (len(heads) == 1), *heads], *body])


def _points(tree: Any) -> dict[str, str]:
    """Return the cached values in a part of a chart, by index. Category levels are joined, with the outermost first."""
    from openpyxl.styles.numbers import is_date_format
    from openpyxl.utils.datetime import from_excel

    levels = list(tree.iter(f"{_CHART}lvl")) if tree is not None else []
    if len(levels) > 1:
        return _joined_levels(levels)
    found: dict[str, str] = {}
    for point in tree.iter(f"{_CHART}pt") if tree is not None else ():
        value = clean_text(str(point.findtext(f"{_CHART}v") or ""))
        code = point.get("formatCode") or point.getparent().findtext(f"{_CHART}formatCode")
        with suppress(ValueError, OverflowError):  # not a number, or not a valid date
            if code:
                value = format_value(from_excel(float(value)) if is_date_format(code) else float(value), code)
        found[str(point.get("idx"))] = value
    return found


def _joined_levels(levels: list[Any]) -> dict[str, str]:
    """Join categories on several levels: "2023" for the first of four quarters names all four."""
    inner, *outer = [
        {str(point.get("idx")): clean_text(str(point.findtext(f"{_CHART}v") or "")) for point in level}
        for level in levels
    ]
    found = dict(inner)
    for level in outer:
        name = ""
        for place in sorted(inner, key=lambda place: (len(place), place)):
            name = level.get(place, name)
            found[place] = f"{name} {found[place]}".strip()
    return found


def _read_extended(tree: Any) -> Chart:
    """Read a chart of a newer kind, such as a waterfall or a tree map (chartex)."""
    names: dict[str, str] = {}
    columns: list[dict[str, str]] = []
    for data in tree.iterfind("{*}chartData/{*}data"):
        for dimension in data:
            levels = dimension.findall("{*}lvl")
            points = {str(pt.get("idx")): clean_text(str(pt.text or "")) for level in levels[:1] for pt in level}
            if str(dimension.tag).endswith("}strDim"):
                names = points | names
            elif points:
                columns.append(points)
    series = list(tree.iterfind(".//{*}series"))
    heads = [clean_text(each.findtext("{*}tx/{*}txData/{*}v") or each.get("layoutId") or "") for each in series]
    return _chart(tree, (heads + [""] * len(columns))[: len(columns)], names, columns)


def read_diagram(tree: Any) -> list[str]:
    """Return the lines of a diagram, in the order of the file."""
    return list(filter(None, map(paragraph_text, tree.iter(f"{DRAWING}p"))))


def paragraph_text(paragraph: Any) -> str:
    """Return the text of a paragraph of DrawingML."""
    nodes = paragraph.iter(f"{DRAWING}t", f"{DRAWING}br", f"{DRAWING}tab")
    text = "".join(str(node.text or "") if node.tag == f"{DRAWING}t" else " " for node in nodes)
    return " ".join(clean_text(text).split())


def is_fallback(element: Any) -> bool:
    """Return whether an element repeats another one, for programs that cannot show it."""
    return str(element.tag).endswith("}Fallback")


def drawn_objects(
    packed: zipfile.ZipFile, tree: Any, related: Mapping[str, tuple[str, str]], left_out: Counter[str]
) -> Iterator[tuple[Any, Chart | list[str]]]:
    """Yield the charts, and the lines of the diagrams, that a tree refers to, each after its element.

    Args:
        related: the relations of the part.
        left_out: counts broken parts.
    """
    for element in tree.iter("{*}chart", "{*}relIds"):
        is_chart = str(element.tag).endswith("}chart")
        _, place = related.get(str(element.get(f"{RELATIONSHIP}id" if is_chart else f"{RELATIONSHIP}dm")), ("", ""))
        data = None if any(map(is_fallback, element.iterancestors())) else parse_extra(packed, place, left_out)
        if data is not None:
            yield element, read_chart(data) if is_chart else read_diagram(data)


def picture_mark(
    packed: zipfile.ZipFile, picture: Any, related: Mapping[str, tuple[str, str]], pictures: PictureCollector
) -> str:
    """Return the mark of a picture that a part shows; empty if it is not handed over.

    Args:
        related: the relations of the part.
    """
    blip, named = picture.find("{*}blipFill/{*}blip"), picture.find("{*}nvPicPr/{*}cNvPr")
    _, place = related.get(str(blip.get(f"{RELATIONSHIP}embed")) if blip is not None else "", ("", ""))
    if place not in packed.NameToInfo:
        return ""
    alt = str(named.get("descr") or "") if named is not None else ""
    return pictures.mark(place, partial(read_open_part, packed, place), alt)
