"""How well scans are read, beside tesseract: `python -m tests.benchmarks.ocr FOLDER [PAGES]`, with the extra `ocr`.

Pages of the PDFs in FOLDER, spread over each, are drawn as grey pictures of 200 dpi, and the PDF of these pictures is
read by OCR. Prints how similar its text is to what is read of the page itself (normalised indel similarity, words
joined by spaces), the mean confidence of the pages, and seconds a page: of the clock, and of all processors. Then the
same of Debian's `tesseract` over the same pictures, if it is on the PATH; its text has running heads and page numbers,
which our reader drops, so it is compared with all text of the page as pdfium has it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import mean

import pypdfium2
from rapidfuzz.distance import Indel

from tests.benchmarks.pdf import seconds
from tests.corpora.reading import read_pdf

DPI = 200
PAGES = 4


def copied(source: Path, indexes: list[int], path: Path) -> None:
    """Write a PDF of some pages of another."""
    with pypdfium2.PdfDocument(source) as whole, pypdfium2.PdfDocument.new() as few:
        few.import_pages(whole, indexes)
        few.save(path)


def scanned(source: Path, path: Path) -> None:
    """Write a PDF of pictures of the pages of another."""
    with pypdfium2.PdfDocument(source) as document:
        first, *others = [page.render(scale=DPI / 72).to_pil().convert("L") for page in document]
    first.save(path, save_all=True, append_images=others, resolution=DPI)


def plain(path: Path, said: list[float]) -> str:
    """The words of a PDF; `said` gets what is told of its confidence."""

    def progress(page: int, pages: int, how: str = "") -> None:
        said.extend(map(float, re.findall(r"confidence ([\d.]+)", how)))

    return bare(read_pdf(path, path.name, progress).text)


def bare(text: str) -> str:
    """The words of a text without Markdown's marks."""
    return " ".join(re.sub(r"[#*`|_-]+", " ", text).split())


def written(path: Path) -> str:
    """All text of a PDF, as pdfium has it."""
    with pypdfium2.PdfDocument(path) as document:
        return bare("\n".join(page.get_textpage().get_text_range() for page in document))


def tesseract(path: Path) -> str:
    """The text of a PDF of pictures."""
    texts = []
    with pypdfium2.PdfDocument(path) as document, tempfile.TemporaryDirectory() as folder:
        for page in document:
            page.render(scale=DPI / 72).to_pil().save(f"{folder}/page.png", dpi=(DPI, DPI))
            command = ["tesseract", f"{folder}/page.png", "stdout", "-l", "eng"]
            texts.append(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    return bare("\n".join(texts))


Row = tuple[float, float, float]
"""Similarity, and seconds a page: of the clock, and of all processors."""


def measured(text: str, read: Callable[[], str], pages: int) -> Row:
    """How similar what is read is to a text, and what reading takes."""
    found: list[str] = []
    began = time.perf_counter()
    used = seconds(lambda: found.append(read()))
    clock = time.perf_counter() - began
    return Indel.normalized_similarity(text, found[0]), clock / pages, used / pages


def shown(row: Row) -> str:
    """A row in words."""
    return f"similarity {row[0]:.3f}   {row[1]:5.1f} s, {row[2]:5.1f} s of processor a page"


def main(folder: Path, most: int) -> None:
    """Print a line for each PDF and program, and the means over PDFs."""
    rows: dict[str, list[Row]] = {}
    for source in sorted(folder.glob("*.pdf")):
        with pypdfium2.PdfDocument(source) as document:
            count = len(document)
        indexes = sorted({count * number // most for number in range(most)})
        with tempfile.TemporaryDirectory() as temporary:
            os.environ["TURNMARK_HOME"] = f"{temporary}/home"  # what was read before is kept there
            few, pictures = Path(temporary) / "few.pdf", Path(temporary) / "scan.pdf"
            copied(source, indexes, few)
            scanned(few, pictures)
            said: list[float] = []
            text = plain(few, said)
            programs = {"turnmark": measured(text, partial(plain, pictures, said), len(indexes))}
            if shutil.which("tesseract"):
                programs["tesseract"] = measured(written(few), partial(tesseract, pictures), len(indexes))
        for program, row in programs.items():
            rows.setdefault(program, []).append(row)
            confidence = f"   confidence {mean(said or [0]):.2f}" if program == "turnmark" else ""
            print(f"{source.name:36} {len(indexes)} pages   {program:10} {shown(row)}{confidence}", flush=True)
    for program, found in rows.items():
        similarity, clock, used = (mean(column) for column in zip(*found, strict=True))
        print(f"{'mean':45}   {program:10} {shown((similarity, clock, used))}")
    print(f"load {os.getloadavg()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PAGES)
