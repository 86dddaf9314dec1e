"""Stores the passages of an index in one SQLite file, and the checkpoint of a build in another."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field, ValidationError

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.record import Record
from turnmark.corpora.types import Passage

WHERE_KEYS = ("document", "title", "path", "section", "page")

_FIELDS = tuple("id document title text start end path section page page_starts date header".split())
_COLUMNS = ", ".join(f'"{name}"' for name in _FIELDS)
_IN_LIST = "(SELECT value FROM json_each(?))"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS passages (
    "row" INTEGER PRIMARY KEY, "id" TEXT NOT NULL UNIQUE, "document" TEXT NOT NULL, "title" TEXT NOT NULL,
    "text" TEXT NOT NULL, "start" INTEGER NOT NULL, "end" INTEGER NOT NULL, "path" TEXT NOT NULL,
    "section" TEXT NOT NULL, "page" INTEGER, "page_starts" TEXT NOT NULL, "date" TEXT NOT NULL,
    "header" TEXT NOT NULL, "hash" TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS languages ("document" TEXT PRIMARY KEY, "language" TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_document ON passages ("document", "start");
CREATE INDEX IF NOT EXISTS by_hash ON passages ("hash");
"""


class DocumentEntry(Record):
    """A document of an index, without its text."""

    document: str = Field(description="id of the document")
    title: str
    path: str
    date: str = Field(description="date of its last change or of writing; empty if unknown")
    passages: int = Field(description="number of its passages")
    characters: int = Field(description="length of its text")
    language: str = Field(default="", description="code of its language, e.g. en; empty if unknown")


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


class Passages(ABC):
    """The passages of an index by row, id or document, to be read. Rows count from 0 in the order of the source."""

    @abstractmethod
    def count(self) -> int:
        """Return the number of passages."""

    @abstractmethod
    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        """Return the passages of some rows, in the order given."""

    @abstractmethod
    def ids_of(self, rows: Sequence[int]) -> dict[int, str]:
        """Return row -> passage id, for the rows that exist."""

    @abstractmethod
    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        """Return passage id -> row, for the ids that exist."""

    @abstractmethod
    def of_document(self, document: str) -> list[Passage]:
        """Return all passages of a document, in reading order."""

    @abstractmethod
    def documents(self, where: Mapping[str, str] | None = None) -> list[DocumentEntry]:
        """Return an entry for each document that has passages matching every glob of `where`, by id."""

    @abstractmethod
    def documents_of(self, rows: Sequence[int]) -> list[str]:
        """Return the documents of some rows, one for each row."""

    @property
    @abstractmethod
    def document_count(self) -> int:
        """The number of documents; it is counted once."""

    @abstractmethod
    def titles(self) -> list[str]:
        """Return the titles of the documents, starting with those that have the most passages."""

    @abstractmethod
    def texts(self, where: Mapping[str, str] | None = None, size: int = 2000) -> Iterator[StoredText]:
        """Yield the passages that match every glob of `where`, in row order, with only the fields that a scan needs."""

    @abstractmethod
    def pages(self, size: int = 1000) -> Iterator[list[tuple[int, str, Passage]]]:
        """Yield every (row, content hash, passage) in row order, a page at a time."""


class PassageStore(Passages):
    """The passages of one index in an SQLite file, which a build writes.

    Args:
        path: the SQLite file.
        write: True while building; a finished index is opened read-only and never changed.
    """

    def __init__(self, path: Path, write: bool = False) -> None:
        mode = "rwc" if write else "ro&immutable=1"
        self._path = path
        self._lock = threading.Lock()
        self._db = sqlite3.connect(f"{path.resolve().as_uri()}?mode={mode}", uri=True, check_same_thread=False)
        if write:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.executescript(_SCHEMA)

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with self._lock:
                return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise TurnmarkError(f"passages.db is damaged: {error} ({self._path})") from error

    def _where(self, key: str, values: Sequence[Any], columns: str) -> Iterator[Any]:
        """Yield some columns of the passages whose `key` is one of the values."""
        yield from self._all(f'SELECT {columns} FROM passages WHERE "{key}" IN {_IN_LIST}', [_encode_list(values)])

    def _in_pages(
        self, key: str, columns: str, before: Any, size: int, tests: str = "1", values: Sequence[Any] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Yield pages of columns in the order of `key`, which is the first of them and begins after `before`."""
        statement = f'SELECT {columns} FROM passages WHERE "{key}" > ? AND {tests} ORDER BY "{key}" LIMIT ?'
        while page := self._all(statement, [before, *values, size]):
            yield page
            before = page[-1][0]

    def _passage(self, values: Sequence[Any]) -> Passage:
        try:
            fields = dict(zip(_FIELDS, values, strict=True))
            return Passage(**fields | {"page_starts": json.loads(fields["page_starts"])})
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            raise TurnmarkError(
                f"passages.db is damaged: {'.'.join(map(str, first['loc']))}: {first['msg']} ({self._path})"
            ) from error

    # -- reading

    def count(self) -> int:
        return int(self._all("SELECT count(*) FROM passages")[0][0])

    def by_rows(self, rows: Sequence[int]) -> list[Passage]:
        passages = {row[0]: self._passage(row[1:]) for row in self._where("row", rows, f'"row", {_COLUMNS}')}
        return [passages[row] for row in rows]

    def ids_of(self, rows: Sequence[int]) -> dict[int, str]:
        return dict(self._where("row", rows, '"row", "id"'))

    def rows_of(self, ids: Sequence[str]) -> dict[str, int]:
        return dict(self._where("id", ids, '"id", "row"'))

    def of_document(self, document: str) -> list[Passage]:
        rows = self._all(f'SELECT {_COLUMNS} FROM passages WHERE "document" = ? ORDER BY "start", "row"', [document])
        return [self._passage(row) for row in rows]

    def documents(self, where: Mapping[str, str] | None = None) -> list[DocumentEntry]:
        tests, values = self._tests(where or {})
        rows = self._all(
            'SELECT "document", max("title"), max("path"), max("date"), count(*), max("end"), '
            f"{self._language} "
            f'WHERE {tests} GROUP BY "document" ORDER BY "document"',
            values,
        )
        return [DocumentEntry(**dict(zip(DocumentEntry.model_fields, row, strict=True))) for row in rows]

    @cached_property
    def _language(self) -> str:
        """The language of a document and the tables to read; an index of an earlier version has no languages."""
        if self._all("SELECT 1 FROM sqlite_master WHERE name = 'languages'"):
            return 'coalesce(max("language"), \'\') FROM passages LEFT JOIN languages USING ("document")'
        return "'' FROM passages"

    def document_ids(self) -> set[str]:
        """Return the ids of the documents."""
        return {row[0] for row in self._all('SELECT DISTINCT "document" FROM passages')}

    def documents_of(self, rows: Sequence[int]) -> list[str]:
        return [row[0] for row in self._where("row", rows, '"document"')]

    def titles(self) -> list[str]:
        rows = self._all(
            'SELECT "title" FROM passages WHERE "title" != \'\' GROUP BY "document" ORDER BY count(*) DESC, "document"'
        )
        return list(dict.fromkeys(row[0] for row in rows))

    @cached_property
    def document_count(self) -> int:
        return int(self._all('SELECT count(DISTINCT "document") FROM passages')[0][0])

    def texts(self, where: Mapping[str, str] | None = None, size: int = 2000) -> Iterator[StoredText]:
        tests, values = self._tests(where or {})
        columns = '"row", "id", "document", "title", "section", "text", "start"'
        for page in self._in_pages("row", columns, -1, size, tests, values):
            yield from (StoredText(*row[1:]) for row in page)

    def pages(self, size: int = 1000) -> Iterator[list[tuple[int, str, Passage]]]:
        for page in self._in_pages("row", f'"row", "hash", {_COLUMNS}', -1, size):
            yield [(row[0], row[1], self._passage(row[2:])) for row in page]

    def digest(self) -> str:
        """Return a fingerprint of all ids and contents, in order."""
        digest = hashlib.sha256()
        for page in self.pages():
            for _, content, passage in page:
                date = f"\0{passage.date}" if passage.date else ""
                digest.update(f"{passage.id}\0{content}\0{passage.path}{date}\n".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()

    def contents(self, size: int = 1000) -> Iterator[list[str]]:
        """Yield the hashes of all distinct contents, in their order, a page at a time."""
        for page in self._in_pages("hash", 'DISTINCT "hash"', "", size):
            yield [row[0] for row in page]

    def holds(self, hashes: Sequence[str]) -> set[str]:
        """Return the content hashes that the store contains."""
        return {row[0] for row in self._where("hash", hashes, '"hash"')}

    def rows_with(self, hashes: Sequence[str]) -> dict[str, int]:
        """Return content hash -> a row with this content, for the hashes that the store contains."""
        return dict(self._where("hash", hashes, '"hash", "row"'))

    def matching(self, where: Mapping[str, str]) -> dict[str, list[Any]]:
        """Return, for each key of `where`, the stored values that its glob matches (`*` and `?`, case-sensitive)."""
        unknown = [key for key in where if key not in WHERE_KEYS]
        if unknown:
            names = ", ".join(repr(key) for key in unknown)
            raise RequestError(f"--where: passages have no {names}; they have: {', '.join(WHERE_KEYS)}")
        matching: dict[str, list[Any]] = {}
        for key, glob in where.items():
            rows = self._all(f'SELECT DISTINCT "{key}" FROM passages WHERE "{key}" GLOB ?', [literal_brackets(glob)])
            matching[key] = [row[0] for row in rows]
        return matching

    def rows_where(self, where: Mapping[str, str]) -> list[int]:
        """Return the rows whose values match every glob of `where`."""
        tests, values = self._tests(where)
        rows = self._all(f'SELECT "row" FROM passages WHERE {tests}', values)
        return [row[0] for row in rows]

    def _tests(self, where: Mapping[str, str]) -> tuple[str, list[str]]:
        """Return the condition under which a passage matches every glob of `where`, and its values."""
        self.matching(dict.fromkeys(where, ""))
        return glob_tests(where)

    # -- building

    def clear_passages(self) -> None:
        """Delete the passages, for a build that reads its source again."""
        with self._lock, self._db:
            self._db.execute("DELETE FROM passages")

    def add_passages(self, passages: Iterable[Passage]) -> list[str]:
        """Append passages in one transaction, and return the ids that were left out because they existed already."""
        doubled = []
        with self._lock, self._db:
            for passage in passages:
                fields = {name: getattr(passage, name) for name in _FIELDS}
                values = (fields | {"page_starts": json.dumps(passage.page_starts)}).values()
                marks = ",".join("?" * (len(values) + 1))
                cursor = self._db.execute(
                    f'INSERT OR IGNORE INTO passages ({_COLUMNS}, "hash") VALUES ({marks})',
                    [*values, passage.content_hash],
                )
                if not cursor.rowcount:
                    doubled.append(passage.id)
        return doubled

    def beginnings(self, length: int) -> dict[str, str]:
        """Return document -> the first characters of its passages, about as many as `length`."""
        texts: dict[str, str] = {}
        for page in self.pages():
            for _, _, passage in page:
                text = texts.get(passage.document, "")
                if len(text) < length:
                    texts[passage.document] = f"{text}\n{passage.text}"[:length]
        return texts

    def set_languages(self, languages: Mapping[str, str]) -> dict[str, int]:
        """Store the language of each document, and return language -> number of passages, most frequent first."""
        with self._lock, self._db:
            self._db.execute("DELETE FROM languages")
            self._db.executemany("INSERT INTO languages VALUES (?, ?)", languages.items())
        return dict(
            self._all(
                'SELECT "language", count(*) FROM passages JOIN languages USING ("document") '
                'GROUP BY "language" ORDER BY count(*) DESC, "language"'
            )
        )

    def languages(self) -> list[str]:
        """Return the language of each row, in row order; empty strings in an index that was built without them."""
        rows = self._all(
            'SELECT coalesce("language", \'\') FROM passages LEFT JOIN languages USING ("document") ORDER BY "row"'
        )
        return [row[0] for row in rows]

    def renumber(self) -> None:
        """Number the rows from 0 without gaps, in the order they were added."""
        with self._lock, self._db:
            self._db.execute('UPDATE passages SET "row" = "row" - (SELECT min("row") FROM passages)')

    def finish(self) -> None:
        """Leave one plain file that can be opened read-only."""
        with self._lock:
            self._db.execute("PRAGMA journal_mode=DELETE")

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _encode_list(values: Sequence[Any]) -> str:
    """Encode any number of values for `_IN_LIST`; SQLite limits the number of parameters."""
    return json.dumps(list(values))


def literal_brackets(glob: str) -> str:
    """Return a glob in which only `*` and `?` are special, although SQLite and fnmatch also treat `[` as special."""
    return glob.replace("[", "[[]")


def glob_tests(where: Mapping[str, str]) -> tuple[str, list[str]]:
    """Return the SQL condition that each column matches its glob, and its values. The column names must be known."""
    return " AND ".join(f'"{key}" GLOB ?' for key in where) or "1", list(map(literal_brackets, where.values()))


FILE = "kept.db"


class Checkpoint:
    """What models computed in an unfinished build: bytes by key of a component and content hash.

    Args:
        folder: the generation's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / FILE
        self._db = sqlite3.connect(self._path)
        self._all("PRAGMA journal_mode=WAL")
        self._all(
            'CREATE TABLE IF NOT EXISTS kept ("part" TEXT NOT NULL, "hash" TEXT NOT NULL, "value" BLOB NOT NULL, '
            'PRIMARY KEY ("part", "hash"))'
        )

    def _all(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise TurnmarkError(f"{self._path} is damaged: {error}; delete it, and the build starts over") from error

    def missing(self, store: PassageStore, parts: Sequence[str]) -> Iterator[tuple[str, Passage]]:
        """Yield (content hash, passage) for each distinct content that one of `parts` lacks, in row order."""
        previous_page: set[str] = set()
        for page in store.pages():
            # Contents of the previous page may not be stored yet.
            handled = previous_page | self.complete([content for _, content, _ in page], parts)
            previous_page = {content for _, content, _ in page}
            for _, content, passage in page:
                if content not in handled:
                    handled.add(content)
                    yield content, passage

    def count_missing(self, store: PassageStore, parts: Sequence[str]) -> int:
        """Return the number of distinct contents that one of `parts` lacks."""
        return sum(len(page) - len(self.complete(page, parts)) for page in store.contents())

    def complete(self, hashes: Sequence[str], parts: Sequence[str]) -> set[str]:
        """Return those hashes that every one of `parts` has."""
        rows = self._all(
            f'SELECT "hash" FROM kept WHERE "part" IN {_IN_LIST} AND "hash" IN {_IN_LIST} '
            'GROUP BY "hash" HAVING count(*) = ?',
            [_encode_list(parts), _encode_list(hashes), len(parts)],
        )
        return {row[0] for row in rows}

    def add(self, hashes: Sequence[str], values: Mapping[str, Sequence[bytes]]) -> None:
        """Store a block of values for some parts, all or nothing; existing values stay."""
        rows: list[tuple[str, str, bytes]] = []
        for part, part_values in values.items():
            for content, value in zip(hashes, part_values, strict=True):
                rows.append((part, content, value))
        with self._db:
            self._db.executemany("INSERT OR IGNORE INTO kept VALUES (?, ?, ?)", rows)

    def get(self, part: str, hashes: Sequence[str]) -> list[bytes]:
        """Return the stored values of some contents, in the order given; every one must exist."""
        values: dict[str, bytes] = dict(
            self._all(
                f'SELECT "hash", "value" FROM kept WHERE "part" = ? AND "hash" IN {_IN_LIST}',
                [part, _encode_list(hashes)],
            )
        )
        return [values[content] for content in hashes]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def drop_checkpoint(folder: Path) -> None:
    """Delete the checkpoint of a finished generation, if it exists."""
    for path in folder.glob(f"{FILE}*"):
        path.unlink(missing_ok=True)
