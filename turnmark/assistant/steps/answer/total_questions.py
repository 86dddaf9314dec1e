"""Reads which computation over a table a message asks for, if every word of it is recognized.

The words are in the table `totals.toml`. A word is recognized if it is a label or a cell of the table, a word of the
table's name or headings, or a plain word such as "did". A message with any other word is not computed.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
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
MAX_TIED_ROWS = 5
"""Number of rows that are shown of the highest or lowest, so that a tie is seen."""
_DATA_FILES = frozenset((".csv", ".tsv", ".xlsx", ".xls", ".ods", ".parquet", ".json", ".jsonl"))
_IDENTIFIER = re.compile(r"\b(?:id|no|nr|number|nummer|code|rank|year|jahr|zip|plz|pos)\b|#|№", re.IGNORECASE)
"""The label of a column whose numbers are names, which are added up only if the message names the column."""
_ENDING = re.compile(r"(?:ies|es|s|en|n|e|y)$")
_DATES = re.compile(r"[^\W\d_]{3,15} (?:19|20)\d\d|(?:19|20)\d\d(?:-\d\d)?")


class TotalQuestion(NamedTuple):
    """A computation that a message asks for.

    Attributes:
        kind: one of `KINDS`.
        number: the column to compute with; None for a count or a list.
        key: the column whose values are asked for or counted, or None.
        cells: column -> its cells that the rows have.
        date: column -> beginning of its dates.
        choices: the columns that may be meant, if it is not clear which; then `number` is None.
        noun: how the message calls what is counted.
        grouped: whether the numbers are added up for each value of the key first.
    """

    language: str
    kind: str
    table: StoredTable
    number: TableColumn | None = None
    key: TableColumn | None = None
    cells: Mapping[str, Sequence[str]] = {}
    date: Mapping[str, str] = {}
    choices: tuple[TableColumn, ...] = ()
    noun: str = ""
    grouped: bool = False

    @property
    def statement(self) -> str:
        """The SELECT that computes it."""
        key, number = (quote_if_needed(each.name) if each else "" for each in (self.key, self.number))
        tests = [f"{quote_if_needed(name)} IN ({', '.join(map(_quote, cells))})" for name, cells in self.cells.items()]
        tests += [f"{quote_if_needed(name)} LIKE {_quote(f'{start}%')}" for name, start in self.date.items()]
        rest = f"FROM {self.table.name} WHERE {' AND '.join([*tests, f'{TOTAL_COLUMN} = 0'])}"
        order = f"DESC LIMIT {MAX_TIED_ROWS}" if self.kind == "highest" else f"LIMIT {MAX_TIED_ROWS}"
        if self.kind == "list":
            names = (quote_if_needed(each.text_name or each.name) for each in self.table.columns)
            return f"SELECT {', '.join(names)} {rest}"
        if self.kind == "count":
            return f"SELECT count({f'DISTINCT {key}' if key else '*'}) AS number {rest}"
        if self.kind in ("sum", "average"):
            return f"SELECT {'sum' if self.kind == 'sum' else 'avg'}({number}) AS {self.kind} {rest}"
        if self.grouped:
            return f"SELECT sum({number}) AS sum, {key} {rest} GROUP BY {key} ORDER BY 1 {order}"
        return f"SELECT {number}{f', {key}' if key else ''} {rest} AND {number} IS NOT NULL ORDER BY {number} {order}"


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
    words = total_words().get(language)
    if words is None or not asks_to_compute(message, (*KINDS, "overall")):
        return None
    tables = [table for table in store.tables() if _is_computed(table)]
    if len(tables) > MAX_TABLES:
        found = {each.table.name for each in store.find(message)}
        tables = [table for table in tables if table.name in found][:MAX_TABLES]
    if named := [table for table in tables if _place(table).name.lower() in message.lower()]:
        tables = named
    read = [_TotalReader(message, language, words, table, store).question(column) for table in tables]
    questions = [question for question in read if question]
    return questions[0] if len(questions) == 1 else None


def _is_computed(table: StoredTable) -> bool:
    """Return whether a table is long or in a data file. A short one in a text is better quoted."""
    return table.rows > MAX_WHOLE_ROWS or _place(table).suffix.lower() in _DATA_FILES


def _place(table: StoredTable) -> PurePosixPath:
    return PurePosixPath(table.path or table.document)


class _TotalReader:
    """Takes the words of a message one by one, by what they are in one table."""

    def __init__(
        self, message: str, language: str, words: Mapping[str, Any], table: StoredTable, store: TableStore
    ) -> None:
        self.message, self.language, self.words, self.table, self.store = message, language, words, table, store
        self.rest = fold(message.replace(_place(table).name, " "))
        self.noun, self.groups = "", set[str]()

    def _take(self, pattern: re.Pattern[str]) -> str:
        """Remove what a pattern finds from the rest of the message, and return the first of it."""
        found = list(pattern.finditer(self.rest))
        self.rest = pattern.sub(" | ", self.rest)
        self.groups |= {name for match in found for name, text in match.groupdict().items() if text}
        return found[0].group() if found else ""

    def question(self, column: str) -> TotalQuestion | None:
        """Return what is asked for, or None unless every word is recognized."""
        dates, overall = self._dates(), self._take(_pattern(self.language, self.words["overall"]))
        taken = {kind: self._take(_pattern(self.language, self.words[kind])) for kind in KINDS if kind != "list"}
        kind = next((kind for kind, found in taken.items() if found), "sum" if overall else "")
        if not kind and self._take(_pattern(self.language, self.words["list"])):
            kind = "list"
        named, cells = self._named()
        is_table_named = self._take_words_of_table()
        self._take(_pattern(self.language, self.words["plain"]))
        if not kind or self.rest.strip(" |") or not (named or cells or is_table_named) or named is None:
            return None
        asked = TotalQuestion(self.language, kind, self.table, cells=cells, date=dates, noun=self.noun)
        return self._with_columns(asked, named, column)

    def _dates(self) -> dict[str, str]:
        columns = [each.name for each in self.table.columns if each.type == "date"]
        shown = _DATES.search(self.message)
        if len(columns) != 1 or not shown:
            return {}
        text = shown.group()
        day = read_date(text)
        self.rest = self.rest.replace(fold(text), " | ", 1)
        return {columns[0]: (day.day_first if day and day.day_first else text)}

    def _named(self) -> tuple[list[TableColumn] | None, dict[str, list[str]]]:
        """Return the columns and cells that the rest of the message names, longest first; (None, …) if unclear."""
        names: dict[str, list[tuple[TableColumn, str]]] = {}
        for column in self.table.columns:
            for label in {fold(column.label), fold(re.sub(r"\(.*?\)|\[.*?\]", "", column.label))} - {""}:
                names.setdefault(label, []).append((column, ""))
        for column, cell in self.store.cells_within(self.table, self.message):
            names.setdefault(fold(cell), []).append((column, cell))
        named: dict[str, TableColumn] = {}
        cells: dict[str, list[str]] = {}
        for name in sorted(names, key=len, reverse=True):
            found = self._take(_pattern(self.language, self._forms(name))) if name else ""
            if not found:
                continue
            labels = {column.name: column for column, cell in names[name] if not cell}
            of_cells = {column.name for column, cell in names[name] if cell} if not labels else set()
            if len(labels or of_cells) != 1 or cells.keys() & of_cells:
                return None, {}
            named |= labels
            for column, cell in names[name]:
                if column.name in of_cells:
                    cells.setdefault(column.name, []).append(cell)
        return list(named.values()), cells

    def _forms(self, name: str) -> str:
        """Return a pattern for a name, whose words may have another ending of the plural."""
        if self.language in UNSPACED_LANGUAGES:
            return re.escape(name)
        forms = (
            re.escape(_ENDING.sub("", word)) + "(?:ies|es|s|en|n|e|y)?" if len(word) > 3 and word.isalpha() else word
            for word in name.split()
        )
        return " ".join(forms)

    def _take_words_of_table(self) -> bool:
        table = self.table
        texts = (table.title, _place(table).stem, table.sheet, table.section, table.caption)
        for word in fold(" ".join(texts)).split():
            found = self._take(_pattern(self.language, self._forms(word))) if len(word) > 1 else ""
            self.noun = self.noun or found
        return bool(self.noun)

    def _with_columns(self, asked: TotalQuestion, named: Sequence[TableColumn], chosen: str) -> TotalQuestion | None:
        """Return the question with its columns; None if it names too many, or none that fits."""
        numbers = [column for column in named if column.type in ("integer", "real")]
        names = [column for column in numbers if _IDENTIFIER.search(column.label)] if len(numbers) > 1 else []
        numbers = [column for column in numbers if column not in names]
        keys = [column for column in named if column not in numbers and column.name not in asked.cells]
        if len(numbers) > 1 or len(keys) > 1 or (asked.kind == "list" and not (asked.cells or asked.date)):
            return None
        if asked.kind == "list":
            return asked
        counts_rows = bool(self.groups & {"rows", "often"})
        if asked.kind == "count" and (counts_rows or not numbers):
            key = keys[0] if keys else None
            is_clear = not (keys or numbers) if counts_rows else bool(key or asked.noun)
            return asked._replace(key=key, noun=key.label if key else asked.noun) if is_clear else None
        if asked.kind in ("count", "sum", "average"):
            if keys:
                return None
            asked = asked._replace(kind="sum" if asked.kind == "count" else asked.kind)
        else:
            texts = (column for column in self.table.columns if column.type == "text")
            repeats = bool(keys) and self._repeats(keys[0])
            if repeats and numbers and "most" in self.groups:  # "the most points": in one row, or added up?
                return None
            key = keys[0] if keys else next(texts, None)
            asked = asked._replace(key=key, grouped=repeats and not numbers)
        numbers = numbers or list(self._summable(chosen))
        if len(numbers) > 1:
            return asked._replace(choices=tuple(numbers))
        return asked._replace(number=numbers[0]) if numbers else None

    def _repeats(self, column: TableColumn) -> bool:
        """Return whether two rows have the same value in a column."""
        name = quote_if_needed(column.name)
        result = self.store.run(
            f"SELECT count(DISTINCT {name}) < count(*) FROM {self.table.name} WHERE {TOTAL_COLUMN} = 0"
        )
        return bool(result.rows[0][0])

    def _summable(self, chosen: str) -> Iterator[TableColumn]:
        for column in self.table.columns:
            is_number = column.type in ("integer", "real") and not _IDENTIFIER.search(column.label)
            if is_number and chosen in ("", column.label):
                yield column
