"""The stored tables of one or several indexes: to list and find them, and to compute with SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from turnmark.corpora.tables.column_types import CellValue
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.tables.search_words import match_both_numbers, remove_plural, search_words
from turnmark.retrieval.tables.sql_names import quote_if_needed, quote_name, schema_names
from turnmark.retrieval.tables.sql_queries import MAX_ROWS, run_statement
from turnmark.retrieval.tables.table_records import (
    MAX_WHOLE_ROWS,
    CatalogEntry,
    QueryResult,
    StoredTable,
    TableColumn,
    TablePart,
)
from turnmark.retrieval.tables.tables_db import read_catalog, read_rows

WORD_WEIGHTS = (8.0, 6.0, 4.0, 5.0, 1.0)
"""Weights of a word in the name, title, section, labels and cells of a table."""
_MAX_SEARCH_WORDS = 40
MAX_SEARCHED_COLUMNS = 20
"""Maximum columns of a table whose cells are compared with a message."""


class FoundTable(NamedTuple):
    """A table that was found by words.

    Attributes:
        lacks: the words that it does not contain.
    """

    table: StoredTable
    lacks: tuple[str, ...] = ()


class TableStore:
    """The tables of one or several indexes, which are only read.

    Args:
        parts: the files.
        is_joint: whether several indexes are searched together; then names of tables begin with the name of the index.
        where: a filter; other tables do not exist.
    """

    def __init__(self, parts: Sequence[TablePart], is_joint: bool, where: Where = ()) -> None:
        self.parts = tuple(parts)
        self.is_joint, self._where = is_joint, where
        schemas = schema_names([part.name for part in parts]) if is_joint else ["main"]
        self._schema_of = {part.name: schema for part, schema in zip(parts, schemas, strict=True)}

    def under(self, where: Where) -> TableStore:
        """Return a store of only the tables under a filter."""
        return TableStore(self.parts, self.is_joint, (*self._where, *where))

    @cached_property
    def _all(self) -> list[tuple[TablePart, int, StoredTable]]:
        """Each table under the filter, with its file and its number there."""
        found = [
            (part, number, self._table(part, entry))
            for part in self.parts
            for number, entry in read_catalog(part.path).items()
        ]
        return self._allowed(found, self._where)

    def _table(self, part: TablePart, entry: CatalogEntry) -> StoredTable:
        table = StoredTable(**{name: getattr(entry, name) for name in StoredTable.model_fields})
        if not self.is_joint:
            return table
        names = {
            "name": f"{quote_if_needed(self._schema_of[part.name])}.{table.name}",
            "document": f"{part.name}:{table.document}",
            "index": part.name,
        }
        return table.model_copy(update=names)

    def tables(self, where: Where = ()) -> list[StoredTable]:
        """Return the tables under a filter (`Query.where`), in the order of the source."""
        return [table for _, _, table in self._allowed(self._all, where)]

    def _allowed(
        self, tables: list[tuple[TablePart, int, StoredTable]], where: Where
    ) -> list[tuple[TablePart, int, StoredTable]]:
        if not where:
            return tables
        under = ((part, part.where_in(where)) for part in self.parts)
        allowed = {part.name: read_catalog(part.path, each) if each is not None else {} for part, each in under}
        return [each for each in tables if each[1] in allowed[each[0].name]]

    @cached_property
    def long_tables(self) -> list[StoredTable]:
        """The tables with more than `MAX_WHOLE_ROWS` rows."""
        return [table for _, _, table in self._all if table.rows > MAX_WHOLE_ROWS]

    def long_table_of(self, passage: Passage) -> StoredTable | None:
        """Return the long table that a passage is a part of, or None if it has other text or is in no such table."""
        return next((table for table in self.long_tables if table.encloses(passage)), None)

    def find(self, words: str, where: Where = ()) -> list[FoundTable]:
        """Return the tables that contain all of the words, best first; without such a table, those with most words.

        Words in the name, the title, the headings and the labels count more than words in the cells. Without words,
        all tables are returned.
        """
        candidates = self._allowed(self._all, where)
        wanted = " ".join(content_words(words)) or words
        tokens = list(dict.fromkeys(search_words(wanted)))[:_MAX_SEARCH_WORDS]
        if not tokens:
            return [FoundTable(table) for _, _, table in candidates]
        ranks: dict[tuple[str, int], float] = {}
        having: dict[str, set[tuple[str, int]]] = {token: set() for token in tokens}
        for part in self.parts:
            ranks |= {(part.name, number): rank for number, rank in _rank_tables(part.path, tokens)}
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
        return read_rows(
            part.path, f"SELECT {', '.join(map(quote_name, names))} FROM {quote_name(name)} ORDER BY rowid LIMIT ?", [n]
        )

    def cells_within(self, table: StoredTable, text: str) -> list[tuple[TableColumn, str]]:
        """Return the columns of text with their different cells that occur in a text, apart from case and plural.

        The words around a cell are not looked at: "men" occurs in "women".
        """
        part = next((part for part in self.parts if not self.is_joint or part.name == table.index), None)
        columns = [column for column in table.columns if column.type == "text"][:MAX_SEARCHED_COLUMNS]
        if part is None or not columns:
            return []
        words = text.lower().split()
        plurals = (f"{word}s" for word in words), (re.sub("y$", "ies", word) for word in words)
        within = "\n".join((text, *(" ".join(form) for form in (words, map(remove_plural, words), *plurals))))
        source = f"FROM {quote_name(table.name.rpartition('.')[2])} WHERE length"
        selects = [
            f"SELECT DISTINCT {at}, {name} {source}({name}) BETWEEN 2 AND {len(text) + 2} "
            f"AND (instr(?1, {name}) OR instr(?1, lower({name})))"
            for at, name in enumerate(quote_name(column.name) for column in columns)
        ]
        return [(columns[at], cell) for at, cell in read_rows(part.path, " UNION ALL ".join(selects), [within])]

    def run(self, statement: str, most: int = MAX_ROWS) -> QueryResult:
        """Run one SELECT over the tables (`turnmark.retrieval.tables.sql_queries`).

        Args:
            most: maximum number of rows.

        Raises:
            RequestError: the statement is wrong, refused or takes too much; the message says which names exist.
        """
        files = {self._schema_of[part.name]: part.path for part in self.parts}
        return run_statement(files, self.tables(), statement, most)


def _rank_tables(path: Path, tokens: Sequence[str]) -> list[tuple[int, float]]:
    """Return the number and the rank of each table with one of the words; a lower rank is better."""
    weights = ", ".join(map(str, WORD_WEIGHTS))
    statement = f"SELECT rowid, bm25(turnmark_words, {weights}) FROM turnmark_words WHERE turnmark_words MATCH ?"
    return read_rows(path, statement, [" OR ".join(f'"{token}"' for token in tokens)])


def _numbers_with(path: Path, token: str) -> set[int]:
    """Return the numbers of the tables with a word, also in a row of a large table."""
    numbers = read_rows(path, "SELECT rowid FROM turnmark_words WHERE turnmark_words MATCH ?", [f'"{token}"'])
    numbers += read_rows(
        path,
        'SELECT "number" FROM turnmark_tables WHERE "first_row" IS NOT NULL AND EXISTS (SELECT 1 FROM turnmark_rows '
        'WHERE turnmark_rows MATCH ? AND rowid BETWEEN "first_row" + 1 AND "first_row" + "rows")',
        [match_both_numbers(token)],
    )
    return {row[0] for row in numbers}
