"""Citation marks (`[1]`, `[1, 2]`, `[2-4]`), and sentences with their marks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turnmark.corpora.text import sentences

_NUMBER_OR_RANGE = r"\d{1,3}(?:\s*[–-]\s*\d{1,3})?"
MARK = re.compile(rf"\[({_NUMBER_OR_RANGE}(?:\s*,\s*{_NUMBER_OR_RANGE})*)\]")
CODE = re.compile(r"(```.*?(?:```|\Z)|`[^`\n]+`)", re.DOTALL)


def cited_numbers(text: str) -> list[int]:
    """The numbers of all citation marks of a text outside code, in order: `[1]`, `[1, 2]` and `[2-4]`."""
    numbers: list[int] = []
    for match in MARK.finditer(CODE.sub(" ", text)):
        for part in match.group(1).split(","):
            first, _, last = part.replace("–", "-").partition("-")
            begin, end = int(first), int(last or first)
            numbers += range(begin, end + 1) if begin <= end <= begin + 50 else [begin, end]
    return numbers


def escape_marks(text: str) -> str:
    """A passage's text with its own `[2]` written `(2)`, so that a model cannot take it for one of our citations.

    Code stays as it is: it is there to be copied.
    """
    return "".join(piece if at % 2 else MARK.sub(r"(\1)", piece) for at, piece in enumerate(CODE.split(text)))


_LEADING_MARKS = re.compile(rf"(?:[ \t]*{MARK.pattern})+")
ITEM = re.compile(r"[-*•][ \t]+|\d{1,3}[.)][ \t]+")
"""The mark with which a list item begins."""


@dataclass(frozen=True)
class Piece:
    """A sentence with the white space before it. The pieces of a text, put together, are the text."""

    gap: str
    text: str


def pieces_of(text: str) -> list[Piece]:
    """The sentences of a text; put together, gaps included, they are the text."""
    spans = sentences(text)
    pieces: list[Piece] = []
    at = 0
    for n, (start, end) in enumerate(spans):
        start = max(start, at)
        # "It floats. [1] It sinks.": the mark belongs to the sentence before it.
        follower = spans[n + 1] if n + 1 < len(spans) else None
        if follower and "\n" not in text[end : follower[0]] and (marks := _LEADING_MARKS.match(text, end)):
            end = min(marks.end(), follower[1])
        start += len(text[start:end]) - len(text[start:end].lstrip())
        if start < end:
            pieces.append(Piece(text[at:start], text[start:end]))
            at = end
    return pieces
