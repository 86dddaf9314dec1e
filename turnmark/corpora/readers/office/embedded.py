"""Reads the parts of other formats that exporters embed in a Word file (`w:altChunk`): HTML, MHTML, Word, text."""

from __future__ import annotations

import io
import zipfile
from email import message_from_bytes, policy
from typing import Any

from turnmark.corpora.readers.html import parse_html
from turnmark.corpora.readers.office.archive import MAX_UNPACKED_BYTES, parse_part
from turnmark.corpora.readers.prose import Unreadable, declared_encoding, decode
from turnmark.corpora.tables import tables_of
from turnmark.corpora.text import heading_text

EmbeddedBlock = str | tuple[str] | list[list[str]] | Any
"""A paragraph, a heading (a tuple of its text), the rows of a table, or an element of Word."""


def embedded_blocks(data: bytes, name: str) -> list[EmbeddedBlock] | None:
    """Return the blocks of an embedded part; None if it cannot be read."""
    try:
        if data.startswith(b"PK"):
            return _word_blocks(data)
        head = data[:4000].lower()
        if b"mime-version" in head or name.lower().endswith((".mht", ".mhtml", ".eml")):
            message = message_from_bytes(data, policy=policy.default)
            page = message.get_body(preferencelist=("html", "plain"))
            return _page_blocks(str(page.get_content())) if page is not None else None
        if data.lstrip().startswith(b"{\\rtf"):
            return None
        text = decode(data, declared_encoding(data) or "cp1252")
        return _page_blocks(text) if b"<" in head else list(filter(None, map(str.strip, text.split("\n"))))
    except (Unreadable, zipfile.BadZipFile, LookupError, ValueError, KeyError):
        return None


def _word_blocks(data: bytes) -> list[EmbeddedBlock] | None:
    with zipfile.ZipFile(io.BytesIO(data)) as packed:
        if sum(part.file_size for part in packed.infolist()) > MAX_UNPACKED_BYTES:
            return None
        tree = parse_part(packed, "word/document.xml")
        body = tree.find("{*}body") if tree is not None else None
        return [each for each in body if not str(each.tag).endswith("}sectPr")] if body is not None else None


def _page_blocks(page: str) -> list[EmbeddedBlock]:
    document = parse_html(page, "page.html")
    return [_block(block.kind, document.text[block.start : block.end]) for block in document.blocks]


def _block(kind: str, text: str) -> EmbeddedBlock:
    if kind == "heading":
        return (heading_text(text),)
    if kind == "table":
        (table,) = tables_of(text)[:1]
        return [[*row.cells] for row in (*table.head[:1], *table.rows)]
    words = " ".join(text.split())
    return f"• {words.removeprefix('- ')}" if kind == "item" and words.startswith("- ") else words
