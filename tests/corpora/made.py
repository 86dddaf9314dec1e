"""Makes Office and other files for tests, with pandoc, openpyxl, reportlab, or part by part."""

from __future__ import annotations

import io
import subprocess
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.patience import PATIENCE
from turnmark.corpora.readers import read_file
from turnmark.corpora.readers.pandoc import _pandoc_path
from turnmark.corpora.readers.report import ReadingReport
from turnmark.corpora.types import Document, Problem

BOMB = b'<?xml version="1.0"?><!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]><x>&b;</x>'
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""The first bytes of a file in an old Office format, or of an encrypted one."""

REPORT = """---
title: The Mill
---

# Gates

The keeper shuts the **gates** at night.[^1]

1. Look at the river.
2. Turn the wheel.

   - slowly
   - to the left

| Gate  | Width |
|-------|-------|
| north | 4.5 m |
| south | 3.2 m |

## Wheels

Grease them with 10^6^ drops of `oil_x`.

[^1]: At nine in winter.
"""


def by_pandoc(path: Path, markdown: str = REPORT, *options: str) -> Path:
    """Make a file of the type of its suffix with pandoc."""
    subprocess.run(
        [str(_pandoc_path()), "--from", "markdown", "--standalone", "--output", str(path), *options],
        input=markdown.encode(), check=True, timeout=PATIENCE,
    )  # fmt: skip
    return path


def printed(path: Path) -> Path:
    """Make a PDF of two pages with headings, bookmarks and a ruled table, without compression."""
    from reportlab.pdfgen.canvas import Canvas

    canvas = Canvas(str(path), pagesize=(400, 500), pageCompression=0)
    canvas.setTitle("The Mill")
    for heading, text, rows in (
        ("Gates", "The keeper shuts them at night, when the river is low.", (("Gate", "Width"), ("north", "4.5 m"))),
        ("Wheels", "Grease each of them in autumn, before the first frost.", (("Wheel", "Teeth"), ("left", "48"))),
    ):
        canvas.bookmarkPage(heading)
        canvas.addOutlineEntry(heading, heading)
        canvas.setFont("Helvetica-Bold", 18)
        canvas.drawString(40, 440, heading)
        canvas.setFont("Helvetica", 9)
        canvas.drawString(40, 410, text)
        for y, row in zip((330, 300), rows, strict=True):
            for x, cell in zip((40, 140), row, strict=True):
                canvas.rect(x, y, 100, 30)
                canvas.drawString(x + 10, y + 10, cell)
        canvas.showPage()
    canvas.save()
    return path


def scan(path: Path, *pages: Sequence[str]) -> None:
    """Make a PDF of scanned pages with these lines."""
    from PIL import Image, ImageDraw, ImageFont

    pictures = []
    for lines in pages:
        picture = Image.new("L", (900, 1500), "white")
        for number, line in enumerate(lines):
            draw, font = ImageDraw.Draw(picture), ImageFont.load_default(32)
            draw.text((100, 130 + 60 * number), line, fill="black", font=font)
        pictures.append(picture)
    pictures[0].save(path, save_all=True, append_images=pictures[1:], resolution=150)


def read_all(path: Path) -> list[Document | Problem]:
    """Return everything that is read from a file."""
    return list(read_file(path, path.name, ReadingReport()))


def read_one(path: Path) -> Document:
    """Return the only document of a file."""
    (document,) = read_all(path)
    assert isinstance(document, Document), document
    return document


def refused(path: Path) -> str:
    """Return the reason why a file is not read."""
    (problem,) = read_all(path)
    assert isinstance(problem, Problem), problem
    return problem.what


def workbook(path: Path, **sheets: list[list[Any]]) -> Path:
    """Make a workbook with rows of values."""
    import openpyxl

    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, rows in sheets.items():
        sheet = book.create_sheet(name)
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


ODF = (
    'xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0" '
    'xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0" '
    'xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0" '
    'xmlns:draw="urn:oasis:names:tc:opendocument:xmlns:drawing:1.0" '
    'xmlns:presentation="urn:oasis:names:tc:opendocument:xmlns:presentation:1.0" '
    'xmlns:style="urn:oasis:names:tc:opendocument:xmlns:style:1.0"'
)
META = (
    f'<office:document-meta {ODF} xmlns:dc="http://purl.org/dc/elements/1.1/"><office:meta>'
    "<dc:title>{title}</dc:title><dc:date>2024-03-01T10:00:00</dc:date></office:meta></office:document-meta>"
)


def open_document(path: Path, body: str, title: str = "", styles: str = "") -> Path:
    """Make an OpenDocument file with a body."""
    content = (
        f"<office:document-content {ODF}><office:automatic-styles>{styles}</office:automatic-styles>"
        f"<office:body>{body}</office:body></office:document-content>"
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("mimetype", "application/vnd.oasis.opendocument")
        packed.writestr("content.xml", content)
        packed.writestr("meta.xml", META.format(title=title))
    return path


def with_part(path: Path, name: str, content: bytes) -> Path:
    """Copy an archive with one part replaced or added."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as copy:
        for part in packed.infolist():
            if part.filename != name:
                copy.writestr(part.filename, packed.read(part))
        copy.writestr(name, content)
    path.write_bytes(buffer.getvalue())
    return path


def replaced(path: Path, name: str, old: str, new: str) -> Path:
    """Copy an archive with a text replaced in one of its parts."""
    with zipfile.ZipFile(path) as packed:
        content = packed.read(name).decode()
    assert old in content
    return with_part(path, name, content.replace(old, new).encode())


# --- Word files, part by part ---------------------------------------------------------------------------------------

_W = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_R = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_RELATIONS = "http://schemas.openxmlformats.org/package/2006/relationships"
_TYPES = (
    '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    '<Default Extension="xml" ContentType="application/xml"/><Override PartName="/word/document.xml" '
    'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>'
)


def word(path: Path, body: str, parts: dict[str, str | bytes] | None = None) -> Path:
    """Make a Word file of a body and other parts, whose relations are named after their files."""
    relations = "".join(f'<Relationship Id="{Path(name).stem}" Type="x/part" Target="{name}"/>' for name in parts or {})
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("[Content_Types].xml", _TYPES)
        main = f'<Relationship Id="r1" Type="{_R}/officeDocument" Target="word/document.xml"/>'
        packed.writestr("_rels/.rels", f'<Relationships xmlns="{_RELATIONS}">{main}</Relationships>')
        packed.writestr(
            "word/document.xml", f'<w:document xmlns:w="{_W}" xmlns:r="{_R}"><w:body>{body}</w:body></w:document>'
        )
        packed.writestr(
            "word/_rels/document.xml.rels", f'<Relationships xmlns="{_RELATIONS}">{relations}</Relationships>'
        )
        for name, content in (parts or {}).items():
            packed.writestr(f"word/{name}", content)
    return path


def book(path: Path, body: str) -> Path:
    """Make a book of one page."""
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("mimetype", "application/epub+zip")
        packed.writestr(
            "META-INF/container.xml",
            '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="c.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
        )
        packed.writestr(
            "c.opf",
            '<package xmlns="http://www.idpf.org/2007/opf"><metadata/><manifest><item id="a" href="a.xhtml" '
            'media-type="application/xhtml+xml"/></manifest><spine><itemref idref="a"/></spine></package>',
        )
        packed.writestr(
            "a.xhtml",
            '<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops">'
            f"<body>{body}</body></html>",
        )
    return path


def run(text: str, properties: str = "") -> str:
    return f"<w:r>{properties}<w:t>{text}</w:t></w:r>"


def paragraph(inner: str) -> str:
    return f"<w:p>{inner}</w:p>"
