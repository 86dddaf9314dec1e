"""PDF and Word, through LlamaIndex's readers, with guards in front: a file from anywhere may be broken or hostile."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from turnmark.corpora.readers import prose
from turnmark.corpora.readers.prose import Unreadable
from turnmark.corpora.types import Block, Document

MAX_UNPACKED = 200 * 1000 * 1000  # bytes of a Word file's parts together; a book without pictures has about 5 million
_ENTITY = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))


def read_pdf(path: Path, relative: str) -> Document:
    """A PDF's Document; `pages` says where each page begins.

    Raises:
        Unreadable: encrypted, broken, or pictures of text only.
    """
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
        blocks.extend(prose.paragraphs(joined, offset, offset + len(text)))
        offset += len(text) + 2
    return Document(
        id=relative, title=prose.stem(relative), text=joined, path=relative, blocks=tuple(blocks), pages=tuple(pages)
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
    """A Word file's Document. Headings and lists are not told apart: the reader gives paragraphs.

    Raises:
        Unreadable: broken, encrypted, or made to exhaust the memory.
    """
    _guard_docx(path)
    with _quiet("docx2txt"):
        from llama_index.readers.file import DocxReader

        try:
            text = "".join(part.text or "" for part in DocxReader().load_data(path))
        except Exception as error:  # of a broken file, each layer of the reader raises its own
            raise Unreadable(f"a Word file that cannot be read ({_cause(error)}); open it and save it again") from error
    return prose.parse(_clean(text), relative)


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
        with open(path, "rb") as file:
            old_format = file.read(4) == b"\xd0\xcf\x11\xe0"
        reason = "encrypted, or in the old .doc format" if old_format else f"broken ({_cause(error)})"
        raise Unreadable(f"not a Word file that can be read: {reason}; save it again as .docx") from error


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

    One of LlamaIndex's readers sets up logging for the whole program when it is imported; that is undone.
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
