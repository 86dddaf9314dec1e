"""Inserts the descriptions of pictures into a document. Offsets behind a description move by its length.

A description comes from a model that read untrusted pictures. It becomes paragraphs, lists, tables and code of the
document, but no headings, since these would rename the sections around it.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from turnmark.core.untrusted import make_printable, one_line
from turnmark.corpora.readers.markup.markdown import blocks
from turnmark.corpora.types import Block, DescribedPicture, Document, Picture, TableData

MAX_DESCRIPTION_CHARACTERS = 20_000
"""Maximum characters of a description. A longer one is cut after a line."""
_OUTER_FENCE = re.compile(r"\A\s*(`{3,}|~{3,})[ \t]*(?:markdown|md|text)?[ \t]*\n(.*)\n\1[ \t]*\s*\Z", re.DOTALL)
_FENCE_LINE = re.compile(r"^ {0,3}(?P<mark>`{3,}|~{3,})(?P<info>[^\n]*)$", re.MULTILINE)
_HEADING_MARKS = re.compile(r"\A#{1,6}[ \t]+|[ \t]+#+[ \t]*\Z|\n[ \t]*(?:=+|-+)[ \t]*\Z")
_BLANK_LINES = re.compile(r"\n[ \t]*\n(?:[ \t]*\n)+")


def clean_description(text: str) -> str:
    """Return a model's description as Markdown without headings, outer fences and control characters."""
    text = make_printable(text.replace("\r\n", "\n")).strip()
    fenced = _OUTER_FENCE.match(text)
    if fenced and not _FENCE_LINE.search(fenced[2]):
        text = fenced[2].strip()
    if len(text) > MAX_DESCRIPTION_CHARACTERS:
        text = text[: text.rfind("\n", 0, MAX_DESCRIPTION_CHARACTERS) + 1 or MAX_DESCRIPTION_CHARACTERS].rstrip()
    text = _BLANK_LINES.sub("\n\n", text)
    if fence := _open_fence(text):
        text += f"\n{fence}"
    for block in reversed(blocks(text + "\n")):
        if block.kind == "heading":
            words = " ".join(_HEADING_MARKS.sub("", text[block.start : block.end]).strip("*_ ").split())
            text = f"{text[: block.start]}{f'**{words}**' if words else ''}{text[block.end :]}"
    return text.strip()


def _open_fence(text: str) -> str:
    """Return the mark that closes the block of code in which a text ends; empty if it ends in none."""
    opened = ""
    for line in _FENCE_LINE.finditer(text):
        mark, info = line["mark"], line["info"]
        if not opened:
            opened = mark if mark[0] == "~" or "`" not in info else ""
        elif mark.startswith(opened) and not info.strip():
            opened = ""
    return opened


@dataclass(frozen=True)
class _Insertion:
    """A description at an offset of the original text, with blank lines around it."""

    at: int
    picture: Picture
    before: str
    body: str
    after: str

    @property
    def length(self) -> int:
        return len(self.before) + len(self.body) + len(self.after)


def insert_descriptions(document: Document, texts: Mapping[str, str], model: str) -> Document:
    """Insert the descriptions of a document's pictures. A picture that occurs several times is described once.

    Args:
        texts: SHA-256 of a picture -> its description, as `clean_description` returns it. Pictures that are not in it,
            or whose description is empty, are left out.
        model: name of the model that described them.
    """
    insertions = list(_insertions(document, texts, model))
    if not insertions:
        return document.model_copy(update={"pictures": ()})
    pieces: list[str] = []
    described: list[DescribedPicture] = []
    new_blocks: list[Block] = []
    position = length = 0
    for insertion in insertions:
        pieces += [document.text[position : insertion.at], insertion.before, insertion.body, insertion.after]
        length += insertion.at - position + len(insertion.before)
        position = insertion.at
        place = {"document": document.id, "start": length, "end": length + len(insertion.body), "model": model}
        described.append(DescribedPicture(**insertion.picture.model_dump() | place))
        new_blocks += _blocks_of(insertion.body, length)
        length += len(insertion.body) + len(insertion.after)
    pieces.append(document.text[position:])

    shift = _Shift(insertions)
    moved = [shift.moved(block) for block in document.blocks]
    return document.model_copy(
        update={
            "text": "".join(pieces),
            "blocks": tuple(sorted([*moved, *new_blocks], key=lambda block: block.start)),
            "tables": tuple(map(shift.moved, document.tables)),
            "pages": tuple(_moved_pages(document, insertions, shift)),
            "pictures": (),
            "descriptions": tuple(described),
        }
    )


Stretch = TypeVar("Stretch", Block, TableData)


class _Shift:
    """How far offsets of the original text move."""

    def __init__(self, insertions: Sequence[_Insertion]) -> None:
        self._at = [insertion.at for insertion in insertions]
        self._sums = [0, *accumulate(insertion.length for insertion in insertions)]

    def start(self, offset: int) -> int:
        """Return the new offset of what begins at an offset: behind a description that is inserted there."""
        return offset + self._sums[bisect_right(self._at, offset)]

    def end(self, offset: int) -> int:
        """Return the new offset of what ends at an offset: above a description that is inserted there."""
        return offset + self._sums[bisect_left(self._at, offset)]

    def moved(self, stretch: Stretch) -> Stretch:
        """Return a stretch of the text with its new offsets."""
        return stretch.model_copy(update={"start": self.start(stretch.start), "end": self.end(stretch.end)})


def _insertions(document: Document, texts: Mapping[str, str], model: str) -> Iterator[_Insertion]:
    """Yield what to insert, in the order of the text."""
    placed: set[str] = set()
    last, after = -1, ""
    for picture in sorted(document.pictures, key=lambda picture: picture.start):
        text = texts.get(picture.sha256, "")
        if not text or picture.sha256 in placed:
            continue
        placed.add(picture.sha256)
        at = _boundary(document, picture.start)
        starts_with_text = bool(found := blocks(text + "\n")) and found[0].kind == "paragraph"
        body = f"[Picture described by {one_line(model)}]{chr(10) if starts_with_text else chr(10) * 2}{text}"
        following = document.text[at : at + 2]
        above = after if at == last else document.text[max(0, at - 2) : at]
        is_first = not at and at != last
        before = "" if is_first else "\n" * (2 - len(above) + len(above.rstrip("\n")))
        after = "\n" * (2 - len(following) + len(following.lstrip("\n"))) if following else "\n\n"
        yield _Insertion(at, picture, before, body, after)
        last = at


def _boundary(document: Document, offset: int) -> int:
    """Return an offset that is inside no block: the given one, or the end of the block that contains it."""
    offset = max(0, min(offset, len(document.text)))
    return next((block.end for block in document.blocks if block.start < offset < block.end), offset)


def _blocks_of(body: str, start: int) -> Iterator[Block]:
    """Yield the blocks of a description with its mark, moved to their place in the document."""
    for block in blocks(body + "\n"):
        kind = "paragraph" if block.kind == "heading" else block.kind
        update = {"kind": kind, "start": block.start + start, "end": min(block.end, len(body)) + start}
        yield block.model_copy(update=update)


def _moved_pages(document: Document, insertions: Sequence[_Insertion], shift: _Shift) -> Iterator[int]:
    """Yield where the pages start. A description at the very start of a page belongs to the page with its picture."""
    for number, offset in enumerate(document.pages, 1):
        yield shift.end(offset) + sum(
            insertion.length
            for insertion in insertions
            if insertion.at == offset and insertion.picture.page is not None and insertion.picture.page < number
        )
