"""Pages that are pictures, read by OCR: RapidOCR, whose package brings its models (PP-OCR), from the extra `ocr`.

What is read of a page takes seconds, so it is kept, in `cache/ocr` of the home folder under a hash of the picture.
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

DPI = 150  # 200 reads no better (docs/measured.md)
LONGEST = 2000  # pixels of a side: a larger page is drawn smaller
SURE = 0.5  # a line that is recognised with less confidence is left out
INSTALL = "pip install 'turnmark[ocr]'"
_EM = 0.75  # size of a font by the height of the box of a line
_DESCENT = 0.2  # of the box of a line that is below its base
_ALIKE = 0.25  # lines whose sizes differ by less from that of most lines have the same


class Recognised(NamedTuple):
    """A page that was read by OCR, and the mean confidence of its lines, 0 to 1; None if it has no text."""

    page: PdfPage
    confidence: float | None


class _Lines(Record):
    """The lines of a picture, how sure each is, and its four corners in pixels."""

    texts: list[str]
    scores: list[float]
    boxes: list[list[tuple[float, float]]]


def is_installed() -> bool:
    """Whether pages can be read by OCR."""
    return find_spec("rapidocr") is not None


@cache
def _engine() -> Any:
    from rapidocr import RapidOCR

    # Without the step that turns lines on their heads: it reads some upright ones wrongly.
    return RapidOCR(params={"Global.log_level": "error", "Global.use_cls": False, "Global.text_score": SURE})


def recognise(page: pypdfium2.PdfPage) -> Recognised:
    """Read a page, or say what was read of it before."""
    picture, scale = _drawn(page)
    file = _file(picture)
    lines = _kept(file)
    if lines is None:
        found = _engine()(picture)
        boxes = [] if found.boxes is None else np.asarray(found.boxes, dtype=np.float64).tolist()
        lines = _Lines(texts=found.txts or (), scores=found.scores or (), boxes=boxes)
        with suppress(OSError):  # a full disk hinders no reading
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(file, lines.model_dump_json())
    return _recognised(page, lines, scale)


def read_before(page: pypdfium2.PdfPage) -> PdfPage | None:
    """A page as it was read before; None if it was not."""
    if not is_installed():
        return None
    picture, scale = _drawn(page)
    lines = _kept(_file(picture))
    return _recognised(page, lines, scale).page if lines else None


def _drawn(page: pypdfium2.PdfPage) -> tuple[NDArray[np.uint8], float]:
    """A page as a picture, and its pixels for each point."""
    scale = min(DPI / 72, LONGEST / max(*page.get_size(), 1))
    return page.render(scale=scale).to_numpy(), scale


def _file(picture: NDArray[np.uint8]) -> Path:
    made_of = f"{version('rapidocr')} {SURE} {picture.shape} ".encode() + picture.tobytes()
    return home() / "cache" / "ocr" / f"{hashlib.sha256(made_of).hexdigest()}.json"


def _kept(file: Path) -> _Lines | None:
    with suppress(OSError, ValueError):
        return _Lines.model_validate_json(file.read_bytes())
    return None


def _recognised(page: pypdfium2.PdfPage, lines: _Lines, scale: float) -> Recognised:
    width, height = page.get_size()
    if not lines.texts:
        return Recognised(PdfPage(width, height, [], []), None)
    words = words_of(lines.texts, np.asarray(lines.boxes, dtype=np.float64) / scale, height)
    characters = sum(len(word.text) for word in words)
    return Recognised(PdfPage(width, height, words, [], characters), sum(lines.scores) / len(lines.scores))


def words_of(texts: Sequence[str], boxes: NDArray[np.float64], height: float) -> list[Word]:
    """The words of lines.

    Args:
        boxes: the corners of each line, of shape (lines, 4, 2), in points from the upper left corner of the page.
        height: of the page, in points.
    """
    lefts, rights = boxes[:, :, 0].min(axis=1), boxes[:, :, 0].max(axis=1)
    tops, bottoms = boxes[:, :, 1].min(axis=1), boxes[:, :, 1].max(axis=1)
    words: list[Word] = []
    for text, left, right, top, bottom in zip(texts, lefts, rights, tops, bottoms, strict=True):
        base = height - bottom + _DESCENT * (bottom - top)
        size = (bottom - top) * _EM
        width = (right - left) / max(len(text), 1)  # of a character: a line has no places of its words
        at = 0
        for part in text.split():
            at = text.index(part, at)
            x0, x1 = left + at * width, left + (at + len(part)) * width
            words.append(Word(part, float(x0), float(x1), float(base), float(size)))
            at += len(part)
    return words


def box_of(word: Word, height: float) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a recognised word, in points from the upper left corner of its page."""
    high = word.size / _EM
    bottom = height - word.base + _DESCENT * high
    return word.x0, bottom - high, word.x1, bottom


def even_sizes(pages: Sequence[PdfPage], recognised: Sequence[PdfPage]) -> None:
    """Give words of recognised pages the usual size of all pages if theirs is near it: that of a box varies with the
    letters of its line, and a larger size makes a heading.
    """
    usual = median([word.size for page in pages for word in page.words] or [1.0])
    for page in recognised:
        for word in page.words:
            if abs(word.size - usual) < _ALIKE * usual:
                word.size = usual
