"""One file to one Document: what is checked before any parser sees it, and which parser that is."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from pathlib import Path

from turnmark.corpora.readers.errors import Unreadable
from turnmark.corpora.types import Document, Problem

MAX_BYTES = 64 * 1024 * 1024

MARKDOWN = (".md", ".markdown", ".mdx")
TEXT = (".txt", ".text", ".rst")
HTML = (".html", ".htm")
SUFFIXES = frozenset((*MARKDOWN, *TEXT, *HTML, ".pdf", ".docx"))

_BOMS = (  # the longer first: UTF-32's begins with UTF-16's
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


def read_file(path: Path, relative: str, only_text: bool = False) -> Document | Problem | None:
    """The document in a file, or why there is none; nothing is raised. `relative` becomes its id.

    Args:
        only_text: give None for a file that is no text at all, instead of a Problem.
    """
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise Unreadable(f"{size / 2**20:.0f} MB; a file may have {MAX_BYTES // 2**20} MB at most, so split it")
        document = _parser(path.suffix.lower())(path, relative)
    except Unreadable as error:
        return None if error.binary and only_text else Problem(file=relative, what=str(error), line=error.line)
    except OSError as error:
        return Problem(file=relative, what=f"cannot be read ({error.strerror or error}); check its permissions")
    if not document.text.strip():
        return Problem(file=relative, what="empty: there is no text in it")
    return document


def _parser(suffix: str) -> Callable[[Path, str], Document]:
    from turnmark.corpora.readers import html, markdown, office, prose

    if suffix == ".pdf":
        return office.read_pdf
    if suffix == ".docx":
        return office.read_docx
    parse = prose.parse
    if suffix in MARKDOWN:
        parse = markdown.parse
    elif suffix in HTML:
        parse = html.parse
    return lambda path, relative: parse(decode(path.read_bytes()), relative)


def decode(data: bytes) -> str:
    """Bytes of a text file as text with "\\n" for newlines: UTF-8, or UTF-16/32 where a byte order mark says so.

    Raises:
        Unreadable: another encoding (never guessed) or no text at all, with the line of the first bad byte.
    """
    encoding = next((name for mark, name in _BOMS if data.startswith(mark)), "utf-8")
    if encoding.startswith("utf-8") and b"\0" in data:
        raise Unreadable("holds NUL bytes, so it is not text", line=_line(data, data.index(b"\0")), binary=True)
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise Unreadable(
            f"not valid {encoding.removesuffix('-sig').upper()} (byte {error.start + 1}: 0x{data[error.start]:02x}); "
            "save the file as UTF-8",
            line=_line(data, error.start) if encoding.startswith("utf-8") else None,
        ) from error
    if "\0" in text:
        raise Unreadable("holds NUL characters, so it is not text", binary=True)
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _line(data: bytes, at: int) -> int:
    return data[:at].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n") + 1
