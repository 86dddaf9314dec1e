"""Functions that statements over stored tables may call in addition to SQLite's own."""

from __future__ import annotations

import fnmatch
import re
import sqlite3
from functools import cache, lru_cache, partial
from statistics import stdev
from typing import Any

from turnmark.corpora.tables.cell_numbers import is_common_unit, read_number
from turnmark.corpora.text.segmentation import fold_name
from turnmark.retrieval.tables.sql_names import remove_accents

DATE_FUNCTIONS = ("date", "datetime", "julianday", "strftime", "time", "unixepoch")
_PARTIAL_DATE = re.compile(r"[12]\d{3}(?:-\d\d)?")
_MAX_TEXT = 10_000  # characters of a value that a function reads


def add_functions(db: sqlite3.Connection) -> None:
    """Add functions of our own to a connection, and replace some of SQLite's by safer ones."""
    db.create_function("number", 1, _number, deterministic=True)
    db.create_function("fold", 1, fold, deterministic=True)
    # SQLite's own LIKE ignores the case of English letters only, and some patterns of LIKE and GLOB keep it busy for
    # hours, during which it cannot be interrupted.
    db.create_function("like", 2, _is_like, deterministic=True)
    db.create_function("like", 3, _is_like, deterministic=True)
    db.create_function("glob", 2, _is_glob, deterministic=True)
    aggregates: tuple[tuple[str, int, Any], ...] = (
        ("median", 1, _Quantile), ("quantile", 2, _Quantile), ("stddev", 1, _StandardDeviation),
    )  # fmt: skip
    for aggregate, arguments, kind in aggregates:
        db.create_aggregate(aggregate, arguments, kind)
    for name in DATE_FUNCTIONS:
        db.create_function(name, -1, partial(_with_whole_dates, name))


def _with_whole_dates(name: str, *values: object) -> Any:
    """Call a date function of SQLite, which would read a year such as 1904 as a day number and refuse 1904-10."""
    whole = [_whole_date(value) for value in values]
    return _plain().execute(f"SELECT {name}({', '.join('?' * len(whole))})", whole).fetchone()[0]


@cache
def _plain() -> sqlite3.Connection:
    """Return a connection with SQLite's own functions."""
    return sqlite3.connect(":memory:", check_same_thread=False)


def _whole_date(value: object) -> object:
    """Return the first day of a year or a month; any other value as it is."""
    text = str(value)
    return f"{text}-01-01"[:10] if _PARTIAL_DATE.fullmatch(text) else value


class _Quantile:
    """The value below which a share of numbers lies, interpolated; by default the median."""

    def __init__(self) -> None:
        self._numbers: list[float] = []
        self._share = 0.5

    def step(self, value: object, share: object = 0.5) -> None:
        """Add a value. Values that are no numbers are ignored, as by SQLite's `avg`."""
        if isinstance(share, int | float):
            self._share = min(max(share, 0.0), 1.0)
        if isinstance(value, int | float):
            self._numbers.append(value)

    def finalize(self) -> float | None:
        """Return the quantile, or None without numbers."""
        if not self._numbers:
            return None
        numbers = sorted(self._numbers)
        place = self._share * (len(numbers) - 1)
        below, above = numbers[int(place)], numbers[min(int(place) + 1, len(numbers) - 1)]
        return below + (above - below) * (place - int(place))


class _StandardDeviation(_Quantile):
    """The standard deviation of a sample."""

    def finalize(self) -> float | None:
        """Return the standard deviation, or None with fewer than two numbers."""
        return stdev(self._numbers) if len(self._numbers) > 1 else None


def _number(value: object) -> int | float | None:
    """Return the number in a text: 1234.5 for "about 1,234.5 kg"."""
    if isinstance(value, int | float):
        return value
    text = str(value or "")[:_MAX_TEXT]
    shown = read_number(text.strip())
    if shown is None:
        first = re.search(r"[-−(]?\d+(?:[.,'’\u00a0\u202f]\d+)*", text)
        shown = read_number(first.group().strip("(")) if first else None
    if shown is None:
        return None
    # An amount such as "4.829 €" has no three decimals.
    if isinstance(shown.comma, int) and shown.is_ambiguous and is_common_unit(shown.unit):
        return shown.comma
    return shown.comma if shown.point is None else shown.point


def fold(value: object) -> str | None:
    """Return a text in lower case, without accents, and with one space between words."""
    if value is None:
        return None
    return " ".join(remove_accents(fold_name(str(value)[:_MAX_TEXT])).split())


def _is_like(pattern: object, value: object, escape: object = None) -> bool | None:
    """Return whether a value matches a pattern of LIKE, ignoring case."""
    if pattern is None or value is None:
        return None
    mark = re.escape(str(escape or "\0"))
    wild = "".join(
        {"%": "*", "_": "?"}.get(token) or re.sub(r"[*?[]", r"[\g<0>]", token[-1])
        for token in re.findall(rf"{mark}?.", fold_name(str(pattern)[:_MAX_TEXT]), re.DOTALL)
    )
    return _matches(wild, fold_name(str(value)[: 100 * _MAX_TEXT]))


def _is_glob(pattern: object, value: object) -> bool | None:
    """Return whether a value matches a pattern of GLOB, in which `[^a-z]` is a set."""
    if pattern is None or value is None:
        return None
    return _matches(str(pattern)[:_MAX_TEXT].replace("[^", "[!"), str(value)[: 100 * _MAX_TEXT])


def _matches(pattern: str, text: str) -> bool:
    """Return whether a text matches a pattern of `fnmatch`, whose expressions never search back."""
    return _compiled(pattern).match(text) is not None


@lru_cache(maxsize=500)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(fnmatch.translate(pattern))
