"""Plain text: paragraphs between blank lines, and a title where the first line looks like one."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from turnmark.corpora.text import lines, trimmed
from turnmark.corpora.types import Block, Document

MAX_TITLE = 200  # characters; what is longer is cut at a word
MAX_TITLE_LINE = 80  # characters of a first line that still counts as a title
_UNDERLINE = re.compile(r"([=\-~*^#])\1{2,}\s*$")


def parse(text: str, relative: str) -> Document:
    """A text file's Document; `text` has "\\n" for newlines."""
    return Document(
        id=relative, title=_title(text) or stem(relative), text=text, path=relative, blocks=tuple(paragraphs(text))
    )


def stem(relative: str) -> str:
    """A title made of a file name: no suffix, no '-' and '_'."""
    name = PurePosixPath(relative)
    return " ".join(re.sub(r"[-_]+", " ", name.stem).split()) or name.name


def shorten(title: str) -> str:
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
