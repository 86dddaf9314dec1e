"""Writes the tables of an index to an SQLite file while a build reads its documents.

tables.db   turnmark_tables   the catalog: one row per table
            turnmark_words    full-text index of titles, labels and cells, to find tables
            turnmark_rows     full-text index of the rows of large tables
            NAME              the rows of a table; its columns are described in the catalog
"""

from __future__ import annotations

import hashlib
import sqlite3
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import NamedTuple

from turnmark.core.grouping import batched
from turnmark.corpora.tables.column_types import (
    CellValue,
    ColumnKind,
    ColumnRange,
    ColumnType,
    file_habits,
    gather_evidence,
    repeats_labels,
)
from turnmark.corpora.tables.data_tables import column_labels, data_rows, tables_of_document
from turnmark.corpora.tables.markdown_tables import row_markdown
from turnmark.corpora.tables.total_rows import MAX_NESTED_ROWS, Amounts, TotalRows, nested_totals
from turnmark.corpora.text.languages import detect_language
from turnmark.corpora.types import Document, TableData
from turnmark.retrieval.tables.search_words import split_unspaced
from turnmark.retrieval.tables.sql_names import ROW_NUMBER, TOTAL_COLUMN, column_names, quote_name, table_name
from turnmark.retrieval.tables.table_records import CatalogEntry, StoredTable, TableColumn
from turnmark.retrieval.tables.tables_db import cell_expressions, parse_entry, read_only_address

UNFINISHED_TABLES = "kept.tables.db"
"""Name of the file while the documents are read."""
TABLES_VERSION = 6
"""Version of the file. Tables of another version are not taken over by a build."""
MAX_RANKED_CHARACTERS = 200_000
"""Characters of the cells of a large table that rank it. It is also found by the words of all its rows."""
MAX_LISTED_VALUES = 12
"""Number of different texts of a column up to which the catalog lists them."""
MAX_LISTED_LENGTH = 40
"""Characters of the longest listed text."""
_BATCH_ROWS = 2_000
_COLUMNS = "name document title path section page rows first_row digest".split()
"""Fields of the catalog's entries (`CatalogEntry`, as JSON) that statements name."""
_SCHEMA = """
CREATE TABLE turnmark_tables ("number" INTEGER PRIMARY KEY, "entry" TEXT NOT NULL, __COLUMNS__);
CREATE INDEX turnmark_by_document ON turnmark_tables ("document");
CREATE VIRTUAL TABLE turnmark_words USING fts5(
    "name", "title", "section", "labels", "cells", tokenize="porter unicode61 remove_diacritics 2"
);
CREATE VIRTUAL TABLE turnmark_rows USING fts5(
    "cells", content='', detail=none, columnsize=0, tokenize="unicode61 remove_diacritics 2"
);
""".replace("__COLUMNS__", ", ".join(f'"{name}" AS (json_extract("entry", \'$.{name}\'))' for name in _COLUMNS))
_AFFINITY = {"integer": "INTEGER", "real": "REAL", "date": "TEXT", "text": "TEXT"}


@dataclass
class _TypedTable:
    """A table with the types of its columns."""

    data: TableData
    types: list[ColumnType]
    unparsed: list[int] = field(default_factory=list)
    summaries: list[ColumnRange] = field(default_factory=list)
    rows: int = 0
    totals: int = 0
    first_row: int | None = None
    first_offset: int = 0
    row_room: int = 0
    shown_rows: int = 0


def _listed_texts(values: ColumnRange) -> tuple[str, ...]:
    """Return the different texts of a column if they are few and short."""
    is_short = len(values.texts) <= MAX_LISTED_VALUES and all(len(text) <= MAX_LISTED_LENGTH for text in values.texts)
    return tuple(sorted(values.texts)) if is_short else ()


def tables_file(digest: str) -> str:
    """Return the path of the file with the tables of a fingerprint (`TableWriter.digest`) in a generation's folder."""
    return f"tables/{digest[:16]}.db"


class TableWriter:
    """The tables of a build, which are written as its documents are read."""

    def __init__(self, path: Path) -> None:
        for leftover in path.parent.glob(f"{path.name}*"):
            leftover.unlink()
        self.path = path
        self._db = sqlite3.connect(path, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode=OFF")  # an interrupted build reads its source again
        self._db.execute("PRAGMA synchronous=OFF")
        self._db.executescript(_SCHEMA)
        self._names: set[str] = set()
        self._searched_rows = 0

    def add(self, document: Document) -> list[str]:
        """Write the tables of a document, and return their digests."""
        tables = list(tables_of_document(document))
        if not tables:
            return []
        evidence = [
            gather_evidence(column_labels(each), ((row.cells, row.stored) for row in data_rows(each)))
            for each in tables
        ]
        habits = file_habits(
            (column for columns in evidence for column in columns), lambda: _language(document, tables)
        )
        digests = []
        offset = len(document.text) + 1
        with self._db:
            for table, columns in zip(tables, evidence, strict=True):
                typed = _TypedTable(table, [column.type(habits) for column in columns])
                typed.shown_rows = _shown_rows(document, table)
                # Only readers of sheets shorten tables; a large one in a text is written out.
                if table.packed or (document.tables and len(table.rows) > typed.shown_rows):
                    typed.first_row, typed.first_offset = self._searched_rows, offset
                digests.append(self._write(document, typed))
                offset += typed.rows * typed.row_room
        return digests

    def _write(self, document: Document, table: _TypedTable) -> str:
        """Write a table and its entry in the catalog, and return its digest."""
        data = table.data
        labels = column_labels(data)
        names = column_names(labels, [each.kind != "text" for each in table.types])
        name = self._new_name(document.id, data.sheet)
        insert = self._create(name, ((*pair, kind.kind) for pair, kind in zip(names, table.types, strict=True)))
        table.unparsed = [0] * len(labels)
        table.summaries = [ColumnRange(kind.kind == "text") for kind in table.types]
        digest = hashlib.sha256()
        words = self._insert_rows(table, insert, digest)
        columns = zip(names, labels, table.types, table.unparsed, table.summaries, strict=True)
        records = [
            TableColumn(
                name=column, label=label, type=kind.kind, unit=kind.unit, text_name=text, unparsed=unparsed,
                low=summary.low, high=summary.high, values=_listed_texts(summary), remarks=kind.remarks,
            )
            for (column, text), label, kind, unparsed, summary in columns
        ]  # fmt: skip
        entry = CatalogEntry(
            name=name, document=document.id, title=document.title, path=document.path, sheet=data.sheet,
            section=data.section, page=data.page, caption=data.caption, columns=tuple(records), rows=table.rows,
            totals=table.totals, start=data.start, end=data.end, date=document.date, first_row=table.first_row,
            first_offset=table.first_offset, row_room=table.row_room, shown_rows=table.shown_rows,
        )  # fmt: skip
        digest.update(entry.model_dump_json(exclude={"name", "first_row"}).encode())
        self._catalog(entry.model_copy(update={"digest": digest.hexdigest()}), words)
        return digest.hexdigest()

    def _insert_rows(self, table: _TypedTable, insert: str, digest: hashlib._Hash) -> str:
        """Insert the rows of a table, add them to its digest, and return the words of its cells that rank it."""
        words: list[str] = []
        room = MAX_RANKED_CHARACTERS if table.first_row is not None else sys.maxsize
        for batch in batched(_value_rows(table), _BATCH_ROWS):
            for cells, _ in batch:
                if table.first_row is not None:
                    self._index_row(cells)
                    table.row_room = max(table.row_room, len(row_markdown(cells)) + 1)
                if room > 0:
                    line = " ".join(cells)
                    words.append(line[:room])
                    room -= len(line)
            rows = [row for _, row in batch]
            digest.update(repr(rows).encode("utf-8", "surrogatepass"))
            self._db.executemany(insert, rows)
        if table.rows % _BATCH_ROWS == 0:
            digest.update(b"[]")  # as in the digests of earlier versions
        return " ".join(words)

    def _index_row(self, cells: Sequence[str]) -> None:
        """Add the next row of a large table to the full-text index."""
        self._searched_rows += 1
        self._db.execute(
            'INSERT INTO turnmark_rows (rowid, "cells") VALUES (?, ?)',
            [self._searched_rows, split_unspaced(" ".join(filter(None, cells)))],
        )

    def _new_name(self, document: str, sheet: str) -> str:
        name = table_name(document, sheet, self._names)
        self._names.add(name)
        return name

    def _create(self, name: str, columns: Iterable[tuple[str, str, ColumnKind]]) -> str:
        """Create a table from the names and the kind of each column; return the statement that inserts a row."""
        parts = []
        for column, text, kind in columns:
            parts.append(f"{quote_name(column)} {_AFFINITY[kind]}")
            if text:
                parts.append(f"{quote_name(text)} TEXT")
        parts += [f'"{ROW_NUMBER}" INTEGER', f'"{TOTAL_COLUMN}" INTEGER']
        self._db.execute(f"CREATE TABLE {quote_name(name)} ({', '.join(parts)})")
        return f"INSERT INTO {quote_name(name)} VALUES ({', '.join('?' * len(parts))})"

    def _catalog(self, entry: CatalogEntry, words: str) -> None:
        cursor = self._db.execute('INSERT INTO turnmark_tables ("entry") VALUES (?)', [entry.model_dump_json()])
        texts = (
            f"{entry.name.replace('_', ' ')} {entry.sheet} {entry.path}", entry.title,
            f"{entry.section} {entry.caption}", " ".join(column.label for column in entry.columns), words,
        )  # fmt: skip
        self._db.execute(
            'INSERT INTO turnmark_words (rowid, "name", "title", "section", "labels", "cells") '
            "VALUES (?, ?, ?, ?, ?, ?)",
            [cursor.lastrowid, *map(split_unspaced, texts)],
        )

    def copy(self, current: CurrentTables, document: str) -> None:
        """Write the tables of an unchanged document as the current generation has them."""
        with self._db:
            for entry, words in current.entries(document):
                name, first_row = self._new_name(document, entry.sheet), None
                insert = self._create(name, ((each.name, each.text_name, each.type) for each in entry.columns))
                self._db.executemany(insert, current.rows(entry.name))
                if entry.first_row is not None:
                    first_row = self._searched_rows
                    for cells in current.shown_rows(entry):
                        self._index_row(cells)
                self._catalog(entry.model_copy(update={"name": name, "first_row": first_row}), words)

    def digest(self) -> str:
        """Return a fingerprint of all tables; empty if there are none."""
        rows = self._db.execute('SELECT "name", "digest" FROM turnmark_tables ORDER BY "number"')
        digests = [f"{name} {digest}" for name, digest in rows]
        return hashlib.sha256(f"{TABLES_VERSION} {' '.join(digests)}".encode()).hexdigest() if digests else ""

    def finish(self) -> None:
        """Leave one plain file that can be opened read-only."""
        self._db.commit()
        for name in ("turnmark_words", "turnmark_rows"):
            self._db.execute(f"INSERT INTO {name} ({name}) VALUES ('optimize')")
        self._db.commit()
        self._db.execute("PRAGMA journal_mode=DELETE")

    def close(self) -> None:
        """Close the file."""
        self._db.close()


class CurrentTables:
    """The tables of the current generation, for the documents that a build does not read again.

    Raises:
        sqlite3.DatabaseError: the file is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(read_only_address(path), uri=True, check_same_thread=False)
        try:
            ((said,),) = self._db.execute("PRAGMA quick_check(1)").fetchall()
            if said != "ok":
                raise sqlite3.DatabaseError(said)
        except sqlite3.DatabaseError:
            self._db.close()
            raise

    def entries(self, document: str) -> Iterator[tuple[CatalogEntry, str]]:
        """Yield each table of a document as the catalog has it, with the words that find it."""
        rows = self._db.execute(
            'SELECT t."entry", w."cells" FROM turnmark_tables t JOIN turnmark_words w ON w.rowid = t."number" '
            'WHERE t."document" = ? ORDER BY t."number"',
            [document],
        )
        for entry, words in rows.fetchall():
            yield parse_entry(self.path, entry), words

    def rows(self, name: str) -> Iterator[tuple[CellValue, ...]]:
        """Yield the rows of a table."""
        return iter(self._db.execute(f"SELECT * FROM {quote_name(name)} ORDER BY rowid"))

    def shown_rows(self, table: StoredTable) -> Iterator[tuple[str, ...]]:
        """Yield the cells of each row of a table as displayed."""
        cells = ", ".join(cell_expressions(table.columns))
        return iter(self._db.execute(f"SELECT {cells} FROM {quote_name(table.name)} ORDER BY rowid"))

    def digests(self, document: str) -> list[str]:
        """Return the digests of the tables of a document."""
        rows = self._db.execute(
            'SELECT "digest" FROM turnmark_tables WHERE "document" = ? ORDER BY "number"', [document]
        )
        return [row[0] for row in rows]

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _shown_rows(document: Document, table: TableData) -> int:
    """Return how many of the first rows of a table the text of its document shows."""
    first = document.text.find("\n|", table.start, table.end)  # behind the description of a large table
    is_described = first >= 0 and not document.text.startswith("|", table.start)
    start = first + 1 if is_described else table.start
    return max(document.text.count("\n", start, table.end) - 1, 0)


def _language(document: Document, tables: Sequence[TableData]) -> str:
    """Return the language of a document, which may consist of tables alone."""
    return detect_language(f"{document.title}\n{' '.join(tables[0].columns)}\n{document.text[:5_000]}")


class _ValueRow(NamedTuple):
    """A row with its cells as displayed, their values, and whether it repeats the column names."""

    number: int
    cells: list[str]
    values: list[CellValue]
    repeats_labels: bool


def _rows(table: _TypedTable) -> Iterator[_ValueRow]:
    width = len(table.types)
    labels = column_labels(table.data)
    for row in data_rows(table.data):
        cells = [*row.cells[:width], *[""] * (width - len(row.cells))]
        stored = [*row.stored[:width], *[""] * (width - len(row.stored))]
        values = [kind.value(text, raw) for kind, text, raw in zip(table.types, cells, stored, strict=True)]
        yield _ValueRow(row.number, cells, values, repeats_labels(cells, labels))


def _marked_rows(table: _TypedTable) -> Iterator[tuple[_ValueRow, bool]]:
    """Yield each row, and whether it repeats others: as a total, or as column names."""
    search = TotalRows([kind.has_amounts for kind in table.types])
    rows = _rows(table)
    first = [*islice(rows, MAX_NESTED_ROWS + 1)]
    marked: list[bool] = []
    amounts: list[Amounts] = []
    for row in chain(first, rows):
        if row.repeats_labels:
            search.start_group()
        found = {} if row.repeats_labels else _amounts(table.types, row)
        is_total = row.repeats_labels or search.is_total(row.cells, found)
        if len(first) > MAX_NESTED_ROWS:
            yield row, is_total
        else:
            marked.append(is_total)
            amounts.append(found)
    nested = nested_totals(amounts, {at for at, is_total in enumerate(marked) if is_total})
    yield from ((row, marked[at] or at in nested) for at, row in enumerate(first) if at < len(marked))


def _amounts(types: Sequence[ColumnType], row: _ValueRow) -> Amounts:
    """Return the numbers of a row that may be summed, by column and unit."""
    cells = enumerate(zip(types, row.cells, row.values, strict=True))
    amounts = ((at, kind.amount(text, value)) for at, (kind, text, value) in cells if kind.has_amounts)
    return {(at, amount[0]): amount[1] for at, amount in amounts if amount is not None}


def _value_rows(table: _TypedTable) -> Iterator[tuple[list[str], tuple[CellValue, ...]]]:
    """Yield the cells of each row as displayed, and the row as stored. Count unreadable cells and totals in `table`."""
    for row, is_total in _marked_rows(table):
        stored_row: list[CellValue] = []
        for at, (kind, text, value) in enumerate(zip(table.types, row.cells, row.values, strict=True)):
            stored_row.append(unicodedata.normalize("NFC", value) if isinstance(value, str) else value)
            if kind.kind != "text":
                stored_row.append(text or None)
                table.unparsed[at] += value is None and not kind.is_blank(text) and not row.repeats_labels
            if not is_total:
                table.summaries[at].add(value)
        table.rows += 1
        table.totals += is_total
        yield row.cells, (*stored_row, row.number, int(is_total))
