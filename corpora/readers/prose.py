"""Reads plain text, the front matter of pages, and Word files (with LlamaIndex's reader).

A Word file may be broken or hostile, so it is checked before it is read.
"""

from __future__ import annotations

import logging
import re
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from turnmark.corpora.text import lines, trimmed, words
from turnmark.corpora.types import Block, Document

MAX_TITLE = 200  # characters; a longer title is cut at a word
MAX_TITLE_LINE = 80  # characters of a first line that still counts as a title
_UNDERLINE = re.compile(r"([=\-~*^#])\1{2,}\s*$")


def parse_text(text: str, relative: str) -> Document:
    """Parse a text file. The document's text has "\\n" for newlines."""
    return Document(
        id=relative, title=_title(text) or stem(relative), text=text, path=relative, blocks=tuple(paragraphs(text))
    )


def stem(relative: str) -> str:
    """Make a title from a file name: without suffix, '-' and '_'."""
    name = PurePosixPath(relative)
    return " ".join(re.sub(r"[-_]+", " ", name.stem).split()) or name.name


def main_heading(headings: Sequence[str], relative: str) -> str:
    """Choose the title: the only heading of level 1, or the first of several if it resembles the file name, else the
    file name.
    """
    first, name = headings[0] if headings else "", stem(relative)
    if len(headings) > 1 and name.lower() not in ("readme", "index") and not {*words(first)} & {*words(name)}:
        return name
    return first or name


def shorten_title(title: str) -> str:
    """Shorten a title to `MAX_TITLE` characters."""
    if len(title) <= MAX_TITLE:
        return title
    return title[:MAX_TITLE].rsplit(" ", 1)[0] + "…"


def paragraphs(text: str, start: int = 0, end: int | None = None) -> list[Block]:
    """Return the paragraphs of text[start:end], separated by blank lines."""
    blocks: list[Block] = []
    stop = len(text) if end is None else end
    begin = start
    for offset, line in lines(text[start:stop]):
        if not line.strip():
            _add(blocks, text, begin, start + offset)
            begin = start + offset
    _add(blocks, text, begin, stop)
    return blocks


def _add(blocks: list[Block], text: str, start: int, end: int) -> None:
    start, end = trimmed(text, start, end)
    if start < end:
        blocks.append(Block(kind="paragraph", start=start, end=end))


def _title(text: str) -> str:
    """Return a text's first line if it looks like a title, else an empty text."""
    head = [line.strip() for line in text.lstrip("\n").split("\n", 4)[:4]]
    if len(head) > 2 and _UNDERLINE.match(head[0]):  # reStructuredText: a line above and below the title
        head = head[1:]
    if len(head) < 2 or not 0 < len(head[0]) <= MAX_TITLE_LINE:
        return ""
    return " ".join(head[0].split()) if not head[1] or _UNDERLINE.match(head[1]) else ""


class Unreadable(Exception):
    """A file cannot be read as a document; it becomes a Problem. `binary`: it is not a text at all."""

    def __init__(self, message: str, line: int | None = None, binary: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.binary = binary


_YAML = re.compile(r"---[ \t]*\n(?P<body>(?:(?!---|\.\.\.)[^\n]*\n)*+)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<body>(?:(?!\+\+\+)[^\n]*\n)*+)\+\+\+[ \t]*(?:\n|\Z)")
# How a line of YAML or TOML can begin; other text between two rules is not front matter.
_METADATA_LINE = re.compile(r"\s|$|#|[-\]})]|\[|[\w\"'.$-][^:=\n]{0,100}[:=](?:\s|$|(?<==))")
_DATES = "last_modified last-modified last_updated lastmod updated modified date".split()  # in order of preference
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?![\d-])")
_BLOCK_SCALAR = re.compile(r"[>|][+-]?\d?$")


class FrontMatter(NamedTuple):
    """Title and date from a page's front matter; empty if it does not give them."""

    title: str = ""
    date: str = ""


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """Split a page into its front matter and the text after it."""
    match = _YAML.match(text) or _TOML.match(text)
    if match is None:
        return FrontMatter(), text
    lines = [line for line in match["body"].split("\n") if line.strip()]
    if not all(_METADATA_LINE.match(line) for line in lines):
        return FrontMatter(), text
    dates = (_metadata(match["body"], key) for key in _DATES)
    front = FrontMatter(_metadata(match["body"], "title"), day(next(filter(None, dates), "")))
    return front, text[match.end() :].lstrip("\n")


def day(value: str) -> str:
    """Return an ISO 8601 date without its time; of any other value its first 40 characters."""
    iso = _ISO_DATE.match(value.strip())
    return iso.group() if iso else value.strip()[:40]


def _metadata(body: str, key: str) -> str:
    """Return the value of a key in YAML or TOML front matter; empty if it is missing."""
    match = re.search(
        rf"^(?:{key}|\"{key}\")[ \t]*[:=][ \t]*(?P<first>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*+)", body, re.MULTILINE
    )
    if match is None:
        return ""
    first, continuation = match["first"].strip(), match["more"]
    value = continuation if _BLOCK_SCALAR.match(first) else first + continuation
    value = " ".join(value.split())
    quoted = re.match(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'", value)
    if quoted:
        double_quoted, single_quoted = quoted.groups()
        if double_quoted is None:
            return single_quoted.replace("''", "'")
        return double_quoted.replace('\\"', '"').replace("\\\\", "\\")
    return re.split(r"[ \t]#", value)[0].strip()


MAX_UNPACKED = 200 * 1000 * 1000  # bytes of a Word file when unpacked; a book without pictures has about 5 million
_ENTITY = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def read_docx(path: Path, relative: str) -> Document:
    """Read a Word file as paragraphs; LlamaIndex's reader does not tell headings and lists."""
    _guard_docx(path)
    with _quiet("docx2txt"):
        from llama_index.readers.file import DocxReader

        try:
            text = "".join(part.text or "" for part in DocxReader().load_data(path))
        except Exception as error:  # of a broken file each layer of the reader raises its own error
            raise Unreadable(f"a Word file that cannot be read ({_cause(error)}); open it and save it again") from error
    return parse_text(_clean(text), relative)


def _guard_docx(path: Path) -> None:
    """Refuse a Word file that is not one, unpacks to too much, or declares XML entities."""
    try:
        with zipfile.ZipFile(path) as packed:
            total = sum(part.file_size for part in packed.infolist())
            if total > MAX_UNPACKED:
                raise Unreadable(f"unpacks to {total / 1e6:,.0f} MB, more than {MAX_UNPACKED // 10**6}; not opened")
            for part in packed.infolist():
                if not part.filename.lower().endswith((".xml", ".rels")):
                    continue
                # Unpacking stops at the declared size, which was counted above.
                content = packed.read(part)
                if any(mark in content for mark in _ENTITY):
                    raise Unreadable(
                        f"its {part.filename} declares XML entities, which Word files do not need; not opened"
                    )
    except Unreadable:
        raise
    except Exception as error:  # zipfile, zlib and others raise their own errors
        fault = f"broken, encrypted or in the old .doc format ({_cause(error)})"
        raise Unreadable(f"not a readable Word file: {fault}; save it again as .docx") from error


def _clean(text: str) -> str:
    """Remove NULs and lone surrogates from extracted text, which SQLite cannot store, and unify newlines."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8")


def _cause(error: BaseException) -> str:
    """Return the first line of an error."""
    return (str(error).splitlines() or [""])[0] or type(error).__name__


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Silence a library's warnings while it reads; what matters becomes a Problem.

    One of LlamaIndex's readers configures the root logger when it is imported; that is undone.
    """
    logger, root = logging.getLogger(name), logging.getLogger()
    level, root_level, handlers = logger.level, root.level, root.handlers[:]
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
        root.setLevel(root_level)
        root.handlers[:] = handlers
