"""How well scans are read: `python -m tests.benchmarks.ocr FOLDER [PAGES]`, with the extra `ocr`.

Pages of the PDFs in FOLDER, spread over each, are drawn as grey pictures of 200 dpi, and the PDF of these pictures is
read by OCR. Prints how similar its text is to what is read of the page itself (normalised indel similarity, words
joined by spaces), the mean confidence of the pages, and seconds a page.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean

import pypdfium2
from rapidfuzz.distance import Indel

from turnmark.corpora.readers.pdf.document import read_pdf

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

    return " ".join(re.sub(r"[#*`|_-]+", " ", read_pdf(path, path.name, progress).text).split())


def main(folder: Path, most: int) -> None:
    """Print a line for each PDF, and the means."""
    rows: list[tuple[float, float]] = []
    for source in sorted(folder.glob("*.pdf")):
        with pypdfium2.PdfDocument(source) as document:
            count = len(document)
        indexes = sorted({count * number // most for number in range(most)})
        with tempfile.TemporaryDirectory() as temporary:
            few, pictures = Path(temporary) / "few.pdf", Path(temporary) / "scan.pdf"
            copied(source, indexes, few)
            scanned(few, pictures)
            said: list[float] = []
            text = plain(few, said)
            began = time.perf_counter()
            read = plain(pictures, said)
            seconds = (time.perf_counter() - began) / len(indexes)
        rows.append((Indel.normalized_similarity(text, read), seconds))
        print(
            f"{source.name:36} {len(indexes)} pages   similarity {rows[-1][0]:.3f}   confidence {mean(said or [0]):.2f}"
            f"   {seconds:.1f} s a page",
            flush=True,
        )
    print(f"{'mean':36}           similarity {mean(row[0] for row in rows):.3f}", end="")
    print(f"                     {mean(row[1] for row in rows):.1f} s a page; load {os.getloadavg()}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else PAGES)
