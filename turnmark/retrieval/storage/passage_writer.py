"""Writes the passages of an index: what is new is added, and what is gone is marked.

The file has one state that is being made, next to those that are read. It says for each file of the source which
documents it has, so an interrupted build goes on with the next file.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from turnmark.core.grouping import group_pairs
from turnmark.core.home import sha256_between
from turnmark.corpora.types import Passage
from turnmark.retrieval.ranking.bm25 import COUNT_TYPE, POSTINGS
from turnmark.retrieval.ranking.postings import NewPostings, Postings
from turnmark.retrieval.storage.passage_store import (
    BUSY_SECONDS,
    COLUMNS,
    FIELDS,
    IN_LIST,
    ROW_TYPE,
    IndexRows,
    pack_text,
    rows_file,
    unpack_text,
)

SPARSE_POSTINGS, SPARSE_TYPE = "sparse_postings", "<f2"
"""The table of the sparse encoder's postings, and the type of its values: the weights of the terms."""
STAYS = 2**62
"""`gone` of a passage that no build has removed."""

_SCHEMA = f"""
CREATE TABLE IF NOT EXISTS passages (
    "key" INTEGER PRIMARY KEY, "id" TEXT NOT NULL, "document" TEXT NOT NULL, "title" TEXT NOT NULL,
    "text" NOT NULL, "start" INTEGER NOT NULL, "end" INTEGER NOT NULL, "path" TEXT NOT NULL,
    "section" TEXT NOT NULL, "page" INTEGER, "page_starts" TEXT NOT NULL, "date" TEXT NOT NULL,
    "header" TEXT NOT NULL, "hash" TEXT NOT NULL, "made" INTEGER NOT NULL, "gone" INTEGER NOT NULL DEFAULT {STAYS}
);
CREATE INDEX IF NOT EXISTS by_id ON passages ("id");
CREATE INDEX IF NOT EXISTS by_document ON passages ("document", "gone", "hash");
CREATE INDEX IF NOT EXISTS by_made ON passages ("made");
CREATE INDEX IF NOT EXISTS by_gone ON passages ("gone");
CREATE TABLE IF NOT EXISTS lengths ("key" INTEGER PRIMARY KEY, "terms" INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    "id" TEXT PRIMARY KEY, "file" TEXT NOT NULL, "number" INTEGER NOT NULL, "digest" TEXT NOT NULL,
    "detected" TEXT, "weight" REAL, "language" TEXT
);
CREATE INDEX IF NOT EXISTS by_file ON documents ("file");
CREATE TABLE IF NOT EXISTS fields ("document" TEXT NOT NULL, "key" TEXT NOT NULL, "value" TEXT NOT NULL);
CREATE INDEX IF NOT EXISTS by_field ON fields ("key", "value", "document");
CREATE INDEX IF NOT EXISTS by_owner ON fields ("document");
CREATE TABLE IF NOT EXISTS files ("path" TEXT PRIMARY KEY, "stamp" TEXT NOT NULL, "known" TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS contents (
    "encoder" TEXT NOT NULL, "hash" TEXT NOT NULL, "slot" INTEGER NOT NULL, PRIMARY KEY ("encoder", "hash")
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS sums (
    "file" TEXT, "start" INTEGER, "end" INTEGER, "sum" TEXT, PRIMARY KEY ("file", "start")
);
CREATE TABLE IF NOT EXISTS state ("name" TEXT PRIMARY KEY, "value" TEXT NOT NULL);
"""


class ReadFile(NamedTuple):
    """A file of the source as it was read.

    Attributes:
        path: path relative to the source; empty for the rows of a BEIR corpus.
        stamp: what shows that the file has not changed; empty if the next build reads it again.
        known: what else is known about it, as JSON.
        documents: document id -> its passages.
        fields: document id -> keys and values to filter by.
    """

    path: str
    stamp: str
    known: str
    documents: Mapping[str, Sequence[Passage]]
    fields: Mapping[str, Sequence[tuple[str, str]]] = MappingProxyType({})


class PutResult(NamedTuple):
    """What a file changed.

    Attributes:
        changed: whether passages were added or removed.
        doubled: ids of passages that were left out, because another document or passage has the same id.
    """

    changed: bool
    doubled: Sequence[str]


class PassageWriter:
    """The state of an index that a build is making.

    Args:
        path: the SQLite file.
        revision: number of the state.
    """

    def __init__(self, path: Path, revision: int) -> None:
        self.path, self.revision = path, revision
        self.db = sqlite3.connect(path, check_same_thread=False, timeout=BUSY_SECONDS)
        self.db.execute("PRAGMA journal_mode=WAL")
        self.db.execute("PRAGMA synchronous=NORMAL")
        # An index of an earlier version has no fields yet.
        if not self.db.execute("SELECT 1 FROM sqlite_master WHERE name = 'fields'").fetchone():
            self.db.executescript(_SCHEMA)
            for table in (POSTINGS, SPARSE_POSTINGS):
                self.db.execute(Postings.schema(table))
        self._seen: set[str] = set()
        """Files that were put by this build."""

    def select(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""
        return self.db.execute(statement, values).fetchall()

    def get(self, name: str) -> str:
        """Return a value of the state, or "" if it is not set."""
        found = self.db.execute('SELECT "value" FROM state WHERE "name" = ?', [name]).fetchone()
        return str(found[0]) if found else ""

    def note(self, name: str, value: str) -> None:
        """Set a value of the state."""
        with self.db:
            self.db.execute("INSERT OR REPLACE INTO state VALUES (?, ?)", [name, value])

    # -- files and documents

    def files(self) -> dict[str, tuple[str, str]]:
        """Return path -> stamp and what else is known, for each file."""
        return {path: (stamp, known) for path, stamp, known in self.db.execute("SELECT * FROM files")}

    def forget_stamps(self) -> None:
        """Have all files read again."""
        with self.db:
            self.db.execute("UPDATE files SET \"stamp\" = ''")

    def put(self, files: Iterable[ReadFile]) -> list[PutResult]:
        """Replace what the index has of some files, in one transaction. Unchanged documents stay as they are."""
        with self.db:
            return [self._put(file) for file in files]

    def _put(self, file: ReadFile) -> PutResult:
        """Replace the documents of a file. Rows of a corpus are added to the rows that are stored already."""
        self._seen.add(file.path)
        # A corpus has many rows, which are put one after the other. The plus sign keeps SQLite from reading them all.
        among = f'+"file" = ? AND "id" IN {IN_LIST}' if not file.path else '"file" = ?'
        values = [file.path, json.dumps(list(file.documents))][: among.count("?")]
        old = dict(self.select(f'SELECT "id", "digest" FROM documents WHERE {among}', values))
        changed = False
        doubled: list[str] = []
        first = self._number if not file.path else 0
        for number, (identifier, passages) in enumerate(file.documents.items(), first):
            distinct = list({passage.id: passage for passage in reversed(passages)}.values())[::-1]
            doubled += [passage.id for passage in passages if not any(passage is each for each in distinct)]
            owner = self.db.execute('SELECT "file" FROM documents WHERE "id" = ?', [identifier]).fetchone()
            if owner and owner[0] != file.path and owner[0] in self._seen:
                doubled += [passage.id for passage in distinct]
                continue
            if file.path or file.fields.get(identifier):
                self._set_fields(identifier, list(file.fields.get(identifier, ())))
            digest = digest_of(distinct)
            if old.pop(identifier, None) == digest:
                self.db.execute(
                    'UPDATE documents SET "number" = ? WHERE "id" = ? AND "number" != ?', [number, identifier, number]
                )
                continue
            changed = True
            self._remove_passages(identifier)
            self._insert(distinct)
            self.db.execute(
                "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, NULL, NULL, NULL)",
                [identifier, file.path, number, digest],
            )
        for identifier in old:
            self._remove_document(identifier)
        if not file.path:
            self._number += len(file.documents)
        stamp = "" if doubled else file.stamp
        self.db.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?)", [file.path, stamp, file.known])
        return PutResult(changed or bool(old), doubled)

    _number = 0
    """Number of the next row of a corpus."""

    def _set_fields(self, document: str, fields: Sequence[tuple[str, str]]) -> None:
        """Replace the fields of a document. As with languages, readers of an earlier state see them at once."""
        if fields != self.select('SELECT "key", "value" FROM fields WHERE "document" = ? ORDER BY rowid', [document]):
            self.db.execute('DELETE FROM fields WHERE "document" = ?', [document])
            self.db.executemany("INSERT INTO fields VALUES (?, ?, ?)", [(document, *field) for field in fields])

    def _insert(self, passages: Iterable[Passage]) -> None:
        marks = ",".join("?" * (len(FIELDS) + 2))
        rows = []
        for passage in passages:
            fields = {name: getattr(passage, name) for name in FIELDS}
            packed = {"text": pack_text(passage.text), "page_starts": json.dumps(passage.page_starts)}
            values = (fields | packed).values()
            rows.append([*values, passage.content_hash, self.revision])
        self.db.executemany(f'INSERT INTO passages ({COLUMNS}, "hash", "made") VALUES ({marks})', rows)

    def _remove_passages(self, document: str) -> None:
        self.db.execute(
            f'UPDATE passages SET "gone" = ? WHERE "document" = ? AND "gone" = {STAYS}', [self.revision, document]
        )

    def _remove_document(self, document: str) -> None:
        self._remove_passages(document)
        self.db.execute('DELETE FROM documents WHERE "id" = ?', [document])
        self.db.execute('DELETE FROM fields WHERE "document" = ?', [document])

    def remove_files(self, paths: Iterable[str]) -> None:
        """Remove files with their documents."""
        with self.db:
            for path in paths:
                for (identifier,) in self.select('SELECT "id" FROM documents WHERE "file" = ?', [path]):
                    self._remove_document(identifier)
                self.db.execute('DELETE FROM files WHERE "path" = ?', [path])

    def keep_rows(self, documents: set[str]) -> None:
        """Remove the rows of a corpus that are not among `documents`."""
        with self.db:
            for (identifier,) in self.select('SELECT "id" FROM documents WHERE "file" = \'\''):
                if identifier not in documents:
                    self._remove_document(identifier)

    # -- what a build asks

    def counts(self) -> tuple[int, int]:
        """Return the numbers of passages that this revision adds and removes."""
        added = self.select(f'SELECT count(*) FROM passages WHERE "made" = ? AND "gone" = {STAYS}', [self.revision])
        removed = self.select('SELECT count(*) FROM passages WHERE "gone" = ? AND "made" < ?', [self.revision] * 2)
        return int(added[0][0]), int(removed[0][0])

    def changes(self) -> tuple[int, int]:
        """Return the numbers of files with new passages, and of documents that are gone."""
        files = self.select(
            'SELECT count(DISTINCT d."file") FROM passages p JOIN documents d ON d."id" = p."document" '
            f'WHERE p."made" = ? AND p."gone" = {STAYS} AND d."file" != \'\'',
            [self.revision],
        )
        gone = self.select(
            'SELECT count(DISTINCT "document") FROM passages WHERE "gone" = ? AND "made" < ? '
            'AND "document" NOT IN (SELECT "id" FROM documents)',
            [self.revision] * 2,
        )
        return int(files[0][0]), int(gone[0][0])

    def removed_contents(self) -> int:
        """Return how many passages were removed whose text no passage has now."""
        lost = self.select(
            'SELECT "hash" FROM passages WHERE "gone" = ? AND "made" < ? EXCEPT SELECT "hash" FROM passages '
            f'WHERE "made" = ? AND "gone" = {STAYS}',
            [self.revision] * 3,
        )
        return len(lost)

    def totals(self) -> tuple[int, int]:
        """Return the numbers of documents and of passages."""
        passages = f'SELECT count(*) FROM passages WHERE "gone" = {STAYS}'
        return self.select(f"SELECT (SELECT count(*) FROM documents), ({passages})")[0]

    def wasted_share(self) -> float:
        """Return the share of the stored passages that are gone."""
        gone = self.select(f'SELECT count(*) FROM passages WHERE "gone" < {STAYS}')[0][0]
        return float(gone / max(gone + self.totals()[1], 1))

    def documents_by_file(self) -> dict[str, list[str]]:
        """Return file -> its documents, in their order."""
        return group_pairs(self.select('SELECT "file", "id" FROM documents ORDER BY "file", "number"'))

    def digest(self) -> str:
        """Return a fingerprint of all documents: the sum of theirs, so it does not depend on the order of updates."""
        total = sum(int(row[0], 16) for row in self.db.execute('SELECT "digest" FROM documents'))
        return f"{total % 2**256:064x}"

    def beginnings(self, documents: Sequence[str], length: int) -> dict[str, str]:
        """Return document -> the first characters of its passages, about as many as `length`."""
        texts = dict.fromkeys(documents, "")
        there = f'"document" IN {IN_LIST} AND "gone" = {STAYS}'
        statement = f'SELECT "document", "text" FROM passages WHERE {there} ORDER BY "key"'
        rows = self.db.execute(statement, [json.dumps(list(documents))])
        for document, text in rows:
            if len(texts[document]) < length:
                texts[document] = f"{texts[document]}\n{unpack_text(text)}"[:length]
        return texts

    def set_detected(self, found: Iterable[tuple[str, float, str]]) -> None:
        """Store the detected language, its weight and the id of documents."""
        with self.db:
            self.db.executemany('UPDATE documents SET "detected" = ?, "weight" = ? WHERE "id" = ?', found)

    def set_languages(self, languages: Mapping[str, str]) -> None:
        """Store the languages of documents. The passages of those that had another one get new terms."""
        with self.db:
            old = dict(self.db.execute('SELECT "id", "language" FROM documents'))
            for document, language in languages.items():
                if old[document] == language:
                    continue
                self.db.execute('UPDATE documents SET "language" = ? WHERE "id" = ?', [language, document])
                if old[document] is not None:
                    self._renew(document)

    def _renew(self, document: str) -> None:
        """Give the passages of a document new keys, since postings of a key never change."""
        made = f'"document" = ? AND "gone" = {STAYS} AND "key" IN (SELECT "key" FROM lengths)'
        keys = [row[0] for row in self.select(f'SELECT "key" FROM passages WHERE {made} ORDER BY "key"', [document])]
        copied = f'INSERT INTO passages ({COLUMNS}, "hash", "made") SELECT {COLUMNS}, "hash", ? FROM passages'
        for statement in (f'{copied} WHERE "key" = ?', 'UPDATE passages SET "gone" = ? WHERE "key" = ?'):
            self.db.executemany(statement, [(self.revision, key) for key in keys])

    def languages(self) -> dict[str, int]:
        """Return language -> number of passages, most frequent first."""
        rows = self.db.execute(
            'SELECT d."language", count(*) FROM passages p JOIN documents d ON d."id" = p."document" '
            f'WHERE p."gone" = {STAYS} GROUP BY d."language" ORDER BY count(*) DESC, d."language"'
        )
        return dict(rows.fetchall())

    # -- terms

    def without_terms(self) -> list[int]:
        """Return the keys of the passages of this revision whose terms are not counted, ascending."""
        counted = '"key" IN (SELECT "key" FROM lengths)'
        statement = f'SELECT "key" FROM passages WHERE "made" = ? AND "gone" = {STAYS} AND NOT {counted} ORDER BY "key"'
        return [row[0] for row in self.db.execute(statement, [self.revision])]

    def language_of(self, documents: Sequence[str]) -> dict[str, str]:
        """Return document -> language."""
        statement = f'SELECT "id", coalesce("language", \'\') FROM documents WHERE "id" IN {IN_LIST}'
        return dict(self.select(statement, [json.dumps(list(documents))]))

    def add_terms(self, postings: NewPostings, lengths: Iterable[tuple[int, int]]) -> None:
        """Add the postings of some passages, and the number of terms of each, in one transaction."""
        with self.db:
            Postings(self.select, POSTINGS, COUNT_TYPE).add(self.db, postings)
            self.db.executemany("INSERT INTO lengths VALUES (?, ?)", lengths)

    # -- the order, and what is published

    def rows(self) -> IndexRows:
        """Return the rows in the order of the source: by path, then as the file has them."""
        documents = self.select('SELECT "id", "file", "number" FROM documents')
        documents.sort(key=lambda row: (row[1].split("/"), row[2]))
        place_of = {row[0]: place for place, row in enumerate(documents)}
        found = self.db.execute(
            'SELECT p."document", p."key", l."terms", coalesce(d."slot", -1), coalesce(s."slot", -1) '
            "FROM passages p INDEXED BY by_document "
            'JOIN lengths l ON l."key" = p."key" '
            'LEFT JOIN contents d ON d."encoder" = \'dense\' AND d."hash" = p."hash" '
            'LEFT JOIN contents s ON s."encoder" = \'splade\' AND s."hash" = p."hash" '
            f'WHERE p."gone" = {STAYS}'
        )
        values = [(place_of[document], *numbers) for document, *numbers in found]
        table = np.array(values, dtype=np.int64).reshape(len(values), 5).T
        return IndexRows(*np.ascontiguousarray(table[1:, np.lexsort((table[1], table[0]))]))

    def without_values(self, encoder: str) -> list[tuple[str, int]]:
        """Return content hash and key of the passages whose contents an encoder has not encoded, the newest first."""
        rows = self.db.execute(
            f'SELECT p."hash", min(p."key"), max(p."date") FROM passages p WHERE p."made" >= ? AND p."gone" = {STAYS} '
            'AND NOT EXISTS (SELECT 1 FROM contents c WHERE c."encoder" = ? AND c."hash" = p."hash") '
            'GROUP BY p."hash" ORDER BY 3 DESC, 2',
            [int(self.get(f"complete {encoder}") or 0), encoder],
        )
        return [(content, key) for content, key, _ in rows]

    def rows_made_after(self, revision: int) -> list[tuple[int, str]]:
        """Return key and content hash of the passages that were added after a revision and are there."""
        return self.select(f'SELECT "key", "hash" FROM passages WHERE "made" > ? AND "gone" = {STAYS}', [revision])

    def keys_gone_between(self, first: int, end: int) -> list[int]:
        """Return the keys of the passages that revisions from `first` to before `end` removed."""
        statement = 'SELECT "key" FROM passages WHERE "gone" BETWEEN ? AND ?'
        return [row[0] for row in self.select(statement, [first, end - 1])]

    def set_complete(self, encoder: str) -> None:
        """Note that an encoder has encoded all contents of this revision and those before it."""
        self.note(f"complete {encoder}", str(self.revision + 1))

    def slots(self, encoder: str) -> int:
        """Return the number of contents that an encoder has encoded."""
        return int(
            self.select('SELECT coalesce(max("slot"), -1) + 1 FROM contents WHERE "encoder" = ?', [encoder])[0][0]
        )

    def add_contents(self, encoder: str, first: int, hashes: Sequence[str], sparse: NewPostings | None = None) -> None:
        """Note that the values of some contents are in the files, from a slot on, in one transaction."""
        with self.db:
            rows = [(encoder, content, slot) for slot, content in enumerate(hashes, first)]
            self.db.executemany("INSERT INTO contents VALUES (?, ?, ?)", rows)
            if sparse:
                Postings(self.select, SPARSE_POSTINGS, SPARSE_TYPE).add(self.db, sparse)

    def set_stamps(self, stamps: Iterable[tuple[str, str]]) -> None:
        """Set the stamps of files, given as (stamp, path)."""
        with self.db:
            self.db.executemany('UPDATE files SET "stamp" = ? WHERE "path" = ?', stamps)

    def drop_sum(self, file: str) -> None:
        """Delete the checksums of a file that is deleted."""
        with self.db:
            self.db.execute('DELETE FROM sums WHERE "file" = ?', [file])

    def summed(self, file: str) -> int:
        """Return up to which byte the checksums of a file reach."""
        return int(self.select('SELECT coalesce(max("end"), 0) FROM sums WHERE "file" = ?', [file])[0][0])

    def add_sum(self, folder: Path, file: str, start: int = 0) -> None:
        """Store the checksum of a file from a byte on."""
        path = folder / file
        end = path.stat().st_size
        if end > start:
            values = [file, start, end, sha256_between(path, start, end)]
            with self.db:
                self.db.execute("INSERT OR REPLACE INTO sums VALUES (?, ?, ?, ?)", values)

    def publish(self, folder: Path, rows: IndexRows) -> None:
        """Write the rows of this revision, which is then complete."""
        with (folder / rows_file(self.revision)).open("wb") as file:
            np.save(file, np.stack(rows).astype(ROW_TYPE))
            file.flush()
            os.fsync(file.fileno())
        self.add_sum(folder, rows_file(self.revision))

    def sync(self) -> None:
        """Have all that was committed on disk; readers are not kept waiting."""
        self.db.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def close(self) -> None:
        """Close the file. The log is emptied, unless somebody reads from it."""
        self.db.execute("PRAGMA busy_timeout = 0")
        self.db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.db.close()


def digest_of(passages: Iterable[Passage]) -> str:
    """Return the SHA-256 of all fields of passages, or 0 if there are none."""
    fields = [[getattr(passage, name) for name in FIELDS] for passage in passages]
    return hashlib.sha256(json.dumps(fields).encode()).hexdigest() if fields else "0"
