"""A page as its words and the lines that are ruled on it.

Places are points (1/72 inch) from the lower left corner of the page, turned so that most of its text runs from left to
right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple


@dataclass(slots=True, eq=False)
class Word:
    """Characters without a space between them; two are the same only if they are one object.

    Attributes:
        base: height of the line that it stands on.
        size: of its font, in points.
        spaced: whether there is a space before it.
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
        """The word of a page whose text is turned by 0, 90, 180 or 270 degrees, as if the page were upright."""
        x0, x1 = (-self.x1, -self.x0) if angle in (180, 270) else (self.x0, self.x1)
        return replace(self, x0=x0, x1=x1, base=-self.base if angle in (90, 180) else self.base)


class Rule(NamedTuple):
    """A ruled line or the edge of a box; across if y0 == y1, else down."""

    x0: float
    y0: float
    x1: float
    y1: float

    def turned(self, angle: int) -> Rule:
        """The rule of a page whose text is turned by 0, 90, 180 or 270 degrees, as if the page were upright."""
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
    """What is on a page.

    Attributes:
        characters: number of visible ones; `unmapped` of these the font does not say what they are.
        broken: it cannot be opened.
        scanned: it is a picture, with hardly any text.
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
        """Whether only OCR can tell what it says: it is a picture, or its fonts do not say their letters."""
        return self.scanned or self.unmapped > 0.5 * self.characters
