"""Reads a PDF as a Document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path

import pypdfium2
import pypdfium2.raw as pdfium

from turnmark.core.extras import is_installed
from turnmark.corpora.readers.common.prose import (
    Unreadable,
    is_meaningful_title,
    is_said_in,
    shorten_title,
    title_from_name,
)
from turnmark.corpora.readers.pdf.blocks.block_flow import drafts_of
from turnmark.corpora.readers.pdf.blocks.markdown_writer import vocabulary, write_markdown
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.extraction.ocr import read_scans
from turnmark.corpora.readers.pdf.extraction.page_text import read_page
from turnmark.corpora.readers.pdf.figures.drawings import has_fields
from turnmark.corpora.readers.pdf.figures.figure_pictures import take_figures, with_described_figures
from turnmark.corpora.readers.pdf.figures.figure_places import FigurePlaces
from turnmark.corpora.readers.pdf.headings.outline import bookmarks_of
from turnmark.corpora.readers.pdf.layout.page_layout import lay_out
from turnmark.corpora.readers.pdf.page.drafts import BlockDraft
from turnmark.corpora.readers.pdf.page.letters import normalize_letters
from turnmark.corpora.readers.pdf.page.page_records import PdfPage
from turnmark.corpora.readers.pictures.collector import PictureCollector
from turnmark.corpora.readers.registry import ProgressCallback, no_progress
from turnmark.corpora.types import Document, Problem

_OPENING_BLOCKS = 40  # in which a title must appear
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})(\d{2})")
_MONTHS = "january february march april may june july august september october november december".split()
_WRITTEN_DATE = re.compile(
    r"(?P<iso>(?:19|20)\d{2}-\d{2}-\d{2})(?!\d)"
    r"|(?P<month>[A-Z][a-z]{2,8})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>(?:19|20)\d{2})"
    r"|(?P<day2>\d{1,2})(?:st|nd|rd|th)?\.? (?P<month2>[A-Z][a-z]{2,8})\.?,? (?P<year2>(?:19|20)\d{2})"
)


def title_of(metadata: Mapping[str, str], drafts: Sequence[BlockDraft]) -> str:
    """Return the title in the metadata if the first pages contain it; else the largest line of the first page."""
    said = " ".join(normalize_letters(metadata.get("Title", "")).split())
    headings = [draft for draft in drafts if draft.kind == "heading" and draft.page == 0]
    largest = min(headings, key=lambda draft: draft.level, default=None)
    heading = " ".join(largest.texts) if largest else ""
    if not is_meaningful_title(said) or not heading:
        return said if is_meaningful_title(said) else heading
    opening = " ".join(text for draft in drafts[:_OPENING_BLOCKS] for text in draft.texts)
    return said if is_said_in(said, opening) else heading


def date_of(metadata: Mapping[str, str], opening: str) -> str:
    """Return the first full date in the opening, or else the date in the metadata.

    Returns:
        A date such as "2024-03-31"; empty if there is none.
    """
    for match in _WRITTEN_DATE.finditer(opening):
        if match["iso"]:
            return match["iso"]
        name = (match["month"] or match["month2"]).lower()
        month = next((index for index, full in enumerate(_MONTHS, 1) if full.startswith(name[:3])), 0)
        if day := _iso_date(match["year"] or match["year2"], month, match["day"] or match["day2"]):
            return day
    for key in ("ModDate", "CreationDate"):
        said = _PDF_DATE.match(metadata.get(key, ""))
        if said and (day := _iso_date(said[1], int(said[2]), said[3])):
            return day
    return ""


def _iso_date(year: str, month: int, day: str) -> str:
    """Return a date in ISO 8601; empty if there is no such day."""
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return ""


MAX_PAGES = 5_000
_OPENING_LENGTH = 3000  # in which the date is sought
_PRINT_ADVICE = "open it and print it to a new PDF"


def read(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Yield the Document of a PDF, and a Problem for pages that were not read, or not reliably."""
    document, doubts = _read(path, relative, progress)
    yield document
    for doubt in doubts:
        yield Problem(file=relative, what=doubt)


def read_pdf(path: Path, relative: str, progress: ProgressCallback = no_progress) -> Document:
    """Return the Document of a PDF; its `pages` are the offsets at which the pages begin.

    Args:
        progress: called after each page with its number and the number of pages.

    Raises:
        Unreadable: the file is not a PDF, is encrypted, or has too many pages or no text.
        OSError: the file cannot be opened.
    """
    return _read(path, relative, progress)[0]


def _read(path: Path, relative: str, progress: ProgressCallback) -> tuple[Document, list[str]]:
    file = _open(path)
    try:
        return _read_open(file, relative, progress)
    finally:
        file.close()


def _read_open(file: pypdfium2.PdfDocument, relative: str, progress: ProgressCallback) -> tuple[Document, list[str]]:
    pages = _pages(file, progress)
    originals = list(pages)
    scans = read_scans(file, pages, progress)
    collector = PictureCollector()
    shown = with_described_figures(originals, pages)
    has_pictures = collector.folder is not None and any(page.figures for page in shown)
    _check_text(pages, scans.doubts, has_pictures)
    laid = lay_out(pages)
    drafts = drafts_of(laid.pages, bookmarks_of(file))
    written = write_markdown(drafts, len(pages), vocabulary(laid.pages))
    pictures = take_figures(file, shown, FigurePlaces(laid.pages, written), collector, progress)
    hidden = sum(page.hidden for page in originals)
    uncertain = Counter({"lines that OCR only guessed": scans.guessed, "white words on white": hidden})
    left_out = laid.left_out + uncertain + collector.left_out
    document = Document(
        id=relative,
        title=shorten_title(title_of(file.get_metadata_dict(), drafts) or title_from_name(relative)),
        text=written.text,
        path=relative,
        blocks=written.blocks,
        pages=written.pages,
        date=date_of(file.get_metadata_dict(), written.text[:_OPENING_LENGTH]),
        left_out=dict(left_out),
        pictures=pictures,
    )
    return document, scans.doubts


def _open(path: Path) -> pypdfium2.PdfDocument:
    path.open("rb").close()  # let the OS report why it cannot be opened
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("an encrypted PDF that asks for a password; save it without one") from error
        if "security" in str(error).lower():
            raise Unreadable(f"an encrypted PDF of a kind that cannot be read; {_PRINT_ADVICE}") from error
        raise Unreadable(f"not a PDF, or a broken one ({error}); {_PRINT_ADVICE}") from error


def _pages(file: pypdfium2.PdfDocument, progress: ProgressCallback) -> list[PdfPage]:
    count = len(file)
    if not count:
        raise Unreadable(f"not a PDF, or a broken one (no pages); {_PRINT_ADVICE}")
    if count > MAX_PAGES:
        raise Unreadable(f"a PDF of {count:,} pages; it may have {MAX_PAGES:,} at most, so split it")
    pages: list[PdfPage] = []
    for index in range(count):
        pages.append(_read_or_mark_broken(file, index))
        progress(index + 1, count)
    return pages


def _read_or_mark_broken(file: pypdfium2.PdfDocument, index: int) -> PdfPage:
    try:
        page = file[index]
        try:
            if has_fields(page) and pdfium.FPDFPage_Flatten(page, pdfium.FLAT_NORMALDISPLAY) == pdfium.FLATTEN_SUCCESS:
                page.close()
                page = file[index]
            return read_page(page)
        finally:
            page.close()
    except pypdfium2.PdfiumError:  # the other pages are still read
        return PdfPage(1.0, 1.0, [], [], broken=True)


def _check_text(pages: Sequence[PdfPage], doubts: Sequence[str], has_pictures: bool) -> None:
    """Raise Unreadable if there is nothing to read, nor pictures that will be described."""
    if all(page.broken for page in pages):
        raise Unreadable(f"not a PDF, or a broken one (no page can be opened); {_PRINT_ADVICE}")
    total = sum(page.characters for page in pages)
    if has_pictures and not total:
        return
    if not total:
        if is_installed("ocr"):
            raise Unreadable(doubts[0] if doubts else f"a PDF without text on its {len(pages)} pages")
        raise Unreadable(
            f"a PDF without text on its {len(pages)} pages, so probably scanned; run OCR on it first, "
            f"or {ocr.INSTALL_COMMAND}"
        )
    if all(page.unmapped > 0.5 * page.characters for page in pages if page.characters):
        raise Unreadable(
            f"a PDF whose fonts do not say which letters they draw; run OCR on it first, or {ocr.INSTALL_COMMAND}"
        )
