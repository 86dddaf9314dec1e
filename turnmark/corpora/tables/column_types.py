"""Decides the type of each column of a table and reads the values of its cells.

A column is numeric, or consists of dates, if at least 80 percent of its filled cells are. The separator of decimals and
the order of day and month are decided for the column as a whole, from the cells that leave no choice. If there are
none, the other columns of the file decide, and for decimals also its language. If the other columns contradict each
other, a mark that always has three digits after it groups thousands. A column of dates whose order stays unknown is
text.
"""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise, repeat
from math import inf
from pathlib import Path
from typing import Literal

from turnmark.core.plural import count_phrase
from turnmark.corpora.tables.cell_dates import CellDate, read_date, read_short_date
from turnmark.corpora.tables.cell_numbers import (
    CellNumber,
    is_common_unit,
    read_label_unit,
    read_number,
    read_plain_number,
)

ColumnKind = Literal["integer", "real", "date", "text"]
CellValue = int | float | str | None
"""The value of a cell: a number, an ISO date or text; None for an empty cell, or one that cannot be read."""

MAX_COUNTED_TEXTS = 1_000
"""Maximum different texts of a column that are counted."""
MAX_UNITS = 4
"""Maximum units of a column of text whose numbers are read, and maximum numbers that may mean a missing value."""
MIN_TYPED_SHARE = 0.8
"""Minimum share of the filled cells that are numbers (or dates) in a numeric column (or a column of dates)."""
MAX_MINORITY_SHARE = 0.1
"""Maximum share of cells with the other decimal separator.

If a column exceeds it, its ambiguous cells have no value. If a file exceeds it, its columns contradict each other.
"""
_WORDS: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
_BLANKS, _COMMA_LANGUAGES = frozenset(_WORDS["blanks"]), frozenset(_WORDS["decimal_comma"])
MIN_OTHER_NUMBERS = 5
"""Minimum number of other numbers with which -999 is compared, which may mean that a value is missing."""
MIN_MARKER_DISTANCE = 5
"""Minimum distance of a positive number such as 9999 from the others, in ranges of the others, to mean so."""
_MARKER = re.compile(r"-?9{3,6}(?:\.0|\.9{1,2})?|-9{2}(?:\.0|\.9{1,2})?")
_SAMPLED_ROWS = 25
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_CODE_LABEL, _VERSION_LABEL = (
    re.compile(rf"\b(?:{'|'.join(_WORDS[kind])})\b", re.IGNORECASE) for kind in ("code_labels", "version_labels")
)
_DATE_LABEL = re.compile(
    rf"\b(?:{'|'.join(_WORDS['date_labels'])})\b|{'|'.join(_WORDS['date_label_ends'])}", re.IGNORECASE
)


def is_blank(text: str) -> bool:
    """Return whether a cell shows that there is no value: it is empty, "-", "n/a" or similar."""
    return not text or (len(text) < 15 and text.lower() in _BLANKS)


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, and how its cells are read.

    Attributes:
        unit: unit of the numbers, as displayed; empty if there is none. A column of text may have several units.
        comma: whether decimals follow a comma.
        day_first: whether the day comes before the month.
        skips_ambiguous: whether a cell that can be read in two ways has no value.
        markers: numbers that mean that a value is missing.
        remarks: what a reader of its numbers should know.
    """

    kind: ColumnKind
    unit: str = ""
    comma: bool = False
    day_first: bool = True
    skips_ambiguous: bool = False
    markers: frozenset[int | float] = frozenset()
    remarks: tuple[str, ...] = ()

    @property
    def has_amounts(self) -> bool:
        """Whether the column has numbers that may be summed."""
        return self.kind in ("integer", "real") or (self.kind == "text" and bool(self.unit))

    def amount(self, text: str, value: CellValue) -> tuple[str, int | float] | None:
        """Return the unit and the number of a cell with a value; the unit is empty if the column has only one."""
        if self.kind != "text":
            return ("", value) if isinstance(value, int | float) else None
        shown, number = read_number(text), self._number(text)
        return (shown.unit, number) if shown is not None and number is not None else None

    def is_blank(self, text: str) -> bool:
        """Return whether a cell shows that there is no value, also by a number such as -999."""
        return is_blank(text) or (bool(self.markers) and self._number(text) in self.markers)

    def value(self, text: str, stored: str = "") -> CellValue:
        """Return the value of a cell.

        Args:
            text: the cell as shown.
            stored: the number or date that the workbook stores; empty if it has none.
        """
        if self.kind == "text":
            return text or None
        if is_blank(text):
            return None
        if self.kind == "date":
            return self._date(stored or text)
        number = _stored_number(stored, text) if stored else read_plain_number(text)
        if number is None:
            number = self._number(text)
        if number in self.markers:
            return None
        return round(number) if self.kind == "integer" and number is not None else number

    def _number(self, text: str) -> int | float | None:
        shown = read_number(text)
        if shown is None or (self.skips_ambiguous and shown.is_ambiguous):
            return None
        readings = (shown.comma, shown.point) if self.comma else (shown.point, shown.comma)
        return readings[0] if readings[0] is not None else readings[1]

    def _date(self, text: str) -> str | None:
        shown = read_date(text) or read_short_date(text)
        if shown is None:
            return text if re.fullmatch(r"[12]\d{3}", text) else None
        return (shown.day_first if self.day_first else shown.month_first) or None


@dataclass
class ColumnRange:
    """The values of a column: the smallest and largest, or the first different texts."""

    is_text: bool
    low: CellValue = None
    high: CellValue = None
    texts: dict[str, None] = field(default_factory=dict)

    def add(self, value: CellValue) -> None:
        """Count a value; all values of a column are of one type."""
        if value is None:
            return
        if not self.is_text:
            self.low = value if self.low is None or value < self.low else self.low  # type: ignore[operator]
            self.high = value if self.high is None or value > self.high else self.high  # type: ignore[operator]
        elif len(self.texts) <= MAX_COUNTED_TEXTS:
            self.texts[str(value)] = None


def _stored_number(stored: str, text: str) -> int | float | None:
    """Return the stored number of a cell. A percentage is multiplied by 100, so that it equals the displayed number."""
    try:
        value = float(stored)
    except ValueError:
        return None
    if text.rstrip().endswith("%"):
        value = round(value * 100, 10)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


@dataclass
class ColumnEvidence:
    """What the cells of a column say about its type."""

    label: str
    filled: int = 0
    numbers: int = 0
    fractions: int = 0  # numbers with decimals, whatever the separator
    point_fractions: int = 0  # ambiguous numbers have decimals in one of the two readings
    comma_fractions: int = 0
    points: int = 0  # cells that can only be read with a point
    commas: int = 0
    ambiguous: int = 0
    hundreds: int = 0  # whole numbers of three digits
    long_wholes: int = 0  # whole numbers of four and more digits without a mark
    codes: int = 0
    stored: int = 0
    units: Counter[str] = field(default_factory=Counter)
    dates: int = 0
    years: int = 0
    short_dates: int = 0  # dates only in a column of dates
    days_first: int = 0
    months_first: int = 0
    either_first: int = 0
    rough: int = 0
    blanks: Counter[str] = field(default_factory=Counter)  # cells such as "n/a"
    markers: Counter[int | float] = field(default_factory=Counter)  # numbers such as -999
    low: float = inf  # of the other numbers
    high: float = -inf

    def add(self, text: str, stored: str = "") -> None:
        """Count a cell."""
        if is_blank(text):
            self.blanks[text] += bool(text)
            return
        self.filled += 1
        number = read_plain_number(text)
        if number is not None:
            shown: CellNumber | None = CellNumber(number, number if isinstance(number, int) else None, "", False)
            self.years += isinstance(number, int) and 1000 <= number <= 2999
            self.short_dates += 19_000_101 <= number <= 20_991_231 and read_short_date(text) is not None
        elif date := read_date(stored or text):
            self.dates += 1
            self._add_date(date)
            return
        else:
            if date := read_short_date(text):
                self.short_dates += 1
                self._add_date(date)
            shown = read_number(text)
        if shown is not None:
            self._add_number(shown)
            if stored:
                self.stored += 1
                self.fractions += "." in stored

    def _add_number(self, shown: CellNumber) -> None:
        self.numbers += 1
        self.codes += shown.is_code
        self.rough += shown.is_rough
        number = shown.comma if shown.point is None else shown.point
        if number is not None:
            self._add_value(number)
        self.units[shown.unit] += 1
        if shown.is_ambiguous:
            self.ambiguous += 1
            self.point_fractions += isinstance(shown.point, float)
            self.comma_fractions += isinstance(shown.comma, float)
        elif shown.point is None:
            self.commas += 1
            self.fractions += isinstance(shown.comma, float)
        elif shown.comma is None:
            self.points += 1
            self.fractions += isinstance(shown.point, float)
        elif isinstance(shown.point, float):
            self.fractions += 1
        else:
            self.hundreds += 100 <= abs(shown.point) < 1000
            self.long_wholes += abs(shown.point) >= 1000

    def _add_value(self, number: int | float) -> None:
        if "99" in (text := str(number)) and _MARKER.fullmatch(text):
            self.markers[number] += 1
        else:
            self.low, self.high = min(self.low, number), max(self.high, number)

    def _add_date(self, date: CellDate) -> None:
        if date.day_first is None:
            self.months_first += 1
        elif date.month_first is None:
            self.days_first += 1
        elif date.day_first != date.month_first:
            self.either_first += 1

    def type(self, file: FileHabits) -> ColumnType:
        """Return the type of the column, given the habits of its file."""
        if self.filled == 0:
            return ColumnType("text")
        if self._has_dates():
            day_first = self._day_first(file)
            if day_first is None:
                return ColumnType("text")
            return ColumnType("date", day_first=day_first, remarks=self._missing()[1])
        units = +Counter({unit: count for unit, count in self.units.items() if unit})
        if self.numbers < MIN_TYPED_SHARE * self.filled or self.codes or _CODE_LABEL.search(self.label):
            return ColumnType("text")
        comma = self._comma(file)
        if len(units) > 1:
            shown = ", ".join(units)
            remark = f"text with several units ({shown}); read it with number(), each unit by itself"
            is_read = len(units) <= MAX_UNITS and all(map(is_common_unit, units))
            return ColumnType("text", shown, comma, remarks=(remark,)) if is_read else ColumnType("text")
        if self.fractions and not self.stored and _VERSION_LABEL.search(self.label):
            return ColumnType("text")
        minority = min(self.points, self.commas)
        fractions = self.fractions
        if not self.stored:
            fractions += self.comma_fractions if comma else self.point_fractions
        markers, remarks = self._missing()
        if self.rough:
            remarks += (f"{count_phrase(self.rough, 'number')} not exact, as in “~55.1”",)
        return ColumnType(
            "real" if fractions else "integer",
            unit=next(iter(units), "") or read_label_unit(self.label),
            comma=comma,
            skips_ambiguous=minority > MAX_MINORITY_SHARE * (self.points + self.commas),
            markers=markers,
            remarks=remarks,
        )

    def _has_dates(self) -> bool:
        """Return whether most cells are dates, some of which may be years alone or dates in a short form."""
        dates = self.dates
        if dates or _DATE_LABEL.search(self.label):
            dates += self.short_dates
        are_years = self.years >= self.numbers - self.short_dates
        return (
            bool(dates) and dates + self.years >= MIN_TYPED_SHARE * self.filled and (dates >= self.years or are_years)
        )

    def _missing(self) -> tuple[frozenset[int | float], tuple[str, ...]]:
        """Return the numbers that mean a missing value, by their distance from the others, and remarks on them."""
        markers: list[int | float] = []
        remarks: list[str] = []
        if shown := +self.blanks:
            examples = ", ".join(shown)
            remarks.append(f"{count_phrase(shown.total(), 'cell')} without a value ({examples}): NULL")
        for number, count in self.markers.items():
            distance = max(number - self.high, self.low - number)
            if distance <= self.high - self.low or len(self.markers) > MAX_UNITS:
                continue
            is_far = number < 0 or (count > 1 and distance > MIN_MARKER_DISTANCE * (self.high - self.low))
            cells = f"{count_phrase(count, 'cell')} with {number:g}"
            if is_far and self.numbers - self.markers.total() >= MIN_OTHER_NUMBERS:
                markers.append(number)
                remarks.append(f"{cells}, far from all others, count as missing: NULL")
            else:
                remarks.append(f"{cells}, far from all others, perhaps missing values")
        return frozenset(markers), tuple(remarks)

    def own_comma(self) -> bool | None:
        """Return whether decimals follow a comma as far as the column itself shows it, or None if it does not."""
        if self.points or self.commas or not self.ambiguous:
            return self.commas > self.points
        # "1,147" next to "932": a fraction with exactly three decimals is not next to whole numbers of that size.
        return self._comma_if_grouped() if self.hundreds and not self.long_wholes else None

    def _comma_if_grouped(self) -> bool | None:
        """Return whether decimals follow a comma if the only mark groups thousands, or None if there are two marks."""
        return None if self.point_fractions and self.comma_fractions else self.point_fractions > 0

    def decimal_evidence(self) -> tuple[int, int]:
        """Return how many cells say that decimals follow a point, and how many say a comma."""
        if _VERSION_LABEL.search(self.label):
            return 0, 0
        if self.points or self.commas or not self.ambiguous:
            return self.points, self.commas
        comma = self.own_comma()
        return (0, 0) if comma is None else (0, self.ambiguous) if comma else (self.ambiguous, 0)

    def _comma(self, file: FileHabits) -> bool:
        own = self.own_comma()
        if own is not None:
            return own
        return bool(self._comma_if_grouped()) if file.comma is None else file.comma

    def _day_first(self, file: FileHabits) -> bool | None:
        """Return whether the day comes first, or None if it is not known, or if the column contradicts itself."""
        if self.days_first and self.months_first:
            return None
        if self.days_first or self.months_first or not self.either_first:
            return not self.months_first
        return file.day_first


@dataclass(frozen=True)
class FileHabits:
    """How a file writes decimals and dates, for the columns that do not show it themselves.

    Attributes:
        comma: whether decimals follow a comma, or None if its columns contradict each other.
        day_first: None: it is not known.
    """

    comma: bool | None
    day_first: bool | None


def file_habits(columns: Iterable[ColumnEvidence], language: Callable[[], str]) -> FileHabits:
    """Return the habits of a file, from all of its columns and, if these do not show it, from its language."""
    columns = list(columns)
    evidence = [each.decimal_evidence() for each in columns]
    points, commas = sum(each for each, _ in evidence), sum(each for _, each in evidence)
    comma: bool | None = commas > points
    if not points and not commas and any(each.ambiguous for each in columns):
        comma = language() in _COMMA_LANGUAGES
    elif min(points, commas) > MAX_MINORITY_SHARE * (points + commas):
        comma = None
    days = sum(each.days_first for each in columns)
    months = sum(each.months_first for each in columns)
    return FileHabits(comma, None if bool(days) == bool(months) else days > 0)


def gather_evidence(labels: Sequence[str], rows: Iterable[tuple[Sequence[str], Sequence[str]]]) -> list[ColumnEvidence]:
    """Return what the cells of each column say about its type; `rows` has the shown and the stored cells."""
    columns = [ColumnEvidence(label) for label in labels]
    for cells, stored in rows:
        if repeats_labels(cells, labels):
            continue
        for column, text, value in zip(columns, cells, stored or repeat(""), strict=False):
            column.add(text, value)
    return columns


def repeats_labels(cells: Sequence[str], labels: Sequence[str]) -> bool:
    """Return whether a row repeats column names: all of them, as on each page, or most of them, for a new part."""
    same = [cell == label for cell, label in zip(cells, labels, strict=False) if cell]
    count = sum(same)
    if count < 2 or 2 * count < len(same) or (count == 2 and len(same) > 2):
        return False
    others = (cell for cell, label in zip(cells, labels, strict=False) if cell != label)
    return not any(_is_number_text(cell) for cell in others)


def join_labels(labels: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str] | None:
    """Return the column names together with those in the first row, or None if that row is not a part of the header.

    It is a part of the header if it distinguishes all neighboring columns with the same name, some of which have
    figures below, and contains nothing else.
    """
    repeated = {at for at, (one, next_one) in enumerate(pairwise(labels)) if one and one == next_one}
    repeated |= {at + 1 for at in repeated}
    if not repeated or repeated.isdisjoint(_number_columns(len(labels), rows[1:])):
        return None
    first = [*rows[0], *[""] * (len(labels) - len(rows[0]))]
    named = {(labels[at], first[at]) for at in repeated if first[at] and not _is_number_text(first[at])}
    if len(named) < len(repeated):
        return None
    if any(
        cell not in ("", label)
        for at, (label, cell) in enumerate(zip(labels, first, strict=False))
        if at not in repeated
    ):
        return None
    return [f"{label} {first[at]}" if at in repeated else label for at, label in enumerate(labels)]


def _number_columns(width: int, rows: Sequence[Sequence[str]]) -> list[int]:
    """Return the columns that have figures in most of the first rows."""
    sample = rows[:_SAMPLED_ROWS]
    return [
        at
        for at in range(width)
        if sum(1 for row in sample if at < len(row) and _is_number_text(row[at])) * 2 > len(sample)
    ]


def has_no_labels(first: Sequence[str], rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row has figures, other than years, in most columns with figures."""
    figures = _number_columns(len(first), rows)
    unnamed = [first[at] for at in figures if _is_number_text(first[at]) and not _YEAR.fullmatch(first[at])]
    return len(unnamed) * 2 > len(figures) and not _are_counted(unnamed)


def _are_counted(labels: Sequence[str]) -> bool:
    """Return whether labels are numbers at equal distances, such as the days of a month."""
    numbers = [number for label in labels if (number := read_plain_number(label)) is not None]
    steps = {round(after - before, 6) for before, after in pairwise(numbers)}
    return len(numbers) == len(labels) > 2 and len(steps) == 1 and steps != {0}


def _is_number_text(text: str) -> bool:
    return read_plain_number(text) is not None or read_number(text) is not None or read_date(text) is not None
