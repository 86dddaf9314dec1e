"""The table of file types and their readers. Third parties add to it with an entry point.

A reader is called as `read(path, relative, progress)` and returns a Document, or an iterable of Documents and Problems
for a file that contains several. It raises `Unreadable` with a message for the file's owner.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path, PurePath
from pkgutil import resolve_name
from typing import Protocol

from turnmark.core.grouping import group_pairs
from turnmark.core.specs import Entry
from turnmark.corpora.types import Document, Problem

GROUP = "turnmark.readers"
"""The entry-point group. The name of an entry point is a suffix (`.hwp`), its target a reader."""


class ProgressCallback(Protocol):
    """Called with the page that was read and the number of pages, or with (0, 0) to show that work continues."""

    def __call__(self, page: int, pages: int, how: str = "") -> None:
        """Report progress. `how` is the method, shown next to the page, e.g. OCR.

        While `how` is not empty, only the time per page is limited, not the time per file: in a long scan, every page
        takes seconds.
        """


ReadFunction = Callable[[Path, str, ProgressCallback], Document | Iterable[Document | Problem]]


MAX_BYTES = 64 * 1024 * 1024
_MAX_STREAMED = 2 * 1024**3  # for a file of many documents, which is never loaded as a whole


@dataclass(frozen=True)
class Reader:
    """A row of the table.

    Attributes:
        what: description of the file types.
        target: `module:function`, imported when a file of the type is read.
        isolated: whether files are read in a separate process (`turnmark.corpora.readers.isolation`).
        max_bytes: the maximum size of a file.
        site_part: whether the files are parts of the pages inside a web site, and skipped there: scripts, pictures.
    """

    what: str
    target: str
    isolated: bool = True
    max_bytes: int = MAX_BYTES
    site_part: bool = False

    def load(self) -> ReadFunction:
        """Import the function."""
        read: ReadFunction = resolve_name(self.target)
        return read


_PACKAGE = "turnmark.corpora.readers."
_PICTURE_FILE_READER = _PACKAGE + "pictures.picture_files:read_picture"
_PANDOC = _PACKAGE + "pandoc:"
_OFFICE = _PACKAGE + "office."
_BUILT_IN_READERS: tuple[tuple[str, Reader], ...] = (
    (".md .markdown .mdx", Reader("Markdown", _PACKAGE + "markup.markdown:read_markdown", isolated=False)),
    (".txt .text", Reader("text", _PACKAGE + "common.encodings:read_text", isolated=False)),
    (".html .htm .xhtml", Reader("HTML", _PACKAGE + "markup.html:read_html", isolated=False)),
    (".pdf", Reader("PDF", _PACKAGE + "pdf.document:read")),
    (".docx .docm .dotx", Reader("Word", _PANDOC + "read_word")),
    (".odt .ott", Reader("OpenDocument text", _PANDOC + "read_odt")),
    (".xlsx .xlsm .xltx", Reader("Excel", _OFFICE + "workbook:read_xlsx")),
    (".xls .xlsb", Reader("Excel, older and binary", _OFFICE + "workbook:read_xls")),
    (".csv .tsv", Reader("comma- and tab-separated values", _OFFICE + "workbook:read_csv")),
    (".ods .ots", Reader("OpenDocument sheets", _OFFICE + "opendocument:read_ods")),
    (".pptx .pptm .ppsx", Reader("PowerPoint", _OFFICE + "slides:read_pptx")),
    (".odp .otp", Reader("OpenDocument slides", _OFFICE + "opendocument:read_odp")),
    (".rtf", Reader("Rich Text", _PANDOC + "read_rtf")),
    (".epub", Reader("EPUB", _PANDOC + "read_epub")),
    (
        ".rst .rest .adoc .asciidoc .org .tex .latex .mediawiki .wiki .textile .typ .opml .fb2 .dbk .docbook",
        Reader(
            "reStructuredText, AsciiDoc, Org, LaTeX, MediaWiki, Textile, Typst, OPML, FictionBook, DocBook",
            _PANDOC + "read_markup",
        ),
    ),
    (".1 .2 .3 .4 .5 .6 .7 .8 .9 .man .mdoc", Reader("manual pages (roff only)", _PANDOC + "read_man")),
    (".ipynb", Reader("Jupyter notebooks", _PANDOC + "read_notebook")),
    (".eml", Reader("a mail", _PACKAGE + "mail:read_eml")),
    (".mbox", Reader("mailboxes: one document per message", _PACKAGE + "mail:read_mbox", max_bytes=_MAX_STREAMED)),
    (".svg", Reader("words in drawings", _PACKAGE + "markup.svg:read_svg", site_part=True)),
    (".ics .vcf", Reader("calendars and contacts", _PACKAGE + "calendar:read_calendar", isolated=False)),
    (
        ".jsonl .ndjson .jsonlines",
        Reader(
            "JSON lines: one document per line", _PACKAGE + "json_documents:read_json_lines", max_bytes=_MAX_STREAMED
        ),
    ),
    (
        ".png .jpg .jpeg .webp .gif .tif .tiff .bmp",
        Reader("pictures, if a build describes them", _PICTURE_FILE_READER, isolated=False, site_part=True),
    ),
    (".hwp", Reader("Hangul, by LlamaIndex's reader, which needs olefile", _PACKAGE + "llama_index:read")),
    (
        ".py .pyi .js .mjs .cjs .jsx .ts .tsx .mts .go .rs .c .h .cc .cpp .cxx .hpp .hh .hxx .m .java .kt .kts .scala "
        ".cs .swift .groovy .sh .bash .zsh .ksh .rb .php .pl .pm .lua .r .jl .sql",
        Reader("source code, by its definitions", _PACKAGE + "source_code:read_code", site_part=True),
    ),
)
_BUILT_IN = {suffix: reader for suffixes, reader in _BUILT_IN_READERS for suffix in suffixes.split()}


@cache
def readers() -> dict[str, Reader]:
    """Return the readers by lower-case suffix. An entry point cannot replace a built-in reader."""
    table = dict(_BUILT_IN)
    for point in importlib.metadata.entry_points(group=GROUP):
        package = point.dist.name if point.dist else "an entry point"
        table.setdefault(point.name.lower(), Reader(f"from {package}", point.value))
    return table


def is_picture_file(path: str) -> bool:
    """Return whether a file is a picture, by its suffix."""
    reader = readers().get(PurePath(path).suffix.lower())
    return reader is not None and reader.target == _PICTURE_FILE_READER


def list_readers() -> dict[str, Entry]:
    """Return the rows for `turnmark list`: one row per reader, with all of its suffixes."""
    rows = group_pairs((reader, suffix) for suffix, reader in readers().items())
    return {" ".join(suffixes): Entry(reader.target, reader.what) for reader, suffixes in rows.items()}


def no_progress(page: int, pages: int, how: str = "") -> None:
    """Ignore the progress."""
