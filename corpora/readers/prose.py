"""Plain text, front matter of pages, and PDF and Word through LlamaIndex's readers.

A PDF or Word file from anywhere may be broken or hostile, so guards come before its reader.
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

MAX_TITLE = 200  # characters; what is longer is cut at a word
MAX_TITLE_LINE = 80  # characters of a first line that still counts as a title
_UNDERLINE = re.compile(r"([=\-~*^#])\1{2,}\s*$")


def parse_text(text: str, relative: str) -> Document:
    """A text file's Document; `text` has "\\n" for newlines."""
    return Document(
        id=relative, title=_title(text) or stem(relative), text=text, path=relative, blocks=tuple(paragraphs(text))
    )


def stem(relative: str) -> str:
    """A title made of a file name: no suffix, no '-' and '_'."""
    name = PurePosixPath(relative)
    return " ".join(re.sub(r"[-_]+", " ", name.stem).split()) or name.name


def main_heading(headings: Sequence[str], relative: str) -> str:
    """A title: the heading of level 1. Of several the first only if it goes with the file's name; else that name."""
    first, name = headings[0] if headings else "", stem(relative)
    if len(headings) > 1 and name.lower() not in ("readme", "index") and not {*words(first)} & {*words(name)}:
        return name
    return first or name


def shorten_title(title: str) -> str:
    """A title of at most `MAX_TITLE` characters."""
    if len(title) <= MAX_TITLE:
        return title
    return title[:MAX_TITLE].rsplit(" ", 1)[0] + "…"


def paragraphs(text: str, start: int = 0, end: int | None = None) -> list[Block]:
    """The paragraphs of text[start:end], which blank lines separate."""
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
    head = [line.strip() for line in text.lstrip("\n").split("\n", 4)[:4]]
    if len(head) > 2 and _UNDERLINE.match(head[0]):  # reStructuredText: a line above and below the title
        head = head[1:]
    if len(head) < 2 or not 0 < len(head[0]) <= MAX_TITLE_LINE:
        return ""
    return " ".join(head[0].split()) if not head[1] or _UNDERLINE.match(head[1]) else ""


class Unreadable(Exception):
    """A file that gives no document; becomes a Problem. `binary`: no text at all, so that no glob can have meant it."""

    def __init__(self, message: str, line: int | None = None, binary: bool = False) -> None:
        super().__init__(message)
        self.line = line
        self.binary = binary


_YAML = re.compile(r"---[ \t]*\n(?P<body>(?:(?!---|\.\.\.)[^\n]*\n)*+)(?:---|\.\.\.)[ \t]*(?:\n|\Z)")
_TOML = re.compile(r"\+\+\+[ \t]*\n(?P<body>(?:(?!\+\+\+)[^\n]*\n)*+)\+\+\+[ \t]*(?:\n|\Z)")
# What may be at the beginning of a line of YAML or TOML; a text between two rules is no front matter.
_METADATA_LINE = re.compile(r"\s|$|#|[-\]})]|\[|[\w\"'.$-][^:=\n]{0,100}[:=](?:\s|$|(?<==))")
_DATES = "last_modified last-modified last_updated lastmod updated modified date".split()  # the first that is there
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?![\d-])")
_BLOCK_SCALAR = re.compile(r"[>|][+-]?\d?$")


class FrontMatter(NamedTuple):
    """What the lines in front of a page say of it; "" for what they do not."""

    title: str = ""
    date: str = ""


def split_front_matter(text: str) -> tuple[FrontMatter, str]:
    """The front matter of a page, and the text behind it; all of the text if there is none."""
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
    """A date without its time, if it is written as ISO 8601; else the first 40 characters of what is written."""
    iso = _ISO_DATE.match(value.strip())
    return iso.group() if iso else value.strip()[:40]


def _metadata(body: str, key: str) -> str:
    match = re.search(
        rf"^(?:{key}|\"{key}\")[ \t]*[:=][ \t]*(?P<first>[^\n]*)(?P<more>(?:\n[ \t]+[^\n]*)*+)", body, re.MULTILINE
    )
    if match is None:
        return ""
    first, continuation = match["first"].strip(), match["more"]
    value = continuation if _BLOCK_SCALAR.match(first) else first + continuation
    value = " ".join(value.split())
    if quoted := re.match(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^']|'')*)'", value):
        double, single_quoted = quoted.groups()
        return (
            double.replace('\\"', '"').replace("\\\\", "\\") if double is not None else single_quoted.replace("''", "'")
        )
    return re.split(r"[ \t]#", value)[0].strip()


MAX_UNPACKED = 200 * 1000 * 1000  # bytes of a Word file's parts together; a book without pictures has about 5 million
_ENTITY = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def read_pdf(path: Path, relative: str) -> Document:
    """A PDF's Document; `pages` says where each page begins."""
    _refuse_encrypted(path)
    with _quiet("pypdf"):
        from llama_index.readers.file import PDFReader

        try:
            texts = [page.text or "" for page in PDFReader().load_data(path)]
        except Exception as error:  # pypdf raises whatever its internals stumble over, all of it a broken file
            raise Unreadable(
                f"a PDF that cannot be read ({_cause(error)}); open it and print it to a new PDF"
            ) from error
    texts = [_clean(text) for text in texts]
    if not any(text.strip() for text in texts):
        raise Unreadable(f"a PDF without text on its {len(texts)} pages, so probably scanned; run OCR on it first")
    pages: list[int] = []
    blocks: list[Block] = []
    joined, offset = "\n\n".join(texts), 0
    for text in texts:
        pages.append(offset)
        blocks.extend(paragraphs(joined, offset, offset + len(text)))
        offset += len(text) + 2
    return Document(
        id=relative, title=stem(relative), text=joined, path=relative, blocks=tuple(blocks), pages=tuple(pages)
    )


def _refuse_encrypted(path: Path) -> None:
    """An owner's password alone hinders printing, not reading; a user's password hinders both."""
    import pypdf

    with _quiet("pypdf"):
        try:
            with open(path, "rb") as file:
                reader = pypdf.PdfReader(file)
                locked = reader.is_encrypted and not reader.decrypt("")
        except OSError:
            raise
        except Exception as error:  # as above
            encrypted = isinstance(error, pypdf.errors.DependencyError)
            fault = "an encrypted PDF" if encrypted else f"not a PDF, or a broken one ({_cause(error)})"
            raise Unreadable(f"{fault}; open it and print it to a new PDF") from error
    if locked:
        raise Unreadable("an encrypted PDF that asks for a password; save it without one")


def read_docx(path: Path, relative: str) -> Document:
    """A Word file's Document. Headings and lists are not distinguished: the reader gives paragraphs."""
    _guard_docx(path)
    with _quiet("docx2txt"):
        from llama_index.readers.file import DocxReader

        try:
            text = "".join(part.text or "" for part in DocxReader().load_data(path))
        except Exception as error:  # of a broken file, each layer of the reader raises its own
            raise Unreadable(f"a Word file that cannot be read ({_cause(error)}); open it and save it again") from error
    return parse_text(_clean(text), relative)


def _guard_docx(path: Path) -> None:
    try:
        with zipfile.ZipFile(path) as packed:
            total = sum(part.file_size for part in packed.infolist())
            if total > MAX_UNPACKED:
                raise Unreadable(f"unpacks to {total / 1e6:,.0f} MB, more than {MAX_UNPACKED // 10**6}; not opened")
            for part in packed.infolist():
                if not part.filename.lower().endswith((".xml", ".rels")):
                    continue
                # What it unpacks to is cut off at the size it declares, which was counted above.
                content = packed.read(part)
                if any(mark in content for mark in _ENTITY):
                    raise Unreadable(
                        f"{part.filename} in it declares XML entities, which no Word file needs; not opened"
                    )
    except Unreadable:
        raise
    except Exception as error:  # zipfile's own, zlib's, and more
        fault = f"broken, encrypted or in the old .doc format ({_cause(error)})"
        raise Unreadable(f"not a Word file that can be read: {fault}; save it again as .docx") from error


def _clean(text: str) -> str:
    """Extracted text may hold NULs and halves of surrogate pairs, which no store can keep."""
    text = text.replace("\0", "").replace("\r\n", "\n").replace("\r", "\n")
    return text.encode("utf-8", "replace").decode("utf-8")


def _cause(error: BaseException) -> str:
    """The first line of what went wrong; LlamaIndex's PDF reader wraps it in the error of its retries."""
    attempt = getattr(error, "last_attempt", None)
    inner = attempt.exception() if attempt is not None else None
    cause = inner if inner is not None else error
    return (str(cause).splitlines() or [""])[0] or type(cause).__name__


@contextmanager
def _quiet(name: str) -> Iterator[None]:
    """No warnings of a library on the screen while it reads: what matters becomes a Problem.

    One of LlamaIndex's readers sets up logging for the program when it is imported; that is undone.
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
