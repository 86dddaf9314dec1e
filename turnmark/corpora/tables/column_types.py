"""Decides the type of each column of a table and reads the values of its cells.

A column is numeric, or consists of dates, if at least 80 percent of its filled cells are. The separator of decimals and
the order of day and month are decided for the column as a whole, from the cells that leave no choice. If there are
none, the other columns of the file decide, and for decimals also its language. If the other columns contradict each
other, a mark that always has three digits after it groups thousands. A column of dates whose order stays unknown is
text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

from turnmark.corpora.tables.cell_dates import CellDate, read_date
from turnmark.corpora.tables.cell_numbers import CellNumber, read_number, read_plain_number

ColumnKind = Literal["integer", "real", "date", "text"]
CellValue = int | float | str | None
"""The value of a cell: a number, an ISO date or text; None for an empty cell, or one that cannot be read."""

MIN_TYPED_SHARE = 0.8
"""Minimum share of the filled cells that are numbers (or dates) in a numeric column (or a column of dates)."""
MAX_MINORITY_SHARE = 0.1
"""Maximum share of cells with the other decimal separator.

If a column exceeds it, its ambiguous cells have no value. If a file exceeds it, its columns contradict each other.
"""
_BLANKS = frozenset({"", "k. A.", *"- – — − n/a N/A n.a. NA n/d N/D k.A. ? … ... . #N/A null NULL".split()})
"""Cells that show that there is no value."""
_SAMPLED_ROWS = 25
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_CODE_LABEL = re.compile(
    r"\b(?:plz|post(?:al ?)?codes?|postleitzahl|zip(?: ?codes?)?|code postal|c[oó]digo postal|postnummer|kod pocztowy|"
    r"phone|telephone|telefon|tel|fax|mobile|handy|isbn|issn|ean|gtin|upc|barcode|iban|bic|swift|vat id|ust-?id|"
    r"account (?:no|number)|kontonummer|sku)\b",
    re.IGNORECASE,
)
_VERSION_LABEL = re.compile(
    r"\b(?:versions?|releases?|firmware|section|chapter|kapitel|abschnitt|clause)\b", re.IGNORECASE
)
"""Labels of numbers such as 4.10, which is not 4.1."""
_COMMA_LANGUAGES = frozenset(
    "af bg ca cs da de el es et eu fi fr gl hr hu id is it lt lv nb nl nn no pl pt ro ru sk sl sq sr sv tr "
    "uk vi".split()
)
"""Languages that write decimals after a comma."""


def is_blank(text: str) -> bool:
    """Return whether a cell shows that there is no value: it is empty, "-", "n/a" or similar."""
    return text in _BLANKS


@dataclass(frozen=True)
class ColumnType:
    """The type of a column, and how its cells are read.

    Attributes:
        unit: unit of the numbers, as displayed; empty if there is none.
        comma: whether decimals follow a comma.
        day_first: whether the day comes before the month.
        skips_ambiguous: whether a cell that can be read in two ways has no value.
    """

    kind: ColumnKind
    unit: str = ""
    comma: bool = False
    day_first: bool = True
    skips_ambiguous: bool = False

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
        return round(number) if self.kind == "integer" and number is not None else number

    def _number(self, text: str) -> int | float | None:
        shown = read_number(text)
        if shown is None or (self.skips_ambiguous and shown.is_ambiguous):
            return None
        readings = (shown.comma, shown.point) if self.comma else (shown.point, shown.comma)
        return readings[0] if readings[0] is not None else readings[1]

    def _date(self, text: str) -> str | None:
        shown = read_date(text)
        if shown is None:
            return text if re.fullmatch(r"[12]\d{3}", text) else None
        return (shown.day_first if self.day_first else shown.month_first) or None


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
    days_first: int = 0
    months_first: int = 0
    either_first: int = 0

    def add(self, text: str, stored: str = "") -> None:
        """Count a cell."""
        if is_blank(text):
            return
        self.filled += 1
        number = read_plain_number(text)
        if number is not None:
            self.numbers += 1
            self.units[""] += 1
            self.years += isinstance(number, int) and 1000 <= number <= 2999
            if isinstance(number, float):
                self.points += 1
                self.fractions += 1
            else:
                self._add_whole(number)
            if stored:
                self._add_stored(stored)
            return
        date = read_date(stored or text)
        if date is not None:
            self._add_date(date)
            return
        shown = read_number(text)
        if shown is not None:
            self._add_number(shown)
            if stored:
                self._add_stored(stored)

    def _add_stored(self, stored: str) -> None:
        self.stored += 1
        self.fractions += "." in stored

    def _add_number(self, shown: CellNumber) -> None:
        self.numbers += 1
        self.codes += shown.is_code
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
            self._add_whole(shown.point)

    def _add_whole(self, number: int) -> None:
        self.hundreds += 100 <= abs(number) < 1000
        self.long_wholes += abs(number) >= 1000

    def _add_date(self, date: CellDate) -> None:
        self.dates += 1
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
        if self.dates and self.dates + self.years >= MIN_TYPED_SHARE * self.filled and self.dates >= self.years:
            day_first = self._day_first(file)
            return ColumnType("text") if day_first is None else ColumnType("date", day_first=day_first)
        units = +Counter({unit: count for unit, count in self.units.items() if unit})
        if (
            self.numbers < MIN_TYPED_SHARE * self.filled
            or self.codes
            or _CODE_LABEL.search(self.label)
            or len(units) > 1
        ):
            return ColumnType("text")
        comma = self._comma(file)
        if self.fractions and not self.stored and _VERSION_LABEL.search(self.label):
            return ColumnType("text")
        minority = min(self.points, self.commas)
        fractions = self.fractions
        if not self.stored:
            fractions += self.comma_fractions if comma else self.point_fractions
        return ColumnType(
            "real" if fractions else "integer",
            unit=next(iter(units), ""),
            comma=comma,
            skips_ambiguous=minority > MAX_MINORITY_SHARE * (self.points + self.commas),
        )

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
        if stored:
            for column, text, value in zip(columns, cells, stored, strict=False):
                column.add(text, value)
        else:
            for column, text in zip(columns, cells, strict=False):
                column.add(text)
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
