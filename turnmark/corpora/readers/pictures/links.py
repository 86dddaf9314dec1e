"""Finds the pictures to which a Markdown or HTML page refers: files inside the indexed folder, and data URIs.

A page may name any file of the machine, or one on the web. Only pictures inside the folder are opened, after links are
resolved, and nothing is downloaded.
"""

from __future__ import annotations

import base64
import binascii
import os
import re
from pathlib import Path
from urllib.parse import unquote_to_bytes

from turnmark.corpora.readers.pictures.collector import MAX_PICTURE_BYTES, PictureCollector, ReadBytes

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:|//|\\\\")
_DATA_URI = re.compile(r"data:image/[\w.+-]{1,60}(?:;[\w.+=-]{1,100}){0,5},", re.IGNORECASE)
_SUFFIXES = frozenset(".png .jpg .jpeg .jpe .jfif .webp .gif .tif .tiff .bmp .svg .emf .wmf".split())
_ATTACHMENT_FOLDERS = ("attachments", "assets", "images", "media", "")
_MAX_LINK_LENGTH = 1_000


class LinkedPictures:
    """The pictures to which one page refers.

    Args:
        path: the file of the page.
        relative: its path below the indexed folder, POSIX, which tells where that folder is.
    """

    def __init__(self, path: Path, relative: str) -> None:
        self.collector = PictureCollector()
        self._folder = Path(os.path.realpath(path.parent))
        self._root = Path(os.path.realpath(path.absolute().parents[relative.count("/")]))

    def mark(self, link: str, alt: str = "") -> str:
        """Return the mark for a picture that a page shows (`PictureCollector.mark`); empty if it is not handed over."""
        if _DATA_URI.match(link):
            return self.collector.mark(link, lambda size: _decode_head(link, size), alt)
        file = self._file(link)
        if file is None:
            return ""
        return self.collector.mark(str(file), read_from(file), alt, file.relative_to(self._root).as_posix())

    def _file(self, link: str) -> Path | None:
        """Return the picture file inside the indexed folder that a link names, or None if there is none."""
        if not link or len(link) > _MAX_LINK_LENGTH or _SCHEME.match(link):
            return None
        name = os.fsdecode(unquote_to_bytes(re.split(r"[?#]", link, maxsplit=1)[0])).replace("\\", "/")
        if "\0" in name or Path(name).suffix.lower() not in _SUFFIXES:
            return None
        start = self._root if name.startswith("/") else self._folder  # pages of a site name files from its root
        places = [start / name.lstrip("/")]
        if "/" not in name:  # programs for notes find a picture by its name, usually in a folder for attachments
            places += [base / each / name for base in (self._folder, self._root) for each in _ATTACHMENT_FOLDERS]
        return next(filter(None, map(self._inside, places)), None)

    def _inside(self, place: Path) -> Path | None:
        """Return the file at a place with links resolved, or None if there is none inside the indexed folder."""
        file = Path(os.path.realpath(place))
        return file if file.is_relative_to(self._root) and file.is_file() else None


def read_from(path: Path) -> ReadBytes:
    """Return a function that reads the first bytes of a file."""

    def read(size: int) -> bytes:
        with path.open("rb") as file:
            return file.read(size)

    return read


def _decode_head(uri: str, size: int) -> bytes:
    """Return the first bytes of the picture in a data URI; empty if it is broken."""
    head, _, content = uri.partition(",")
    if not head.lower().endswith(";base64"):
        return unquote_to_bytes(content[: 3 * size])[:size]
    if len(content) > 2 * MAX_PICTURE_BYTES:
        return b""
    encoded = "".join(unquote_to_bytes(content[: 2 * size]).decode("ascii", "ignore").split())
    try:
        return base64.b64decode(encoded[: len(encoded) // 4 * 4])[:size]
    except binascii.Error:
        return b""
