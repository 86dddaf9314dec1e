"""The stored tables of one or several indexes: to list and find them, and to compute with SQL."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.column_types import CellValue
from turnmark.corpora.function_words import content_words
from turnmark.retrieval.sql import run_statement
from turnmark.retrieval.store import WHERE_KEYS
from turnmark.retrieval.table_files import searchable, singular_or_plural
from turnmark.retrieval.table_names import quoted
from turnmark.retrieval.table_records import (
    QueryResult,
    StoredTable,
    TableColumn,
    TablePart,
    damaged,
    read_only,
    sql_name,
)

WORD_WEIGHTS = (8.0, 6.0, 4.0, 5.0, 1.0)
"""Weights of a word in the name, title, section, labels and cells of a table."""
_MAX_SEARCH_WORDS = 40
_FIELDS = tuple("name document title path sheet section page caption columns rows totals start end".split())


class FoundTable(NamedTuple):
    """A table that was found by words.

    Attributes:
        lacks: those of the words that it does not contain.
    """

    table: StoredTable
    lacks: tuple[str, ...] = ()


class TableStore:
    """The tables of one or several indexes, which are only read.

    Args:
        parts: the files.
        is_joint: whether several indexes are searched together; then names of tables begin with the name of the index.
    """

    def __init__(self, parts: Sequence[TablePart], is_joint: bool) -> None:
        self.parts = tuple(parts)
        self.is_joint = is_joint

    @cached_property
    def _all(self) -> list[tuple[TablePart, int, StoredTable]]:
        """Each table with its file and its number there."""
        found = []
        names = ", ".join(map(quoted, _FIELDS))
        for part in self.parts:
            for number, *values in _read(part.path, f'SELECT "number", {names} FROM turnmark_tables ORDER BY "number"'):
                found.append((part, number, self._table(part, dict(zip(_FIELDS, values, strict=True)))))
        return found

    def _table(self, part: TablePart, fields: dict[str, Any]) -> StoredTable:
        try:
            fields["columns"] = tuple(TableColumn(**column) for column in json.loads(fields["columns"]))
            table = StoredTable(**fields)
        except (ValueError, TypeError) as error:
            raise TurnmarkError(f"tables.db is damaged: {part.path}") from error
        if not self.is_joint:
            return table
        names = {
            "name": f"{sql_name(part.name)}.{table.name}",
            "document": f"{part.name}:{table.document}",
            "index": part.name,
        }
        return table.model_copy(update=names)

    def tables(self, where: Mapping[str, str] | None = None) -> list[StoredTable]:
        """Return the tables that match every glob of a filter (`Query.where`), in the order of the source."""
        return [table for _, _, table in self._under(where)]

    def _under(self, where: Mapping[str, str] | None) -> list[tuple[TablePart, int, StoredTable]]:
        if not where:
            return self._all
        allowed: dict[str, set[int]] = {}
        for part in self.parts:
            part_where = part.where_in(where)
            allowed[part.name] = _numbers_where(part.path, part_where) if part_where is not None else set()
        return [each for each in self._all if each[1] in allowed[each[0].name]]

    def find(self, words: str, where: Mapping[str, str] | None = None) -> list[FoundTable]:
        """Return the tables that contain all of the words, best first; if there is none, those with most of them.

        Words in the name, the title, the headings and the labels count more than words in the cells. Without words,
        all tables are returned.
        """
        candidates = self._under(where)
        wanted = " ".join(content_words(words)) or words
        tokens = list(dict.fromkeys(re.findall(r"[^\W_]+", searchable(wanted.lower()))))[:_MAX_SEARCH_WORDS]
        if not tokens:
            return [FoundTable(table) for _, _, table in candidates]
        ranks: dict[tuple[str, int], float] = {}
        having: dict[str, set[tuple[str, int]]] = {token: set() for token in tokens}
        for part in self.parts:
            ranks |= {(part.name, number): rank for number, rank in _ranked(part.path, tokens)}
            for token in tokens:
                having[token] |= {(part.name, number) for number in _numbers_with(part.path, token)}
        found: list[tuple[int, float, FoundTable]] = []
        for part, number, table in candidates:
            key = part.name, number
            lacks = tuple(token for token in tokens if key not in having[token])
            if len(lacks) < len(tokens):
                found.append((len(lacks), ranks.get(key, 0.0), FoundTable(table, lacks)))
        fewest = min((count for count, _, _ in found), default=0)
        best = [each for each in found if each[0] == fewest]
        return [table for _, _, table in sorted(best, key=lambda each: each[1])]

    def first_rows(self, table: StoredTable, n: int, shown: bool = False) -> list[tuple[CellValue, ...]]:
        """Return the first rows of a table, with a value for each of its columns.

        Args:
            shown: return the cells as shown instead of the values that SQL computes with.
        """
        part = next((part for part in self.parts if not self.is_joint or part.name == table.index), None)
        if part is None:
            return []
        names = [column.text_name if shown and column.text_name else column.name for column in table.columns]
        name = table.name.rpartition(".")[2]
        return _read(
            part.path, f"SELECT {', '.join(map(quoted, names))} FROM {quoted(name)} ORDER BY rowid LIMIT ?", [n]
        )

    def run(self, statement: str) -> QueryResult:
        """Run one SELECT over the tables (`turnmark.retrieval.sql`).

        Raises:
            RequestError: the statement is wrong, refused or takes too much; the message says which names exist.
        """
        return run_statement(self.parts, self.is_joint, self.tables(), statement)

    def named(self, name: str) -> StoredTable | None:
        """Return the table with this name; None if there is none."""
        return next((table for _, _, table in self._all if table.name == name), None)


def _read(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of one of our own statements."""
    try:
        with closing(sqlite3.connect(read_only(path), uri=True)) as db:
            return db.execute(statement, values).fetchall()
    except sqlite3.DatabaseError as error:
        raise damaged(path, error) from error


def _ranked(path: Path, tokens: Sequence[str]) -> list[tuple[int, float]]:
    """Return the number and the rank of each table with one of the words; a lower rank is better."""
    weights = ", ".join(map(str, WORD_WEIGHTS))
    statement = f"SELECT rowid, bm25(turnmark_words, {weights}) FROM turnmark_words WHERE turnmark_words MATCH ?"
    return _read(path, statement, [" OR ".join(f'"{token}"' for token in tokens)])


def _numbers_with(path: Path, token: str) -> set[int]:
    """Return the numbers of the tables with a word, also in a row of a large table."""
    numbers = _read(path, "SELECT rowid FROM turnmark_words WHERE turnmark_words MATCH ?", [f'"{token}"'])
    numbers += _read(
        path,
        'SELECT "number" FROM turnmark_tables WHERE "first_row" IS NOT NULL AND EXISTS (SELECT 1 FROM turnmark_rows '
        'WHERE turnmark_rows MATCH ? AND rowid BETWEEN "first_row" + 1 AND "first_row" + "rows")',
        [singular_or_plural(token)],
    )
    return {row[0] for row in numbers}


def _numbers_where(path: Path, where: Mapping[str, str]) -> set[int]:
    unknown = [key for key in where if key not in WHERE_KEYS]
    if unknown:
        names = ", ".join(map(repr, unknown))
        raise RequestError(f"--where: tables have no {names}; they have: {', '.join(WHERE_KEYS)}")
    tests = " AND ".join(f"{quoted(key)} GLOB ?" for key in where) or "1"
    globs = [glob.replace("[", "[[]") for glob in where.values()]
    return {row[0] for row in _read(path, f'SELECT "number" FROM turnmark_tables WHERE {tests}', globs)}
