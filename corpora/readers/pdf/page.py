"""Records for a page: its words and its rules.

Positions are in points (1/72 inch) from the lower left corner of the page, turned so that most of its text is upright.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class Word:
    """Characters without a space between them. Words are compared by identity.

    Attributes:
        base: height of the baseline.
        size: font size in points.
        spaced: whether a space precedes it.
    """

    text: str
    x0: float
    x1: float
    base: float
    size: float
    bold: bool = False
    italic: bool = False
    mono: bool = False
    spaced: bool = True

    def turned(self, angle: int) -> Word:
        """Return the word as if its page, turned by 0, 90, 180 or 270 degrees, were upright."""
        x0, x1 = (-self.x1, -self.x0) if angle in (180, 270) else (self.x0, self.x1)
        return replace(self, x0=x0, x1=x1, base=-self.base if angle in (90, 180) else self.base)


class Rule(NamedTuple):
    """A ruled line or the edge of a box; horizontal if y0 == y1, else vertical."""

    x0: float
    y0: float
    x1: float
    y1: float

    def turned(self, angle: int) -> Rule:
        """Return the rule as if its page, turned by 0, 90, 180 or 270 degrees, were upright."""
        xs, ys = (self.x0, self.x1), (self.y0, self.y1)
        if angle in (90, 270):
            xs, ys = ys, xs
        if angle in (180, 270):
            xs = (-xs[0], -xs[1])
        if angle in (90, 180):
            ys = (-ys[0], -ys[1])
        return Rule(min(xs), min(ys), max(xs), max(ys))


@dataclass
class PdfPage:
    """The content of a page.

    Attributes:
        characters: number of visible characters.
        unmapped: number of visible characters that the font maps to no letter.
        broken: whether the page cannot be opened.
        scanned: whether it is a picture with hardly any text.
    """

    width: float
    height: float
    words: list[Word]
    rules: list[Rule]
    characters: int = 0
    unmapped: int = 0
    broken: bool = False
    scanned: bool = False

    @property
    def unread(self) -> bool:
        """Whether only OCR can read it, since it is a picture or its fonts map to no letters."""
        return self.scanned or self.unmapped > 0.5 * self.characters
