"""Reads plain text files."""

from __future__ import annotations

from pathlib import Path

from turnmark.corpora.readers.common.encodings import decode_or_guess
from turnmark.corpora.readers.common.prose import Unreadable, parse_text
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document


def read_text(path: Path, relative: str, _: ProgressCallback) -> Document:
    """Read a text file."""
    text, remarks = decode_or_guess(path.read_bytes())
    document = parse_text(text, relative)
    if document.left_out and not any(map(str.isalnum, document.text)):
        raise Unreadable("contains only data in base64, without words")
    return document.model_copy(update={"remarks": remarks}) if remarks else document
