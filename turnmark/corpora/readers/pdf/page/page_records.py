"""Records for a page: its words and its rules.

Positions are in points (1/72 inch) from the lower left corner of the page, turned so that most of its text is upright.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from turnmark.corpora.readers.pdf.page.geometry import Box, turn_point


@dataclass(slots=True, eq=False)
class Word:
    """Characters without a space between them. Words are compared by identity.

    Attributes:
        base: height of the baseline.
        size: font size in points.
        spaced: whether a space precedes it.
        notation: whether it is part of a formula or of music, judging by its font.
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
    notation: bool = False

    def turned(self, degrees: float) -> Word:
        """Return the word at its place after text that rises by this angle has been turned upright."""
        if not degrees:
            return self
        x0, base = turn_point(self.x0, self.base, degrees)
        return replace(self, x0=x0, x1=x0 + self.x1 - self.x0, base=base)

    def moved(self, across: float, up: float) -> Word:
        """Return the word at another place."""
        return replace(self, x0=self.x0 + across, x1=self.x1 + across, base=self.base + up)


class Rule(NamedTuple):
    """A ruled line or the edge of a box; horizontal if y0 == y1, else vertical."""

    x0: float
    y0: float
    x1: float
    y1: float


class PdfFigure(NamedTuple):
    """A picture, chart or diagram on a page, with its labels.

    Attributes:
        box: in the coordinates of the page, before it is turned upright.
        density: pixels per point of the sharpest picture in it; 0 without pictures.
        pixels: number of pixels of its largest picture.
        mark: identifies the same pictures at the same place, such as a logo on every page; empty for a drawing.
    """

    box: Box
    density: float = 0.0
    pixels: int = 0
    mark: str = ""


_UNKNOWN_BOUNDS = Box(0.0, 0.0, 1.0, 1.0)


DOWNWARD_DEGREES = 270
"""Direction of lines that run down."""


@dataclass
class PdfPage:
    """The content of a page.

    Attributes:
        characters: number of visible characters.
        unmapped: number of visible characters that the font maps to no letter.
        broken: whether the page cannot be opened.
        scanned: whether it is a picture with hardly any text.
        degrees: direction of its text on the unturned page: 0, 90 (upwards), 180 or 270.
        slanted: number of words that are left out because they are slanted, like a watermark.
        hidden: number of words that are left out because they are white on white.
        links: boxes of the links to places in the document.
        asides: text on the page in other directions, each as a page of its own.
        figures: its pictures, charts and diagrams, from top to bottom.
        bounds: its box, before it is turned upright.
    """

    width: float
    height: float
    words: list[Word]
    rules: list[Rule]
    characters: int = 0
    unmapped: int = 0
    broken: bool = False
    scanned: bool = False
    degrees: int = 0
    slanted: int = 0
    hidden: int = 0
    links: list[Box] = field(default_factory=list)
    asides: list[PdfPage] = field(default_factory=list)
    figures: list[PdfFigure] = field(default_factory=list)
    bounds: Box = _UNKNOWN_BOUNDS

    def upright(self, box: Box) -> Box:
        """Return a box as it is placed on the upright page."""
        turned = self.bounds.turned(self.degrees)
        return box.turned(self.degrees).moved(-turned.left, -turned.bottom)

    @property
    def unread(self) -> bool:
        """Whether only OCR can read it, since it is a picture or its fonts map to no letters."""
        return self.scanned or self.unmapped > 0.5 * self.characters
