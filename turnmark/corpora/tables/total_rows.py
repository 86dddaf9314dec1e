"""Finds the rows of a table that are not records: totals, subtotals and averages."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from turnmark.corpora.tables.column_types import CellValue, is_blank

MIN_SUMMED_ROWS = 2
"""Minimum number of rows above a row that is recognized as their sum."""
MIN_SUMMED_SHARE = 0.5
"""Minimum share of the numbers that are sums in a row whose label names a total. The others may be percentages."""
MIN_UNNAMED_SUM = 100
"""Minimum largest number of a sum with an unknown label. Smaller numbers are often sums of others by chance."""
_TOLERANCE = 1e-6
_TOTAL = re.compile(
    r"(?:(?:grand|sub|over-?all|net|final)[ -]?)?totals?|sub-?totals?|sum|average|avg\.?|mean|median"
    r"|(?:gesamt|zwischen|teil|end)?-?summen?|gesamt(?:betrag|ergebnis|wert)?|insgesamt|total general|"
    r"durchschnitt|mittelwert|ø"
    r"|totaux|sous-?total|total g[ée]n[ée]ral|ensemble|moyenne|suma|razem|ogółem|średnia|promedio|media|totale|totali|"
    r"subtotale|somma|soma|total geral|totaal|subtotaal|gemiddelde|totalt|summa|sammanlagt|i alt|yhteensä|celkem|"
    r"součet|итого|всего|сумма|среднее|разом|усього|toplam|genel toplam|ortalama|συνολο|σύνολο|összesen"
    r"|総?合計|総計|小計|平均|总计|合计|总和|小计|總計|合計|合计数|합계|총계|소계|평균",
    re.IGNORECASE,
)
_TOTAL_OF = re.compile(
    r"(?:(?:grand |sub-?)?totals?|sum of|(?:zwischen|gesamt)?summe|gesamt|sous-total|suma|totale|totaal|итого|всего|"
    r"toplam)\b[ :]+.{1,60}|.{1,60}[ :](?:sub-?)?totals?|.{1,60} (?:gesamt|insgesamt|合計|小計|合计|小计)",
    re.IGNORECASE,
)


class TotalRows:
    """A search for totals in a table, whose rows are passed to it one by one.

    Args:
        is_numeric: for each column, whether it has numbers that may be summed.
    """

    def __init__(self, is_numeric: Sequence[bool]) -> None:
        self._is_numeric = is_numeric
        self._numeric = [at for at, each in enumerate(is_numeric) if each]
        self._has_text = len(self._numeric) < len(is_numeric)
        self._all, self._group = _Sums(), _Sums()

    def is_total(self, cells: Sequence[str], values: Sequence[CellValue]) -> bool:
        """Return whether the next row summarizes rows above it, as a total, subtotal or average does."""
        numbers = {at: value for at in self._numeric if isinstance(value := values[at], int | float)}
        labels = [
            label
            for cell, value, is_numeric in zip(cells, values, self._is_numeric, strict=False)
            # "Total" may be in a column of years.
            if (label := cell.strip(" :*_")) and (not is_numeric or (value is None and not is_blank(cell)))
        ]
        if self._is_total(labels, numbers):
            self.start_group()
            return True
        self._all.add(numbers, len(labels))
        self._group.add(numbers, len(labels))
        return False

    def start_group(self) -> None:
        """Begin another part of the table, which may end with a total of its own."""
        self._group = _Sums()

    def _is_total(self, labels: Sequence[str], numbers: dict[int, int | float]) -> bool:
        if not numbers:
            return False
        if labels and _TOTAL.fullmatch(labels[0]):
            return True
        if labels and _TOTAL_OF.fullmatch(labels[0]):
            # "Total War" and "Total SA" are names. Such a label counts only if the numbers are sums.
            return any(sums.match(numbers, MIN_SUMMED_SHARE) for sums in (self._group, self._all))
        if not self._has_text or (labels and max(map(abs, numbers.values())) < MIN_UNNAMED_SUM):
            return False
        # Whatever its label, a sum lacks a text that the rows above have, e.g. "All of North" the name of a seller.
        every = (self._group, self._all)
        return any(len(labels) < sums.labels and sums.match(numbers, 1.0) for sums in every)


class _Sums:
    """The sums of some rows by column, and how many texts each row has at least."""

    def __init__(self) -> None:
        self.rows = 0
        self.labels = sys.maxsize
        self.sums: dict[int, float] = {}

    def add(self, numbers: dict[int, int | float], labels: int) -> None:
        self.rows += 1
        self.labels = min(self.labels, labels)
        for at, number in numbers.items():
            self.sums[at] = self.sums.get(at, 0.0) + number

    def match(self, numbers: dict[int, int | float], share: float) -> bool:
        """Return whether at least a share of the numbers that are not 0 are the sums of their columns."""
        if self.rows < MIN_SUMMED_ROWS:
            return False
        filled = {at: number for at, number in numbers.items() if number}
        equal = [
            at for at, number in filled.items() if abs(self.sums.get(at, 0.0) - number) <= _TOLERANCE * abs(number)
        ]
        return bool(equal) and len(equal) >= share * len(filled)
