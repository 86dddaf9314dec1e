"""Determines the style of a font from its name and flags."""

from __future__ import annotations

import re
from typing import NamedTuple

from turnmark.corpora.readers.pdf import raw

_MONO = re.compile(
    r"mono|courier|consol|typewriter|menlo|cursor|inconsolata|cmtt|cmsltt|sftt|lmtt|ectt|txtt|pcr|fira ?code|fixed",
    re.IGNORECASE,
)
_BOLD = re.compile(
    r"bold|black|heavy|demi|cmbx|cmb\d|cmssbx|sfbx|ecbx|lmbx|-bd|medi\b|NimbusRomNo9L-Medi", re.IGNORECASE
)
_ITALIC = re.compile(r"ital|obli|cmti|cmsl|slant|lmri|sfti", re.IGNORECASE)
_SYMBOLS = re.compile(r"dingbat|wingding|webding", re.IGNORECASE)
_NOTATION = re.compile(
    r"emmentaler|feta|bravura|petaluma|leland|maestro|petrucci|sonata|gonville|musiq|cmmi|cmsy|cmex|msam|msbm|eufm|rsfs"
    r"|stmary|wasy|lmmi|lmsy|lmex|[tp]xsy|mtextra|mathematicalpi|math(?![a-z])",
    re.IGNORECASE,
)
_FIXED_PITCH, _FORCED_BOLD, _ITALIC_FLAG = 1, 1 << 18, 1 << 6  # PDF 32000-1, table 123


class Font(NamedTuple):
    """The style of a font. `symbols`: its letters draw pictures; `notation`: they are of formulas or of music."""

    bold: bool = False
    italic: bool = False
    mono: bool = False
    symbols: bool = False
    notation: bool = False


def font_at(address: int) -> Font:
    """Return the style of the font at an address of pdfium."""
    name, flags = raw.font_name(address), max(0, raw.font_flags(address))
    return Font(
        bold=bool(_BOLD.search(name) or flags & _FORCED_BOLD),
        italic=bool(_ITALIC.search(name) or flags & _ITALIC_FLAG),
        mono=bool(_MONO.search(name) or flags & _FIXED_PITCH),
        symbols=bool(_SYMBOLS.search(name)),
        notation=bool(_NOTATION.search(name)),
    )
