"""Reads a page of a PDF with pdfium, as words with position, size and font."""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Iterable

import pypdfium2
import pypdfium2.raw as pdfium

from turnmark.corpora.readers.pdf import raw
from turnmark.corpora.readers.pdf.drawings import picture_share, rules_of
from turnmark.corpora.readers.pdf.fonts import Font, font_at
from turnmark.corpora.readers.pdf.letters import decode_cork, is_private, is_unmapped, letter_of, normalize_letters
from turnmark.corpora.readers.pdf.page import PdfPage, Word
from turnmark.corpora.readers.pdf.text_direction import as_left_to_right, is_right_to_left

MAX_CHARS = 200_000  # on one page; a full newspaper page has about 20,000
_MAX_SCAN_CHARACTERS = 30  # a scan may have a stamp or a page number as text
_MIN_PICTURE_SHARE = 0.4  # of the page that the pictures of a scan cover
_BLANKS = " \r\n\t\xa0"
_HYPHEN_MARKS = "\x02\ufffe"  # pdfium's marks for a hyphen at a line end
_MIN_SPACE_WIDTH = 0.2  # of the height; a wider gap between two characters is a space
_MAX_BASE_SHIFT = 0.15  # of the height; between the edges of characters of one word
_MAX_SLANT_DEGREES = 5  # from a multiple of 90; text with a larger slant is a watermark


def read_page(page: pypdfium2.PdfPage) -> PdfPage:
    """Return the words and rules of a page, turned upright.

    Raises:
        pypdfium2.PdfiumError: the text cannot be read.
    """
    text = page.get_textpage()
    try:
        reader = _TextReader(text)
        reader.read()
    finally:
        text.close()
    angle = reader.angle
    words = _without_duplicates(word for turned, word in reader.words if turned == angle)
    rules = list(rules_of(page))
    width, height = page.get_size()
    if angle:
        words = [word.turned(angle) for word in words]
        rules = [rule.turned(angle) for rule in rules]
    if angle in (90, 270):
        left, bottom, right, top = page.get_mediabox()
        width, height = max(abs(top - bottom), 1.0), max(abs(right - left), 1.0)
    words, rules = as_left_to_right(words, rules, width)
    scanned = reader.visible < _MAX_SCAN_CHARACTERS and picture_share(page) >= _MIN_PICTURE_SHARE
    return PdfPage(width, height, words, rules, reader.visible, reader.unmapped, scanned=scanned)


class _TextReader:
    """Joins the characters of a page into words, in the order in which they are drawn.

    Attributes:
        words: the words, each with the angle of its text: 0, 90, 180 or 270 degrees.
        visible: number of visible characters.
        unmapped: number of visible characters that the font maps to no letter.
    """

    def __init__(self, text: pypdfium2.PdfTextPage) -> None:
        self.words: list[tuple[int, Word]] = []
        self.visible = 0
        self.unmapped = 0
        self._text = text
        self._address = raw.address_of(text.raw)
        self._fonts: dict[int, Font] = {}
        self._box = pdfium.FS_RECTF()  # bounding box of the current character
        # The current word: its letters, the index of the first, their bounding box, whether a space precedes it, and
        # whether each letter is to the left of the one before.
        self._letters: list[str] = []
        self._first = 0
        self._left = self._right = self._bottom = self._top = 0.0
        self._spaced = True
        self._leftward = False

    @property
    def angle(self) -> int:
        """Return the angle of most of the text."""
        angles = Counter[int]()
        for angle, word in self.words:
            angles[angle] += len(word.text)
        return angles.most_common(1)[0][0] if angles else 0

    def read(self) -> None:
        """Read the words."""
        count = min(self._text.count_chars(), MAX_CHARS)
        letters = [letter_of(raw.unicode_of(self._address, index)) for index in range(count)]
        for index, letter in enumerate(decode_cork(letters, lambda at: raw.font_of(self._address, at))):
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
                self._take(index, letter)
        self._close()

    def _take(self, index: int, letter: str) -> None:
        """Append a letter to the current word, or begin the next word with it."""
        box = self._box
        pdfium.FPDFText_GetLooseCharBox(self._text, index, ctypes.byref(box))
        left, right, bottom, top = box.left, box.right, box.bottom, box.top
        leftward = is_right_to_left(letter) or (bool(self._letters) and self._leftward and not letter.isalnum())
        if self._letters:
            height = self._top - self._bottom
            level = (
                abs(bottom - self._bottom) <= _MAX_BASE_SHIFT * height
                and abs(top - self._top) <= _MAX_BASE_SHIFT * height
            )
            gap = self._left - right if leftward else left - self._right
            turns = leftward != self._leftward
            if turns or not level or gap > _MIN_SPACE_WIDTH * height or gap < -max(height, right - left):
                self._close()
                self._spaced = not turns and (gap > _MIN_SPACE_WIDTH * min(height, top - bottom) or gap < -height)
        if self._letters:
            self._right = max(self._right, right)
            self._left = min(self._left, left) if leftward else self._left
        else:
            self._first, self._left, self._right, self._bottom, self._top = index, left, right, bottom, top
        self._letters.append(letter)
        self._leftward = leftward

    def _close(self) -> None:
        """Complete the current word. A slanted one, such as a watermark, is dropped."""
        letters, self._letters = "".join(self._letters), []
        if not letters:
            return
        turn = math.degrees(pdfium.FPDFText_GetCharAngle(self._text, self._first)) % 360
        angle = round(turn / 90) * 90 % 360
        if min(abs(turn - angle), abs(turn - angle - 360)) > _MAX_SLANT_DEGREES:
            return
        font = self._font()
        content = normalize_letters(letters)
        if len(content) == 1 and ((font.symbols and content.isalpha()) or is_private(content)):
            content = "•"
        if content:
            start, end, base = self._places(angle)
            size = self._size() or 1.0
            word = Word(content, start, end, base, size, font.bold, font.italic, font.mono, self._spaced)
            self.words.append((angle, word))

    def _font(self) -> Font:
        address = raw.font_of(self._address, self._first)
        if not address:
            return Font()
        if address not in self._fonts:
            self._fonts[address] = font_at(address)
        return self._fonts[address]

    def _places(self, angle: int) -> tuple[float, float, float]:
        """Return the start and end of the word along its line, and the baseline, in page coordinates."""
        if angle == 180:
            return self._left, self._right, self._bottom
        x, y = ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetCharOrigin(self._text, self._first, ctypes.byref(x), ctypes.byref(y))
        if angle == 0:
            return self._left, self._right, y.value
        return self._bottom, self._top, x.value

    def _size(self) -> float:
        """Return the font size of the word as drawn."""
        size: float = pdfium.FPDFText_GetFontSize(self._text, self._first)
        matrix = pdfium.FS_MATRIX()
        if pdfium.FPDFText_GetMatrix(self._text, self._first, ctypes.byref(matrix)):
            size *= (matrix.c**2 + matrix.d**2) ** 0.5
        return size


def _without_duplicates(words: Iterable[Word]) -> list[Word]:
    """Return each word once. Bold text is sometimes drawn twice, slightly shifted."""
    kept: dict[tuple[str, int, int], Word] = {}
    for word in words:
        kept.setdefault((word.text, round(word.x0 / 2), round(word.base / 2)), word)
    return list(kept.values())
