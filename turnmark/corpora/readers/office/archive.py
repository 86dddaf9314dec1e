"""Checks zip archives of XML before they are read, and reads their title and date.

Office Open XML (ECMA-376), OpenDocument (ISO/IEC 26300) and EPUB files are such archives.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from turnmark.corpora.readers.common.prose import Unreadable, date_part, first_line, is_meaningful_title

MAX_UNPACKED_BYTES = 200 * 1000 * 1000  # when unpacked; a book without pictures has about 5 million
MAX_PARTS = 20_000
_MAX_ENTITY_OFFSET = 100_000  # bytes; entities are declared at the beginning of a part
_ENTITY = tuple("<!ENTITY".encode(encoding) for encoding in ("utf-8", "utf-16-le", "utf-16-be"))
_XML = (".xml", ".rels", ".xhtml", ".html", ".htm", ".opf", ".ncx")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_CHUNK_BYTES = 1 << 20
_SAVE_ADVICE = "open it and save it again"


@dataclass(frozen=True)
class FileFamily:
    """A kind of archive: its common name, the parts that identify it, and its suffix."""

    name: str
    parts: tuple[str, ...]
    suffix: str


WORD = FileFamily("Word file", ("word/",), ".docx")
SLIDES = FileFamily("PowerPoint file", ("ppt/",), ".pptx")
WORKBOOK = FileFamily("Excel file", ("xl/",), ".xlsx")
OPEN_DOCUMENT = FileFamily("OpenDocument file", ("content.xml",), ".odt")
EPUB = FileFamily("EPUB", ("META-INF/container.xml",), ".epub")
_FAMILIES = (WORD, SLIDES, WORKBOOK, EPUB, OPEN_DOCUMENT)


def check_packed(path: Path, family: FileFamily, streamed: str = "") -> None:
    """Refuse a file that is of another kind, broken, encrypted, or too large when unpacked.

    Args:
        streamed: name prefix of parts that are streamed and may have any size.

    Raises:
        Unreadable: the message says what is wrong and what to do.
    """
    _check_magic(path, family)
    try:
        with zipfile.ZipFile(path) as packed:
            _check_parts(packed, family, streamed)
    except Unreadable:
        raise
    except Exception as error:  # zipfile, zlib and others raise their own errors
        message = f"not a readable {family.name}: broken or cut off ({first_line(error)}); {_SAVE_ADVICE}"
        raise Unreadable(message) from error


def _check_magic(path: Path, family: FileFamily) -> None:
    with path.open("rb") as file:
        head = file.read(1024)
        rest = file.read(4_000_000) if head.startswith(_OLE) else b""
    if not head.strip():
        raise Unreadable("empty: there is no text in it")
    if head.startswith(_OLE):
        if _ENCRYPTED_PACKAGE in head + rest:
            raise Unreadable(f"an encrypted {family.name}, which asks for a password; save it without one")
        raise Unreadable(f"a file in the old format of Office, not a {family.name}; save it again as {family.suffix}")
    if not head.startswith(b"PK"):
        raise Unreadable(f"not a {family.name}, {_describe_other(head)}")


def _describe_other(head: bytes) -> str:
    """Describe what a file is instead."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    for begins, what, suffix in (
        (b"%pdf", "but a PDF", ".pdf"), (b"<!doctype html", "but an HTML page", ".html"),
        (b"<html", "but an HTML page", ".html"), (b"{\\rtf", "but an RTF file", ".rtf"),
    ):  # fmt: skip
        if start.startswith(begins):
            return f"{what}; rename it to {suffix}"
    return f"or a broken one; {_SAVE_ADVICE}"


def _check_parts(packed: zipfile.ZipFile, family: FileFamily, streamed: str) -> None:
    parts = packed.infolist()
    if len(parts) > MAX_PARTS:
        raise Unreadable(f"contains {len(parts):,} parts, more than {MAX_PARTS:,}; not opened")
    if any(part.flag_bits & 1 for part in parts):
        raise Unreadable(f"an encrypted {family.name}, which asks for a password; save it without one")
    kept = [part for part in parts if not (streamed and part.filename.startswith(streamed))]
    total = sum(part.file_size for part in kept)
    if total > MAX_UNPACKED_BYTES:
        raise Unreadable(f"unpacks to {total / 1e6:,.0f} MB, more than {MAX_UNPACKED_BYTES // 10**6}; not opened")
    names = [part.filename for part in parts]
    if not _is_of(names, family):
        other = next((each for each in _FAMILIES if _is_of(names, each)), None)
        if other:
            raise Unreadable(f"not a {family.name}, but of the kind {other.name}; rename it to {other.suffix}")
        raise Unreadable(f"not a readable {family.name}: its {family.parts[0]} is missing; {_SAVE_ADVICE}")
    _check_encryption(packed, names, family)
    for part in parts:
        is_page = family is EPUB and part.filename.lower().endswith((".xhtml", ".html", ".htm"))
        if part.filename.lower().endswith(_XML) and not is_page:  # one damaged page does not refuse a book
            with packed.open(part) as content:
                head = content.read(_MAX_ENTITY_OFFSET)
            if any(mark in head for mark in _ENTITY):
                raise Unreadable(f"its {part.filename} declares XML entities, which no {family.name} needs; not opened")


def _is_of(names: list[str], family: FileFamily) -> bool:
    return all(any(name.startswith(part) for name in names) for part in family.parts)


def _check_encryption(packed: zipfile.ZipFile, names: list[str], family: FileFamily) -> None:
    manifest = "META-INF/manifest.xml"
    if family is OPEN_DOCUMENT and manifest in names and b"encryption-data" in packed.read(manifest):
        raise Unreadable("an encrypted OpenDocument file, which asks for a password; save it without one")
    if family is EPUB and {"META-INF/rights.xml", "META-INF/license.lcpl", "META-INF/sinf.xml"} & {*names}:
        raise Unreadable("an EPUB that is locked to a reading device (DRM); its text cannot be read")


# --- XML -------------------------------------------------------------------------------------------------------------


_STRICT_NAME = re.compile(
    rb"http://purl\.oclc\.org/ooxml/(officeDocument|drawingml|spreadsheetml|presentationml|wordprocessingml)/"
)


def with_usual_names(data: bytes) -> bytes:
    """Return a part of a "Strict Open XML" file (ISO 29500) with the XML namespaces that all other files have."""
    return _STRICT_NAME.sub(rb"http://schemas.openxmlformats.org/\1/2006/", data) if b"purl.oclc.org" in data else data


def is_strict_part(data: bytes) -> bool:
    """Return whether a part is of a "Strict Open XML" file."""
    return bool(_STRICT_NAME.search(data))


def write_with_usual_names(path: Path, made: Path) -> None:
    """Write a copy of a "Strict Open XML" file with the usual namespaces. Parts are copied piece by piece."""
    with zipfile.ZipFile(path) as packed, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in packed.namelist():
            with packed.open(name) as content, copy.open(name, "w") as part:
                carried = b""
                while chunk := content.read(_CHUNK_BYTES):
                    piece, mark, carried = (
                        (carried + chunk).rpartition(b">") if name.endswith(_XML) else (chunk, b"", b"")
                    )
                    part.write(with_usual_names(piece + mark))
                part.write(with_usual_names(carried))


def related_parts(packed: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Return the relations of a part: id -> kind and target part."""
    folder, file = posixpath.split(part)
    tree = parse_part(packed, f"{folder}/_rels/{file}.rels")
    found: dict[str, tuple[str, str]] = {}
    for relation in tree if tree is not None else ():
        if relation.get("TargetMode") == "External":
            continue
        kind = str(relation.get("Type") or "").rpartition("/")[2]
        target = str(relation.get("Target") or "")
        place = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join(folder, target))
        found[str(relation.get("Id"))] = (kind, place)
    return found


def parse_part(packed: zipfile.ZipFile, name: str) -> Any:
    """Parse a part without resolving entities; return None if it is missing.

    Raises:
        Unreadable: the part is broken.
    """
    if name not in packed.namelist():
        return None
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, recover=False)
    try:
        return etree.fromstring(with_usual_names(packed.read(name)), parser)
    except Exception as error:  # lxml, zipfile and zlib raise their own errors
        raise Unreadable(f"broken: its {name} cannot be read ({first_line(error)}); {_SAVE_ADVICE}") from error


def read_part(path: Path, name: str, size: int) -> bytes:
    """Return the first bytes of a part of an archive; empty if it cannot be read."""
    try:
        with zipfile.ZipFile(path) as packed:
            return read_open_part(packed, name.removeprefix("./"), size)
    except (OSError, zipfile.BadZipFile):
        return b""


def read_open_part(packed: zipfile.ZipFile, name: str, size: int = -1) -> bytes:
    """Return the first bytes, or all, of a part of an open archive; empty if it cannot be read."""
    try:
        with packed.open(name) as part:
            return part.read(size)
    except Exception:  # zipfile and zlib raise many kinds for a broken or encrypted part
        return b""


_COMMENTS = re.compile(r"(?:xl|ppt)/(?:threadedC|c)omments/?[^/]*\.xml|(?:xl|ppt)/comments/[^/]+\.xml")
_COMMENT = re.compile(rb"<(?:\w+:)?(?:comment|cm|threadedComment)[ >]")


def count_comments(packed: zipfile.ZipFile) -> int:
    """Return the number of comments in a workbook or in slides. A thread counts once for each of its entries."""
    counts: Counter[bool] = Counter()
    for name in packed.namelist():
        if _COMMENTS.fullmatch(name):
            counts["threaded" in name.lower()] += len(_COMMENT.findall(packed.read(name)))
    return max(counts.values(), default=0)  # a threaded comment has a copy for older programs


def parse_extra(packed: zipfile.ZipFile, name: str, left_out: Counter[str]) -> Any:
    """Parse a part that the text can do without, such as a chart; return None if it is missing or broken.

    Args:
        left_out: counts broken parts.
    """
    try:
        return parse_part(packed, name)
    except Unreadable:
        left_out["broken parts"] += 1
        return None


@dataclass(frozen=True)
class OfficeMetadata:
    """The title and date in a file's metadata; empty if they are missing."""

    title: str = ""
    date: str = ""


def write_changed(packed: zipfile.ZipFile, made: Path, changed: Mapping[str, bytes], names: Iterable[str] = ()) -> None:
    """Write a copy of an archive with some parts replaced or added. A damaged part becomes empty.

    Args:
        names: the parts to copy; if empty, all.
    """
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as copy:
        for name in dict.fromkeys((*(names or packed.namelist()), *changed)):
            copy.writestr(name, changed[name] if name in changed else read_open_part(packed, name))


def read_metadata(path: Path) -> OfficeMetadata:
    """Return the title and the date of the last change in the metadata of an Office or OpenDocument file."""
    try:
        with zipfile.ZipFile(path) as packed:
            for name in ("docProps/core.xml", "meta.xml"):
                tree = parse_part(packed, name)
                if tree is not None:
                    title = " ".join(_first(tree, "title").split())
                    dates = (_first(tree, key) for key in ("modified", "date", "created", "creation-date"))
                    return OfficeMetadata(
                        title if is_meaningful_title(title) else "", date_part(next(filter(None, dates), ""))
                    )
    except (Unreadable, zipfile.BadZipFile, OSError):
        pass  # a file without metadata is read anyway
    return OfficeMetadata()


def _first(tree: Any, name: str) -> str:
    return str(tree.findtext(f".//{{*}}{name}") or "").strip()


def insert_after(blocks: Iterable[tuple[Any, Any]]) -> bool:
    """Insert each block after its anchor, those of one anchor in order, and return whether there are any."""
    ends: dict[Any, Any] = {}
    for anchor, block in blocks:
        ends.get(anchor, anchor).addnext(block)
        ends[anchor] = block
    return bool(ends)
