"""Reads slides. Each slide is a section under its title, with its text, its tables and the speaker's notes."""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from turnmark.corpora.readers.common.prose import Unreadable, is_said_in, small_number, title_from_name
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.office.archive import (
    SLIDES,
    OfficeMetadata,
    check_packed,
    count_comments,
    parse_extra,
    parse_part,
    read_metadata,
    related_parts,
)
from turnmark.corpora.readers.office.charts import (
    DRAWING,
    RELATIONSHIP,
    drawn_objects,
    is_fallback,
    paragraph_text,
    picture_mark,
)
from turnmark.corpora.readers.office.grid import (
    EMPTY_CELL,
    Cell,
    Merge,
    Sheet,
    cell_of_text,
    chart_sheet,
    escape_line,
    sheet_text,
)
from turnmark.corpora.readers.pictures.collector import PictureCollector
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.tables.markdown_tables import without_tags
from turnmark.corpora.types import Document

_P = "{http://schemas.openxmlformats.org/presentationml/2006/main}"


class SlideLine(NamedTuple):
    """A paragraph of a slide with its list depth, or None if it is not in a list."""

    text: str
    depth: int | None


@dataclass
class Slide:
    """The content of a slide."""

    title: str = ""
    lines: list[SlideLine] = field(default_factory=list)
    tables: list[Sheet] = field(default_factory=list)
    notes: list[SlideLine] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)  # their marks

    def markdown(self, number: int) -> str:
        """Return the slide as a section."""
        pieces = [f"## {without_tags(self.title) or f'Slide {number}'}"]
        pieces += _paragraphs(self.lines)
        pieces += [sheet_text(table, level=3).markdown.strip() for table in self.tables]
        pieces += self.pictures
        notes = [line for line in self.notes if not line.text.isdigit()]  # without the slide number
        if notes:
            pieces += ["**Notes**", *_paragraphs(notes)]
        return "\n\n".join(filter(None, pieces)) if len(pieces) > 1 or self.title else ""


def _paragraphs(lines: list[SlideLine]) -> list[str]:
    """Return lines as paragraphs and lists."""
    pieces: list[str] = []
    for in_list, run in groupby(lines, key=lambda line: line.depth is not None):
        if in_list:
            pieces.append("\n".join(f"{'  ' * min(line.depth or 0, 8)}- {without_tags(line.text)}" for line in run))
        else:
            pieces += [escape_line(line.text) for line in run]
    return pieces


def deck(
    slides: list[Slide], relative: str, said: OfficeMetadata, left_out: Counter[str], pictures: PictureCollector
) -> Document:
    """Return the Document of slides. The title is the metadata's if a slide contains it, else the first slide's.

    Args:
        left_out: what was left out until now.
        pictures: the pictures whose marks are in the slides.
    """
    left_out["lines repeated on most slides"] += _drop_repeated(slides)
    sections = [slide.markdown(number) for number, slide in enumerate(slides, 1)]
    text = "\n\n".join(filter(None, sections))
    if not any(slide.lines or slide.tables or slide.notes or slide.title or slide.pictures for slide in slides):
        raise Unreadable("slides without text, so probably pictures; there is nothing to read")
    document = parse_markdown(text + "\n", relative, of_site=False, pictures=pictures)
    left_out += pictures.left_out
    first = slides[0].title if slides else ""
    title = (
        said.title
        if said.title and is_said_in(said.title, text[:3000])
        else first or said.title or title_from_name(relative)
    )
    return document.model_copy(update={"title": title, "date": said.date, "left_out": dict(+left_out)})


def _drop_repeated(slides: list[Slide]) -> int:
    """Drop lines that are on most slides, such as a slogan or the name of the company; return their number."""
    counts = Counter(text for slide in slides for text in {line.text for line in slide.lines})
    dropped = 0
    for slide in slides:
        kept = [line for line in slide.lines if counts[line.text] < max(4, len(slides) / 2)]
        dropped += len(slide.lines) - len(kept)
        slide.lines = kept
    return dropped


# --- PowerPoint ------------------------------------------------------------------------------------------------------


def read_pptx(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read PowerPoint slides in order. Hidden slides are left out."""
    check_packed(path, SLIDES)
    with zipfile.ZipFile(path) as packed:
        left_out = Counter({"comments": count_comments(packed)})
        pictures = PictureCollector()
        slides = [_slide(packed, name, left_out, pictures) for name in _order(packed)]
    shown = [slide for slide in slides if slide is not None]
    left_out["hidden slides"] = len(slides) - len(shown)
    return deck(shown, relative, read_metadata(path), left_out, pictures)


def _order(packed: zipfile.ZipFile) -> list[str]:
    """Return the parts of the slides in presentation order."""
    name = "ppt/presentation.xml"
    presentation = parse_part(packed, name)
    if presentation is None:
        raise Unreadable("broken: its list of slides is missing; open it and save it again")
    related = related_parts(packed, name)
    targets = (related.get(str(entry.get(f"{RELATIONSHIP}id"))) for entry in presentation.iter(f"{_P}sldId"))
    return [target[1] for target in targets if target]


def _slide(packed: zipfile.ZipFile, part: str, left_out: Counter[str], pictures: PictureCollector) -> Slide | None:
    tree = parse_part(packed, part)
    if tree is None or tree.get("show") == "0":
        return None
    slide = Slide()
    related = related_parts(packed, part)
    for shape in _shapes(tree):
        if shape.tag == f"{_P}graphicFrame":
            _add_tables(slide, shape)
            for _, drawn in drawn_objects(packed, shape, related, left_out):
                if isinstance(drawn, list):
                    slide.lines += [SlideLine(text, 0) for text in drawn]
                elif drawn.rows:
                    slide.tables.append(chart_sheet(drawn))
                elif drawn.title:
                    slide.lines.append(SlideLine(drawn.title, None))
            continue
        kind = _placeholder(shape)
        lines = _lines(shape, listed=kind in ("body", "obj", ""))
        if kind in ("title", "ctrTitle") and not slide.title:
            slide.title = " ".join(line.text for line in lines)
        elif kind not in ("dt", "ftr", "sldNum", "hdr"):
            slide.lines += lines
    # The pictures of its layout are decoration.
    marks = (picture_mark(packed, each, related, pictures) for each in _shown(tree, f"{_P}pic"))
    slide.pictures = list(filter(None, marks))
    for kind, place in related.values():
        notes = parse_extra(packed, place, left_out) if kind == "notesSlide" else None
        for shape in _shapes(notes) if notes is not None else ():
            if _placeholder(shape) in ("body", ""):
                slide.notes += _lines(shape, listed=False)
    return slide


def _shapes(tree: Any) -> list[Any]:
    """Return the shapes of a slide, with groups expanded in place."""
    return _shown(tree, f"{_P}sp", f"{_P}graphicFrame")


def _shown(tree: Any, *tags: str) -> list[Any]:
    """Return the elements with some tags, and only one of several alternatives."""
    return [each for each in tree.iter(*tags) if not any(map(is_fallback, each.iterancestors()))]


def _placeholder(shape: Any) -> str | None:
    """Return the placeholder type of a shape: "" for main text without a type, or None for a text box."""
    found = shape.find(f"{_P}nvSpPr/{_P}nvPr/{_P}ph")
    return None if found is None else str(found.get("type") or "")


def _lines(shape: Any, listed: bool) -> list[SlideLine]:
    """Return the paragraphs of a shape. `listed`: they are list items unless they say otherwise."""
    found: list[SlideLine] = []
    body = shape.find(f"{_P}txBody")
    for paragraph in body.iter(f"{DRAWING}p") if body is not None else ():
        text = paragraph_text(paragraph)
        if not text:
            continue
        properties = paragraph.find(f"{DRAWING}pPr")
        level = 0
        is_item = listed
        if properties is not None:
            level = small_number(properties.get("lvl"), default=0, digits=2)
            if properties.find(f"{DRAWING}buNone") is not None:
                is_item = False
            elif properties.find(f"{DRAWING}buChar") is not None or properties.find(f"{DRAWING}buAutoNum") is not None:
                is_item = True
        found.append(SlideLine(text, level if is_item else None))
    if len(found) == 1 and found[0].depth == 0:
        found[0] = SlideLine(found[0].text, None)
    return found


def _add_tables(slide: Slide, frame: Any) -> None:
    for table in frame.iter(f"{DRAWING}tbl"):
        sheet = Sheet("")
        for row in table.iter(f"{DRAWING}tr"):
            cells: list[Cell] = []
            for cell in row.iter(f"{DRAWING}tc"):
                if cell.get("hMerge") in ("1", "true") or cell.get("vMerge") in ("1", "true"):
                    cells.append(EMPTY_CELL)
                    continue
                right, down = small_number(cell.get("gridSpan")), small_number(cell.get("rowSpan"))
                if right > 1 or down > 1:
                    top, left = len(sheet.rows), len(cells)
                    sheet.merges.append(Merge(top, left, top + down, left + right))
                cells.append(cell_of_text(" ".join(paragraph_text(each) for each in cell.iter(f"{DRAWING}p"))))
            sheet.rows.append(cells)
        slide.tables.append(sheet)
