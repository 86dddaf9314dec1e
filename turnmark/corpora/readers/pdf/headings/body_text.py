"""Measures the body text of a document, from which headings differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from turnmark.corpora.readers.pdf.page.boxes import PdfLine


class Body(NamedTuple):
    """The size of the body text in points, and whether it is set in a fixed-width font."""

    size: float
    typewritten: bool


def body_of(lines: Sequence[PdfLine]) -> Body:
    """Return the style that most of the text in the lines has."""
    sizes = Counter[float]()
    mono = 0
    for line in lines:
        if line.mono:
            mono += len(line.text)
        else:
            sizes[line.style.size] += len(line.text)
    size = sizes.most_common(1)[0][0] if sizes else 10.0
    return Body(size, mono > 0.7 * (mono + sizes.total()))
