"""The usual text of a document, which headings differ from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from turnmark.corpora.readers.pdf.boxes import PdfLine


class Body(NamedTuple):
    """The size of the usual text, in points, and whether it is in a fixed width font, as if typewritten."""

    size: float
    typewritten: bool


def body_of(lines: Sequence[PdfLine]) -> Body:
    """What most of the text of lines is like."""
    sizes = Counter[float]()
    mono = 0
    for line in lines:
        if line.mono:
            mono += len(line.text)
        else:
            sizes[line.style.size] += len(line.text)
    size = sizes.most_common(1)[0][0] if sizes else 10.0
    return Body(size, mono > 0.7 * (mono + sizes.total()))
