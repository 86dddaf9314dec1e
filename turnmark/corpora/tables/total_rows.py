"""Finds the rows of a table that are not records: totals, subtotals and averages.

Sums decide first, then the place of a row in the table, then its label. `total_rows.toml` has the words of all
languages that name a total.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import prod
from typing import Literal

from turnmark.corpora.text.word_lists import read_word_lists

TotalLabel = Literal["", "average", "possible", "likely", "certain"]

_WORDS = read_word_lists(__file__)
MAX_LENGTH = 80
"""Characters of the longest label that may name a total."""
_TOKEN = re.compile(r"[^\W_]+|∑")
_SCRIPT_WITHOUT_SPACES = re.compile(r"[\u0e00-\u0e7f\u3040-\u9fff]")
_UNIT = re.compile(r"\((?:in )?(?:[A-Z]{3}|[^\w\s]{1,2})\)")


def _pattern(words: Iterable[str]) -> str:
    """Return a pattern for words. In scripts without spaces they are the end of a label, or stand apart."""
    forms = []
    for word in map(_plain, words):
        form = re.escape(word).replace("_", "[ -]?")
        forms.append(rf"{form}\Z|\A{form}(?= )" if _SCRIPT_WITHOUT_SPACES.search(word) else rf"(?<!\w){form}(?!\w)")
    return "|".join(forms)


def _plain(label: str) -> str:
    """Return a label in lower case, without accents, marks around it, a unit and the spaces of "T O T A L"."""
    text = (_UNIT.sub("", label) if "(" in label else label).casefold()
    if not text.isascii():
        text = re.sub("[\u0300-\u036f]", "", unicodedata.normalize("NFKD", text).replace("״", '"'))
    text = " ".join(text.strip(" :=*_.–—-\t").split())
    return text.replace(" ", "") if re.fullmatch(r"\w(?: \w){3,}", text) else text


_LIKELY_WORD = re.compile(_pattern(_WORDS["likely"]))
_ALONE = _pattern(_WORDS["likely"] | _WORDS["alone"] | _WORDS["average"])
_WORD_ALONE = re.compile(f"(?:grand |over-?all |net |final |sum )?(?:{_ALONE})")
_AVERAGE_WORD = re.compile(_pattern(_WORDS["average"]))
_POSSIBLE_WORD = re.compile(rf"{_pattern(_WORDS['alone'] | _WORDS['possible'])}|\w{{3,}}summ[ae]\b")
_TOKENS = frozenset(_TOKEN.findall(_plain(" ".join(frozenset[str]().union(*_WORDS.values())))))
"""All words of the patterns, which are slow."""


@lru_cache(maxsize=50_000)
def total_label(label: str) -> TotalLabel:
    """Return how surely a label names a total or average."""
    if len(label) > MAX_LENGTH or label.isdigit():
        return ""
    text = _plain(label)
    is_known = any(word in _TOKENS or word.endswith(("summe", "summa")) for word in _TOKEN.findall(text))
    if not is_known and not _SCRIPT_WITHOUT_SPACES.search(text):
        return ""
    if _WORD_ALONE.fullmatch(text):
        return "certain"
    if _LIKELY_WORD.search(text):
        return "likely"
    return "average" if _AVERAGE_WORD.search(text) else "possible" if _POSSIBLE_WORD.search(text) else ""


Amounts = Mapping[tuple[int, str], int | float]
"""The numbers of a row that may be summed, by column and unit."""

MIN_SUMMED_ROWS = 2
"""Minimum number of rows above a row that is recognized as their sum."""
MIN_SUMMED_SHARE = 0.5
"""Minimum share of the numbers that are sums in a row whose label names a total. The others may be percentages."""
MIN_UNNAMED_SUM = 100
"""Minimum product of the numbers of a sum with an unknown label. Smaller numbers are often sums of others by chance."""
MAX_NESTED_ROWS = 5_000
"""Maximum rows of a table in which totals are sought that stand above their rows, or that no label names."""
_TOLERANCE = 1e-6
_ROUNDING_TOLERANCE = 2e-3


class TotalRows:
    """A search for totals in a table, whose rows are passed to it one by one.

    Args:
        is_numeric: for each column, whether it has numbers that may be summed.
    """

    def __init__(self, is_numeric: Sequence[bool]) -> None:
        self._is_numeric = is_numeric
        self._all, self._group = _Sums(), _Sums()
        self._min_rows = MIN_SUMMED_ROWS
        """Minimum number of rows above a sum; one after the first total of the table, which may have groups of one."""

    def is_total(self, cells: Sequence[str], amounts: Amounts) -> bool:
        """Return whether the next row summarizes rows above it, as a total, subtotal or average does."""
        summed = {column for column, _ in amounts}
        labels = {
            at: cell
            for at, (cell, is_numeric) in enumerate(zip(cells, self._is_numeric, strict=False))
            # "Total" may be in a column of years.
            if at not in summed and cell.strip(" :*_") and (not is_numeric or total_label(cell))
        }
        if amounts and self._is_total(labels, amounts):
            self._min_rows = 1
            self.start_group()
            return True
        self._all.add(amounts, labels.keys())
        self._group.add(amounts, labels.keys())
        return False

    def start_group(self) -> None:
        """Begin another part of the table, which may end with a total of its own."""
        self._group = _Sums()

    def _is_total(self, labels: Mapping[int, str], amounts: Amounts) -> bool:
        named = [total_label(label) for label in labels.values()]
        every = (self._group, self._all)
        if (named and named[0] == "certain") or ("likely" in named and self._all.lack_text(labels)):
            return True
        # "Total War" and "Total SA" are names. Such a label counts only if the numbers are sums.
        is_average = "average" in named
        min_rows = self._min_rows - self._all.lack_text(labels)
        if any(named) and any(sums.match_named(amounts, max(min_rows, 1), is_average) for sums in every):
            return True
        is_small = prod(map(abs, amounts.values())) < MIN_UNNAMED_SUM and self._min_rows > 1
        if all(self._is_numeric) or (labels and is_small):
            return False
        # Whatever its label, a sum lacks a text that all rows above have, e.g. "All of North" the name of a seller.
        return any(sums.lack_text(labels) and sums.match(amounts, self._min_rows) for sums in every)


class _Sums:
    """The sums of some rows by column and unit, and the columns of text that are filled in all of them."""

    def __init__(self) -> None:
        self.rows = 0
        self.labels: set[int] = set()
        self._sums: dict[tuple[int, str], float] = {}
        self._counts: Counter[tuple[int, str]] = Counter()

    def add(self, amounts: Amounts, labels: Iterable[int]) -> None:
        self.labels = self.labels & {*labels} if self.rows else {*labels}
        self.rows += 1
        for (column, unit), number in amounts.items():
            for key in ((column, unit), (column, _ANY))[: 1 + bool(unit)]:
                self._sums[key] = self._sums.get(key, 0.0) + number
                self._counts[key] += 1

    def lack_text(self, labels: Mapping[int, str]) -> bool:
        """Return whether the labels of a row lack a text that all rows have."""
        return not self.labels <= labels.keys()

    def match(self, amounts: Amounts, min_rows: int) -> bool:
        """Return whether all numbers that are not 0 are the sums of their columns."""
        filled = {key: number for key, number in amounts.items() if number}
        is_sum = (self._is_sum(key, number, _TOLERANCE) for key, number in filled.items())
        return self.rows >= min_rows and bool(filled) and all(is_sum)

    def match_named(self, amounts: Amounts, min_rows: int, is_average: bool) -> bool:
        """Return whether the numbers of a row whose label names a total or average are rounded sums or averages.

        The other numbers may be percentages.
        """
        if self.rows < min_rows:
            return False
        filled = {key: number for key, number in amounts.items() if number}
        equal = [key for key, number in filled.items() if self._is_sum(key, number, _ROUNDING_TOLERANCE, is_average)]
        return bool(equal) and len(equal) >= MIN_SUMMED_SHARE * len(filled)

    def _is_sum(self, key: tuple[int, str], number: float, tolerance: float, is_average: bool = False) -> bool:
        """Return whether a number is the sum (or average) of its column, in its own unit or in all units."""
        keys = (key, (key[0], _ANY))[: 1 + bool(key[1])]
        totals = (self._sums.get(each, 0.0) / (self._counts[each] or 1 if is_average else 1) for each in keys)
        return any(abs(total - number) <= tolerance * abs(number) for total in totals)


_ANY = "\0"
"""Key of the sums of a column over all units."""


def nested_totals(rows: Sequence[Amounts], known: set[int]) -> set[int]:
    """Return the rows of a whole table that are sums by their place, whatever their labels.

    These are a first or last row that is the sum of all others, and rows that are the sums of the rows below (or above)
    them up to the next such row, in a table whose last row is the sum of all.

    Args:
        known: positions of rows that are known to be totals.
    """
    last = max((at for at, amounts in enumerate(rows) if amounts), default=-1)
    others = [at for at in range(last) if at not in known]
    if len(others) <= MIN_SUMMED_ROWS:
        return set()
    counted = _times_counted([rows[at] for at in others], rows[last])
    if counted == 1:
        return {last} if _is_no_chance(rows[last]) else set()
    if counted == 2:
        for order in (others, others[::-1]):
            if heads := _heads([rows[at] for at in order], rows[last]):
                return {last, *(order[at] for at in heads)}
    first, *below = [*others, last]
    if last in known:
        below.pop()
    is_sum = _times_counted([rows[at] for at in below], rows[first]) == 1
    return {first} if is_sum and _is_no_chance(rows[first]) else set()


def _times_counted(rows: Sequence[Amounts], total: Amounts) -> int:
    """Return by which whole number a total must be multiplied to be the sum of some rows; 0 if there is none."""
    filled = {key: number for key, number in total.items() if number}
    sums = [sum(row.get(key, 0) for row in rows) / number for key, number in filled.items()]
    times = round(sums[0]) if sums else 0
    return times if all(abs(each - times) <= _TOLERANCE * times for each in sums) else 0


def _is_no_chance(amounts: Amounts) -> bool:
    """Return whether numbers are hardly sums by chance: they are several, or one that is not round."""
    numbers = [abs(number) for number in amounts.values() if number]
    return prod(numbers) >= MIN_UNNAMED_SUM and (len(numbers) > 1 or numbers[0] % 10 != 0)


def _heads(rows: Sequence[Amounts], total: Amounts) -> list[int]:
    """Return the rows that are each the sum of the rows up to the next of them; empty if rows are left over."""
    keys = [key for key, number in total.items() if number]
    numbers = [[row.get(key, 0) for key in keys] for row in rows]
    heads: list[int] = []
    at = 0
    while at < len(rows):
        rest = numbers[at]
        if any(rest):
            heads.append(at)
            tolerances = [_TOLERANCE * max(abs(number), 1) for number in rest]
            is_open = True
            while is_open and at + 1 < len(rows):
                at += 1
                rest = [left - number for left, number in zip(rest, numbers[at], strict=True)]
                is_open = any(abs(left) > tolerance for left, tolerance in zip(rest, tolerances, strict=True))
            if is_open:
                return []
        at += 1
    return heads
