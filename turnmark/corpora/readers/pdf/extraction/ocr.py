"""Reads scanned pages by OCR, with RapidOCR and the PP-OCR models in its package (the extra `ocr`).

Reading a page takes seconds, so the result is cached in `cache/ocr` of the home folder, under a hash of the picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pypdfium2
from numpy.typing import NDArray

from turnmark.core.extras import install_command, is_installed
from turnmark.core.home import home, write_atomic
from turnmark.core.record import Record
from turnmark.corpora.readers.pdf.extraction.orientation import upright_pages
from turnmark.corpora.readers.pdf.page.geometry import Box, turn_point
from turnmark.corpora.readers.pdf.page.page_records import PdfPage, Word
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.text.segmentation import spans

_MAX_LISTED_RANGES = 8  # of pages in one message


def read_scans(
    document: pypdfium2.PdfDocument, pages: list[PdfPage], progress: ProgressCallback
) -> tuple[list[str], int]:
    """Replace the pages that need OCR with what it reads.

    Returns:
        Messages about pages that were not read, or not reliably, and the number of lines left out as guesses.
    """
    unread = [index for index, page in enumerate(pages) if page.unread]
    if not unread:
        return [], 0
    if not is_installed("ocr"):
        for index in unread:
            if not pages[index].scanned:
                pages[index].words = []  # its letters mean nothing
        where = _page_ranges(unread)
        doubt = f"{where} without text that can be read, so probably scanned; to read them: {INSTALL_COMMAND}"
        return [doubt], 0
    doubtful: list[int] = []
    guessed = 0
    said = "OCR"
    for index in unread:
        progress(index + 1, len(pages), said)
        with closing(document[index]) as page:
            read = recognize(page)
        pages[index] = read.page
        guessed += read.guessed
        if read.confidence is not None:
            said = f"OCR, confidence {read.confidence:.2f}"
            if read.confidence < MIN_PAGE_CONFIDENCE:
                doubtful.append(index)
    progress(len(pages), len(pages))
    even_sizes(pages, [pages[index] for index in unread])
    if not doubtful:
        return [], 0
    doubt = f"{_page_ranges(doubtful)} read by OCR, but hardly legible; lines that it only guessed are left out"
    return [doubt], guessed


def _page_ranges(indexes: Sequence[int]) -> str:
    """Return a list of pages in words, with ranges: "pages 3, 5-9"."""
    ranges = spans(index + 1 for index in indexes)
    more = " and others" if len(ranges) > _MAX_LISTED_RANGES else ""
    return f"page{'s' if len(indexes) > 1 else ''} {', '.join(ranges[:_MAX_LISTED_RANGES])}{more}"


DPI = 150  # 200 is no more accurate
MAX_SIDE_PIXELS = 2000  # a larger page is drawn at a smaller scale
MIN_CONFIDENCE = 0.5  # lines recognized with less confidence are left out
MIN_UPRIGHT_CONFIDENCE = 0.85  # of a page; with less it is also read turned
MIN_PAGE_CONFIDENCE = 0.75  # pages read with less are reported, and their lines with less are left out
INSTALL_COMMAND = install_command("ocr")
_FONT_SIZE_RATIO = 0.75  # font size divided by the height of a line box
_MIN_TALL_RATIO = 1.5  # of the height to the width of a line that runs down
_MIN_SKEW_DEGREES, _MAX_SKEW_DEGREES = 0.5, 15.0  # of a page; boxes of lines are not exact
_CACHE_FORMAT = 2
_DESCENT_RATIO = 0.2  # share of a line box that is below the baseline
_MAX_SIZE_DIFFERENCE = 0.25  # of the most common size; lines that differ by less get this size


class RecognizedPage(NamedTuple):
    """A page read by OCR.

    Attributes:
        words: each with its direction on the page as it is displayed, placed in the coordinates of that direction.
        confidence: mean of its lines, from 0 to 1, or None if it has no text.
        guessed: number of lines that are left out, since the page is hardly legible and they were only guessed.
    """

    width: float
    height: float
    words: list[tuple[float, Word]]
    confidence: float | None
    guessed: int = 0

    @property
    def page(self) -> PdfPage:
        """The page, turned upright."""
        upright = upright_pages(self.words, Box(0, 0, self.width, self.height), (), ())
        return replace(upright, characters=sum(len(word.text) for _, word in self.words))


class _RecognizedLines(Record):
    """The lines of a picture, each with its confidence and its four corners in pixels.

    `quarters` is the number of quarter turns to the left that brought the picture upright before it was read.
    """

    texts: list[str]
    scores: list[float]
    boxes: list[list[tuple[float, float]]]
    quarters: int = 0

    @property
    def confidence(self) -> float:
        """The mean confidence."""
        return sum(self.scores) / len(self.scores) if self.scores else 0.0

    def is_sideways(self) -> bool:
        """Return whether most of the lines run up or down."""
        corners = np.asarray(self.boxes, dtype=np.float64).reshape(-1, 4, 2)
        characters = np.array([len(text) for text in self.texts])
        return bool(characters[_are_tall(corners)].sum() > 0.5 * characters.sum())


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
        lines = _read_picture(picture)
        with suppress(OSError):  # a full disk must not prevent reading
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomic(file, lines.model_dump_json())
    return _make_page(page, lines, scale)


def read_cached(page: pypdfium2.PdfPage) -> RecognizedPage | None:
    """Return a page as it was read before, or None if it was not."""
    if not is_installed("ocr"):
        return None
    picture, scale = _draw(page)
    lines = _cached_lines(_cache_file(picture))
    return _make_page(page, lines, scale) if lines else None


def _draw(page: pypdfium2.PdfPage) -> tuple[NDArray[np.uint8], float]:
    """Draw a page, and return the picture and its pixels per point."""
    scale = min(DPI / 72, MAX_SIDE_PIXELS / max(*page.get_size(), 1))
    return page.render(scale=scale).to_numpy(), scale


def _read_picture(picture: NDArray[np.uint8]) -> _RecognizedLines:
    """Read a picture; if hardly anything is legible, also turned, and return what is read with more confidence.

    The recognizer reads level lines, and lines that run down. Other pages were scanned on their side or on their head.
    """
    lines = _read_turned(picture, 0)
    if not lines.texts or lines.confidence >= MIN_UPRIGHT_CONFIDENCE:
        return lines
    turned = _read_turned(picture, 3 if lines.is_sideways() else 2)
    return max(lines, turned, key=lambda read: read.confidence * (len("".join(read.texts)) > 0))


def _read_turned(picture: NDArray[np.uint8], quarters: int) -> _RecognizedLines:
    found = _engine()(np.ascontiguousarray(np.rot90(picture, quarters)) if quarters else picture)
    boxes = [] if found.boxes is None else np.asarray(found.boxes, dtype=np.float64).tolist()
    return _RecognizedLines(texts=found.txts or (), scores=found.scores or (), boxes=boxes, quarters=quarters)


def _cache_file(picture: NDArray[np.uint8]) -> Path:
    made_of = f"{version('rapidocr')} {MIN_CONFIDENCE} {_CACHE_FORMAT} {picture.shape} ".encode() + picture.tobytes()
    return home() / "cache" / "ocr" / f"{hashlib.sha256(made_of).hexdigest()}.json"


def _cached_lines(file: Path) -> _RecognizedLines | None:
    with suppress(OSError, ValueError):
        return _RecognizedLines.model_validate_json(file.read_bytes())
    return None


def _make_page(page: pypdfium2.PdfPage, lines: _RecognizedLines, scale: float) -> RecognizedPage:
    width, height = page.get_size()
    if not lines.texts:
        return RecognizedPage(width, height, [], None)
    legible = lines.confidence >= MIN_PAGE_CONFIDENCE
    kept = [index for index, score in enumerate(lines.scores) if legible or score >= MIN_PAGE_CONFIDENCE]
    texts = [lines.texts[index] for index in kept]
    direction = -90 * lines.quarters % 360
    turned = Box(0, 0, width, height).turned(direction)
    corners = np.asarray([lines.boxes[index] for index in kept], dtype=np.float64).reshape(-1, 4, 2) / scale
    corners[:, :, 0] += turned.left
    corners[:, :, 1] = turned.top - corners[:, :, 1]
    words = words_of(texts, corners, direction)
    return RecognizedPage(width, height, words, lines.confidence, len(lines.texts) - len(kept))


def words_of(texts: Sequence[str], corners: NDArray[np.float64], direction: float) -> list[tuple[float, Word]]:
    """Return the words of lines, each with its direction.

    Args:
        corners: of each line, of shape (lines, 4, 2), in points, in the coordinates of the direction.
        direction: of the level lines.
    """
    tall = _are_tall(corners)
    skew = _skew(corners[~tall])
    words: list[tuple[float, Word]] = []
    for text, line, runs_down in zip(texts, corners, tall, strict=True):
        turn = (270 if runs_down else 0) + skew
        places = np.array([turn_point(x, y, turn) for x, y in line.tolist()])
        (left, bottom), (right, top) = places.min(axis=0).tolist(), places.max(axis=0).tolist()
        base, size = bottom + _DESCENT_RATIO * (top - bottom), (top - bottom) * _FONT_SIZE_RATIO
        width = (right - left) / max(len(text), 1)  # of a character; OCR gives no positions of words within a line
        at = 0
        for part in text.split():
            at = text.index(part, at)
            word = Word(part, left + at * width, left + (at + len(part)) * width, base, size)
            words.append(((direction + turn) % 360, word))
            at += len(part)
    return words


def _are_tall(corners: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return for each line whether it runs down, as the recognizer decides it."""
    width = np.linalg.norm(corners[:, 1] - corners[:, 0], axis=1)
    height = np.linalg.norm(corners[:, 3] - corners[:, 0], axis=1)
    return np.asarray(height >= _MIN_TALL_RATIO * width)


def _skew(corners: NDArray[np.float64]) -> float:
    """Return by how many degrees most level lines rise, or 0 if they are level."""
    along = corners[:, 1] - corners[:, 0]
    if not len(along):
        return 0.0
    longest = along[np.linalg.norm(along, axis=1) >= np.median(np.linalg.norm(along, axis=1))]
    degrees = float(np.median(np.degrees(np.arctan2(longest[:, 1], longest[:, 0]))))
    return degrees if _MIN_SKEW_DEGREES <= abs(degrees) <= _MAX_SKEW_DEGREES else 0.0


def box_of(word: Word) -> Box:
    """Return the box of a recognized word, in the coordinates of its direction."""
    high = word.size / _FONT_SIZE_RATIO
    bottom = word.base - _DESCENT_RATIO * high
    return Box(word.x0, bottom, word.x1, bottom + high)


def even_sizes(pages: Sequence[PdfPage], recognized: Sequence[PdfPage]) -> None:
    """Give the words of recognized pages the most common size of all pages if their size is close to it.

    The size of a line box varies with its letters, and a larger size would make a heading.
    """
    usual = median([word.size for page in pages for word in page.words] or [1.0])
    for page in recognized:
        for word in page.words:
            if abs(word.size - usual) < _MAX_SIZE_DIFFERENCE * usual:
                word.size = usual
