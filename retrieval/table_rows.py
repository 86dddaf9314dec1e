"""Finds the rows of large tables by their values, and returns them as passages.

The text of a document describes a large table and shows its first rows. All rows are in an SQLite file with a full-text
index. A row becomes a passage whose offsets are behind the text of its document, so that it has an id, and can be cited
and read like any other.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from math import log
from typing import Any, NamedTuple

import numpy as np

from turnmark.corpora.function_words import content_words
from turnmark.corpora.tables import row_markdown
from turnmark.corpora.types import Passage
from turnmark.retrieval.store import StoredText
from turnmark.retrieval.table_files import searchable
from turnmark.retrieval.table_names import quoted
from turnmark.retrieval.table_records import TableColumn, TablePart, damaged, read_only

MAX_TIED_ROWS = 50
"""Maximum number of rows that match equally well and are all returned. More rows are no answer, but examples."""
EXAMPLES = 2
"""Number of rows that are returned of more rows that match equally well."""
MIN_SHARE = 0.5
"""Minimum share of the words of a query, weighted by their rarity, that a row has in common with it."""
MAX_FREQUENCY = 200_000
"""Rows with a word from which the word is too common to search for."""
ROWS_AROUND = 25
"""Number of rows before and after a row that are its neighbors."""
_MAX_WORDS = 30
_PAGE_ROWS = 5_000
_FIELDS = tuple("name document title path section columns rows date first_row first_offset row_room shown_rows".split())


class FoundRow(NamedTuple):
    """A row of a large table, and the share of the words of a query that it contains."""

    passage: Passage
    share: float


class _LargeTable(NamedTuple):
    name: str
    document: str
    title: str
    path: str
    section: str
    columns: list[TableColumn]
    rows: int
    date: str
    first_row: int
    first_offset: int
    row_room: int
    shown_rows: int
    number: int

    @property
    def words(self) -> set[str]:
        """The words of the title, path and labels. A query has them although no row does."""
        labels = " ".join(column.label for column in self.columns)
        return {_stem(word) for word in _words(f"{self.title} {self.path} {self.section} {labels}")}


class RowFinder:
    """The rows of the large tables of one index.

    Args:
        name: name of the index if several are searched together; else empty.
    """

    def __init__(self, part: TablePart, name: str) -> None:
        self._part, self._name = part, name

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            with closing(sqlite3.connect(read_only(self._part.path), uri=True)) as db:
                return db.execute(statement, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise damaged(self._part.path, error) from error

    @cached_property
    def _tables(self) -> list[_LargeTable]:
        names = ", ".join(map(quoted, _FIELDS))
        rows = self._read(
            f'SELECT {names}, "number" FROM turnmark_tables WHERE "first_row" IS NOT NULL ORDER BY "number"'
        )
        tables = []
        for row in rows:
            fields = dict(zip((*_FIELDS, "number"), row, strict=True))
            columns = [TableColumn(**column) for column in json.loads(fields["columns"])]
            tables.append(_LargeTable(**{**fields, "columns": columns}))
        return tables

    def has_rows(self) -> bool:
        """Return whether there is a large table."""
        return bool(self._tables)

    def find(self, text: str, k: int, where: Mapping[str, str]) -> list[FoundRow]:
        """Return at most `k` rows that have a good part of the words of a text, best first.

        If very many match equally well, only a few examples are returned.
        """
        scored = self._scores(text, where)
        if scored is None or not len(scored[0]):
            return []
        numbers, shares = scored
        order = np.argsort(-shares, kind="stable")[: MAX_TIED_ROWS + 1]
        best = [at for at in order.tolist() if shares[at] >= MIN_SHARE]
        if len(best) > MAX_TIED_ROWS and shares[best[-1]] >= shares[best[0]]:
            best = best[:EXAMPLES]
        return [FoundRow(self._passage(int(numbers[at])), float(shares[at])) for at in best[:k]]

    def best_share(self, text: str) -> float:
        """Return how much of a text's words the best row has, 0..1; rare words weigh more."""
        scored = self._scores(text, {})
        return float(scored[1].max()) if scored is not None and len(scored[1]) else 0.0

    def knows(self, word: str) -> bool:
        """Return whether a row contains a word."""
        return bool(self._tables) and all(len(self._rows_with(token)) for token in _words(word))

    def counts(self, words: str) -> dict[str, int]:
        """Return document -> number of its rows that contain all of the words; without those that its text shows."""
        tokens = _words(words)
        if not tokens:
            return {}
        rows = set(self._rows_with(tokens[0]).tolist()).intersection(*(self._rows_with(each) for each in tokens[1:]))
        counts: dict[str, int] = {}
        for table in self._tables:
            first = table.first_row + 1 + table.shown_rows
            count = sum(1 for row in rows if first <= row <= table.first_row + table.rows)
            if count:
                document = f"{self._name}:{table.document}".lstrip(":")
                counts[document] = counts.get(document, 0) + count
        return counts

    def _scores(self, text: str, where: Mapping[str, str]) -> tuple[Any, Any] | None:
        """Return the rows with words of a text, and the share of the words that each has; None without tables."""
        tables = self._under(where)
        words = list(dict.fromkeys(_words(" ".join(content_words(text)) or text)))[:_MAX_WORDS]
        if not tables or not words:
            return None
        total = sum(table.rows for table in self._tables)
        known = set[str]().union(*(table.words for table in tables))
        scores = np.zeros(total + 1, dtype=np.float32)
        possible = 0.0
        for word in words:
            rows = self._rows_with(word)
            if len(rows) > MAX_FREQUENCY or (not len(rows) and _stem(word) in known):
                continue
            weight = log(1 + (total - len(rows) + 0.5) / (len(rows) + 0.5))
            if _stem(word) not in known:
                possible += weight
            scores[rows] += weight
        allowed = np.zeros(total + 1, dtype=np.bool_)
        for table in tables:
            allowed[table.first_row + 1 + table.shown_rows : table.first_row + 1 + table.rows] = True
        numbers = np.flatnonzero((scores > 0) & allowed)
        return numbers, np.minimum(scores[numbers] / possible, 1.0) if possible else np.zeros(len(numbers))

    def _under(self, where: Mapping[str, str]) -> list[_LargeTable]:
        part_where = self._part.where_in(where) if where else {}
        if part_where is None or not part_where:
            return [] if part_where is None else self._tables
        tests = " AND ".join(f"{quoted(key)} GLOB ?" for key in part_where)
        globs = [glob.replace("[", "[[]") for glob in part_where.values()]
        numbers = {row[0] for row in self._read(f'SELECT "number" FROM turnmark_tables WHERE {tests}', globs)}
        return [table for table in self._tables if table.number in numbers]

    def _rows_with(self, word: str) -> Any:
        rows = self._read(
            "SELECT rowid FROM turnmark_rows WHERE turnmark_rows MATCH ? LIMIT ?", [f'"{word}"', MAX_FREQUENCY + 1]
        )
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))

    def _passage(self, number: int) -> Passage:
        """Return the row with a number among the rows of all large tables."""
        table = next(each for each in self._tables if each.first_row < number <= each.first_row + each.rows)
        (passage,) = self._passages(table, number - table.first_row, number - table.first_row)
        return passage

    def _passages(self, table: _LargeTable, first: int, last: int) -> list[Passage]:
        """Return the rows of a table between two of its rows, counted from 1."""
        shown = ", ".join(f"coalesce({quoted(each.text_name or each.name)}, '')" for each in table.columns)
        rows = self._read(
            f"SELECT rowid, {shown} FROM {quoted(table.name)} WHERE rowid BETWEEN ? AND ? ORDER BY rowid", [first, last]
        )
        head = row_markdown([column.label for column in table.columns])
        header = f"{head}\n|{'---|' * len(table.columns)}"
        begins = f"{self._name}:" if self._name else ""
        passages = []
        for number, *cells in rows:
            text = row_markdown(cells)
            start = table.first_offset + (number - 1) * table.row_room
            passages.append(
                Passage(
                    id=f"{begins}{table.document}-{start}-{start + len(text)}",
                    document=f"{begins}{table.document}",
                    title=table.title,
                    text=text,
                    start=start,
                    end=start + len(text),
                    path=table.path,
                    section=table.section,
                    date=table.date,
                    header=header,
                    index=self._name,
                )
            )
        return passages

    def texts(self, where: Mapping[str, str]) -> Iterator[StoredText]:
        """Yield the rows that the texts of their documents do not show."""
        for table in self._under(where):
            for first in range(table.shown_rows + 1, table.rows + 1, _PAGE_ROWS):
                for row in self._passages(table, first, min(first + _PAGE_ROWS - 1, table.rows)):
                    yield StoredText(row.id, row.document, row.title, row.section, row.text)

    def around(self, document: str, start: int) -> list[Passage]:
        """Return the row at an offset of a document, with the rows before and after it; empty if no row is there."""
        for table in self._tables:
            at = start - table.first_offset
            if f"{self._name}:{table.document}".lstrip(":") == document and 0 <= at < table.rows * table.row_room:
                number = at // table.row_room + 1
                return self._passages(table, number - ROWS_AROUND, number + ROWS_AROUND)
        return []


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W_]+", searchable(text.lower()))


def _stem(word: str) -> str:
    """Return an English word without the ending of a plural."""
    return word[:-1] if len(word) > 3 and word.endswith("s") else word
