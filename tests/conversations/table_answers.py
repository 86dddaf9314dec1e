"""Compare the answers to questions about tables as the evaluator of WikiTableQuestions does.

Described in Pasupat and Liang 2015, section 2, and in the README of the data: the values are compared as a set after
they are normalized. Texts lose accents, case, quotation marks, brackets at their end and a final period. Numbers
compare as numbers and dates as dates. Numbers may also have separators of thousands here, since the answers of the data
are given as the table shows them.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from turnmark.corpora.text.segmentation import strip_citations

SEPARATOR = "|"
"""Separates the values of an answer."""
_LINE = re.compile(r"^[\s*_#>`-]*answer[\s*_`]*:[\s*_`]*(.*?)[\s*_`]*$", re.IGNORECASE | re.MULTILINE)
_QUOTES = str.maketrans({"‘": "'", "’": "'", "´": "'", "`": "'", "“": '"', "”": '"'})
_DASHES = re.compile("[‐‑‒–—−]")
_NOTES = re.compile(r"((?<!^)\[[^\]]*\]|[•♦†‡*#+])+$")
_BRACKETS = re.compile(r"(?<!^)(\s*\([^)]*\))+$")
_NUMBER = re.compile(r"[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?")
_MONTHS = {name: n for n, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_ISO_DATE = re.compile(r"(\d{4}|xx(?:xx)?)-(\d\d|xx)-(\d\d|xx)")
_DAY_FIRST = re.compile(r"(?:(\d{1,2})(?:st|nd|rd|th)? )?([a-z]{3,9})\.?,?(?: (\d{4}))?")
_MONTH_FIRST = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,?(?: (\d{4}))?")

ShownDate = tuple[int, int, int]
"""Year, month and day; 0: not given."""


def stated_answers(reply: str) -> tuple[str, ...]:
    """Return the values of the last line "Answer: a | b" of a reply; empty without such a line."""
    lines = _LINE.findall(strip_citations(reply))
    values = lines[-1].split(SEPARATOR) if lines else []
    return tuple(value.strip() for value in values if value.strip())


def answers_match(expected: Sequence[str], stated: Sequence[str]) -> bool:
    """Return whether two sets of values are the same after normalization."""
    wanted, found = _distinct(expected), _distinct(stated)
    return len(wanted) == len(found) and all(any(_match(value, other) for other in found) for value in wanted)


def _distinct(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(map(normalized, values)))


def _match(value: str, other: str) -> bool:
    if value == other:
        return True
    numbers = number_of(value), number_of(other)
    if numbers[0] is not None and numbers[1] is not None:
        return abs(numbers[0] - numbers[1]) < 1e-6
    dates = date_of(value), date_of(other)
    return dates[0] is not None and dates[0] == dates[1]


def normalized(text: str) -> str:
    """Return a text in lower case without accents, outer quotation marks, notes and brackets at its end."""
    text = unicodedata.normalize("NFKD", text)
    text = "".join(letter for letter in text if unicodedata.category(letter) != "Mn")
    text = _DASHES.sub("-", text.translate(_QUOTES))
    before = None
    while text != before:
        before = text
        text = _BRACKETS.sub("", _NOTES.sub("", text.strip()).strip()).strip()
        if len(text) > 1 and text[0] == text[-1] == '"' and '"' not in text[1:-1]:
            text = text[1:-1]
    return " ".join(text.removesuffix(".").lower().split())


def number_of(text: str) -> float | None:
    """Return the number that a normalized text is; None if it is none."""
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def date_of(text: str) -> ShownDate | None:
    """Return the date that a normalized text is, with at least a month; None if it is none."""
    if match := _ISO_DATE.fullmatch(text):
        year, month, day = (int(part) if part.isdecimal() else 0 for part in match.groups())
        return year, month, day
    for pattern, order in ((_DAY_FIRST, (3, 2, 1)), (_MONTH_FIRST, (3, 1, 2))):
        if match := pattern.fullmatch(text):
            year, name, day = (match[group] for group in order)
            month = _MONTHS.get(name[:3], 0)
            if month:
                return int(year or 0), month, int(day or 0)
    return None
