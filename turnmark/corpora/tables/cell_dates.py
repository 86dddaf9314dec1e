"""Reads the date that a cell shows, in several forms and languages, as an ISO date.

In "03/04/2024" the day and the month cannot be told apart. Their order is decided for a whole column
(`turnmark.corpora.tables.column_types`).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from turnmark.corpora.text.segmentation import normalize_width

MAX_LENGTH = 40
"""Characters of the longest cell that may be a date."""


def _month_numbers() -> Mapping[str, int]:
    """Return name -> month. A name that means different months in two languages is left out."""
    months: dict[str, int] = {}
    for line in tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["months"].split("\n"):
        for number, name in enumerate(line.split(), 1):
            if name != ".":
                months[name] = number if months.get(name, number) == number else 0
    return {name: number for name, number in months.items() if number}


_MONTH_OF = _month_numbers()
_ZONE = r"(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?"
_TIME = rf"(?:[ T,]+(?P<time>\d{{1,2}}:\d\d(?::\d\d)?)(?:\.\d+)?(?: ?(?P<half>[AaPp]\.?[Mm]\.?))?{_ZONE})?"
_WEEKDAY = r"(?:[^\W\d_]{2,12}\.?,? )?"
_NAME = r"(?P<name>[^\W\d_]{3,15})\.?"
_FORMS = tuple(
    re.compile(form)
    for form in (
        rf"(?P<year>\d{{4}})(?P<mark>[-/.])(?P<month>\d{{1,2}})(?P=mark)(?P<day>\d{{1,2}}){_TIME}",
        r"(?P<year>\d{4})-(?P<month>\d\d)",
        rf"(?P<year>\d{{4}}) ?[年년] ?(?P<month>\d{{1,2}}) ?[月월](?: ?(?P<day>\d{{1,2}}) ?[日일])?{_TIME}",
        rf"(?P<first>\d{{1,2}})(?P<mark>[-/.]) ?(?P<second>\d{{1,2}})(?P=mark) ?(?P<year>\d{{4}}){_TIME}",
        rf"{_WEEKDAY}(?P<day>\d{{1,2}})(?:st|nd|rd|th|er|\.|º)?[ -](?:de |of )?{_NAME},?[ -](?:del? )?(?P<year>\d{{4}})"
        rf"{_TIME}",
        rf"{_WEEKDAY}{_NAME} (?P<day>\d{{1,2}})(?:st|nd|rd|th)?,? (?P<year>\d{{4}}){_TIME}",
        rf"{_NAME}[ ,-]{{1,2}}(?:de )?(?P<year>\d{{4}})",
    )
)
_SHORT_FORMS = (
    re.compile(rf"(?P<first>\d{{1,2}})(?P<mark>[-/.]) ?(?P<second>\d{{1,2}})(?P=mark) ?(?P<year>\d\d){_TIME}"),
    re.compile(r"(?P<year>(?:19|20)\d\d)(?P<month>\d\d)(?P<day>\d\d)"),
)
"""Forms that are dates only in a column of dates: "02.01.24" may be a version, and "20240503" a number."""
_FORMS_WITH_NAMES = _FORMS[4:]
"""The forms that may begin with a word."""
_YEAR = re.compile(r"(?<!\d)\d{4}(?!\d)")
_FIRST_YEAR, _LAST_YEAR = 1000, 2999
FIRST_SHORT_YEAR = 1930
"""The first of the hundred years that years of two digits mean, as in Excel."""


class CellDate(NamedTuple):
    """The date of a cell, in ISO form: a day, perhaps with a time, or a month.

    Attributes:
        day_first: the date if the day comes before the month, or if the form leaves no choice.
        month_first: the date if the month comes first, or if the form leaves no choice.
    """

    day_first: str | None
    month_first: str | None


def is_month_name(word: str) -> bool:
    """Return whether a word is the name of a month."""
    return word.lower().rstrip(".") in _MONTH_OF


@lru_cache(maxsize=20_000)
def read_date(text: str) -> CellDate | None:
    """Return the date that a cell shows, or None if it shows none. `read_short_date` reads further forms."""
    if not 6 <= len(text) <= MAX_LENGTH:
        return None
    if not text.isascii():
        text = normalize_width(text)
    if not _YEAR.search(text):
        return None
    text = " ".join(text.split())
    for form in _FORMS if text[0].isdigit() else _FORMS_WITH_NAMES:
        match = form.fullmatch(text)
        if match:
            return _make_date(match.groupdict())
    return None


def read_short_date(text: str) -> CellDate | None:
    """Return the date of a cell such as "02.01.24" or "20240503" in a column of dates, or None."""
    if not 6 <= len(text) <= MAX_LENGTH or not text[0].isdigit():
        return None
    matches = (form.fullmatch(text) for form in _SHORT_FORMS)
    return next((_make_date(match.groupdict()) for match in matches if match), None)


def _make_date(parts: Mapping[str, str | None]) -> CellDate | None:
    """Return the date with these parts, or None if there is no such day or time."""
    year, clock = int(parts["year"] or 0), _clock(parts)
    if year < 100:
        year += 100 * ((FIRST_SHORT_YEAR - year + 99) // 100)
    if clock is None:
        return None
    if parts.get("first"):
        first, second = int(parts["first"] or 0), int(parts["second"] or 0)
        day_first = _iso(year, second, first, clock)
        # With points between the numbers, the day comes first in every country.
        month_first = day_first if parts["mark"] == "." else _iso(year, first, second, clock)
        return CellDate(day_first, month_first) if day_first or month_first else None
    month = _MONTH_OF.get((parts["name"] or "").lower(), 0) if "name" in parts else int(parts["month"] or 0)
    day = parts.get("day")
    only = _iso(year, month, int(day or 1), clock)
    if only and not day:
        only = f"{year}-{month:02}"
    return CellDate(only, only) if only else None


def _iso(year: int, month: int, day: int, clock: str) -> str | None:
    try:
        iso = date(year, month, day).isoformat()
    except ValueError:
        return None
    return f"{iso}{clock}" if _FIRST_YEAR <= year <= _LAST_YEAR else None


def _clock(parts: Mapping[str, str | None]) -> str | None:
    """Return a space and the time in ISO form, "" if no time is given, or None if it does not exist, as in 25:00."""
    shown = parts.get("time")
    if not shown:
        return ""
    hour, *rest = map(int, shown.split(":"))
    half = (parts.get("half") or "").lower().replace(".", "")
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + 12 * (half == "pm")
    if hour > 23 or any(each > 59 for each in rest):
        return None
    return " " + ":".join(f"{each:02}" for each in (hour, *rest))
