"""Reads OpenDocument sheets (.ods) and slides (.odp) as displayed, and prepares texts (.odt) for pandoc."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from lxml import etree
from lxml.builder import ElementMaker

from turnmark.corpora.readers.common.prose import Unreadable, clean_text, small_number
from turnmark.corpora.readers.office.archive import (
    OPEN_DOCUMENT,
    check_packed,
    insert_after,
    parse_extra,
    parse_part,
    read_metadata,
    read_open_part,
    write_changed,
)
from turnmark.corpora.readers.office.charts import Chart
from turnmark.corpora.readers.office.grid import (
    EMPTY_CELL,
    MAX_COLUMNS,
    MAX_ROWS,
    Cell,
    CellBudget,
    Merge,
    Sheet,
    chart_sheet,
    escape_line,
)
from turnmark.corpora.readers.office.slides import Slide, SlideLine, deck
from turnmark.corpora.readers.office.workbook import MAX_SHEETS, documents
from turnmark.corpora.readers.pictures.collector import PictureCollector
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document, Problem

_TABLE = "{urn:oasis:names:tc:opendocument:xmlns:table:1.0}"
_CHART = "{urn:oasis:names:tc:opendocument:xmlns:chart:1.0}"
_TEXT = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_OFFICE = "{urn:oasis:names:tc:opendocument:xmlns:office:1.0}"
_STYLE = "{urn:oasis:names:tc:opendocument:xmlns:style:1.0}"
_DRAW = "{urn:oasis:names:tc:opendocument:xmlns:drawing:1.0}"
_PRESENTATION = "{urn:oasis:names:tc:opendocument:xmlns:presentation:1.0}"
_SVG = "{urn:oasis:names:tc:opendocument:xmlns:svg-compatible:1.0}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_OBJECT = f"{_DRAW}object"
_CELLS = (f"{_TABLE}table-cell", f"{_TABLE}covered-table-cell")
_PARAGRAPHS = (f"{_TEXT}p", f"{_TEXT}h")
_CONTENT = "content.xml"
_MAX_STYLE_PARENTS = 20  # in a chain of styles that are based on one another
_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?")
_MAX_CHART_ROWS = 5_000


def chart_of(packed: zipfile.ZipFile, drawn: Any, left_out: Counter[str]) -> Chart | None:
    """Return the chart that a `draw:object` shows, or None if it is something else.

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
        [" ".join(clean_text(" ".join(cell.itertext())).split()) for cell in row.iterchildren(_CELLS[0])]
        for row in chart.iter(f"{_TABLE}table-row")
    ]
    rows = [row for row in rows[:_MAX_CHART_ROWS] if any(row)]
    title = " ".join(clean_text(title).split())
    if rows and rows[0] and not rows[0][0]:
        rows[0][0] = title or rows[0][-1] * (len(rows[0]) == 2)
    return Chart(title, rows if len(rows) > 1 else [])


def read_ods(path: Path, relative: str, _: ProgressCallback) -> Iterator[Document | Problem]:
    """Read an OpenDocument spreadsheet; each sheet is a section."""
    check_packed(path, OPEN_DOCUMENT)
    try:
        with zipfile.ZipFile(path) as packed, packed.open("content.xml") as content:
            left_out: Counter[str] = Counter()
            sheets = list(_sheets(packed, content, left_out))
    except etree.XMLSyntaxError as error:
        raise Unreadable(f"broken: its content.xml cannot be read ({error}); open it and save it again") from error
    return documents(sheets, relative, read_metadata(path), left_out)


def _sheets(packed: zipfile.ZipFile, content: Any, left_out: Counter[str]) -> Iterator[Sheet]:
    hidden: set[str] = set()
    budget = CellBudget()
    sheet: Sheet | None = None
    count, depth = 0, 0
    tags = (f"{_STYLE}style", f"{_TABLE}table", f"{_TABLE}table-row", _OBJECT)
    events = etree.iterparse(content, events=("start", "end"), tag=tags, resolve_entities=False, no_network=True)
    for event, element in events:
        if element.tag == f"{_STYLE}style":
            if event == "end" and any(each.get(f"{_TABLE}display") == "false" for each in element):
                hidden.add(str(element.get(f"{_STYLE}name")))
        elif element.tag == _OBJECT:
            chart = chart_of(packed, element, left_out) if event == "end" and sheet is not None else None
            if sheet is not None and chart is not None and (words := chart.words):
                sheet.drawn.append(escape_line(words))
        elif element.tag == f"{_TABLE}table":
            depth += 1 if event == "start" else -1
            if event == "start" and depth == 1:
                count += 1
                is_hidden = element.get(f"{_TABLE}style-name") in hidden
                left_out["hidden sheets"] += is_hidden
                is_shown = not is_hidden and count <= MAX_SHEETS
                sheet = Sheet(clean_text(str(element.get(f"{_TABLE}name") or ""))) if is_shown else None
            elif event == "end" and depth == 0:
                if sheet is not None:
                    sheet.pack()
                    yield sheet
                sheet = None
                element.clear()
        elif event == "end" and depth == 1:
            if sheet is not None and not sheet.cut:
                _add_row(sheet, element, budget)
            element.clear()


def _add_row(sheet: Sheet, element: Any, budget: CellBudget) -> None:
    """Add a row as often as it is repeated."""
    cells: list[Cell] = []
    number = sheet.count
    for node in element.iterchildren(*_CELLS):
        cell = _cell(node) if node.tag == _CELLS[0] else EMPTY_CELL
        right, down = _count(node, "number-columns-spanned"), _count(node, "number-rows-spanned")
        if right > 1 or down > 1:
            sheet.merges.append(Merge(number, len(cells), number + down, len(cells) + right))
        cells += [cell] * min(_count(node, "number-columns-repeated"), MAX_COLUMNS + 1 - len(cells))
    times = _count(element, "number-rows-repeated")
    # Blank rows are repeated up to the end of the sheet. One of them is enough to separate two tables.
    times = min(times, MAX_ROWS + 1) if any(cell.text for cell in cells) else min(times, 2)
    if element.get(f"{_TABLE}visibility") in ("collapse", "filter"):
        sheet.hidden.update(range(number, number + times))
    for _ in range(times):
        if not sheet.take(list(cells), budget):
            return


def _count(element: Any, name: str) -> int:
    return max(1, small_number(element.get(f"{_TABLE}{name}"), digits=8))


def _cell(node: Any) -> Cell:
    """Return the cell as displayed. A date is written as 2024-03-01, whatever its format."""
    kind = node.get(f"{_OFFICE}value-type") or ""
    text = " ".join(_paragraph_text(child) for child in node if child.tag == f"{_TEXT}p")
    text = " ".join(clean_text(text).split())
    stored = _stored_value(node, kind)
    if kind == "date" and _DATE.match(stored) and re.search(r"\d[^\w]+\d+[^\w]+\d", text):
        text = stored
    if not text and kind in ("float", "percentage", "currency"):
        text = stored
    return Cell(text, bool(text) and kind in ("", "string"), stored if text else "")


def _stored_value(node: Any, kind: str) -> str:
    """Return the number, or the date as ISO, that is stored with a cell; empty for other values."""
    if kind in ("float", "percentage", "currency"):
        return str(node.get(f"{_OFFICE}value") or "")
    if kind == "date":
        return str(node.get(f"{_OFFICE}date-value") or "").removesuffix("T00:00:00").replace("T", " ")[:19]
    return ""


_BLANKS = {f"{_TEXT}s": " ", f"{_TEXT}tab": " ", f"{_TEXT}line-break": " "}


def _paragraph_text(element: Any) -> str:
    """Return the text of a paragraph without its comments and notes."""
    pieces: list[str] = [element.text or ""]
    for child in element:
        if child.tag in _BLANKS:
            pieces.append(_BLANKS[child.tag])
        elif child.tag != f"{_OFFICE}annotation" and isinstance(child.tag, str):
            pieces.append(_paragraph_text(child))
        pieces.append(child.tail or "")
    return "".join(pieces)


# --- slides ----------------------------------------------------------------------------------------------------------


def read_odp(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read OpenDocument slides; each slide is a section with its notes. Hidden slides are left out."""
    check_packed(path, OPEN_DOCUMENT)
    with zipfile.ZipFile(path) as packed:
        tree = parse_part(packed, "content.xml")
    if tree is None:
        raise Unreadable("broken: its content.xml is missing; open it and save it again")
    hidden = {
        style.get(f"{_STYLE}name")
        for style in tree.iter(f"{_STYLE}style")
        if any(each.get(f"{_PRESENTATION}visibility") == "hidden" for each in style)
    }
    pages = list(tree.iter(f"{_DRAW}page"))
    with zipfile.ZipFile(path) as packed:
        left_out: Counter[str] = Counter()
        pictures = PictureCollector()
        shown = [page for page in pages if page.get(f"{_DRAW}style-name") not in hidden]
        slides = [_slide(packed, page, left_out, pictures) for page in shown]
    left_out["hidden slides"] = len(pages) - len(slides)
    return deck(slides, relative, read_metadata(path), left_out, pictures)


def _slide(packed: zipfile.ZipFile, page: Any, left_out: Counter[str], pictures: PictureCollector) -> Slide:
    slide = Slide()
    for frame in page:
        if frame.tag == f"{_PRESENTATION}notes":
            slide.notes += [line for note in frame if not _is_margin(note) for line in _lines(note)]
        elif frame.get(f"{_PRESENTATION}class") in ("title",) and not slide.title:
            slide.title = " ".join(line.text for line in _lines(frame))
        elif not _is_margin(frame):
            _add_frame(slide, packed, frame, left_out)
            slide.pictures += _picture_marks(packed, frame, pictures)
    return slide


def _picture_marks(packed: zipfile.ZipFile, frame: Any, pictures: PictureCollector) -> Iterator[str]:
    """Yield the marks of the pictures in a frame or group on a slide. Previews of charts are left out."""
    for image in frame.iter(f"{_DRAW}image"):
        parent = image.getparent()
        place = str(image.get(_HREF) or "").removeprefix("./")
        if parent is None or parent.find(_OBJECT) is not None or place not in packed.NameToInfo:
            continue
        words = " ".join(filter(None, (parent.findtext(f"{_SVG}{name}") for name in ("title", "desc"))))
        if mark := pictures.mark(place, partial(read_open_part, packed, place), words):
            yield mark


def _is_margin(frame: Any) -> bool:
    return frame.get(f"{_PRESENTATION}class") in ("header", "footer", "date-time", "page-number")


def _add_frame(slide: Slide, packed: zipfile.ZipFile, frame: Any, left_out: Counter[str]) -> None:
    for drawn in frame.iter(_OBJECT):
        chart = chart_of(packed, drawn, left_out)
        if chart is not None and chart.rows:
            slide.tables.append(chart_sheet(chart))
    tables = list(frame.iter(f"{_TABLE}table"))
    for table in tables:
        rows = [list(map(_cell, row.iterchildren(*_CELLS))) for row in table.iter(f"{_TABLE}table-row")]
        slide.tables.append(Sheet("", rows))
    if not tables:
        slide.lines += _lines(frame)


def _lines(element: Any) -> list[SlideLine]:
    """Return the paragraphs below an element with their list depth, or None if it is not in a list."""
    found: list[SlideLine] = []
    stack: list[tuple[Any, int]] = [(element, -1)]
    while stack:
        node, depth = stack.pop()
        if node.tag in _PARAGRAPHS:
            text = " ".join(clean_text(_paragraph_text(node)).split())
            if text:
                found.append(SlideLine(text, depth if depth >= 0 else None))
            continue
        deeper = depth + (node.tag == f"{_TEXT}list")
        stack.extend((child, deeper) for child in reversed(node) if isinstance(child.tag, str))
    return found


# --- texts -----------------------------------------------------------------------------------------------------------

CODE_MARK = "\uf8f0"
"""Marks a paragraph of code for `pandoc.lua`."""
_CODE_STYLE = re.compile(r"preformatted|verbatim|\b(?:code|console|terminal)\b", re.IGNORECASE)
_MAX_FIXED_WIDTH_SHARE = 0.7  # of the paragraphs; with more, fixed width is the body style and does not mark code
_FIXED_WIDTH = re.compile(r"mono|courier|consol|typewriter|menlo|inconsolata", re.IGNORECASE)
_FIELDS = tuple(
    f"{_TEXT}{name}"
    for name in """date time creation-date modification-date author-name author-initials initial-creator creator title
    subject keywords description user-defined user-field-get user-field-input variable-set variable-get variable-input
    text-input expression database-display conditional-text drop-down placeholder file-name chapter meta meta-field
    page-count bibliography-mark measure ruby ruby-base""".split()
)
_CONTENT_CONTROL = "{urn:org:documentfoundation:names:experimental:office:xmlns:loext:1.0}content-control"
_SHAPES = tuple(f"{_DRAW}{name}" for name in "text-box custom-shape rect ellipse circle polygon path".split())


def with_all_words_and_code(path: Path, made: Path, left_out: Counter[str]) -> bool:
    """Write a copy of a text that pandoc reads completely, with `CODE_MARK` before each paragraph of code.

    Pandoc ignores fields, content controls, the base text of a pronunciation guide (ruby), frames and shapes with text,
    and styles. A paragraph is code if its style, or one that it is
    based on, has a name that says so or a fixed-width font.

    Returns:
        False if no copy is needed; then none is written.
    """
    with zipfile.ZipFile(path) as packed:
        content = parse_part(packed, _CONTENT)
        named = parse_part(packed, "styles.xml")
        for reading in list(content.iter(f"{_TEXT}ruby-text")):
            reading.getparent().remove(reading)
        fields = list(content.iter(*_FIELDS, _CONTENT_CONTROL))
        for field in fields:
            field.tag = f"{_TEXT}span"
        charts = _write_charts(packed, content, left_out)
        taken_out = _take_out_frames(content)
        coded = _mark_code(content, named)
        if fields or charts or taken_out or coded:
            texts = [name for name in packed.namelist() if name.endswith(".xml")]
            write_changed(packed, made, {_CONTENT: etree.tostring(content)}, texts)
            return True
    return False


def _write_charts(packed: zipfile.ZipFile, content: Any, left_out: Counter[str]) -> bool:
    """Write charts as tables after the paragraph in which they are anchored."""
    drawings = [(drawn, chart_of(packed, drawn, left_out)) for drawn in content.iter(_OBJECT)]
    return insert_after(
        (anchor, _table(chart.rows))
        for drawn, chart in drawings
        if chart is not None and chart.rows
        for anchor in list(drawn.iterancestors(*_PARAGRAPHS))[-1:]
    )


def _table(rows: Sequence[Sequence[str]]) -> Any:
    make, paragraph = ElementMaker(namespace=_TABLE[1:-1]), ElementMaker(namespace=_TEXT[1:-1]).p
    return make.table(
        *(make("table-column") for _ in range(max(map(len, rows)))),
        *(make("table-row", *(make("table-cell", paragraph(text)) for text in row)) for row in rows),
    )


def _take_out_frames(content: Any) -> bool:
    """Move the paragraphs of frames and shapes after the paragraph in which they are anchored."""
    shapes: list[tuple[Any, Any]] = []
    for shape in content.iter(_SHAPES):
        blocks = [each for each in shape if str(each.tag).startswith((_TEXT, _TABLE))]
        anchors = list(shape.iterancestors(*_PARAGRAPHS))
        frames = [each for each in (shape, *shape.iterancestors()) if str(each.tag).startswith(_DRAW)]
        shapes += [((anchors or frames)[-1], block) for block in blocks]
    for _, block in shapes:
        block.tail = None
    return insert_after(shapes)


def _mark_code(content: Any, named: Any) -> bool:
    styles = {
        each.get(f"{_STYLE}name"): each
        for tree in (named, content)
        if tree is not None
        for each in tree.iter(f"{_STYLE}style")
        if each.get(f"{_STYLE}family") == "paragraph"
    }
    texts = list(content.iter(f"{_TEXT}p"))
    paragraphs = [each for each in texts if _is_code(each.get(f"{_TEXT}style-name"), styles)]
    if len(paragraphs) > _MAX_FIXED_WIDTH_SHARE * len(texts):
        return False
    for paragraph in paragraphs:
        paragraph.text = CODE_MARK + (paragraph.text or "")
    return bool(paragraphs)


def _is_code(name: str | None, styles: Mapping[str, Any]) -> bool:
    for _ in range(_MAX_STYLE_PARENTS):
        style = styles.get(name or "")
        if style is None:
            break
        fonts = [str(each.get(f"{_STYLE}font-name", "")) for each in style.iterchildren(f"{_STYLE}text-properties")]
        if _CODE_STYLE.search(str(name).replace("_20_", " ")) or any(map(_FIXED_WIDTH.search, fonts)):
            return True
        name = style.get(f"{_STYLE}parent-style-name")
    return False
