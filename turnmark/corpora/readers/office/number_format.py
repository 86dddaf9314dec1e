"""Formats numbers and dates as a workbook displays them, by the format codes of ECMA-376 part 1, 18.8.31."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta
from decimal import ROUND_HALF_UP, Decimal

_LITERAL = re.compile(r'"([^"]*)"|\\(.)|_.|\*.|\[\$([^\]-]*)(?:-[^\]]*)?\]|\[[^\]]*\]')
_DIGITS = re.compile(r"[0#?][0#?,]*(?:\.[0#?]*)?(?:,+)?")
_MAX_WRITTEN_OUT = 1e20
"""A whole number from which on Excel shows powers of ten."""
_SCIENTIFIC = re.compile(r"E[+-]0+", re.IGNORECASE)


def format_value(value: object, code: str = "General") -> str:
    """Return a value as it is displayed.

    Dates are always written as 2024-03-01, since the format code is often that of another country.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, datetime):
        return _date(value, code)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, time):
        return value.strftime("%H:%M:%S" if value.second else "%H:%M")
    if isinstance(value, timedelta):
        return _duration(value)
    if isinstance(value, int | float):
        return _number(value, code)
    return " ".join(str(value).split())


def _date(value: datetime, code: str) -> str:
    letters = _LITERAL.sub("", code).lower()
    if "m" in letters and "y" in letters and "d" not in letters and "h" not in letters:
        return f"{value:%B %Y}"
    if value.time() == time(0) and "h" not in letters:
        return f"{value:%Y-%m-%d}"
    return f"{value:%Y-%m-%d %H:%M:%S}" if value.second else f"{value:%Y-%m-%d %H:%M}"


def _duration(value: timedelta) -> str:
    seconds = int(value.total_seconds())
    sign, seconds = ("-", -seconds) if seconds < 0 else ("", seconds)
    minutes, second = divmod(seconds, 60)
    text = f"{sign}{minutes // 60}:{minutes % 60:02}"
    return f"{text}:{second:02}" if second else text


def _number(value: float, code: str) -> str:
    section = _section(value, code)
    is_general = _LITERAL.sub("", section).strip().lower() in ("", "general", "@", "standard")
    digits = None if is_general else _DIGITS.search(_LITERAL.sub(lambda literal: " " * len(literal.group()), section))
    if digits is None or _SCIENTIFIC.search(section) or digits.group().endswith(",") or "/" in section:
        return _format_general(value)
    percent = "%" in section
    _, point, fraction = digits.group().partition(".")
    number = _round_like_excel(abs(value), len(fraction) + 2 * percent) * (100 if percent else 1)
    least = len(re.sub("[^0]", "", digits.group().split(".")[0]))
    text = f"{number:{',' if ',' in digits.group() else ''}.{len(fraction)}f}"
    if point and "#" in fraction:
        always = len(fraction.rstrip("#?"))
        whole, _, decimals = text.partition(".")
        decimals = decimals.rstrip("0").ljust(always, "0")
        text = f"{whole}.{decimals}" if decimals else whole
    whole = text.partition(".")[0]
    text = "0" * (least - len(whole.replace(",", ""))) + text
    before, after = _literals_around(section, digits)
    sign = "-" if value < 0 and re.search("[1-9]", text) else ""
    return f"{sign}{before}{text}{'%' if percent else ''}{after}".strip()


def _round_like_excel(number: float, places: int) -> Decimal | float:
    """Round like Excel: from 15 digits, half up. Python would round 2.5 to 2 and 2.675 to 2.67."""
    if not number < 1e15:
        return round_to_stored_digits(number)
    return Decimal(f"{number:.15g}").quantize(Decimal(1).scaleb(-min(places, 12)), ROUND_HALF_UP)


def _section(value: float, code: str) -> str:
    """Return the section of a code for positive, negative or zero numbers."""
    parts = re.split(r';(?=(?:[^"]*"[^"]*")*[^"]*$)', code or "General")
    if value < 0 and len(parts) > 1:
        return parts[1]
    if value == 0 and len(parts) > 2:
        return parts[2] if re.search("[0#?]", parts[2]) else parts[0]
    return parts[0]


def _literals_around(section: str, digits: re.Match[str]) -> tuple[str, str]:
    """Return the literal text before and after the digits, e.g. a currency."""
    sides = section[: digits.start()], section[digits.end() :]
    literals = (_LITERAL.sub(lambda match: match[1] or match[2] or match[3] or "", side) for side in sides)
    before, after = (re.sub(r"[#0?%()@,]|-", "", literal) for literal in literals)
    return before.lstrip(), after.rstrip()


def _format_general(value: float) -> str:
    """Return a number as Excel shows it in a wide cell: all digits of a whole number, 11 of another one."""
    value = round_to_stored_digits(value)
    return str(value) if isinstance(value, int) else f"{value:.11g}"


def round_to_stored_digits(value: float) -> float:
    """Round a number to the 15 digits that Excel keeps. A file may have 17, such as 1234.5600000000001."""
    rounded = float(f"{value:.15g}")
    return int(Decimal(f"{value:.15g}")) if abs(rounded) < _MAX_WRITTEN_OUT and rounded.is_integer() else rounded
