"""Reads scanned pages, and pages whose fonts map to no letters, by OCR if it is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pypdfium2

from turnmark.corpora.readers.pdf import ocr
from turnmark.corpora.readers.pdf.page import PdfPage
from turnmark.corpora.readers.registry import ProgressCallback

_MAX_LISTED_RANGES = 8  # of pages in one message


class ScanNotes(NamedTuple):
    """Messages about pages that were not read, or not reliably, and the number of lines left out as guesses."""

    doubts: list[str]
    guessed: int


def read_scans(document: pypdfium2.PdfDocument, pages: list[PdfPage], progress: ProgressCallback) -> ScanNotes:
    """Replace the pages that need OCR with what it reads."""
    unread = [index for index, page in enumerate(pages) if page.unread]
    if not unread:
        return ScanNotes([], 0)
    if not ocr.is_installed():
        where = _page_ranges(unread)
        return ScanNotes(
            [f"{where} without text that can be read, so probably scanned; to read them: {ocr.INSTALL}"], 0
        )
    doubtful: list[int] = []
    guessed = 0
    said = "OCR"
    for index in unread:
        progress(index + 1, len(pages), said)
        page = document[index]
        try:
            read = ocr.recognize(page)
        finally:
            page.close()
        pages[index] = read.page
        guessed += read.guessed
        if read.confidence is not None:
            said = f"OCR, confidence {read.confidence:.2f}"
            if read.confidence < ocr.MIN_PAGE_CONFIDENCE:
                doubtful.append(index)
    progress(len(pages), len(pages))
    ocr.even_sizes(pages, [pages[index] for index in unread])
    if not doubtful:
        return ScanNotes([], 0)
    doubt = f"{_page_ranges(doubtful)} read by OCR, but hardly legible; lines that it only guessed are left out"
    return ScanNotes([doubt], guessed)


def _page_ranges(indexes: Sequence[int]) -> str:
    """Return a list of pages in words, with ranges: "pages 3, 5-9"."""
    runs: list[tuple[int, int]] = []  # first and last page of each range, from 1
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index + 1, index + 1))
    listed = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_MAX_LISTED_RANGES])
    more = " and others" if len(runs) > _MAX_LISTED_RANGES else ""
    return f"page{'s' if len(indexes) > 1 else ''} {listed}{more}"
