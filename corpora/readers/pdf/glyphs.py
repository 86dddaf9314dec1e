"""A page of a PDF as words with place, size and font, and as the lines that are ruled on it. pdfium does the reading.

Places are points (1/72 inch) from the lower left corner of the page, turned so that most of its text runs from left to
right.
"""

from __future__ import annotations

import ctypes
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, NamedTuple

import pypdfium2
import pypdfium2.raw as pdfium

MAX_CHARS = 200_000  # of one page; a full page of a newspaper has about 20,000
MAX_OBJECTS = 20_000  # of one page in which ruled lines are looked for; a map has more, and no tables
MAX_NESTING = 4  # forms within forms
_HARDLY = 30  # characters: a scan may have a stamp or a page number as text
_PICTURE = 0.4  # of a page that pictures of a scan cover at least

_MONO = re.compile(
    r"mono|courier|consol|typewriter|menlo|cursor|inconsolata|cmtt|cmsltt|sftt|lmtt|ectt|txtt|pcr|fira ?code|fixed",
    re.IGNORECASE,
)
_BOLD = re.compile(
    r"bold|black|heavy|semibold|demi|cmbx|cmb\d|cmssbx|sfbx|ecbx|lmbx|-bd|medi\b|NimbusRomNo9L-Medi", re.IGNORECASE
)
_ITALIC = re.compile(r"ital|obli|cmti|cmsl|slant|lmri|sfti", re.IGNORECASE)
_SYMBOLS = re.compile(r"dingbat|wingding|webding", re.IGNORECASE)
_FIXED_PITCH, _FORCED_BOLD, _ITALIC_FLAG = 1, 1 << 18, 1 << 6  # PDF 32000-1, table 123
_SPLIT = 0.2  # of the size: a wider gap between two characters is a space
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
# TeX's bitmap fonts do not name their characters: codes of the Cork encoding (T1), and TS1's bullet.
_CORK = {
    "\x10": "“", "\x11": "”", "\x15": "–", "\x16": "—", "\x1b": "ff", "\x1c": "fi", "\x1d": "fl", "\x1e": "ffi",
    "\x1f": "ffl", "\x9f": "§",
}  # fmt: skip
_CORK_BULLET = "\x88"
_SOFT_HYPHEN = "\u00ad"
_UNMAPPED = ("\ufffd", "\uffff", "\ufffe", "\0")
# TeX's older fonts draw an accent and then its letter.
_ACCENTS = {"´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "ˇ": "\u030c"}


@dataclass(slots=True)
class Word:
    """Characters without a space between them. `base` is the height of the line they are on."""

    text: str
    x0: float
    x1: float
    base: float
    size: float
    bold: bool = False
    italic: bool = False
    mono: bool = False
    spaced: bool = True  # whether there is a space before it


class Rule(NamedTuple):
    """A ruled line or the edge of a box; across if y0 == y1, else down."""

    x0: float
    y0: float
    x1: float
    y1: float


@dataclass
class Page:
    """What is on a page.

    Attributes:
        characters: number of visible ones; `unmapped` of these the font does not say what they are.
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


class _Font(NamedTuple):
    bold: bool
    italic: bool
    mono: bool
    symbols: bool


def _address(function: Any, result: Any, *arguments: Any) -> Any:
    """A function of pdfium that takes and gives addresses as numbers, which makes them keys."""
    return ctypes.CFUNCTYPE(result, *arguments)(ctypes.cast(function, ctypes.c_void_p).value or 0)


_text_object = _address(pdfium.FPDFText_GetTextObject, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
_unicode_of = _address(pdfium.FPDFText_GetUnicode, ctypes.c_uint, ctypes.c_void_p, ctypes.c_int)
_font_of = _address(pdfium.FPDFTextObj_GetFont, ctypes.c_void_p, ctypes.c_void_p)
_name_of = _address(pdfium.FPDFFont_GetBaseFontName, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
_flags_of = _address(pdfium.FPDFFont_GetFlags, ctypes.c_int, ctypes.c_void_p)


class GlyphReader:
    """Reads the pages of one file; what is known of its fonts is kept from page to page."""

    def __init__(self, document: pypdfium2.PdfDocument) -> None:
        self._document = document
        self._fonts: dict[str, _Font] = {}

    def page(self, index: int) -> Page:
        """The page at a 0-based index."""
        page = self._document[index]
        try:
            text = page.get_textpage()
            try:
                words, angle, characters, unmapped = self._words(text)
            finally:
                text.close()
            width, height = page.get_size()
            left, bottom, right, top = page.get_mediabox()
            rules = list(_rules(page))
            scanned = characters < _HARDLY and _pictured(page) >= _PICTURE
        finally:
            page.close()
        if angle:
            words = [_turned(word, angle) for word in words]
            rules = [_turned_rule(rule, angle) for rule in rules]
        if angle in (90, 270):
            width, height = max(abs(top - bottom), 1.0), max(abs(right - left), 1.0)
        return Page(width, height, words, rules, characters, unmapped, scanned=scanned)

    def _font(self, address: int) -> _Font:
        buffer = ctypes.create_string_buffer(256)
        length = _name_of(address, buffer, 256)
        name = buffer.raw[: max(0, min(length, 256) - 1)].decode("utf-8", "replace")
        flags = _flags_of(address)
        key = f"{name} {flags}"
        if key not in self._fonts:
            self._fonts[key] = _Font(
                bold=bool(_BOLD.search(name)) or bool(flags > 0 and flags & _FORCED_BOLD),
                italic=bool(_ITALIC.search(name)) or bool(flags > 0 and flags & _ITALIC_FLAG),
                mono=bool(_MONO.search(name)) or bool(flags > 0 and flags & _FIXED_PITCH),
                symbols=bool(_SYMBOLS.search(name)),
            )
        return self._fonts[key]

    def _words(self, text: pypdfium2.PdfTextPage) -> tuple[list[Word], int, int, int]:
        """The words of a page in the order in which they are drawn, the angle of most of them, and counts."""
        count = min(text.count_chars(), MAX_CHARS)
        handle = ctypes.cast(text.raw, ctypes.c_void_p).value or 0
        characters = [_letter(_unicode_of(handle, index)) for index in range(count)]
        _name_cork(handle, characters)
        box = pdfium.FS_RECTF()
        boxed, here = pdfium.FPDFText_GetLooseCharBox, ctypes.byref(box)
        found: list[tuple[int, Word]] = []
        fonts: dict[int, _Font] = {}
        letters: list[str] = []
        state: list[float] = [0.0] * 4  # of the word so far: left, right, bottom and top
        first = 0
        spaced = True
        unmapped = visible = 0

        def close() -> None:
            if not letters:
                return
            word = self._word(text, handle, first, "".join(letters), state, fonts)
            letters.clear()
            if word is not None:
                found.append((word[0], replace(word[1], spaced=spaced)))

        for index in range(count):
            letter = characters[index]
            if letter in "\x02\ufffe" and letters:  # pdfium's marks for a hyphen at the end of a line
                letters.append("-")
                continue
            if letter <= " " or letter == "\xa0":
                if letter in " \r\n\t\xa0":
                    close()
                    spaced = True
                else:
                    unmapped += 1
                    visible += 1
                continue
            visible += 1
            if letter in _UNMAPPED or "\ue000" <= letter <= "\uf8ff":
                unmapped += 1
            boxed(text, index, here)
            left, right, bottom, top = box.left, box.right, box.bottom, box.top
            if letters:
                height = state[3] - state[2]
                level = abs(bottom - state[2]) <= 0.15 * height and abs(top - state[3]) <= 0.15 * height
                gap = left - state[1]
                if not level or gap > _SPLIT * height or gap < -max(height, right - left):
                    close()
                    spaced = gap > _SPLIT * min(height, top - bottom) or gap < -height
            if not letters:
                first, state[0], state[1], state[2], state[3] = index, left, right, bottom, top
            else:
                state[1] = max(state[1], right)
            letters.append(letter)
        close()
        angles = Counter[int]()
        for angle, word in found:
            angles[angle] += len(word.text)
        angle = angles.most_common(1)[0][0] if angles else 0
        words = [word for turned, word in found if turned == angle]
        return _once(words), angle, visible, unmapped

    def _word(
        self,
        text: pypdfium2.PdfTextPage,
        handle: int,
        first: int,
        letters: str,
        box: list[float],
        fonts: dict[int, _Font],
    ) -> tuple[int, Word] | None:
        """A word and its angle in degrees, to the nearest quarter; None for slanted text such as a watermark."""
        turn = pdfium.FPDFText_GetCharAngle(text, first) * 57.29578 % 360
        angle = round(turn / 90) * 90 % 360
        if min(abs(turn - angle), abs(turn - angle - 360)) > 5:
            return None
        x, y = ctypes.c_double(), ctypes.c_double()
        pdfium.FPDFText_GetCharOrigin(text, first, ctypes.byref(x), ctypes.byref(y))
        matrix = pdfium.FS_MATRIX()
        size = pdfium.FPDFText_GetFontSize(text, first)
        if pdfium.FPDFText_GetMatrix(text, first, ctypes.byref(matrix)):
            size *= (matrix.c**2 + matrix.d**2) ** 0.5
        object_ = _text_object(handle, first)
        address = _font_of(object_) if object_ else None
        font = _Font(False, False, False, False)
        if address:
            if address not in fonts:
                fonts[address] = self._font(address)
            font = fonts[address]
        content = mended(letters)
        if len(content) == 1 and ((font.symbols and content.isalpha()) or "\ue000" <= content <= "\uf8ff"):
            content = "•"
        if not content:
            return None
        x0, x1, base = box[0], box[1], y.value
        if angle:  # places are turned later, and the box of a single character tells little
            x0, x1, base = box[0], box[1], box[2]
            if angle in (90, 270):
                return angle, Word(content, box[2], box[3], x.value, size, font.bold, font.italic, font.mono)
        return angle, Word(content, x0, x1, base, size or 1.0, font.bold, font.italic, font.mono)


def _letter(code: int) -> str:
    return "\ufffd" if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def _name_cork(handle: int, characters: list[str]) -> None:
    """Replace codes of TeX's bitmap fonts by what they stand for, where a character beside them has the same font.

    A font of mathematical symbols has other characters at these codes, but seldom letters beside them.
    """
    if _CORK.keys().isdisjoint(characters) and _CORK_BULLET not in characters:
        return

    def font_at(index: int) -> int | None:
        object_ = _text_object(handle, index)
        return _font_of(object_) if object_ else None

    buffer = ctypes.create_string_buffer(2)
    for index, letter in enumerate(list(characters)):
        if letter not in _CORK and letter != _CORK_BULLET:
            continue
        font = font_at(index)
        if not font or _name_of(font, buffer, 2) > 1:
            continue
        beside = [at for at in (index - 1, index + 1) if 0 <= at < len(characters) and characters[at].isalnum()]
        in_text = any(font_at(at) == font for at in beside)
        if letter == _CORK_BULLET:
            characters[index] = letter if in_text else "•"
        elif in_text:
            characters[index] = _CORK[letter]


def mended(text: str) -> str:
    """Characters as they are typed: ligatures as their letters, TeX's accents on their letter."""
    if text.isascii():
        return text
    text = text.translate(_LIGATURES)
    text = re.sub("([´`¨ˆ˜¸ˇ])([A-Za-zı])", _accented, text)
    if text.endswith((_SOFT_HYPHEN, "\u2010")):
        text = text[:-1] + "-"
    return "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf", "Cs"))


def _accented(match: re.Match[str]) -> str:
    letter = "i" if match[2] == "ı" else match[2]
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[match[1]])
    return composed if len(composed) == 1 else match.group()


def _once(words: list[Word]) -> list[Word]:
    """Bold text is sometimes drawn twice, a little apart."""
    seen: set[tuple[str, int, int]] = set()
    kept = []
    for word in words:
        place = (word.text, round(word.x0 / 2), round(word.base / 2))
        if place not in seen:
            seen.add(place)
            kept.append(word)
    return kept


def _turned(word: Word, angle: int) -> Word:
    """A word of a page that lies on its side, or on its head, as if the page were upright."""
    if angle == 180:
        return replace(word, x0=-word.x1, x1=-word.x0, base=-word.base)
    if angle == 90:
        return replace(word, base=-word.base)
    return replace(word, x0=-word.x1, x1=-word.x0)


def _turned_rule(rule: Rule, angle: int) -> Rule:
    corners = ((rule.x0, rule.y0), (rule.x1, rule.y1))
    if angle == 180:
        corners = tuple((-x, -y) for x, y in corners)  # type: ignore[assignment]
    elif angle == 90:
        corners = tuple((y, -x) for x, y in corners)  # type: ignore[assignment]
    else:
        corners = tuple((-y, x) for x, y in corners)  # type: ignore[assignment]
    (x0, y0), (x1, y1) = corners
    return Rule(min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))


def _pictured(page: pypdfium2.PdfPage) -> float:
    """The share of a page that its pictures cover; overlapping ones count twice."""
    left, bottom, right, top = page.get_bbox()
    area = 0.0
    try:
        for picture in islice(page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE], max_depth=MAX_NESTING), MAX_OBJECTS):
            x0, y0, x1, y1 = picture.get_bounds()
            area += max(0.0, min(x1, right) - max(x0, left)) * max(0.0, min(y1, top) - max(y0, bottom))
    except pypdfium2.PdfiumError:
        pass  # one whose place is not known
    return float(area / max((right - left) * (top - bottom), 1.0))


_THIN = 2.5  # points: a box at most this thick is a line


def _rules(page: pypdfium2.PdfPage) -> Iterator[Rule]:
    """The ruled lines of a page, and the edges of its boxes."""
    if pdfium.FPDFPage_CountObjects(page) > MAX_OBJECTS:
        return
    left, bottom, right, top = (ctypes.c_float() for _ in range(4))
    edges = tuple(ctypes.byref(edge) for edge in (left, bottom, right, top))
    for index in range(pdfium.FPDFPage_CountObjects(page)):
        handle = pdfium.FPDFPage_GetObject(page, index)
        if pdfium.FPDFPageObj_GetType(handle) != pdfium.FPDF_PAGEOBJ_PATH:
            continue
        if not pdfium.FPDFPageObj_GetBounds(handle, *edges):
            continue
        x0, y0, x1, y1 = left.value, bottom.value, right.value, top.value
        wide, high = x1 - x0, y1 - y0
        if wide > 8 and high <= _THIN:
            yield Rule(x0, (y0 + y1) / 2, x1, (y0 + y1) / 2)
        elif high > 4 and wide <= _THIN:
            yield Rule((x0 + x1) / 2, y0, (x0 + x1) / 2, y1)
        elif wide > 8 and high > 4 and _is_stroked_box(handle):
            yield Rule(x0, y0, x1, y0)
            yield Rule(x0, y1, x1, y1)
            yield Rule(x0, y0, x0, y1)
            yield Rule(x1, y0, x1, y1)


def _is_stroked_box(handle: Any) -> bool:
    """Whether a path is a rectangle that is drawn as an outline."""
    if pdfium.FPDFPath_CountSegments(handle) not in (4, 5):
        return False
    mode, stroke = ctypes.c_int(), ctypes.c_int()
    drawn = pdfium.FPDFPath_GetDrawMode(handle, ctypes.byref(mode), ctypes.byref(stroke))
    return bool(drawn and stroke.value)
