"""Reads the file of stored tables of an index with statements of our own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.storage.filters import Where, sql_tests
from turnmark.retrieval.tables.sql_names import quote_name
from turnmark.retrieval.tables.table_records import CatalogEntry, TableColumn


def read_only_address(path: Path) -> str:
    """Return the address under which SQLite opens a file that never changes."""
    return f"{path.resolve().as_uri()}?mode=ro&immutable=1"


def damage_error(path: Path, error: Exception) -> TurnmarkError:
    """Return the error for a file that cannot be read."""
    return TurnmarkError(f"tables.db is damaged: {error} ({path})")


def read_rows(path: Path, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
    """Return the rows of a statement; raise TurnmarkError if the file is damaged."""
    try:
        with closing(sqlite3.connect(read_only_address(path), uri=True)) as db:
            return db.execute(statement, values).fetchall()
    except sqlite3.DatabaseError as error:
        raise damage_error(path, error) from error


def read_catalog(path: Path, where: Where = ()) -> dict[int, CatalogEntry]:
    """Return number -> table, under a filter that is about the columns of passages."""
    tests, values = sql_tests(where)
    rows = read_rows(path, f'SELECT "number", "entry" FROM turnmark_tables WHERE {tests} ORDER BY "number"', values)
    return {number: parse_entry(path, entry) for number, entry in rows}


def parse_entry(path: Path, entry: str) -> CatalogEntry:
    """Return a table from the JSON of the catalog; raise TurnmarkError if the file is damaged."""
    try:
        return CatalogEntry.model_validate_json(entry)
    except ValueError as error:
        raise damage_error(path, error) from error


def cell_expressions(columns: Iterable[TableColumn]) -> list[str]:
    """Return for each column the expression in SQL for its cells as displayed; an empty cell is an empty text."""
    return [f"coalesce({quote_name(each.text_name or each.name)}, '')" for each in columns]
