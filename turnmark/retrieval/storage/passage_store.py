"""Reads the passages of an index from its SQLite file, as one build published them.

Passages are numbered by `key` in the order in which they were added. A later build adds passages with higher keys and
marks those that are gone, so whoever reads an earlier state still finds all of it. `IndexRows` has the source's order.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from turnmark.core.errors import TurnmarkError
from turnmark.core.grouping import batched, group_pairs
from turnmark.core.record import Record
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import (
    DATE,
    WHERE_KEYS,
    Where,
    column_of,
    is_of_passage,
    one_of,
    sql_tests,
)

PASSAGES_FILE = "passages.db"
FIELDS = tuple("id document title text start end path section page page_starts date header".split())
COLUMNS = ", ".join(f'"{name}"' for name in FIELDS)
ROW_TYPE = np.dtype("<i4")
"""Type of what the file of a revision has for each row."""
IN_LIST = "(SELECT value FROM json_each(?))"
BUSY_SECONDS = 30.0
"""Time that a reader or a writer waits for the other one to finish a step."""


class DocumentEntry(Record):
    """A document of an index, without its text."""

    document: str = Field(description="id of the document")
    title: str
    path: str
    date: str = Field(description="date of its last change or of writing; empty if unknown")
    passages: int = Field(description="number of its passages")
    characters: int = Field(description="length of its text")
    language: str = Field(default="", description="code of its language, e.g. en; empty if unknown")


class DocumentMatch(DocumentEntry):
    """A document in a list."""

    matches: int | None = Field(
        default=None,
        description="number of its passages and rows of large tables that contain all of the words; "
        "null: no words were given",
    )


class StoredText(NamedTuple):
    """The fields of a passage that a scan needs."""

    id: str
    document: str
    title: str
    section: str
    text: str
    start: int
    header: str = ""
    """The labels of the columns, for a row of a large table (`Passage.header`)."""


class IndexRows(NamedTuple):
    """The rows of an index in the order of the source; every array has the shape (rows,).

    Attributes:
        keys: the key of each passage.
        lengths: the number of its index terms.
        slots: the number of its vector in the files of the embedder, or -1 if it has none yet.
        sparse_slots: the same for the sparse encoder.
    """

    keys: NDArray[np.int64]
    lengths: NDArray[np.int64]
    slots: NDArray[np.int64]
    sparse_slots: NDArray[np.int64]

    @classmethod
    def read(cls, path: Path) -> IndexRows:
        """Read the file of a revision."""
        arrays = np.load(path, allow_pickle=False)
        if arrays.ndim != 2 or len(arrays) != len(cls._fields) or arrays.dtype != ROW_TYPE:
            raise ValueError(f"{path.name} does not contain rows")
        return cls(*arrays.astype(np.int64))


def pack_text(text: str) -> str | bytes:
    """Return a text as the file has it: compressed, unless it is too short for that."""
    packed = zlib.compress(text.encode("utf-8", "surrogatepass"))
    return packed if len(packed) < len(text) else text


def unpack_text(packed: str | bytes) -> str:
    """Return the text that `pack_text` packed; raise TurnmarkError if it is damaged."""
    try:
        return packed if isinstance(packed, str) else zlib.decompress(packed).decode("utf-8", "surrogatepass")
    except (zlib.error, UnicodeDecodeError) as error:
        raise TurnmarkError(f"{PASSAGES_FILE} is damaged: a text: {error}") from error


def rows_file(revision: int) -> str:
    """Return the name of the file with the rows of a revision."""
    return f"rows-{revision:06d}.npy"


class PassageStore:
    """The passages of one index at one revision, by row, id or document. Rows count from 0 in the order of the source.

    Args:
        path: the SQLite file.
        revision: passages that a later build added are left out, and those that it removed are not.
        keys: the key of each row.
    """

    def __init__(self, path: Path, revision: int, keys: NDArray[np.int64]) -> None:
        self._path, self._keys = path, keys
        self._lock = threading.Lock()
        # A reader of a file with a write-ahead log needs its folder to be writable, unless the file never changes.
        mode = "ro" if os.access(path.parent, os.W_OK) else "ro&immutable=1"
        self._db = sqlite3.connect(
            f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False, timeout=BUSY_SECONDS
        )
        self._there = f'"made" <= {revision} AND "gone" > {revision}'

    def select(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement; raise TurnmarkError if the file is damaged."""
        try:
            with self._lock:
                return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise TurnmarkError(f"passages.db is damaged: {error} ({self._path})") from error

    def _where(self, key: str, values: Sequence[Any], columns: str) -> list[tuple[Any, ...]]:
        """Return some columns of the passages whose `key` is one of the values."""
        statement = f'SELECT {columns} FROM passages WHERE "{key}" IN {IN_LIST} AND {self._there}'
        return self.select(statement, [json.dumps(list(values))])

    def _by_keys(self, rows: Sequence[int], columns: str) -> dict[int, tuple[Any, ...]]:
        """Return row -> some columns, for the rows that exist."""
        known = [row for row in rows if 0 <= row < len(self._keys)]
        by_key = {found[0]: found[1:] for found in self._where("key", self._keys[known].tolist(), f'"key", {columns}')}
        return {row: by_key[key] for row, key in zip(known, self._keys[known].tolist(), strict=True) if key in by_key}

    def _passage(self, values: Sequence[Any]) -> Passage:
        try:
            fields = dict(zip(FIELDS, values, strict=True))
            unpacked = {"text": unpack_text(fields["text"]), "page_starts": json.loads(fields["page_starts"])}
            return Passage(**fields | unpacked)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise TurnmarkError(
                f"passages.db is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']} ({self._path})"
            ) from error

    @cached_property
    def _row_of(self) -> dict[int, int]:
        return {key: row for row, key in enumerate(self._keys.tolist())}

    def count(self) -> int:
        """Return the number of passages."""
        return len(self._keys)

    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        """Return the passages of some rows, in the order given."""
        found = self._by_keys(rows, COLUMNS)
        lost = next((row for row in rows if row not in found), None)
        if lost is not None:
            raise TurnmarkError(f"passages.db is damaged: row {lost} is missing ({self._path})")
        passages = {row: self._passage(values) for row, values in found.items()}
        return [passages[row] for row in rows]

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return passage id -> row, for the ids that exist."""
        return {identifier: self._row_of[key] for identifier, key in self._where("id", ids, '"id", "key"')}

    def rows_of_keys(self, keys: Sequence[int]) -> dict[int, int]:
        """Return key -> row, for the keys that exist."""
        return {key: self._row_of[key] for key in keys if key in self._row_of}

    def of_document(self, document: str) -> list[Passage]:
        """Return all passages of a document, in reading order."""
        statement = f'SELECT {COLUMNS} FROM passages WHERE "document" = ? AND {self._there} ORDER BY "start", "key"'
        return [self._passage(row) for row in self.select(statement, [document])]

    def documents(self, where: Where = ()) -> list[DocumentEntry]:
        """Return an entry for each document that has passages under a filter, by id."""
        tests, values = self._tests(where)
        rows = self.select(
            'SELECT "document", max("title"), max("path"), max("date"), count(*), max("end"), '
            '(SELECT coalesce("language", \'\') FROM documents d WHERE d."id" = passages."document") '
            f'FROM passages WHERE {tests} GROUP BY "document" ORDER BY "document"',
            values,
        )
        names = tuple(DocumentEntry.model_fields)
        return [DocumentEntry(**dict(zip(names, (*row[:-1], row[-1] or ""), strict=True))) for row in rows]

    def documents_of(self, rows: Sequence[int]) -> list[str]:
        """Return the documents of some rows, one for each row."""
        return [values[0] for values in self._by_keys(rows, '"document"').values()]

    def titles(self) -> list[str]:
        """Return the titles of the documents, starting with those that have the most passages."""
        rows = self.select(
            f'SELECT "title" FROM passages WHERE "title" != \'\' AND {self._there} '
            'GROUP BY "document" ORDER BY count(*) DESC, "document"'
        )
        return list(dict.fromkeys(row[0] for row in rows))

    @cached_property
    def document_count(self) -> int:
        """The number of documents; it is counted once."""
        return int(self.select(f'SELECT count(DISTINCT "document") FROM passages WHERE {self._there}')[0][0])

    def texts(self, where: Where = (), size: int = 2000) -> Iterator[StoredText]:
        """Yield the passages under a filter, in row order, with only the fields that a scan needs."""
        columns = '"id", "document", "title", "section", "text", "start"'
        wanted: Sequence[int] = sorted(self.rows_where(where)) if where else range(len(self._keys))
        for page in batched(wanted, size):
            found = self._by_keys(page, columns)
            texts = (StoredText(*found[row]) for row in page if row in found)
            yield from (text._replace(text=unpack_text(text.text)) for text in texts)

    def pages(self, size: int = 1000) -> Iterator[list[tuple[int, str, Passage]]]:
        """Yield every (row, content hash, passage) in row order, a page at a time."""
        for page in batched(range(len(self._keys)), size):
            found = self._by_keys(page, f'"hash", {COLUMNS}')
            yield [(row, values[0], self._passage(values[1:])) for row, values in found.items()]

    def slots_of(self, encoder: str, hashes: Sequence[str]) -> dict[str, int]:
        """Return content hash -> slot of its vector, for the contents that an encoder has encoded."""
        statement = f'SELECT "hash", "slot" FROM contents WHERE "encoder" = ? AND "hash" IN {IN_LIST}'
        return dict(self.select(statement, [encoder, json.dumps(list(hashes))]))

    def matching(self, where: Where) -> dict[str, list[Any]]:
        """Return, for each column of passages that a filter is about, the stored values that it allows."""
        by_column = group_pairs((column_of(each), each) for each in self.of_passages(where))
        return {
            column: [row[0] for row in self._select_under(tuple(conditions), f'DISTINCT "{column}"')]
            for column, conditions in by_column.items()
        }

    def rows_where(self, where: Where) -> list[int]:
        """Return the rows under a filter."""
        return [self._row_of[row[0]] for row in self._select_under(where, '"key"')]

    def of_passages(self, where: Where) -> Where:
        """Return an equal filter of which every condition is about a column of passages."""
        others = tuple(condition for condition in where if not is_of_passage(condition))
        if not others:
            return where
        documents = [row[0] for row in self._select_under(others, 'DISTINCT "document"')]
        return (*filter(is_of_passage, where), one_of("document", documents))

    def _select_under(self, where: Where, columns: str) -> list[tuple[Any, ...]]:
        tests, values = self._tests(where)
        return self.select(f"SELECT {columns} FROM passages WHERE {tests}", values)

    def _tests(self, where: Where) -> tuple[str, list[str]]:
        """Return the condition under which a passage is there and under a filter, and its values."""
        tests, values = sql_tests(where)
        return f"{tests} AND {self._there}", values

    def fields(self) -> list[str]:
        """Return the keys of the fields that documents have besides their date."""
        return [row[0] for row in self.select('SELECT DISTINCT "key" FROM fields') if row[0] != DATE]

    def unknown_keys(self, where: Where) -> list[str]:
        """Return the keys of a filter that no document has."""
        keys = dict.fromkeys(condition.key for condition in where if condition.key not in WHERE_KEYS)
        return [key for key in keys if not self.select('SELECT 1 FROM fields WHERE "key" = ? LIMIT 1', [key])]

    def fields_of(self, document: str) -> dict[str, list[str]]:
        """Return the fields of a document, with their values in order."""
        return group_pairs(self.select('SELECT "key", "value" FROM fields WHERE "document" = ?', [document]))

    def close(self) -> None:
        """Close the file."""
        self._db.close()
