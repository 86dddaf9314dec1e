"""Recognize computed values among the numbers of a claim, however they are written there.

A result of 1234567.891 may be "1,234,567.89", "1.234.567,9" or "1.2 million" in an answer, and a share of 0.333 "33 %".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.corpora.tables.cell_numbers import read_number

MAX_ROUNDING_ERROR = 0.05
"""Maximum share of a value by which its rounded form may differ from it: "5" is 4.8, and "2" is not 2.4."""
_PERCENT = r"%|percent|(?:per|pour|por) ?c(?:ent|iento)|pro[cz]ent|percento|pct\b"
_SPACES = r" \u00a0\u202f\u2009"
_NUMBER = re.compile(
    rf"(?<![\w.,])[-−+]?(?P<digits>\d+(?:[.,'’]\d+|[{_SPACES}]\d{{3}}(?!\d))*)"
    rf"(?P<after>[{_SPACES}]?(?:{_PERCENT}|[^\W\d_]+\.?))?",
    re.IGNORECASE,
)
_DECIMALS = re.compile(r"[.,](\d+)$")
_TOLERANCE = 1e-9


def without_values(text: str, values: Sequence[float]) -> str:
    """Return a text without the numbers that show one of the values, exact or rounded."""
    if not values:
        return text

    def kept(match: re.Match[str]) -> str:
        after = (match["after"] or "").strip()
        if not _shows(match["digits"], after, values):
            return match.group()
        return " " if _factor(match["digits"], after) != 1 else f" {after}"

    return _NUMBER.sub(kept, text)


def _shows(digits: str, after: str, values: Sequence[float]) -> bool:
    """Return whether a number, with the word or sign after it, shows one of the values. Signs are not compared."""
    bare = read_number(digits)
    if bare is None:
        return False
    factor = _factor(digits, after)
    factors = (1, 1 / 100) if re.fullmatch(_PERCENT, after, re.IGNORECASE) else (factor,)
    decimals = _DECIMALS.search(digits)
    fraction = len(decimals[1]) if decimals else 0
    return any(
        _is_rounded(reading * factor, factor / 10 ** (fraction if isinstance(reading, float) else 0), values)
        for reading in (bare.point, bare.comma)
        if reading is not None
        for factor in factors
    )


def _factor(digits: str, after: str) -> float:
    """Return what the word after a number multiplies it by, e.g. a million."""
    bare, scaled = read_number(digits), read_number(f"{digits} {after}")
    if bare is None or scaled is None:
        return 1
    pairs = ((scaled.point, bare.point), (scaled.comma, bare.comma))
    return next((reading / plain for reading, plain in pairs if reading and plain), 1)


def _is_rounded(shown: float, unit: float, values: Sequence[float]) -> bool:
    """Return whether a shown number is one of the values, rounded to a multiple of `unit`."""
    half = unit / 2 * (1 + _TOLERANCE)
    return any(
        abs(shown - value) <= max(_TOLERANCE * value, min(half, MAX_ROUNDING_ERROR * value))
        for value in map(abs, values)
    )
