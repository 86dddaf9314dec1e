"""Postings of terms in an SQLite table: the numbers of the texts that contain a term, with a value for each.

A posting describes a numbered text that never changes, so postings are only added. Texts that an index no longer
contains keep theirs until the index is compacted, and whoever reads the table leaves them out.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Term = str | int
NewPostings = Mapping[Any, tuple[Any, Any]]
"""Term -> numbers of texts, ascending, and the value of each."""

MAX_GROWING_POSTINGS = 4096
"""A row of the table with more postings of a term is not rewritten for new ones, which get another row."""
NUMBER_TYPE = np.dtype("<i4")


class Postings:
    """A table of postings.

    Args:
        select: runs a statement with its values, and returns the rows.
        table: name of the table.
        value_type: type of the values, e.g. `<u2`.
    """

    def __init__(
        self, select: Callable[[str, Sequence[Any]], list[tuple[Any, ...]]], table: str, value_type: str
    ) -> None:
        self._select, self._table, self._type = select, table, np.dtype(value_type)

    @staticmethod
    def schema(table: str) -> str:
        """Return the statement that creates a table."""
        return (
            f'CREATE TABLE IF NOT EXISTS {table} ("term" NOT NULL, "first" INTEGER NOT NULL, "numbers" BLOB NOT NULL, '
            '"values" BLOB NOT NULL, "sum" INTEGER NOT NULL, PRIMARY KEY ("term", "first")) WITHOUT ROWID'
        )

    def of(self, term: Term) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the numbers of the texts with a term, ascending, and their values."""
        rows = self._select(f'SELECT "numbers", "values" FROM {self._table} WHERE "term" = ? ORDER BY "first"', [term])
        numbers, values = (b"".join(row[column] for row in rows) for column in range(2))
        return np.frombuffer(numbers, NUMBER_TYPE), np.frombuffer(values, self._type)

    def terms(self) -> Collection[str]:
        """Return all terms, also those of texts that the index no longer contains."""
        return [row[0] for row in self._select(f'SELECT DISTINCT "term" FROM {self._table}', [])]

    def add(self, db: sqlite3.Connection, new: NewPostings) -> None:
        """Add postings within the caller's transaction; the numbers are higher than those that the terms have."""
        last = f'SELECT "first", "numbers", "values" FROM {self._table} WHERE "term" = ? ORDER BY "first" DESC LIMIT 1'
        rows = []
        for term in sorted(new):
            numbers = np.asarray(new[term][0], NUMBER_TYPE).tobytes()
            values = np.asarray(new[term][1], self._type).tobytes()
            first = int(new[term][0][0])
            for begun, old_numbers, old_values in db.execute(last, [term]):
                if len(old_numbers) <= MAX_GROWING_POSTINGS * NUMBER_TYPE.itemsize:
                    first, numbers, values = begun, old_numbers + numbers, old_values + values
            rows.append((term, first, numbers, values, _checksum(term, numbers, values)))
        db.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, ?, ?)", rows)

    def damaged(self) -> Iterator[str]:
        """Yield the first term whose postings differ from their checksum, if there is one."""
        after: tuple[Any, int] = ("", -1) if self._type == np.dtype("<u2") else (-1, -1)
        statement = (
            f'SELECT "term", "first", "numbers", "values", "sum" FROM {self._table} WHERE ("term", "first") > (?, ?) '
            'ORDER BY "term", "first" LIMIT 5000'
        )
        while rows := self._select(statement, after):
            for term, _, numbers, values, checksum in rows:
                if checksum != _checksum(term, numbers, values):
                    yield str(term)
                    return
            after = rows[-1][:2]


def _checksum(term: Term, numbers: bytes, values: bytes) -> int:
    return zlib.crc32(values, zlib.crc32(numbers, zlib.crc32(str(term).encode())))
