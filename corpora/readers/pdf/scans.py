"""Reads scanned pages, and pages whose fonts map to no letters, by OCR if it is installed."""

from __future__ import annotations

from collections.abc import Sequence

import pypdfium2

from turnmark.corpora.readers.pdf import ocr
from turnmark.corpora.readers.pdf.page import PdfPage
from turnmark.corpora.readers.registry import ProgressCallback

_MIN_CONFIDENCE = 0.75  # pages read with less confidence are reported
_MAX_LISTED_RANGES = 8  # of pages in one message


def read_scans(document: pypdfium2.PdfDocument, pages: list[PdfPage], progress: ProgressCallback) -> list[str]:
    """Replace the pages that need OCR with what it reads.

    Returns:
        Messages about pages that were not read, or not reliably.
    """
    unread = [index for index, page in enumerate(pages) if page.unread]
    if not unread:
        return []
    if not ocr.is_installed():
        return [
            f"{_page_ranges(unread)} without text that can be read, so probably scanned; to read them: {ocr.INSTALL}"
        ]
    doubtful: list[int] = []
    said = "OCR"
    for index in unread:
        progress(index + 1, len(pages), said)
        page = document[index]
        try:
            pages[index], confidence = ocr.recognize(page)
        finally:
            page.close()
        if confidence is not None:
            said = f"OCR, confidence {confidence:.2f}"
            if confidence < _MIN_CONFIDENCE:
                doubtful.append(index)
    progress(len(pages), len(pages))
    ocr.even_sizes(pages, [pages[index] for index in unread])
    return [f"{_page_ranges(doubtful)} read by OCR, but hardly legible"] if doubtful else []


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
