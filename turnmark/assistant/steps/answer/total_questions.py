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
from turnmark.corpora.text.function_words import function_words_of
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
MAX_MESSAGES = 4
"""Maximum messages of the user that a question may continue over."""
MAX_TIED_ROWS = 5
"""Number of rows that are shown of the highest or lowest, so that a tie is seen."""
_DATA_FILES = frozenset((".csv", ".tsv", ".xlsx", ".xls", ".ods", ".parquet", ".json", ".jsonl"))
_IDENTIFIER = re.compile(r"\b(?:id|no|nr|number|nummer|code|rank|year|jahr|zip|plz|pos)\b|#|№", re.IGNORECASE)
"""The label of a column whose numbers are names, which are added up only if the message names the column."""
_NUMBERS = ("integer", "real")
_ENDING = re.compile(r"(?:ies|es|s|en|n|e|y)$")
_IN_BRACKETS = re.compile(r"\(.*?\)|\[.*?\]")
_DATES = re.compile(r"(?:[^\W\d_]{3,15} )?(?:19|20)\d\d\b(?:-\d\d)?")


class TotalQuestion(NamedTuple):
    """A computation that a message asks for.

    Attributes:
        kind: one of `KINDS`.
        number: the column to compute with; None for a count, for a list, or if one of `choices` may be meant.
        keys: the columns whose values are counted, or shown next to the highest or lowest number.
        tests: column -> the condition in SQL, and how the reply states it.
        noun: how the message calls what is counted.
        grouped: whether the numbers are added up for each value of the key first.
    """

    language: str
    kind: str
    table: StoredTable
    tests: Mapping[TableColumn, tuple[str, str]]
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
        tests = [test for test, _ in self.tests.values()]
        rest = f"FROM {self.table.name} WHERE {' AND '.join([*tests, f'{TOTAL_COLUMN} = 0'])}"
        if self.kind in ("highest", "lowest"):
            chosen = ", ".join(filter(None, (f"sum({number}) AS sum" if self.grouped else number, keys)))
            group = f" GROUP BY {keys}" if self.grouped else ""
            order = f"ORDER BY 1 {'DESC ' if self.kind == 'highest' else ''}LIMIT {MAX_TIED_ROWS}"
            return f"SELECT {chosen} {rest} AND {number} IS NOT NULL{group} {order}"
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


def read_total(messages: Sequence[str], language: str, store: TableStore) -> TotalQuestion | None:
    """Return what the last message asks to compute, or None if it is not clear beyond doubt.

    A message that has only another value, a date or the column that was asked for continues the question before it.
    """
    question = None
    for message in messages[-MAX_MESSAGES:] if language in total_words() else ():
        before, question = question, None
        if asks_to_compute(message, (*KINDS, "overall")):
            tables = [
                each for each in store.tables() if each.rows > MAX_WHOLE_ROWS or _place(each).suffix in _DATA_FILES
            ]
            tables = [each for each in tables if _place(each).name in message.lower()] or tables
            read = (_TotalReader(message, language, each, store).question() for each in tables[:MAX_TABLES])
            questions = [each for each in read if each]
            question = questions[0] if len(questions) == 1 else None
        elif before:
            question = _TotalReader(message, language, before.table, store).continued(before)
    return question


def _place(table: StoredTable) -> PurePosixPath:
    return PurePosixPath((table.path or table.document).lower())


class _TotalReader:
    """Takes the words of a message one by one, by what they are in one table."""

    def __init__(self, message: str, language: str, table: StoredTable, store: TableStore) -> None:
        self.message, self.language, self.table, self.store = message, language, table, store
        self.words = total_words()[language]
        self.rest = fold(message.lower().replace(_place(table).name, " "))
        self.groups: set[str] = set()

    def _take(self, alternatives: str) -> str:
        """Remove what a pattern finds from the rest of the message, and return the first of it."""
        pattern = _pattern(self.language, alternatives)
        found = list(pattern.finditer(self.rest))
        self.rest = pattern.sub(" | ", self.rest)
        self.groups |= {name for match in found for name, text in match.groupdict().items() if text}
        return found[0].group() if found else ""

    def question(self) -> TotalQuestion | None:
        """Return what is asked for, or None unless every word is recognized."""
        tests, overall = self._dates(), self._take(self.words["overall"])
        taken = [kind for kind in KINDS[:-1] if self._take(self.words[kind])]
        kind = taken[0] if taken else "sum" if overall else "list" if self._take(self.words["list"]) else ""
        read = self._read_rest() if kind else None
        if not read or not any(read):
            return None
        named, cells, noun = read
        counted = rf"(?:{self.words['count']}) ?{re.escape(noun)}"
        if noun and kind == "count" and _pattern(self.language, counted).search(fold(self.message)):
            self.groups.add("noun")
            if named and not overall:  # "how many murders in all states" does not count the states
                return None
            named = [column for column in named if column.type in _NUMBERS]
        return self._with_columns(TotalQuestion(self.language, kind, self.table, tests | cells, noun), named)

    def continued(self, before: TotalQuestion) -> TotalQuestion | None:
        """Return an earlier question with the other value, date or column that this message has, or None."""
        self._take(self.words["follow"])
        tests, read = self._dates(), self._read_rest()
        if not read or (not before.choices and read[0]) or not any((tests, *read)):
            return None
        chosen = [column for column in before.choices if column in read[0]]
        question = before._replace(tests={**before.tests, **tests, **read[1]})
        return question._replace(number=chosen[0], choices=()) if len(chosen) == 1 else question

    def _read_rest(self) -> tuple[list[TableColumn], dict[TableColumn, tuple[str, str]], str] | None:
        """Return the columns, the values and the word of the table's name in the rest; None if it has other words."""
        if len(_pattern(self.language, self.words["plain"]).sub("", self.rest).split()) > MAX_NAMING_WORDS:
            return None
        named, cells = self._named()
        table = self.table
        of_table = fold(" ".join((table.title, _place(table).stem, table.sheet, table.section, table.caption))).split()
        noun = next(filter(None, [self._take(self._forms(word)) for word in of_table if len(word) > 1]), "")
        self._take(self.words["plain"])
        if self.rest.strip(" |") or named is None:
            return None
        tests = {
            each: (f"{quote_if_needed(each.name)} IN ({', '.join(map(_quote, values))})", f"{each.label}: {values[0]}")
            for each, values in cells.items()
        }
        return [each for each in named if each not in cells], tests, noun

    def _dates(self) -> dict[TableColumn, tuple[str, str]]:
        """Return the condition for a year or month of the message, if the table has one column of dates."""
        columns = [each for each in self.table.columns if each.type == "date"]
        for shown in _DATES.findall(self.message) if len(columns) == 1 else ():
            day = read_date(shown)
            start = day.day_first if day and day.day_first else shown[-4:]
            self.rest = self.rest.replace(fold(shown if day else start), " | ", 1)
            test = f"{quote_if_needed(columns[0].name)} LIKE {_quote(f'{start}%')}"
            return {columns[0]: (test, f"{columns[0].label}: {start}")}
        return {}

    def _named(self) -> tuple[list[TableColumn] | None, dict[TableColumn, list[str]]]:
        """Return the columns and cells that the rest of the message names, longest first; (None, …) if unclear."""
        names: dict[str, list[tuple[TableColumn, str]]] = {}
        for column in self.table.columns:
            for label in {fold(column.label), fold(_IN_BRACKETS.sub("", column.label))}:
                names.setdefault(label, []).append((column, ""))
        for column, cell in self.store.cells_within(self.table, self.message):
            is_word = fold(cell) in function_words_of(self.language)
            if (
                not is_word
                or (cell.isupper() and cell in re.findall(r"\w+", self.message))
                or f'"{cell}"' in self.message
            ):
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

    def _with_columns(self, asked: TotalQuestion, named: Sequence[TableColumn]) -> TotalQuestion | None:
        """Return the question with its columns; None if it names too many, or none that fits."""
        numbers = [column for column in named if column.type in _NUMBERS]
        if len(numbers) > 1:  # "which year has the highest rate"
            numbers = [column for column in numbers if not _IDENTIFIER.search(column.label)]
        keys = tuple(column for column in named if column not in numbers)
        dates = [column for column in self.table.columns if column.type == "date"]
        if len(numbers) > 1 or len(keys) > 1:
            return None
        if "days" in self.groups and (len(dates) != 1 or self._repeats(dates[0])):  # a row has to be a day
            return None
        if asked.kind == "list":
            return asked if asked.tests else None
        counts_rows = bool(self.groups & {"rows", "often", "days"})
        if not numbers and asked.noun and not counts_rows and (asked.kind != "count" or "noun" in self.groups):
            numbers = self._totals()
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
        numeric = (column for column in self.table.columns if column.type in _NUMBERS)
        numbers = numbers or [column for column in numeric if not _IDENTIFIER.search(column.label)]
        kind = "sum" if asked.kind == "count" else asked.kind
        if len(numbers) > 1:
            return asked._replace(kind=kind, choices=tuple(numbers))
        return asked._replace(kind=kind, number=numbers[0]) if numbers else None

    def _totals(self) -> list[TableColumn]:
        """Return the columns "total" of a table that has the number of its subject per row, as in murders by state.

        Each row of a table with dates or identifiers may itself be what its name says, such as an order.
        """
        columns = self.table.columns
        texts = [column for column in columns if column.type == "text"]
        if not texts or any(each.type == "date" or _IDENTIFIER.search(each.label) for each in columns):
            return []
        patterns = [_pattern(language, words["sum"]) for language, words in total_words().items()]
        whole = [each for each in columns if each.type == "integer" and not each.unit]
        totals = [each for each in whole if any(pattern.fullmatch(fold(each.label)) for pattern in patterns)]
        return [] if totals and self._repeats(texts[0]) else totals

    def _repeats(self, column: TableColumn) -> bool:
        """Return whether two rows have the same value in a column."""
        name = quote_if_needed(column.name)
        result = self.store.run(
            f"SELECT count(DISTINCT {name}) < count(*) FROM {self.table.name} WHERE {TOTAL_COLUMN} = 0"
        )
        return bool(result.rows[0][0])
