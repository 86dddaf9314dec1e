"""Reads which computation over a table a message asks for, if every word of it is recognized.

The words are in the table `totals.toml`. A word is recognized if it is a label or a cell of the table, a word of the
table's name or headings, or a plain word such as "did". A message with any other word is not computed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from turnmark.assistant.wording.phrases import fold
from turnmark.corpora.tables.cell_dates import read_date
from turnmark.corpora.text.languages import UNSPACED_LANGUAGES
from turnmark.retrieval.tables.sql_names import TOTAL_COLUMN, quote_if_needed
from turnmark.retrieval.tables.table_records import MAX_WHOLE_ROWS, StoredTable, TableColumn
from turnmark.retrieval.tables.table_store import TableStore

KINDS = ("highest", "lowest", "average", "count", "sum", "list")
"""What may be computed. The first kind whose words a message has is meant."""
MAX_TABLES = 200
"""Maximum tables that are compared with a message."""
MAX_NAMING_WORDS = 8
"""Maximum words of a message that may name columns, cells and the table. With more, no cells are compared."""
MAX_SHOWN_KEYS = 3
"""Maximum columns that are shown next to the highest or lowest number if the message names none."""
MAX_TIED_ROWS = 5
"""Number of rows that are shown of the highest or lowest, so that a tie is seen."""
_DATA_FILES = frozenset((".csv", ".tsv", ".xlsx", ".xls", ".ods", ".parquet", ".json", ".jsonl"))
_IDENTIFIER = re.compile(r"\b(?:id|no|nr|number|nummer|code|rank|year|jahr|zip|plz|pos)\b|#|№", re.IGNORECASE)
"""The label of a column whose numbers are names, which are added up only if the message names the column."""
_ENDING = re.compile(r"(?:ies|es|s|en|n|e|y)$")
_IN_BRACKETS = re.compile(r"\(.*?\)|\[.*?\]")
_DATES = re.compile(r"(?:[^\W\d_]{3,15} )?(?:19|20)\d\d\b(?:-\d\d)?")


class TotalQuestion(NamedTuple):
    """A computation that a message asks for.

    Attributes:
        kind: one of `KINDS`.
        number: the column to compute with; None for a count, for a list, or if one of `choices` may be meant.
        keys: the columns whose values are counted, or shown next to the highest or lowest number.
        tests: condition in SQL -> how the reply states it.
        noun: how the message calls what is counted.
        grouped: whether the numbers are added up for each value of the key first.
    """

    language: str
    kind: str
    table: StoredTable
    tests: Mapping[str, str]
    noun: str
    number: TableColumn | None = None
    keys: tuple[TableColumn, ...] = ()
    choices: tuple[TableColumn, ...] = ()
    grouped: bool = False

    @property
    def statement(self) -> str:
        """The SELECT that computes it."""
        keys = ", ".join(quote_if_needed(each.name) for each in self.keys)
        number = quote_if_needed(self.number.name) if self.number else ""
        rest = f"FROM {self.table.name} WHERE {' AND '.join([*self.tests, f'{TOTAL_COLUMN} = 0'])}"
        order = f"{'DESC ' if self.kind == 'highest' else ''}LIMIT {MAX_TIED_ROWS}"
        if self.grouped:
            return f"SELECT sum({number}) AS sum, {keys} {rest} GROUP BY {keys} ORDER BY 1 {order}"
        if self.kind in ("highest", "lowest"):
            chosen = ", ".join(filter(None, (number, keys)))
            return f"SELECT {chosen} {rest} AND {number} IS NOT NULL ORDER BY {number} {order}"
        columns = (quote_if_needed(each.text_name or each.name) for each in self.table.columns)
        chosen = {
            "list": ", ".join(columns),
            "count": f"count({f'DISTINCT {keys}' if keys else '*'}) AS number",
            "sum": f"sum({number}) AS sum",
            "average": f"avg({number}) AS average",
        }[self.kind]
        return f"SELECT {chosen} {rest}"


def _quote(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@cache
def total_words() -> Mapping[str, Mapping[str, Any]]:
    """Return language -> its words, as `totals.toml` has them."""
    return tomllib.loads(Path(__file__).with_name("totals.toml").read_text("utf-8"))


@cache
def _pattern(language: str, alternatives: str) -> re.Pattern[str]:
    return re.compile(alternatives if language in UNSPACED_LANGUAGES else rf"(?<!\w)(?:{alternatives})(?!\w)")


def asks_to_compute(text: str, fields: Sequence[str] = (*KINDS[:-1], "other", "overall")) -> bool:
    """Return whether a text has words that ask to compute over a table, in any language of `totals.toml`."""
    folded = fold(text)
    return any(
        _pattern(language, words[field]).search(folded) for language, words in total_words().items() for field in fields
    )


def read_total(message: str, language: str, store: TableStore, column: str = "") -> TotalQuestion | None:
    """Return what a message asks to compute, or None if it is not clear beyond doubt.

    Args:
        column: label of the column that is meant, if the message does not say it.
    """
    if language not in total_words() or not asks_to_compute(message, (*KINDS, "overall")):
        return None
    tables = [table for table in store.tables() if table.rows > MAX_WHOLE_ROWS or _is_data_file(table)]
    tables = [table for table in tables if _place(table).name.lower() in message.lower()] or tables
    read = (_TotalReader(message, language, table, store).question(column) for table in tables[:MAX_TABLES])
    questions = [question for question in read if question]
    return questions[0] if len(questions) == 1 else None


def _is_data_file(table: StoredTable) -> bool:
    return _place(table).suffix.lower() in _DATA_FILES


def _place(table: StoredTable) -> PurePosixPath:
    return PurePosixPath(table.path or table.document)


class _TotalReader:
    """Takes the words of a message one by one, by what they are in one table."""

    def __init__(self, message: str, language: str, table: StoredTable, store: TableStore) -> None:
        self.message, self.language, self.table, self.store = message, language, table, store
        self.words = total_words()[language]
        self.rest = fold(message.replace(_place(table).name, " "))
        self.groups: set[str] = set()

    def _take(self, alternatives: str) -> str:
        """Remove what a pattern finds from the rest of the message, and return the first of it."""
        pattern = _pattern(self.language, alternatives)
        found = list(pattern.finditer(self.rest))
        self.rest = pattern.sub(" | ", self.rest)
        self.groups |= {name for match in found for name, text in match.groupdict().items() if text}
        return found[0].group() if found else ""

    def question(self, column: str) -> TotalQuestion | None:
        """Return what is asked for, or None unless every word is recognized."""
        tests, overall = self._dates(), self._take(self.words["overall"])
        taken = [kind for kind in KINDS[:-1] if self._take(self.words[kind])]
        kind = taken[0] if taken else "sum" if overall else "list" if self._take(self.words["list"]) else ""
        if not kind or len(_pattern(self.language, self.words["plain"]).sub("", self.rest).split()) > MAX_NAMING_WORDS:
            return None
        named, cells = self._named()
        table = self.table
        of_table = fold(" ".join((table.title, _place(table).stem, table.sheet, table.section, table.caption))).split()
        noun = next(filter(None, [self._take(self._forms(word)) for word in of_table if len(word) > 1]), "")
        self._take(self.words["plain"])
        if self.rest.strip(" |") or named is None or not (named or cells or noun):
            return None
        for each, values in cells.items():
            tests[f"{quote_if_needed(each.name)} IN ({', '.join(map(_quote, values))})"] = f"{each.label}: {values[0]}"
        keys = [each for each in named if each not in cells]
        return self._with_columns(TotalQuestion(self.language, kind, table, tests, noun), keys, column)

    def _dates(self) -> dict[str, str]:
        """Return the condition for a year or month of the message, if the table has one column of dates."""
        columns = [each for each in self.table.columns if each.type == "date"]
        for shown in _DATES.findall(self.message) if len(columns) == 1 else ():
            day = read_date(shown)
            start = day.day_first if day and day.day_first else shown[-4:]
            self.rest = self.rest.replace(fold(shown if day else start), " | ", 1)
            return {f"{quote_if_needed(columns[0].name)} LIKE {_quote(f'{start}%')}": f"{columns[0].label}: {start}"}
        return {}

    def _named(self) -> tuple[list[TableColumn] | None, dict[TableColumn, list[str]]]:
        """Return the columns and cells that the rest of the message names, longest first; (None, …) if unclear."""
        names: dict[str, list[tuple[TableColumn, str]]] = {}
        for column in self.table.columns:
            for label in {fold(column.label), fold(_IN_BRACKETS.sub("", column.label))}:
                names.setdefault(label, []).append((column, ""))
        for column, cell in self.store.cells_within(self.table, self.message):
            names.setdefault(fold(cell), []).append((column, cell))
        named: list[TableColumn] = []
        cells: dict[TableColumn, list[str]] = {}
        for name in sorted(filter(None, names), key=len, reverse=True):
            if self._take(self._forms(name)):
                labels = [each for each in names[name] if not each[1]]
                found = {column for column, _ in labels or names[name]}
                if len(found) != 1 or (not labels and found & cells.keys()):
                    return None, {}
                named += [column for column, _ in labels]
                for column, cell in names[name] if not labels else ():
                    cells.setdefault(column, []).append(cell)
        return named, cells

    def _forms(self, name: str) -> str:
        """Return a pattern for a name, whose words may have another ending of the plural."""
        if self.language in UNSPACED_LANGUAGES:
            return re.escape(name)
        forms = (
            re.escape(_ENDING.sub("", word)) + "(?:ies|es|s|en|n|e|y)?" if len(word) > 3 and word.isalpha() else word
            for word in name.split()
        )
        return " ".join(forms)

    def _with_columns(self, asked: TotalQuestion, named: Sequence[TableColumn], chosen: str) -> TotalQuestion | None:
        """Return the question with its columns; None if it names too many, or none that fits."""
        numbers = [column for column in named if column.type in ("integer", "real")]
        if len(numbers) > 1:  # "which year has the highest rate"
            numbers = [column for column in numbers if not _IDENTIFIER.search(column.label)]
        keys = tuple(column for column in named if column not in numbers)
        if len(numbers) > 1 or len(keys) > 1:
            return None
        if asked.kind == "list":
            return asked if asked.tests else None
        counts_rows = bool(self.groups & {"rows", "often"})
        if asked.kind == "count" and (counts_rows or not numbers):
            is_clear = not named if counts_rows else bool(keys or asked.noun)
            return asked._replace(keys=keys, noun=keys[0].label if keys else asked.noun) if is_clear else None
        if asked.kind in ("highest", "lowest"):
            repeats = bool(keys) and self._repeats(keys[0])
            if repeats and numbers and "most" in self.groups:  # "the most points": in one row, or added up?
                return None
            texts = (column for column in self.table.columns if column.type in ("text", "date"))
            asked = asked._replace(keys=keys or tuple(texts)[:MAX_SHOWN_KEYS], grouped=repeats and not numbers)
        elif keys:
            return None
        numbers = numbers or [
            column for column in self.table.columns if _adds_up(column) and chosen in ("", column.label)
        ]
        kind = "sum" if asked.kind == "count" else asked.kind
        if len(numbers) > 1:
            return asked._replace(kind=kind, choices=tuple(numbers))
        return asked._replace(kind=kind, number=numbers[0]) if numbers else None

    def _repeats(self, column: TableColumn) -> bool:
        """Return whether two rows have the same value in a column."""
        name = quote_if_needed(column.name)
        result = self.store.run(
            f"SELECT count(DISTINCT {name}) < count(*) FROM {self.table.name} WHERE {TOTAL_COLUMN} = 0"
        )
        return bool(result.rows[0][0])


def _adds_up(column: TableColumn) -> bool:
    return column.type in ("integer", "real") and not _IDENTIFIER.search(column.label)
