"""Writes lines of code with the spaces that they have on the page."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from statistics import median_high

from turnmark.corpora.readers.pdf.boxes import PdfLine

_MAX_GAP_SPACES = 80  # characters


def code_lines(lines: Sequence[PdfLine]) -> list[str]:
    """Return the lines of a listing, including its blank lines."""
    width = max(0.5, median_high((word.x1 - word.x0) / len(word.text) for line in lines for word in line.words))
    left = min(line.x0 for line in lines)
    gaps = [above.base - below.base for above, below in pairwise(lines)]
    usual = sorted(gaps)[len(gaps) // 3] if gaps else 0.0
    texts = [_with_spaces(lines[0], left, width)]
    for line, gap in zip(lines[1:], gaps, strict=True):
        if usual and gap > 1.6 * usual:
            texts.append("")
        texts.append(_with_spaces(line, left, width))
    return texts


def _with_spaces(line: PdfLine, left: float, width: float) -> str:
    """Return a line with as many spaces as its gaps are wide.

    Args:
        left: left edge of lines without an indent, in points.
        width: width of a character, in points.
    """
    text = " " * min(_MAX_GAP_SPACES, round((line.x0 - left) / width)) + line.words[0].text
    for before, word in pairwise(line.words):
        gap = (word.x0 - before.x1) / width
        text += " " * min(_MAX_GAP_SPACES, max(round(gap), int(word.spaced and gap > 0.3))) + word.text
    return text
