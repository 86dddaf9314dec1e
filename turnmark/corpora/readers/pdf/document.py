"""Reads a PDF as a Document."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
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
from turnmark.corpora.readers.pdf.blocks.markdown_writer import BlockDraft, vocabulary, write_markdown
from turnmark.corpora.readers.pdf.extraction import ocr
from turnmark.corpora.readers.pdf.extraction.ocr import read_scans
from turnmark.corpora.readers.pdf.extraction.page_text import read_page
from turnmark.corpora.readers.pdf.figures.drawings import has_fields
from turnmark.corpora.readers.pdf.figures.figure_pictures import take_figures, with_described_figures
from turnmark.corpora.readers.pdf.figures.figure_places import FigurePlaces
from turnmark.corpora.readers.pdf.headings.outline import bookmarks_of
from turnmark.corpora.readers.pdf.layout.page_layout import lay_out
from turnmark.corpora.readers.pdf.page.letters import normalize_letters
from turnmark.corpora.readers.pdf.page.page_records import PdfPage
from turnmark.corpora.readers.pictures.collector import PictureCollector
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.tables.cell_dates import read_date
from turnmark.corpora.types import Document, Problem

_OPENING_BLOCKS = 40  # in which a title must appear
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})(\d{2})")
_WRITTEN_DATE = re.compile(
    r"(?:19|20)\d{2}-\d{2}-\d{2}(?!\d)"
    r"|[A-Z][a-z]{2,8}\.? \d{1,2}(?:st|nd|rd|th)?,? (?:19|20)\d{2}"
    r"|\d{1,2}(?:st|nd|rd|th)?\.? [A-Z][a-z]{2,8}\.?,? (?:19|20)\d{2}"
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
    written = _WRITTEN_DATE.findall(opening)
    stored = (_PDF_DATE.match(metadata.get(key, "")) for key in ("ModDate", "CreationDate"))
    dates = map(read_date, (*written, *("-".join(found.groups()) for found in stored if found)))
    return next((found.day_first for found in dates if found and found.day_first), "")


MAX_PAGES = 5_000
_OPENING_LENGTH = 3000  # in which the date is sought
_PRINT_ADVICE = "open it and print it to a new PDF"


def read(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Yield the Document of a PDF, and a Problem for pages that were not read, or not reliably."""
    with closing(_open(path)) as file:
        document, doubts = _read_open(file, relative, progress)
    yield document
    for doubt in doubts:
        yield Problem(file=relative, what=doubt)


def _read_open(file: pypdfium2.PdfDocument, relative: str, progress: ProgressCallback) -> tuple[Document, list[str]]:
    pages = _pages(file, progress)
    originals = list(pages)
    doubts, guessed = read_scans(file, pages, progress)
    collector = PictureCollector()
    shown = with_described_figures(originals, pages)
    has_pictures = collector.folder is not None and any(page.figures for page in shown)
    _check_text(pages, doubts, has_pictures)
    layouts, left_out = lay_out(pages)
    drafts = drafts_of(layouts, bookmarks_of(file))
    written = write_markdown(drafts, len(pages), vocabulary(layouts))
    pictures = take_figures(file, shown, FigurePlaces(layouts, written), collector, progress)
    hidden = sum(page.hidden for page in originals)
    uncertain = Counter({"lines that OCR only guessed": guessed, "white words on white": hidden})
    left_out += uncertain + collector.left_out
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
    return document, doubts


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
