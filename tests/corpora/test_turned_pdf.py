"""PDFs whose text is drawn or scanned in other directions: whole pages, blocks, cells, skewed pages, their pictures."""

from __future__ import annotations

import io
from collections.abc import Callable
from math import cos, radians, sin
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from tests.corpora.reading import read_pdf
from turnmark.corpora.readers.common.prose import Unreadable
from turnmark.corpora.readers.pdf.document import read
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.extraction.orientation import upright_pages
from turnmark.corpora.readers.pdf.layout.page_layout import lay_out
from turnmark.corpora.readers.pdf.page.geometry import Box
from turnmark.corpora.readers.pdf.page.page_records import Word
from turnmark.corpora.readers.pdf.page_picture import HIGHLIGHT_COLOR, page_picture
from turnmark.corpora.readers.registry import no_progress
from turnmark.corpora.types import Document, Problem

SIDE = 600  # points; the pages are square, so that text stays on them when they are turned
HOURS = (
    "The library is open from Monday to Friday, 9 to 17.",
    "On Saturday it is open from 9 to 12 only.",
    "The reading room closes half an hour earlier.",
)
ROWS = (("Gate", "Width", "Opened"), ("north", "4.5 m", "1931"), ("south", "3.2 m", "1944"), ("west", "2.2 m", "1951"))
TABLE = "\n".join(f"| {' | '.join(cells)} |" for cells in (ROWS[0], *ROWS[1:])).replace("|\n", "|\n|---|---|---|\n", 1)


def page(path: Path, draw: Callable[[Any], None], rotate: int = 0) -> Document:
    """Draw a page and read it."""
    canvas = pytest.importorskip("reportlab.pdfgen.canvas").Canvas(str(path), pagesize=(SIDE, SIDE))
    canvas.setPageRotation(rotate)
    draw(canvas)
    canvas.save()
    return read_pdf(path, path.name)


def turn(canvas: Any, degrees: float) -> None:
    """Turn what is drawn from now on around the middle of the page."""
    canvas.translate(SIDE / 2, SIDE / 2)
    canvas.rotate(degrees)
    canvas.translate(-SIDE / 2, -SIDE / 2)


def draw_hours(canvas: Any, top: float = 520) -> None:
    canvas.setFont("Helvetica", 24)
    canvas.drawString(60, top, "Opening hours")
    canvas.setFont("Helvetica", 14)
    for number, line in enumerate(HOURS):
        canvas.drawString(60, top - 50 - 24 * number, line)


def draw_table(canvas: Any, x: float, y: float, ruled: bool) -> None:
    canvas.setFont("Helvetica", 10)
    for row, cells in enumerate(ROWS):
        for column, cell in enumerate(cells):
            if ruled:
                canvas.rect(x + column * 60, y - row * 20, 60, 20)
            canvas.drawString(x + column * 60 + 5, y - row * 20 + 6, cell)


@pytest.mark.parametrize("rotate", [0, 90, 180, 270])
@pytest.mark.parametrize("degrees", [0, 90, 180, 270, 2, 357, 88, 183])
def test_reads_and_marks_pages_that_are_drawn_in_any_direction(tmp_path: Path, degrees: int, rotate: int) -> None:
    def draw(canvas: Any) -> None:
        turn(canvas, degrees)
        draw_hours(canvas)

    path = tmp_path / "hours.pdf"
    document = page(path, draw, rotate)
    assert document.text == "# Opening hours\n\n" + " ".join(HOURS)
    marked = Image.open(io.BytesIO(page_picture(path, 1, HOURS[1]))).convert("RGB")
    assert near_color(marked.rotate(rotate), turned(150, 450, degrees), HIGHLIGHT_COLOR)  # on the second line
    assert not near_color(marked.rotate(rotate), turned(150, 475, degrees), HIGHLIGHT_COLOR)  # on the first


def turned(x: float, y: float, degrees: float) -> tuple[float, float]:
    """Return the place of a point of the upright page as a share of the width and height of the turned page."""
    x, y, angle = x - SIDE / 2, y - SIDE / 2, radians(degrees)
    return 0.5 + (x * cos(angle) - y * sin(angle)) / SIDE, 0.5 - (x * sin(angle) + y * cos(angle)) / SIDE


def near_color(image: Image.Image, place: tuple[float, float], color: tuple[int, int, int]) -> bool:
    """Return whether a pixel within some points of a place has a color."""
    x, y = (round(share * image.width) for share in place)
    near = image.crop((x - 6, y - 6, x + 7, y + 7))
    return color in {found for _, found in near.getcolors(169) or []}


def test_reads_page_that_is_slanted_as_a_whole(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        turn(canvas, 12)
        draw_hours(canvas)
        draw_table(canvas, 60, 300, ruled=False)

    assert page(tmp_path / "a.pdf", draw).text == f"# Opening hours\n\n{' '.join(HOURS)}\n\n{TABLE}"


def test_reads_slanted_letters_and_leaves_out_watermarks(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        draw_hours(canvas)
        text = canvas.beginText()
        text.setFont("Helvetica", 14)
        text.setTextTransform(1, 0, 0.21, 1, 60, 300)
        text.textOut("Closed on holidays.")
        canvas.drawText(text)
        canvas.translate(150, 100)
        canvas.rotate(45)
        canvas.setFont("Helvetica", 60)
        canvas.drawString(0, 0, "DRAFT")

    document = page(tmp_path / "a.pdf", draw)
    assert document.text.endswith("Closed on holidays.")
    assert document.left_out == {"words of watermarks": 1}


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_reads_turned_table_among_upright_text(tmp_path: Path, degrees: int, ruled: bool) -> None:
    def draw(canvas: Any) -> None:
        draw_hours(canvas)
        turn(canvas, degrees)
        draw_table(canvas, 250, 320, ruled)

    blocks = page(tmp_path / "a.pdf", draw).text.split("\n\n")
    assert blocks == ["# Opening hours", " ".join(HOURS), TABLE]


@pytest.mark.parametrize("degrees", [90, 270])
def test_reads_label_in_the_margin_after_the_text(tmp_path: Path, degrees: int) -> None:
    def draw(canvas: Any) -> None:
        draw_hours(canvas)
        canvas.translate(30, 300)
        canvas.rotate(degrees)
        canvas.setFont("Helvetica", 18)
        canvas.drawString(0, 0, "Valid from March")

    assert page(tmp_path / "a.pdf", draw).text == "# Opening hours\n\n" + " ".join(HOURS) + "\n\nValid from March"


@pytest.mark.parametrize("ruled", [True, False])
@pytest.mark.parametrize("degrees", [90, 270])
def test_turned_column_names_stay_in_their_cells(tmp_path: Path, degrees: int, ruled: bool) -> None:
    names = ("Width in metres", "Year of opening", "Keeper on duty")

    def draw(canvas: Any) -> None:
        draw_hours(canvas)
        canvas.setFont("Helvetica", 10)
        for column, name in enumerate(("Gate", *names)):
            if ruled:
                canvas.rect(60 + column * 50, 300, 50, 90)
            if not column:
                canvas.drawString(65, 305, name)
                continue
            canvas.saveState()
            across, up = (20, 0) if degrees == 90 else (10, canvas.stringWidth(name, "Helvetica", 10))
            canvas.translate(60 + column * 50 + across, 305 + up)
            canvas.rotate(degrees)
            canvas.drawString(0, 0, name)
            canvas.restoreState()
        for row, cells in enumerate((("north", "4.5", "1931", "Ann"), ("south", "3.2", "1944", "Ben"))):
            for column, cell in enumerate(cells):
                if ruled:
                    canvas.rect(60 + column * 50, 280 - 20 * row, 50, 20)
                canvas.drawString(65 + column * 50, 286 - 20 * row, cell)

    text = page(tmp_path / "a.pdf", draw).text
    assert f"| Gate | {' | '.join(names)} |\n|---|---|---|---|\n| north | 4.5 | 1931 | Ann |" in text


def test_turned_label_over_several_rows_is_in_each_of_them(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        draw_hours(canvas)
        canvas.setFont("Helvetica", 10)
        for group, name in enumerate(("Upper river", "Lower river")):
            canvas.rect(60, 260 - 60 * group, 20, 60)
            canvas.saveState()
            canvas.translate(73, 263 - 60 * group)
            canvas.rotate(90)
            canvas.drawString(0, 0, name)
            canvas.restoreState()
            for row in range(3):
                for column, cell in enumerate((f"gate {group}{row}", f"{row}.5 m")):
                    canvas.rect(80 + 60 * column, 300 - 60 * group - 20 * row, 60, 20)
                    canvas.drawString(85 + 60 * column, 306 - 60 * group - 20 * row, cell)

    text = page(tmp_path / "a.pdf", draw).text
    for row in ("Upper river | gate 00 | 0.5 m", "Upper river | gate 02 | 2.5 m", "Lower river | gate 11 | 1.5 m"):
        assert f"| {row} |" in text


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_joins_turned_letters_that_are_drawn_one_by_one(tmp_path: Path, degrees: int) -> None:
    def draw(canvas: Any) -> None:
        turn(canvas, degrees)
        canvas.setFont("Helvetica", 12)
        at = 100.0
        for letter in HOURS[0]:
            if letter != " ":
                canvas.drawString(at, 400, letter)
            at += 1.01 * canvas.stringWidth(letter)

    assert page(tmp_path / "a.pdf", draw).text == HOURS[0]


def test_removes_upright_running_headers_from_turned_pages(tmp_path: Path) -> None:
    def draw(canvas: Any) -> None:
        for number in range(6):
            canvas.setFont("Helvetica", 9)
            canvas.drawString(60, 585, "Report of the mill")
            canvas.drawRightString(540, 585, str(number + 1))
            canvas.saveState()
            if number == 3:
                turn(canvas, 90)
                draw_table(canvas, 60, 500, ruled=True)
                draw_table(canvas, 60, 300, ruled=True)
            else:
                draw_hours(canvas)
                for line, keeper in enumerate("Ann Bob Cem Dov Eve".split()):
                    canvas.drawString(60, 300 - 14 * line, f"{keeper * (number + 1)} shuts the gates of the mill")
            canvas.restoreState()
            canvas.showPage()

    document = page(tmp_path / "a.pdf", draw)
    assert "Report" not in document.text
    assert document.text[document.pages[3] : document.pages[4]].strip() == f"{TABLE}\n\n{TABLE}"


def test_reads_lines_that_run_down_from_right_to_left() -> None:
    """The page number is level; the last column has a number of two digits next to each other."""
    lines = ("図書館は月曜日から", "金曜日まで開いて", "います。土曜日は")
    words = [(0.0, Word("7", 300, 306, 30, 10))]
    for column, line in enumerate(lines):
        for row, letter in enumerate(line):
            left = 400 - 24 * column + (7 if letter == "。" else 0)
            words.append((0.0, Word(letter, left, 414 - 24 * column, 500 - 14 * row, 14)))
    words += [(0.0, Word("12", 328, 342, 500, 14)), (0.0, Word("時", 328, 342, 486, 14))]
    layouts, _ = lay_out([upright_pages(words, Box(0, 0, SIDE, SIDE), (), ())])
    assert [line.text for line in layouts[0].columns[0].lines] == [*lines, "12時"]


def test_reads_two_tiers_of_lines_that_run_down_one_after_the_other() -> None:
    story = (
        "吾輩は猫である名前はまだ無いどこで生れたかとんと見当がつかぬ何でも薄暗い所で泣いていた事だけは記憶している" * 5
    )
    lines = [story[at : at + 12] for at in range(0, 240, 12)]
    words = [
        (0.0, Word(letter, left, left + 14, 800 - 14 * row - (number // 10) * 196, 14))
        for number, line in enumerate(lines)
        for left in (500 - 24 * (number % 10),)
        for row, letter in enumerate(line)
    ]
    layouts, _ = lay_out([upright_pages(words, Box(0, 0, SIDE, SIDE), (), ())])
    assert [[line.text for line in column.lines] for column in layouts[0].columns] == [lines[:10], lines[10:]]


SCAN_PIXELS = 1275  # pixels
SCANNED_LINES = ("The mill has three gates.", "Each is shut at night.", "The keeper has fourteen keys.")


def scanned_page(*blurred: bool) -> Image.Image:
    """Return a square picture of the lines, some of which are blurred."""
    picture = Image.new("L", (SCAN_PIXELS, SCAN_PIXELS), "white")
    for number, line in enumerate(SCANNED_LINES):
        part = Image.new("L", (SCAN_PIXELS, 60), "white")
        ImageDraw.Draw(part).text((150, 10), line, fill="black", font=ImageFont.load_default(32))
        is_blurred = blurred and blurred[number]
        picture.paste(part.filter(ImageFilter.GaussianBlur(3.8)) if is_blurred else part, (0, 300 + 60 * number))
    return picture


@pytest.mark.parametrize("degrees", [90, 180, 270, 3, 356, 92])
def test_reads_and_marks_turned_and_skewed_scans(tmp_path: Path, degrees: int) -> None:
    path = tmp_path / "scan.pdf"
    picture = scanned_page().rotate(degrees, fillcolor="white", resample=Image.Resampling.BICUBIC)
    picture.save(path, resolution=150)
    (document,) = read(path, path.name, no_progress)
    assert isinstance(document, Document)
    assert document.text.split() == " ".join(SCANNED_LINES).split()
    marked = Image.open(io.BytesIO(page_picture(path, 1, SCANNED_LINES[1]))).convert("RGB")
    upright = marked.rotate(-degrees, fillcolor="white").resize((SCAN_PIXELS, SCAN_PIXELS))
    assert has_mark(upright, 360)
    assert not has_mark(upright, 300)


def has_mark(page: Image.Image, top: int) -> bool:
    """Return whether the middle of the line that is drawn at a height is marked."""
    line = page.crop((250, top + 22, 350, top + 34))
    return HIGHLIGHT_COLOR in {color for _, color in line.getcolors(line.width * line.height) or []}


def test_lines_that_ocr_only_guessed_are_not_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sure = ocr._read_turned

    def unsure(picture: object, quarters: int) -> object:
        """Return what is read of an upright page, with little confidence in all lines but the first."""
        lines = sure(picture, 0)  # type: ignore[arg-type]
        return lines.model_copy(update={"scores": [0.9, 0.6, 0.6][: len(lines.texts)], "quarters": 0})

    monkeypatch.setattr(ocr, "_read_turned", unsure)
    path = tmp_path / "scan.pdf"
    scanned_page().save(path, resolution=150)
    document, problem = read(path, path.name, no_progress)
    assert isinstance(document, Document)
    assert isinstance(problem, Problem)
    assert document.text == SCANNED_LINES[0]
    assert document.left_out["lines that OCR only guessed"] == 2
    assert problem.what == "page 1 read by OCR, but hardly legible; lines that it only guessed are left out"


def test_scan_that_is_not_legible_at_all_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    scanned_page(True, True, True).save(path, resolution=150)
    with pytest.raises(Unreadable, match=r"page 1 read by OCR, but hardly legible|without text"):
        list(read(path, path.name, no_progress))
