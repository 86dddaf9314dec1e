"""Compares the figures found in PDFs with those counted by hand: `python -m tests.benchmarks.figures FOLDER`.

`figures.json` names Debian package, file, pages and the number of figures on each page. They were counted on drawings
of the pages before any result was seen, for the files that are `held_out` after the rules were written. FOLDER contains
the unpacked packages (`apt-get download`, `dpkg-deb -x`).
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path

import pypdfium2

from turnmark.corpora.readers.pdf.extraction.page_text import read_page

LABELS = Path(__file__).with_name("figures.json")


def found_in(path: Path, pages: list[list[int]]) -> dict[int, int]:
    """Return the number of figures that are found on each page."""
    with pypdfium2.PdfDocument(path) as document:
        numbers = [number for first, last in pages for number in range(first, last + 1)]
        return {number: len(read_page(document[number - 1]).figures) for number in numbers}


def main(folder: Path) -> None:
    """Print recall and precision of each file and of both halves."""
    totals: dict[str, Counter[str]] = {"tuned": Counter(), "held out": Counter()}
    for name, labels in json.loads(LABELS.read_text(encoding="utf-8")).items():
        path = next(folder.rglob(name.split()[1]))
        found = found_in(path, labels["pages"])
        counted = {int(page): count for page, count in labels["figures"].items()}
        right = sum(min(count, found[page]) for page, count in counted.items())
        counts = Counter(counted=sum(counted.values()), found=sum(found.values()), right=right, pages=len(found))
        totals["held out" if labels.get("held_out") else "tuned"] += counts
        print(f"{name}: {dict(counts)}")
    for half, counts in totals.items():
        recall, precision = counts["right"] / counts["counted"], counts["right"] / counts["found"]
        print(f"{half}: recall {recall:.2f}, precision {precision:.2f}, {dict(counts)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
