"""Citation marks: `[1]`, `[1, 2]` and `[2-4]`."""

from __future__ import annotations

import re

_ONE = r"\d{1,3}(?:\s*[–-]\s*\d{1,3})?"
MARK = re.compile(rf"\[({_ONE}(?:\s*,\s*{_ONE})*)\]")


def cited(text: str) -> list[int]:
    """The numbers of all citation marks of a text, in order: `[1]`, `[1, 2]` and `[2-4]`."""
    numbers: list[int] = []
    for match in MARK.finditer(text):
        for part in match.group(1).split(","):
            first, _, last = part.replace("–", "-").partition("-")
            begin, end = int(first), int(last or first)
            numbers += range(begin, end + 1) if begin <= end <= begin + 50 else [begin, end]
    return numbers


def unmarked(text: str) -> str:
    """A passage's text with its own `[2]` written `(2)`, so that a model cannot take it for one of our citations."""
    return MARK.sub(r"(\1)", text)
