"""Collects the pictures that a document shows, for a vision model to describe.

A build that describes pictures names a folder, and readers write the pictures into it. Without a folder, pictures are
only counted, so that the build can report how many are not described.

A reader of text writes `PictureCollector.mark` where a picture stands. The marks are private characters, which
`PictureCollector.placed` removes from the finished text.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from turnmark.core.home import part_of
from turnmark.corpora.readers.pictures.image_size import DRAWABLE_FORMATS, HEAD_BYTES, LONGEST_SIDE, picture_head
from turnmark.corpora.types import Block, Picture

if TYPE_CHECKING:
    from turnmark.corpora.readers.pictures.conversion import EncodedPicture

NOT_DESCRIBED = "pictures"
"""Reason in `Document.left_out`: pictures that are not described, since the build was not asked to."""
NOT_DRAWABLE = "pictures that cannot be drawn"
"""Reason in `Document.left_out`: pictures that are broken, too large, or in a format that cannot be decoded."""
MIN_SIDE_PIXELS = 64  # a smaller picture is an icon or a line
MAX_SIDE_RATIO = 20  # of the longer to the shorter side; a longer picture is a rule or a border
MIN_LEGIBLE_SIDE = 128  # pixels; a long picture whose shorter side would get less is left out
TOO_LONG = "pictures too long to be legible; cut them into parts"
MAX_PICTURES = 1_000  # of one document
TOO_MANY_PICTURES = f"pictures after the first {MAX_PICTURES:,} of a file"
MAX_PICTURE_BYTES = 32 * 1024**2  # of the file of one picture
MAX_ALT_LENGTH = 500  # characters of an alternative text
# Programs write the name of the file as the alternative text, sometimes with a private path.
_FILE_NAME = re.compile(
    r"(?:(?:[A-Za-z]:[\\/]|\.{0,2}/|https?://)[^\n]{1,300}|\S+(?: \S+){0,2})"
    r"\.(?:png|jpe?g|gif|webp|bmp|tiff?|svgz?|emf|wmf|eps|pdf)",
    re.IGNORECASE,
)
_OPEN, _CLOSE = "\U0010f1c1", "\U0010f1c2"  # private characters that no known font or program uses
_MARK = re.compile(rf"([ \t]*)(?:{_OPEN}(\d{{1,5}}){_CLOSE}([ \t]*))")
_ONLY_MARKUP = re.compile(r"[\s>]*(?:[-*+]|\d{1,9}[.)])?\s*#{0,6}\s*")

NO_PICTURE = f"{_OPEN}99999{_CLOSE}"
"""A mark without a picture, for a place whose picture is left out. A line of nothing else is removed with it."""

ReadBytes = Callable[[int], bytes]
"""Returns the first bytes of a picture, at most as many as asked for."""

MarkFunction = Callable[[str, str], str]
"""Returns what is written in the text for a picture, given its link and its alternative text."""

_folder: ContextVar[Path | None] = ContextVar("picture folder", default=None)


@contextmanager
def pictures_into(folder: Path | None) -> Iterator[None]:
    """Make readers write pictures into a folder. If the folder is None, readers only count the pictures."""
    token = _folder.set(folder)
    try:
        yield
    finally:
        _folder.reset(token)


class PlacedText(NamedTuple):
    """A text without marks, and its pictures, each at the offset of its mark."""

    text: str
    pictures: tuple[Picture, ...]


class PictureCollector:
    """The pictures of one document, in the order in which they are found.

    Attributes:
        folder: where the pictures are written, or None if they are only counted.
        left_out: pictures that are not handed over, by reason.
    """

    def __init__(self) -> None:
        self.folder = _folder.get()
        self.left_out: Counter[str] = Counter()
        self._found: list[Picture] = []
        self._seen: set[str] = set()
        self._counted = 0

    def mark(self, key: str, read: ReadBytes, alt: str = "", source: str = "") -> str:
        """Return the mark to write where a picture stands; empty if it is not handed over.

        Args:
            key: identifies the picture in the document. A picture that is shown again is not marked again.
            read: reads it; may raise OSError.
            source: see `Picture.source`.
        """
        is_taken = self.take(key, read, alt, source)
        return f"{_OPEN}{len(self._found) - 1}{_CLOSE}" if is_taken else ""

    def take(self, key: str, read: ReadBytes, alt: str = "", source: str = "") -> bool:
        """Write a picture into the folder and add it to the document. Return False if it is left out."""
        head = None if key in self._seen else self._wanted_head(read)
        self._seen.add(key)
        if head is None:
            return False
        if self.folder is None:
            same = hashlib.sha256(head).hexdigest()
            if same not in self._seen:
                self.count()
            self._seen.add(same)
            return False
        data = self._read(read, MAX_PICTURE_BYTES + 1)
        encoded = self._encoded(data) if data else None
        return encoded is not None and self.add(encoded, alt, source=source)

    def count(self) -> None:
        """Count a picture that is not described."""
        self._counted += 1
        self.left_out[TOO_MANY_PICTURES if self._counted > MAX_PICTURES else NOT_DESCRIBED] += 1

    def add(
        self, encoded: EncodedPicture, alt: str = "", page: int | None = None,
        box: tuple[float, float, float, float] | None = None, start: int = 0, source: str = "",
    ) -> bool:  # fmt: skip
        """Write an encoded picture into the folder and add it to the document. Return False if it is left out."""
        assert self.folder is not None
        if len(self._found) >= MAX_PICTURES:
            self.left_out[TOO_MANY_PICTURES] += 1
            return False
        sha256 = hashlib.sha256(encoded.data).hexdigest()
        if any(picture.sha256 == sha256 for picture in self._found):
            return False
        alt = " ".join(alt.split())
        file = self.folder / f"{sha256}{encoded.suffix}"
        if not file.exists():
            with part_of(file) as part:
                part.write_bytes(encoded.data)
        self._found.append(
            Picture(
                start=start,
                sha256=sha256,
                suffix=encoded.suffix,
                width=encoded.width,
                height=encoded.height,
                page=page,
                box=box,
                alt="" if _FILE_NAME.fullmatch(alt) else alt[:MAX_ALT_LENGTH],
                source=source,
            )
        )
        return True

    def placed(self, text: str) -> PlacedText:
        """Remove the marks from a text, and set the start of each picture to the place of its mark."""
        if _OPEN not in text:
            return PlacedText(text, ())
        lines: list[str] = []
        starts: dict[int, int] = {}
        length = 0
        is_after_mark = False
        for line in text.split("\n"):
            kept, marks = _without_marks(line) if _OPEN in line else (line, [])
            for number, offset in marks:
                starts.setdefault(number, length + offset)
            if marks and _ONLY_MARKUP.fullmatch(kept):
                is_after_mark = True
                continue
            if is_after_mark and not kept and (not lines or not lines[-1]):
                continue  # of the blank lines around the mark, one is enough
            is_after_mark = False
            lines.append(kept)
            length += len(kept) + 1
        whole = "\n".join(lines)
        return PlacedText(whole, self.at({number: min(start, len(whole)) for number, start in starts.items()}))

    def at(self, starts: Mapping[int, int]) -> tuple[Picture, ...]:
        """Return the pictures with a start, in the order of the text.

        Args:
            starts: the start of each picture, by its number (`picture_numbers`).
        """
        pictures = [
            picture.model_copy(update={"start": starts[number]})
            for number, picture in enumerate(self._found)
            if number in starts
        ]
        return tuple(sorted(pictures, key=lambda picture: picture.start))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """The pictures that were handed over, for readers that know their places themselves."""
        return tuple(self._found)

    def _wanted_head(self, read: ReadBytes) -> bytes | None:
        """Return the first bytes of a picture, or None if it is too small to show something.

        A picture whose format cannot be drawn is counted.
        """
        data = self._read(read, HEAD_BYTES)
        head = picture_head(data) if data else None
        if head is None:
            return None
        if head.format not in DRAWABLE_FORMATS:
            self.left_out[NOT_DRAWABLE] += 1
            return None
        if _is_too_long(head.width, head.height):
            self.left_out[TOO_LONG] += 1
            return None
        return data if is_large_enough(head.width, head.height) or not head.width else None

    def _read(self, read: ReadBytes, size: int) -> bytes | None:
        try:
            return read(size)
        except (OSError, ValueError, EOFError):
            return None

    def _encoded(self, data: bytes) -> EncodedPicture | None:
        from turnmark.corpora.readers.pictures.conversion import NotDrawableError, encode_picture

        try:
            if len(data) > MAX_PICTURE_BYTES:
                raise NotDrawableError("too many bytes")
            encoded = encode_picture(data)
        except NotDrawableError:
            self.left_out[NOT_DRAWABLE] += 1
            return None
        return encoded if encoded is not None and is_large_enough(encoded.width, encoded.height) else None


def _is_too_long(width: float, height: float) -> bool:
    """Return whether a picture, such as a screenshot of a whole page, would be too narrow to read when it is stored."""
    shorter, longer = sorted((width, height))
    return shorter >= MIN_LEGIBLE_SIDE and shorter * LONGEST_SIDE < MIN_LEGIBLE_SIDE * longer


def is_large_enough(width: float, height: float) -> bool:
    """Return whether a picture of this size in pixels may show something: it is no icon, line or border."""
    shorter, longer = sorted((width, height))
    return shorter >= MIN_SIDE_PIXELS and longer <= MAX_SIDE_RATIO * shorter


def at_block_ends(pictures: Sequence[Picture], blocks: Sequence[Block]) -> tuple[Picture, ...]:
    """Move each picture to the end of the block in which it stands, or else of the block before it; 0 before all."""
    ends = ([block.end for block in blocks if block.start < picture.start] for picture in pictures)
    moved = zip(pictures, ends, strict=True)
    return tuple(picture.model_copy(update={"start": before[-1] if before else 0}) for picture, before in moved)


def no_mark(_link: str, _alt: str) -> str:
    """Return nothing: the pictures of the text are left out."""
    return ""


def picture_numbers(text: str) -> list[int]:
    """Return the numbers of the pictures whose marks are in a text."""
    return [int(found[2]) for found in _MARK.finditer(text)]


def _without_marks(line: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a line without its marks, and the number and offset of each."""
    pieces: list[str] = []
    marks: list[tuple[int, int]] = []
    length = at = 0
    for found in _MARK.finditer(line):
        pieces.append(line[at : found.start()])
        length += len(pieces[-1])
        marks.append((int(found[2]), length))
        at = found.end()
        is_between = bool(found[1] or found[3]) and at < len(line)
        pieces.append(" " if is_between and line[:1].strip() else found[1])
        length += len(pieces[-1])
    rest = line[at:]
    kept = "".join([*pieces, rest])
    return (kept.rstrip() if not rest.strip() else kept), marks
