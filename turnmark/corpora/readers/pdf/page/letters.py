"""Turns the characters of a PDF into letters as they would be typed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence

from turnmark.core.grouping import group_pairs
from turnmark.corpora.readers.pdf.page import pdfium_calls

UNKNOWN_LETTER = "\ufffd"
_UNMAPPED_LETTERS = (UNKNOWN_LETTER, "\uffff", "\ufffe", "\0")
_LIGATURES = {0xFB00: "ff", 0xFB01: "fi", 0xFB02: "fl", 0xFB03: "ffi", 0xFB04: "ffl", 0xFB05: "st", 0xFB06: "st"}
_SOFT_HYPHEN, _HYPHEN = "\u00ad", "\u2010"
# TeX's older fonts draw an accent before its letter.
_ACCENTS = {"´": "\u0301", "`": "\u0300", "¨": "\u0308", "ˆ": "\u0302", "˜": "\u0303", "¸": "\u0327", "ˇ": "\u030c"}
_PRESENTATION_FORMS = re.compile("[\ufb1d-\ufdff\ufe70-\ufefc]+")
"""Hebrew and Arabic letters in their presentation forms, e.g. for the end of a word."""
_ACCENT_PAIR = re.compile(f"([{''.join(_ACCENTS)}])([A-Za-zı])")
# TeX's bitmap fonts do not name their characters: codes of the Cork encoding (T1), and TS1's bullet.
_CORK = {
    "\x10": "“", "\x11": "”", "\x15": "–", "\x16": "—", "\x1b": "ff", "\x1c": "fi", "\x1d": "fl", "\x1e": "ffi",
    "\x1f": "ffl", "\x9f": "§",
}  # fmt: skip
_CORK_BULLET = "\x88"
_SHIFT = 0xF000
_MIN_SHIFTED = 20  # letters of a font on a page
_MIN_LETTER_SHARE = 0.7  # of them; the others are digits and punctuation
_PICTURE_FONT = re.compile(r"symbol|dingbat|wingding|webding", re.IGNORECASE)


def letter_of(code: int) -> str:
    """Return the character at a code point, or `UNKNOWN_LETTER` if the code point is invalid."""
    return UNKNOWN_LETTER if code > 0x10FFFF or 0xD800 <= code < 0xE000 else chr(code)


def is_private(letter: str) -> bool:
    """Return whether a character is private: only its font gives it a meaning."""
    return "\ue000" <= letter <= "\uf8ff"


def is_unmapped(letter: str) -> bool:
    """Return whether the font maps a character to no letter."""
    return letter in _UNMAPPED_LETTERS or is_private(letter)


def decode_cork(letters: Sequence[str], font_at: Callable[[int], int | None]) -> list[str]:
    """Return the characters of a page with the codes of TeX's bitmap fonts decoded.

    A code is decoded if a letter next to it has the same font. A font of mathematical symbols uses these codes for
    other characters, but rarely has letters next to them.

    Args:
        font_at: returns the font of the character at an index.
    """
    named = list(letters)
    if _CORK.keys().isdisjoint(letters) and _CORK_BULLET not in letters:
        return named
    for index, letter in enumerate(letters):
        if letter not in _CORK and letter != _CORK_BULLET:
            continue
        font = font_at(index)
        if not font or pdfium_calls.font_name(font):
            continue
        beside = [at for at in (index - 1, index + 1) if 0 <= at < len(named) and named[at].isalnum()]
        in_text = any(font_at(at) == font for at in beside)
        if letter == _CORK_BULLET:
            named[index] = letter if in_text else "•"
        elif in_text:
            named[index] = _CORK[letter]
    return named


def decode_symbol_codes(letters: Sequence[str], font_at: Callable[[int], int | None]) -> list[str]:
    """Return the characters of a page with those of fonts that only shift Latin letters into the private area decoded.

    Older TrueType fonts have the letter A at U+F041. A font of pictures has few of these codes on a page, or hardly
    any at the places of letters.

    Args:
        font_at: returns the font of the character at an index.
    """
    shifted = (index for index, letter in enumerate(letters) if _SHIFT + 0x20 < ord(letter) <= _SHIFT + 0xFF)
    places = group_pairs((font_at(index), index) for index in shifted)
    decoded = list(letters)
    for font, found in places.items():
        named = {index: chr(ord(letters[index]) - _SHIFT) for index in found}
        words = sum(map(str.isalpha, named.values())) >= _MIN_LETTER_SHARE * len(found)
        if len(found) >= _MIN_SHIFTED and words and not _PICTURE_FONT.search(pdfium_calls.font_name(font or 0)):
            for index, letter in named.items():
                decoded[index] = letter
    return decoded


def normalize_letters(text: str) -> str:
    """Return characters as they are typed: ligatures split into letters, TeX's accents combined with their letters."""
    if text.isascii():
        return text
    text = text.translate(_LIGATURES)
    text = _PRESENTATION_FORMS.sub(lambda match: unicodedata.normalize("NFKC", match.group()), text)
    text = _ACCENT_PAIR.sub(_compose_accent, text)
    if text.endswith((_SOFT_HYPHEN, _HYPHEN)):
        text = text[:-1] + "-"
    return "".join(letter for letter in text if unicodedata.category(letter) not in ("Cc", "Cf", "Cs"))


def _compose_accent(match: re.Match[str]) -> str:
    letter = "i" if match[2] == "ı" else match[2]
    composed = unicodedata.normalize("NFC", letter + _ACCENTS[match[1]])
    return composed if len(composed) == 1 else match.group()
