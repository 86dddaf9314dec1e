"""Pages that are pictures, or whose fonts do not say their letters, are read by OCR if it is installed."""

from __future__ import annotations

from collections.abc import Sequence

import pypdfium2

from turnmark.corpora.readers.pdf import ocr
from turnmark.corpora.readers.pdf.page import PdfPage
from turnmark.corpora.readers.registry import ProgressCallback

_MIN_CONFIDENCE = 0.75  # a page that is read with less confidence is reported
_MAX_LISTED_RANGES = 8  # runs of pages that a message names


def read_scans(document: pypdfium2.PdfDocument, pages: list[PdfPage], progress: ProgressCallback) -> list[str]:
    """Put the pages that OCR reads in the place of those that it is needed for.

    Returns:
        What a person should know of them.
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
    """Pages in words, runs of them shortened: "pages 3, 5-9"."""
    runs: list[tuple[int, int]] = []  # the first and the last of each, from 1
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index + 1, index + 1))
    listed = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_MAX_LISTED_RANGES])
    more = " and others" if len(runs) > _MAX_LISTED_RANGES else ""
    return f"page{'s' if len(indexes) > 1 else ''} {listed}{more}"
