"""A text as its sentences, each with the white space before it and the citation marks behind it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from turnmark.assistant.steps.marks import MARK
from turnmark.corpora.text import sentences

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
