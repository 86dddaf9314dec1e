"""Reads scanned pages by OCR, with RapidOCR and the PP-OCR models in its package (the extra `ocr`).

Reading a page takes seconds, so the result is cached in `cache/ocr` of the home folder, under a hash of the picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from turnmark.core.home import home, write_atomic
from turnmark.core.record import Record
from turnmark.corpora.readers.pdf.page import PdfPage, Word

if TYPE_CHECKING:
    import pypdfium2

DPI = 150  # 200 is no more accurate (docs/measured.md)
MAX_SIDE_PIXELS = 2000  # a larger page is drawn at a smaller scale
MIN_CONFIDENCE = 0.5  # lines recognized with less confidence are left out
INSTALL = "pip install 'turnmark[ocr]'"
_FONT_SIZE_RATIO = 0.75  # font size divided by the height of a line box
_DESCENT_RATIO = 0.2  # share of a line box that is below the baseline
_MAX_SIZE_DIFFERENCE = 0.25  # of the most common size; lines that differ by less get this size


class RecognizedPage(NamedTuple):
    """A page read by OCR, with the mean confidence of its lines from 0 to 1, or None if it has no text."""

    page: PdfPage
    confidence: float | None


class _RecognizedLines(Record):
    """The lines of a picture, each with its confidence and its four corners in pixels."""

    texts: list[str]
    scores: list[float]
    boxes: list[list[tuple[float, float]]]


def is_installed() -> bool:
    """Return whether pages can be read by OCR."""
    return find_spec("rapidocr") is not None


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    # Without the step that turns upside-down lines, because it turns some upright ones.
    return RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, "Global.text_score": MIN_CONFIDENCE})


def recognize(page: pypdfium2.PdfPage) -> RecognizedPage:
    """Read a page, or return the cached result."""
    picture, scale = _draw(page)
    file = _cache_file(picture)
    lines = _cached_lines(file)
    if lines is None:
        found = _engine()(picture)
        boxes = [] if found.boxes is None else np.asarray(found.boxes, dtype=np.float64).tolist()
        lines = _RecognizedLines(texts=found.txts or (), scores=found.scores or (), boxes=boxes)
        with suppress(OSError):  # a full disk must not prevent reading
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(file, lines.model_dump_json())
    return _recognized(page, lines, scale)


def read_cached(page: pypdfium2.PdfPage) -> PdfPage | None:
    """Return a page as it was read before; None if it was not."""
    if not is_installed():
        return None
    picture, scale = _draw(page)
    lines = _cached_lines(_cache_file(picture))
    return _recognized(page, lines, scale).page if lines else None


def _draw(page: pypdfium2.PdfPage) -> tuple[NDArray[np.uint8], float]:
    """Draw a page, and return the picture and its pixels per point."""
    scale = min(DPI / 72, MAX_SIDE_PIXELS / max(*page.get_size(), 1))
    return page.render(scale=scale).to_numpy(), scale


def _cache_file(picture: NDArray[np.uint8]) -> Path:
    made_of = f"{version('rapidocr')} {MIN_CONFIDENCE} {picture.shape} ".encode() + picture.tobytes()
    return home() / "cache" / "ocr" / f"{hashlib.sha256(made_of).hexdigest()}.json"


def _cached_lines(file: Path) -> _RecognizedLines | None:
    with suppress(OSError, ValueError):
        return _RecognizedLines.model_validate_json(file.read_bytes())
    return None


def _recognized(page: pypdfium2.PdfPage, lines: _RecognizedLines, scale: float) -> RecognizedPage:
    width, height = page.get_size()
    if not lines.texts:
        return RecognizedPage(PdfPage(width, height, [], []), None)
    words = words_of(lines.texts, np.asarray(lines.boxes, dtype=np.float64) / scale, height)
    characters = sum(len(word.text) for word in words)
    return RecognizedPage(PdfPage(width, height, words, [], characters), sum(lines.scores) / len(lines.scores))


def words_of(texts: Sequence[str], boxes: NDArray[np.float64], height: float) -> list[Word]:
    """Return the words of lines.

    Args:
        boxes: the corners of each line, of shape (lines, 4, 2), in points from the upper left corner of the page.
        height: height of the page, in points.
    """
    lefts, rights = boxes[:, :, 0].min(axis=1), boxes[:, :, 0].max(axis=1)
    tops, bottoms = boxes[:, :, 1].min(axis=1), boxes[:, :, 1].max(axis=1)
    words: list[Word] = []
    for text, left, right, top, bottom in zip(texts, lefts, rights, tops, bottoms, strict=True):
        base = height - bottom + _DESCENT_RATIO * (bottom - top)
        size = (bottom - top) * _FONT_SIZE_RATIO
        width = (right - left) / max(len(text), 1)  # of a character; OCR gives no positions of words within a line
        at = 0
        for part in text.split():
            at = text.index(part, at)
            x0, x1 = left + at * width, left + (at + len(part)) * width
            words.append(Word(part, float(x0), float(x1), float(base), float(size)))
            at += len(part)
    return words


def box_of(word: Word, height: float) -> tuple[float, float, float, float]:
    """Return left, top, right and bottom of a recognized word, in points from the upper left corner of its page."""
    high = word.size / _FONT_SIZE_RATIO
    bottom = height - word.base + _DESCENT_RATIO * high
    return word.x0, bottom - high, word.x1, bottom


def even_sizes(pages: Sequence[PdfPage], recognized: Sequence[PdfPage]) -> None:
    """Give the words of recognized pages the most common size of all pages if their size is close to it.

    The size of a line box varies with its letters, and a larger size would make a heading.
    """
    usual = median([word.size for page in pages for word in page.words] or [1.0])
    for page in recognized:
        for word in page.words:
            if abs(word.size - usual) < _MAX_SIZE_DIFFERENCE * usual:
                word.size = usual
