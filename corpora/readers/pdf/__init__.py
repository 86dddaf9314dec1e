"""A PDF as a Markdown-like text: characters with their fonts and places -> lines -> columns -> blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

import pypdfium2

from turnmark.corpora.readers.pdf import ocr
from turnmark.corpora.readers.pdf.glyphs import GlyphReader, Page, mended
from turnmark.corpora.readers.pdf.pages import ContentsFilter, drop_line_numbers, drop_overlays, drop_running
from turnmark.corpora.readers.pdf.structure import Draft, Laid, OutlineEntry, Structure, Writer, vocabulary
from turnmark.corpora.readers.prose import Unreadable, says_a_title, shorten_title, stem
from turnmark.corpora.readers.table import Progress, no_progress
from turnmark.corpora.text import words
from turnmark.corpora.types import Document, Problem

MAX_PAGES = 5_000
MAX_OUTLINE = 20_000  # bookmarks
_CONFIDENT = 0.75  # a page that is read by OCR with less confidence is reported
_LISTED = 8  # runs of pages that a message names
_PRINT_IT = "open it and print it to a new PDF"
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d{2})(\d{2})")


def read(path: Path, relative: str, progress: Progress) -> Iterator[Document | Problem]:
    """A PDF's Document, and what of its pages was not read, or not surely."""
    document, doubts = _read(path, relative, progress)
    yield document
    for doubt in doubts:
        yield Problem(file=relative, what=doubt)


def read_pdf(path: Path, relative: str, progress: Progress = no_progress) -> Document:
    """A PDF's Document; `pages` says where each page begins.

    Args:
        progress: called after each page with its number and how many there are.
    """
    return _read(path, relative, progress)[0]


def _read(path: Path, relative: str, progress: Progress) -> tuple[Document, list[str]]:
    document = _opened(path)
    try:
        count = len(document)
        if not count:
            raise Unreadable(f"not a PDF, or a broken one (no pages); {_PRINT_IT}")
        if count > MAX_PAGES:
            raise Unreadable(f"a PDF of {count:,} pages; it may have {MAX_PAGES:,} at most, so split it")
        reader = GlyphReader(document)
        pages: list[Page] = []
        for index in range(count):
            pages.append(_page(reader, index))
            progress(index + 1, count)
        doubts = _recognise(document, pages, progress)
        outline = _outline(document)
        metadata = document.get_metadata_dict()
    finally:
        document.close()
    _check_text(pages)
    for page in pages:
        drop_line_numbers(page)
    drop_running(pages)
    drop_overlays(pages)
    contents = ContentsFilter()
    laid = [Laid(index, contents.columns(page), page.width > page.height) for index, page in enumerate(pages)]
    structure = Structure(laid, outline)
    writer = Writer(count, vocabulary(laid))
    drafts = structure.drafts()
    for draft in drafts:
        writer.add(draft)
    text, blocks, offsets = writer.finish()
    read = Document(
        id=relative,
        title=shorten_title(_title(metadata.get("Title", ""), drafts) or stem(relative)),
        text=text,
        path=relative,
        blocks=blocks,
        pages=offsets,
        date=_date(metadata, text[:3000]),
    )
    return read, doubts


def _opened(path: Path) -> pypdfium2.PdfDocument:
    path.open("rb").close()  # what hinders it is the system's to say
    try:
        return pypdfium2.PdfDocument(path)
    except pypdfium2.PdfiumError as error:
        if "password" in str(error).lower():
            raise Unreadable("an encrypted PDF that asks for a password; save it without one") from error
        if "security" in str(error).lower():
            raise Unreadable(f"an encrypted PDF of a kind that cannot be read; {_PRINT_IT}") from error
        raise Unreadable(f"not a PDF, or a broken one ({error}); {_PRINT_IT}") from error


def _page(reader: GlyphReader, index: int) -> Page:
    try:
        return reader.page(index)
    except pypdfium2.PdfiumError:  # the other pages are read
        return Page(1.0, 1.0, [], [], broken=True)


def _recognise(document: pypdfium2.PdfDocument, pages: list[Page], progress: Progress) -> list[str]:
    """Read pages that are pictures, or whose fonts do not say their letters, by OCR if it is installed; return what a
    person should know of them.
    """
    unread = [index for index, page in enumerate(pages) if page.unread]
    if not unread:
        return []
    if not ocr.is_installed():
        return [f"{_numbered(unread)} without text that can be read, so probably scanned; to read them: {ocr.INSTALL}"]
    doubtful: list[int] = []
    said = "OCR"
    for index in unread:
        progress(index + 1, len(pages), said)
        page = document[index]
        try:
            pages[index], confidence = ocr.recognise(page)
        finally:
            page.close()
        if confidence is not None:
            said = f"OCR, confidence {confidence:.2f}"
            if confidence < _CONFIDENT:
                doubtful.append(index)
    progress(len(pages), len(pages))
    ocr.even_sizes(pages, [pages[index] for index in unread])
    return [f"{_numbered(doubtful)} read by OCR, but hardly legible"] if doubtful else []


def _numbered(indexes: Sequence[int]) -> str:
    """Pages in words, runs of them shortened: "pages 3, 5-9"."""
    runs: list[list[int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1][1] = index + 1
        else:
            runs.append([index + 1, index + 1])
    listed = ", ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:_LISTED])
    more = " and others" if len(runs) > _LISTED else ""
    return f"page{'s' if len(indexes) > 1 else ''} {listed}{more}"


def _check_text(pages: Sequence[Page]) -> None:
    if all(page.broken for page in pages):
        raise Unreadable(f"not a PDF, or a broken one (no page can be opened); {_PRINT_IT}")
    total = sum(page.characters for page in pages)
    unmapped = sum(page.unmapped for page in pages)
    if not total:
        if ocr.is_installed():
            raise Unreadable(f"a PDF without text on its {len(pages)} pages")
        raise Unreadable(
            f"a PDF without text on its {len(pages)} pages, so probably scanned; run OCR on it first, or {ocr.INSTALL}"
        )
    if unmapped > 0.5 * total:
        raise Unreadable(f"a PDF whose fonts do not say which letters they draw; run OCR on it first, or {ocr.INSTALL}")


def _outline(document: pypdfium2.PdfDocument) -> list[OutlineEntry]:
    """The bookmarks that lead to a page of the document."""
    entries: list[OutlineEntry] = []
    try:
        for bookmark in document.get_toc(max_depth=6):
            destination = bookmark.get_dest()
            page = destination.get_index() if destination else None
            title = " ".join(mended(bookmark.get_title()).split())
            if title and page is not None:
                entries.append(OutlineEntry(title, bookmark.level + 1, page))
            if len(entries) >= MAX_OUTLINE:
                break
    except (pypdfium2.PdfiumError, ValueError):
        pass  # the headings' looks say as much
    return entries


def _title(metadata: str, drafts: Sequence[Draft]) -> str:
    """What the file says its title is, if its first pages say so too; else its largest line on the first page."""
    metadata = " ".join(mended(metadata).split())
    if not says_a_title(metadata):
        metadata = ""
    first = [draft for draft in drafts if draft.parts and draft.parts[0][0] == 0 and draft.kind == "heading"]
    largest = min(first, key=lambda draft: draft.level, default=None)
    heading = " ".join(" ".join(texts) for _, texts in largest.parts) if largest else ""
    if not metadata or not heading:
        return metadata or heading
    opening = {*words(" ".join(text for draft in drafts[:40] for _, texts in draft.parts for text in texts))}
    said = words(metadata)
    return metadata if sum(word in opening for word in said) >= 0.7 * len(said) else heading


_MONTHS = "january february march april may june july august september october november december".split()
_WRITTEN_DATE = re.compile(
    r"(?P<iso>(?:19|20)\d{2}-\d{2}-\d{2})(?!\d)"
    r"|(?P<month>[A-Z][a-z]{2,8})\.? (?P<day>\d{1,2})(?:st|nd|rd|th)?,? (?P<year>(?:19|20)\d{2})"
    r"|(?P<day2>\d{1,2})(?:st|nd|rd|th)?\.? (?P<month2>[A-Z][a-z]{2,8})\.?,? (?P<year2>(?:19|20)\d{2})"
)


def _date(metadata: dict[str, str], opening: str) -> str:
    """The first full date that the beginning of the text says, else when the file says it was changed or made."""
    for match in _WRITTEN_DATE.finditer(opening):
        if match["iso"]:
            return match["iso"]
        name = (match["month"] or match["month2"]).lower()
        month = next((index for index, full in enumerate(_MONTHS, 1) if full.startswith(name[:3])), 0)
        if month and (day := _iso(match["year"] or match["year2"], month, match["day"] or match["day2"])):
            return day
    for key in ("ModDate", "CreationDate"):
        said = _PDF_DATE.match(metadata.get(key, ""))
        if said and (day := _iso(said[1], int(said[2]), said[3])):
            return day
    return ""


def _iso(year: str, month: int, day: str) -> str:
    try:
        return date(int(year), month, int(day)).isoformat()
    except ValueError:
        return ""
