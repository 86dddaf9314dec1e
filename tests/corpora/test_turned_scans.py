"""Scans on their side, on their head or slightly skewed, and pages on which OCR only guesses."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from PIL import Image, ImageDraw, ImageFilter, ImageFont

from turnmark.corpora.readers.common.prose import Unreadable
from turnmark.corpora.readers.pdf.document import read
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.page_picture import HIGHLIGHT_COLOR, page_picture
from turnmark.corpora.readers.registry import no_progress
from turnmark.corpora.types import Document, Problem

SIDE = 900  # pixels
LINES = ("The mill has three gates.", "Each is shut at night.", "The keeper has fourteen keys.")


def scanned_page(*blurred: bool) -> Image.Image:
    """Return a square picture of the lines, some of which are blurred."""
    picture = Image.new("L", (SIDE, SIDE), "white")
    for number, line in enumerate(LINES):
        part = Image.new("L", (SIDE, 60), "white")
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
    assert document.text.split() == " ".join(LINES).split()
    marked = Image.open(io.BytesIO(page_picture(path, 1, LINES[1]))).convert("RGB")
    upright = marked.rotate(-degrees, fillcolor="white").resize((SIDE, SIDE))
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
    assert document.text == LINES[0]
    assert document.left_out["lines that OCR only guessed"] == 2
    assert problem.what == "page 1 read by OCR, but hardly legible; lines that it only guessed are left out"


def test_scan_that_is_not_legible_at_all_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    scanned_page(True, True, True).save(path, resolution=150)
    with pytest.raises(Unreadable, match=r"page 1 read by OCR, but hardly legible|without text"):
        list(read(path, path.name, no_progress))
