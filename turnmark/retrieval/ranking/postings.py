"""Postings of terms in an SQLite table: the numbers of the texts that contain a term, with a value for each.

A posting describes a numbered text that never changes, so postings are only added. Texts that an index no longer
contains keep theirs until the index is compacted, and whoever reads the table leaves them out.

A row of the table has the postings of a term as bytes: two widths, the distances between the numbers, and the values.
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
            f'CREATE TABLE IF NOT EXISTS {table} ("term" NOT NULL, "first" INTEGER NOT NULL, "packed" BLOB NOT NULL, '
            '"sum" INTEGER NOT NULL, PRIMARY KEY ("term", "first")) WITHOUT ROWID'
        )

    def of(self, term: Term) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return the numbers of the texts with a term, ascending, and their values."""
        rows = self._select(f'SELECT "first", "packed" FROM {self._table} WHERE "term" = ? ORDER BY "first"', [term])
        parts = [self._unpack(*row) for row in rows] or [(np.empty(0, NUMBER_TYPE), np.empty(0, self._type))]
        numbers, values = zip(*parts, strict=True)
        return np.concatenate(numbers), np.concatenate(values)

    def _pack(self, numbers: NDArray[np.int32], values: NDArray[Any]) -> bytes:
        distances = np.diff(numbers)
        types = [_narrowest(distances), _narrowest(values) if self._type.kind == "u" else self._type]
        widths = bytes(each.itemsize for each in types)
        return widths + distances.astype(types[0]).tobytes() + values.astype(types[1]).tobytes()

    def _unpack(self, first: int, packed: bytes) -> tuple[NDArray[np.int32], NDArray[Any]]:
        distance_type = np.dtype(f"<u{packed[0]}")
        value_type = np.dtype(f"<u{packed[1]}") if self._type.kind == "u" else self._type
        count = (len(packed) - 2 + packed[0]) // (packed[0] + packed[1])
        numbers = np.full(count, first, NUMBER_TYPE)
        numbers[1:] += np.cumsum(np.frombuffer(packed, distance_type, count - 1, 2), dtype=NUMBER_TYPE)
        return numbers, np.frombuffer(packed, value_type, count, 2 + (count - 1) * packed[0]).astype(self._type)

    def terms(self) -> Collection[str]:
        """Return all terms, also those of texts that the index no longer contains."""
        return [row[0] for row in self._select(f'SELECT DISTINCT "term" FROM {self._table}', [])]

    def add(self, db: sqlite3.Connection, new: NewPostings) -> None:
        """Add postings within the caller's transaction; the numbers are higher than those that the terms have."""
        last = f'SELECT "first", "packed" FROM {self._table} WHERE "term" = ? ORDER BY "first" DESC LIMIT 1'
        rows = []
        for term in sorted(new):
            numbers, values = np.asarray(new[term][0], NUMBER_TYPE), np.asarray(new[term][1], self._type)
            for row in db.execute(last, [term]):
                old_numbers, old_values = self._unpack(*row)
                if len(old_numbers) <= MAX_GROWING_POSTINGS:
                    numbers, values = np.concatenate([old_numbers, numbers]), np.concatenate([old_values, values])
            packed = self._pack(numbers, values)
            rows.append((term, int(numbers[0]), packed, _checksum(term, packed)))
        db.executemany(f"INSERT OR REPLACE INTO {self._table} VALUES (?, ?, ?, ?)", rows)

    def damaged(self) -> Iterator[str]:
        """Yield the first term whose postings differ from their checksum, if there is one."""
        after: tuple[Any, int] = ("", -1) if self._type == np.dtype("<u2") else (-1, -1)
        statement = (
            f'SELECT "term", "first", "packed", "sum" FROM {self._table} WHERE ("term", "first") > (?, ?) '
            'ORDER BY "term", "first" LIMIT 5000'
        )
        while rows := self._select(statement, after):
            for term, _, packed, checksum in rows:
                if checksum != _checksum(term, packed):
                    yield str(term)
                    return
            after = rows[-1][:2]


def _narrowest(numbers: NDArray[Any]) -> np.dtype[Any]:
    """Return the narrowest type of unsigned integers that has room for some numbers."""
    return np.min_scalar_type(int(numbers.max(initial=0))).newbyteorder("<")


def _checksum(term: Term, packed: bytes) -> int:
    return zlib.crc32(packed, zlib.crc32(str(term).encode()))
