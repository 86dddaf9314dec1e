"""Reads a page of a PDF with pdfium, as words with position, size and font."""

from __future__ import annotations

import ctypes
import re
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

from turnmark.core.grouping import runs
from turnmark.corpora.readers.pdf.extraction.orientation import DirectedWord, upright_pages
from turnmark.corpora.readers.pdf.extraction.right_to_left import reading_order
from turnmark.corpora.readers.pdf.figures.drawings import links_of
from turnmark.corpora.readers.pdf.figures.figure_finder import PlacedLine, figures_of
from turnmark.corpora.readers.pdf.figures.shapes import ShapeKind, read_drawing
from turnmark.corpora.readers.pdf.page import pdfium_calls
from turnmark.corpora.readers.pdf.page.boxes import follows
from turnmark.corpora.readers.pdf.page.geometry import (
    MAX_SLANT_DEGREES,
    Box,
    direction_of,
    letter_box,
    slant,
    turn_point,
)
from turnmark.corpora.readers.pdf.page.letters import (
    decode_cork,
    decode_symbol_codes,
    is_private,
    is_unmapped,
    letter_of,
    normalize_letters,
)
from turnmark.corpora.readers.pdf.page.page_records import PdfFigure, PdfPage, Word

_STYLES = {
    style: re.compile("|".join(names), re.IGNORECASE)
    for style, names in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")).items()
}
"""Style of fonts -> pattern for a part of their names."""
_FIXED_PITCH, _FORCED_BOLD, _ITALIC_FLAG = 1, 1 << 18, 1 << 6  # PDF 32000-1, table 123


class Font(NamedTuple):
    """The style of a font. `symbols`: its letters draw pictures; `notation`: they belong to formulas or music."""

    bold: bool = False
    italic: bool = False
    mono: bool = False
    symbols: bool = False
    notation: bool = False


def font_at(address: int) -> Font:
    """Return the style of the font at an address of pdfium."""
    name, flags = pdfium_calls.font_name(address), max(0, pdfium_calls.font_flags(address))
    styles = {style: bool(pattern.search(name)) for style, pattern in _STYLES.items()}
    flagged = {"bold": _FORCED_BOLD, "italic": _ITALIC_FLAG, "mono": _FIXED_PITCH}
    return Font(**styles | {style: styles[style] or bool(flags & flag) for style, flag in flagged.items()})


MAX_CHARS = 200_000  # on one page; a full newspaper page has about 20,000
_MAX_SCAN_CHARACTERS = 30  # a scan may have a stamp or a page number as text
_MIN_PICTURE_SHARE = 0.4  # of the page that the pictures of a scan cover
_BLANKS = " \r\n\t\xa0"
_HYPHEN_MARKS = "\x02\ufffe"  # pdfium's marks for a hyphen at a line end
_MIN_SPACE_WIDTH = 0.2  # of the height; a wider gap between two characters is a space
_MAX_TURNED_OVERLAP = 0.3  # of the height; between letters of a word that is not upright
_MAX_LABEL_SIZE = 16.0  # points of a slanted label in a drawing; a watermark is larger
_MAX_BASE_SHIFT = 0.15  # of the height; between the edges of characters of one word


def read_page(page: pypdfium2.PdfPage) -> PdfPage:
    """Return the words and rules of a page, turned upright.

    Raises:
        pypdfium2.PdfiumError: the text cannot be read.
    """
    reader = _read_text(page)
    bounds = Box(*page.get_bbox())
    hidden = _find_hidden(page, reader.white)
    reader.words = [each for each in reader.words if each[1] not in hidden] if hidden else reader.words
    shapes, rules = read_drawing(page)
    figures = figures_of(shapes, lambda: list(map(_placed_line, _runs(reader.words))), bounds)
    upright = upright_pages(_with_level_labels(reader.words, figures), bounds, rules, list(links_of(page)))
    pictures = sum(shape.box.share_of(bounds) for shape in shapes if shape.kind is ShapeKind.PICTURE)
    scanned = reader.visible < _MAX_SCAN_CHARACTERS and pictures >= _MIN_PICTURE_SHARE
    return replace(
        upright,
        characters=reader.visible,
        unmapped=reader.unmapped,
        scanned=scanned,
        figures=figures,
        bounds=bounds,
        hidden=len(hidden),
    )


def _find_hidden(page: pypdfium2.PdfPage, white: Sequence[DirectedWord]) -> set[Word]:
    """Return the white words that nobody sees, since the page is white where they stand."""
    if not white:
        return set()
    bitmap = page.render(scale=1, grayscale=True)
    shades, hidden = bitmap.to_numpy(), set[Word]()
    size = (bitmap.width, bitmap.height)
    for degrees, word in white:
        box = Box(word.x0, word.base - 0.2 * word.size, word.x1, word.base + 0.7 * word.size)
        left, bottom, right, top = box.turned(-degrees) if degrees else box
        corners = [pdfium_calls.device_point(page.raw, size, x, y) for x, y in ((left, bottom), (right, top))]
        (x0, x1), (y0, y1) = (sorted(each) for each in zip(*corners, strict=True))
        around = shades[max(0, y0) : y1 + 1, max(0, x0) : x1 + 1]
        if around.size and around.min() >= pdfium_calls.MIN_WHITE:
            hidden.add(word)
    return hidden


def _runs(words: Sequence[DirectedWord]) -> list[list[DirectedWord]]:
    """Return the words of each line of a page, in the order in which they are drawn."""
    return runs(words, lambda before, word: before[0] == word[0] and follows(before[1], word[1]))


def _placed_line(run: Sequence[DirectedWord]) -> PlacedLine:
    """Return a line with its box on the page."""
    (degrees, first), last = run[0], run[-1][1]
    size = max(word.size for _, word in run)
    box = Box(min(first.x0, last.x0), first.base - 0.25 * size, max(first.x1, last.x1), first.base + 0.8 * size)
    text = " ".join(word.text for _, word in run)
    return PlacedLine(text, box.turned(-degrees) if degrees else box)


def _with_level_labels(words: list[DirectedWord], figures: Sequence[PdfFigure]) -> list[DirectedWord]:
    """Return the words with the slanted labels of drawings, such as those below an axis, as level ones."""
    if not figures or all(abs(slant(degrees)) <= MAX_SLANT_DEGREES for degrees, _ in words):
        return words
    leveled: list[DirectedWord] = []
    for run in _runs(words):
        (degrees, first), line = run[0], _placed_line(run)
        inside = any(all(map(figure.box.contains, line.box.corners)) for figure in figures)
        if abs(slant(degrees)) > MAX_SLANT_DEGREES and inside and first.size <= _MAX_LABEL_SIZE:
            x, base = line.box.middle[0], line.box.top - first.size
            leveled.append((0.0, replace(first, text=line.text, x0=x - 0.5, x1=x + 0.5, base=base, spaced=True)))
        else:
            leveled += run
    return leveled


def placed_words(page: pypdfium2.PdfPage) -> Iterator[tuple[str, Box, float]]:
    """Yield the words of a page in the order in which they are drawn: each with its box, and its direction.

    The box is in the coordinates of the direction (`geometry.turn_point`).

    Raises:
        pypdfium2.PdfiumError: the text cannot be read.
    """
    for degrees, word in _read_text(page).words:
        yield word.text, Box(word.x0, word.base - 0.25 * word.size, word.x1, word.base + 0.8 * word.size), degrees


def _read_text(page: pypdfium2.PdfPage) -> _TextReader:
    with closing(page.get_textpage()) as text:
        reader = _TextReader(text)
        reader.read()
    return reader


class _TextReader:
    """Joins the characters of a page into words, in the order in which they are drawn.

    Attributes:
        words: the words, each with its direction in degrees, placed in the coordinates of that direction.
        white: those of the words that are white.
        visible: number of visible characters.
        unmapped: number of visible characters that the font maps to no letter.
    """

    def __init__(self, text: pypdfium2.PdfTextPage) -> None:
        self.words: list[DirectedWord] = []
        self.white: list[DirectedWord] = []
        self.visible = 0
        self.unmapped = 0
        self._text = text
        self._address = pdfium_calls.address_of(text.raw)
        self._fonts: dict[int, Font] = {}
        self._box = pdfium.FS_RECTF()  # bounding box of the current character
        self._angle = 0.0  # pdfium's angle of the current character, from which its direction is measured
        self._direction = 0.0
        # The current word: its letters, the index of the first, its direction, their bounding box in the coordinates of
        # that direction, and whether a space precedes it.
        self._letters: list[str] = []
        self._first = 0
        self._rise = 0.0
        self._left = self._right = self._bottom = self._top = 0.0
        self._spaced = True

    def read(self) -> None:
        """Read the words."""
        count = min(self._text.count_chars(), MAX_CHARS)
        letters = [letter_of(pdfium_calls.unicode_of(self._address, index)) for index in range(count)]
        fonts = partial(pdfium_calls.font_of, self._address)
        decoded = decode_cork(decode_symbol_codes(letters, fonts), fonts)
        for index, letter, in_leftward_text in reading_order(
            decoded, lambda index: self._edges(index, self._direction_at(index))
        ):
            if letter in _HYPHEN_MARKS and self._letters:
                self._letters.append("-")
            elif letter in _BLANKS:
                self._close()
                self._spaced = True
            elif letter < " ":
                self.visible += 1
                self.unmapped += 1
            else:
                self.visible += 1
                self.unmapped += is_unmapped(letter)
                self._take(index, letter, in_leftward_text)
        self._close()

    def _take(self, index: int, letter: str, in_leftward_text: bool) -> None:
        """Append a letter to the current word, or begin the next word with it."""
        direction = self._direction_at(index)
        left, bottom, right, top = self._edges(index, direction)
        height = self._top - self._bottom
        is_beside = max(left - self._right, self._left - right) < height and direction == self._rise
        if self._letters and not (in_leftward_text and is_beside):  # pdfium divides it into words by spaces
            level = (
                abs(bottom - self._bottom) <= _MAX_BASE_SHIFT * height
                and abs(top - self._top) <= _MAX_BASE_SHIFT * height
            )
            gap = left - self._right
            # pdfium orders the letters of a turned line like those of an upright one, so some come too early.
            overlap = _MAX_TURNED_OVERLAP * height if direction else max(height, right - left)
            if direction != self._rise or not level or gap > _MIN_SPACE_WIDTH * height or gap < -overlap:
                self._close()
                is_spaced = gap > _MIN_SPACE_WIDTH * min(height, top - bottom) or gap < -height
                self._spaced = is_spaced and direction == self._rise
        if self._letters:
            self._right = max(self._right, right)
            self._left = min(self._left, left) if in_leftward_text else self._left
        else:
            self._first, self._rise = index, direction
            self._left, self._right, self._bottom, self._top = left, right, bottom, top
        self._letters.append(letter)

    def _direction_at(self, index: int) -> float:
        """Return the direction of a letter. Only its matrix tells it: pdfium's angle includes the slant of italics."""
        angle = pdfium_calls.angle_of(self._address, index)
        if angle != self._angle:
            self._angle = angle
            matrix = pdfium.FS_MATRIX()
            known = pdfium.FPDFText_GetMatrix(self._text, index, ctypes.byref(matrix))
            self._direction = direction_of(matrix.a, matrix.b) if known else 0.0
        return self._direction

    def _edges(self, index: int, direction: float) -> Box:
        box = self._box
        pdfium.FPDFText_GetLooseCharBox(self._text, index, ctypes.byref(box))
        around = Box(box.left, box.bottom, box.right, box.top)
        return letter_box(around, direction, self._size(index)) if direction else around

    def _close(self) -> None:
        letters, self._letters = "".join(self._letters), []
        if not letters:
            return
        font = self._font()
        content = normalize_letters(letters)
        if len(content) == 1 and ((font.symbols and content.isalpha()) or is_private(content)):
            content = "•"
        if content:
            size = self._size(self._first) or 1.0
            word = Word(content, self._left, self._right, self._base(), size, spaced=self._spaced)
            word.bold, word.italic, word.mono, word.notation = font.bold, font.italic, font.mono, font.notation
            self.words.append((self._rise, word))
            if pdfium_calls.is_white(self._address, self._first):
                self.white.append((self._rise, word))

    def _font(self) -> Font:
        address = pdfium_calls.font_of(self._address, self._first)
        if not address:
            return Font()
        if address not in self._fonts:
            self._fonts[address] = font_at(address)
        return self._fonts[address]

    def _base(self) -> float:
        """Return the height of the baseline, in the coordinates of the word's direction."""
        x, y = ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetCharOrigin(self._text, self._first, ctypes.byref(x), ctypes.byref(y))
        return turn_point(x.value, y.value, self._rise)[1] if self._rise else y.value

    def _size(self, index: int) -> float:
        size: float = pdfium.FPDFText_GetFontSize(self._text, index)
        matrix = pdfium.FS_MATRIX()
        if pdfium.FPDFText_GetMatrix(self._text, index, ctypes.byref(matrix)):
            size *= (matrix.c**2 + matrix.d**2) ** 0.5
        return size
