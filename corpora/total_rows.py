"""Finds the rows of a table that repeat others: totals, subtotals and averages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from turnmark.corpora.column_types import CellValue

MIN_SUMMED_ROWS = 2
"""Minimum number of rows above a row that is recognized as their sum."""
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
    """A search for totals that is shown the rows of a table one by one.

    Args:
        is_numeric: for each column, whether it has numbers that may be summed.
    """

    def __init__(self, is_numeric: Sequence[bool]) -> None:
        self._numeric = [at for at, each in enumerate(is_numeric) if each]
        self._text = [at for at, each in enumerate(is_numeric) if not each]
        self._all, self._group = _Sums(), _Sums()

    def is_total(self, cells: Sequence[str], values: Sequence[CellValue]) -> bool:
        """Return whether the next row repeats the rows above it."""
        numbers = {at: value for at in self._numeric if isinstance(value := values[at], int | float)}
        labels = [cells[at].strip(" :*_") for at in self._text if at < len(cells) and cells[at].strip()]
        if self._is_total(labels, numbers):
            self._group = _Sums()
            return True
        self._all.add(numbers)
        self._group.add(numbers)
        return False

    def _is_total(self, labels: Sequence[str], numbers: dict[int, int | float]) -> bool:
        if not numbers:
            return False
        if labels and _TOTAL.fullmatch(labels[0]):
            return True
        if len(labels) == 1 and _TOTAL_OF.fullmatch(labels[0]):
            # "Total War" and "Total SA" are names. Such a label counts only if the numbers are sums.
            return any(sums.are(numbers, at_least=1) for sums in (self._group, self._all))
        is_bare = not labels and bool(self._text)
        return is_bare and any(sums.are(numbers, at_least=1) for sums in (self._group, self._all))


class _Sums:
    """The sums of some rows by column."""

    def __init__(self) -> None:
        self.rows = 0
        self.sums: dict[int, float] = {}

    def add(self, numbers: dict[int, int | float]) -> None:
        self.rows += 1
        for at, number in numbers.items():
            self.sums[at] = self.sums.get(at, 0.0) + number

    def are(self, numbers: dict[int, int | float], at_least: int) -> bool:
        """Return whether all numbers are the sums of their columns, and at least some of them are not 0."""
        if self.rows < MIN_SUMMED_ROWS:
            return False
        filled = {at: number for at, number in numbers.items() if number}
        equal = [
            at for at, number in filled.items() if abs(self.sums.get(at, 0.0) - number) <= _TOLERANCE * abs(number)
        ]
        return len(equal) >= at_least and len(equal) == len(filled)
