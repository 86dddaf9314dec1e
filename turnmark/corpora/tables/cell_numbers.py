"""Reads the number that a cell shows: "1.234,50 €", "12 %", "(35)", "1,2 Mio", "−5", "1 234".

Whether a point or a comma separates the decimals is decided for a whole column
(`turnmark.corpora.tables.column_types`). This module says which of the two readings a cell allows.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from turnmark.corpora.tables.cell_dates import is_month_name
from turnmark.corpora.text.segmentation import normalize_width

MAX_LENGTH = 60
"""Characters of the longest cell that may be a number."""
MAX_DIGITS = 15
"""Digits of the longest whole number. A longer one is a code, and a float would change it."""
MAX_SCALE = 1e200
"""The largest power of ten that a number may have. "10E451" is a code."""

_WORDS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_FACTOR_OF = {word: float(factor) for factor, words in _WORDS["factors"].items() for word in words.split()}
_MEASURES = frozenset(_WORDS["measures"].split())
_OF_MONEY = {"M": 1e6, "m": 1e6, "B": 1e9, "b": 1e9}
"""Letters that are a factor only next to a currency: "3 m" alone means meters."""
_CURRENCY = rf"(?:[A-Z]{{0,3}}[$€£¥₹₩₽₺฿₫₴₪¢]|(?:{'|'.join(_WORDS['currencies'].split())})|Rs\.?|kr\.?|zł|Kč|Ft|円|元)"
_UNIT = r"(?:[%‰]|°?[^\W\d_]{1,12}[²³]?(?:/[^\W\d_]{1,8}[²³]?)?\.?)"
_LABEL_UNIT = re.compile(r"[(\[](?:in )?(?P<inner>[^()\[\]]{1,15})[)\]]\s*$|\b(?:in|en) (?P<after>[^\s\d]{1,4})\s*$")
_DISPLAYED_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[-+])? ?(?P<before>{_CURRENCY}(?=[ \d.,+-]))? ?(?P<second>[-+])?"
    r"(?P<digits>[.,]?\d+(?:[ .,'’]\d+)*)(?P<power>[eE][-+]?\d{1,3})?(?P<ordinal>st|nd|rd|th|[ºª.](?![^\W\d_]))?"
    rf"(?P<minus>-)?(?P<after>(?: ?(?:{_CURRENCY}|{_UNIT})){{0,3}})(?P<close>\))?"
)
_BEGINNING = re.compile(r"[^\w]*(?:[^\W\d_]{1,4}[^\w]*)?\d")
"""Matches the beginning of a number. It is tried first, because most cells are texts."""
_ROUGHLY = re.compile(r"(?:[~≈∼]|(?:ca|approx|env)\.?|(?:circa|about|etwa|rund)(?= )|c\.) ?(?=[-+]?\d)", re.IGNORECASE)
_NOTE = re.compile(r"(?<=\S)\s?(?:\[[\w ]{1,8}\]|[*†‡§¹²³])+$")
_ACCOUNTING_NUMBER = re.compile(rf"(?:({_CURRENCY}) ?)?\(([^()]+)\) ?({_UNIT}|{_CURRENCY})?")  # "$(35)" is "($35)"
_SWISS_CENTS = re.compile(r"(?<=\d)[.,]-(?=$| )")  # "CHF 1'200.-"
_SPACES = str.maketrans(dict.fromkeys("\u00a0\u2007\u2009\u202f\u2002\u2003", " ") | dict.fromkeys("−–‒﹣", "-"))
_GROUPING_PATTERNS = {
    "plain": re.compile(r"[1-9]\d{0,2}(?:(?P<mark>[ .,'’])\d{3})(?:(?P=mark)\d{3})*"),
    "indian": re.compile(r"[1-9]\d?(?:,\d\d)+,\d{3}"),
}
_PLAIN_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,2}|\.\d{4,20})?")
"""Matches a number that can be read in one way only and has no unit."""


class CellNumber(NamedTuple):
    """The number of a cell.

    Attributes:
        point: the number if a point separates the decimals, or None if the cell cannot be read in this way.
        comma: the number if a comma separates the decimals, or None if the cell cannot be read in this way.
        unit: "%", a currency or another unit; empty if there is none.
        is_code: whether the digits may be a code: they begin with a zero, or with a plus sign as a telephone number.
        is_rough: whether the cell says that the number is not exact, as in "~55.1".
    """

    point: int | float | None
    comma: int | float | None
    unit: str
    is_code: bool
    is_rough: bool = False

    @property
    def is_ambiguous(self) -> bool:
        """Whether both readings are possible and differ."""
        return self.point is not None and self.comma is not None and self.point != self.comma


def read_plain_number(text: str) -> int | float | None:
    """Return a number that is written as in a program, such as "-12.5"; None for any other text."""
    if not _PLAIN_NUMBER.fullmatch(text):
        return None
    return float(text) if "." in text else int(text)


@lru_cache(maxsize=20_000)
def read_number(text: str) -> CellNumber | None:
    """Return the number that a cell shows, or None if it shows none."""
    if len(text) > MAX_LENGTH:
        return None
    if not text.isascii():
        text = normalize_width(text).translate(_SPACES)
    exact = _ROUGHLY.sub("", text, count=1) if not text[:1].isdigit() and _ROUGHLY.match(text) else text
    is_rough, text = exact != text, exact
    if not _BEGINNING.match(text):
        return None
    text = " ".join(_NOTE.sub("", text).split())
    if "(" in text:
        text = _ACCOUNTING_NUMBER.sub(r"(\1\2\3)", text)
    text = _SWISS_CENTS.sub("", text)
    match = _DISPLAYED_NUMBER.fullmatch(text)
    if not match or bool(match["open"]) != bool(match["close"]) or (match["sign"] and match["second"]):
        return None
    factor, unit = _factor_and_unit(match["before"] or "", (match["after"] or "").split())
    if is_month_name(unit):
        return None
    digits = match["digits"]
    sign = match["sign"] or match["second"] or match["minus"] or ""
    count = sum(map(str.isdigit, digits))
    if count > MAX_DIGITS and not re.search(r"[.,]\d{4,}$|\d{4,}[.,]\d+$", digits):
        return None
    scale = factor * float(f"1{match['power']}") if match["power"] else factor
    if scale > MAX_SCALE:
        return None
    negative = "-" in sign or bool(match["open"])
    point, comma = (_value(digits, mark, scale, negative) for mark in ".,")
    if point is None and comma is None:
        return None
    bare = digits.isdigit() and not unit and not match["power"]
    is_code = bare and ((digits[0] == "0" and count > 1) or (sign == "+" and count > 7))
    return CellNumber(point, comma, unit, is_code, is_rough)


def read_label_unit(label: str) -> str:
    """Return the unit of the numbers below a column name such as "Costs (€)" or "Size [kg]"; empty if it names none."""
    match = _LABEL_UNIT.search(label)
    unit = " ".join((match["inner"] or match["after"]).split()) if match else ""
    shown = read_number(f"1 {unit}") if unit else None
    if shown is None:
        return ""
    return unit if is_common_unit(shown.unit) else ""


def is_common_unit(unit: str) -> bool:
    """Return whether a unit is a currency, a percentage or a measure, and not a word such as "acts"."""
    return unit in _MEASURES or (bool(unit) and all(re.fullmatch(_CURRENCY, part) for part in unit.split()))


def _factor_and_unit(before: str, after: list[str]) -> tuple[float, str]:
    """Return what the words around a number multiply it by, and its unit."""
    factor = 1.0
    if after:
        word = after[0]
        money = before or (len(after) > 1 and re.fullmatch(_CURRENCY, after[1]))
        found = _OF_MONEY.get(word) if money else None
        found = found or _FACTOR_OF.get(word) or _FACTOR_OF.get(word.lower() if len(word) > 2 else word)
        if found:
            factor, after = found, after[1:]
        elif len(word) > 1 and money is None and word[0] in "kMB" and word[1:] in "€$£":
            factor, after = _FACTOR_OF[word[0]], [word[1:], *after[1:]]
    return factor, " ".join(filter(None, (before, *after)))


def _value(digits: str, mark: str, scale: float, negative: bool) -> int | float | None:
    """Return the value of digits whose decimals follow `mark`, or None if they cannot be read in this way."""
    whole, found, decimals = digits.partition(mark)
    if found and not decimals.isdigit():
        return None
    if not whole.isdigit() and not (whole == "" and found):
        if not any(pattern.fullmatch(whole) for pattern in _GROUPING_PATTERNS.values()) or mark in whole:
            return None
        whole = re.sub(r"\D", "", whole)
    value: int | float = float(f"{whole or '0'}.{decimals}") if found else int(whole)
    if scale != 1:
        value = round(value * scale, 6)
        if value == int(value) and abs(value) < 10**MAX_DIGITS and not found:
            value = int(value)
    return -value if negative else value
