"""Finds the rows of large tables by their values, and returns them as passages.

The text of a document describes a large table and shows its first rows. All rows are in an SQLite file with a full-text
index. A row becomes a passage whose offsets are after the end of its document's text. It therefore has an id, and can
be cited and read like any other passage.
"""

from __future__ import annotations

import re
import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import cached_property
from itertools import zip_longest
from math import log
from typing import Any, NamedTuple

import numpy as np

from turnmark.corpora.tables.markdown_tables import row_markdown
from turnmark.corpora.text.function_words import content_words
from turnmark.corpora.types import Passage
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.passage_store import StoredText
from turnmark.retrieval.tables.search_words import match_both_numbers, remove_plural, search_words
from turnmark.retrieval.tables.sql_names import quote_name
from turnmark.retrieval.tables.table_records import CatalogEntry, StoredTable, TablePart
from turnmark.retrieval.tables.tables_db import (
    cell_expressions,
    damage_error,
    read_catalog,
    read_only_address,
    read_rows,
)

MAX_TIED_ROWS = 50
"""Maximum number of rows that match equally well and are all returned. More rows are no answer, only examples."""
EXAMPLES = 2
"""Number of rows that are returned as examples if more than `MAX_TIED_ROWS` match equally well."""
MIN_SHARE = 0.5
"""Minimum share of the words of a query, weighted by their rarity, that a row has in common with it."""
MAX_FREQUENCY = 200_000
"""Maximum number of rows with a word that is searched for; a more common word is ignored."""
ROWS_AROUND = 25
"""Number of rows before and after a row that are its neighbors."""
_MAX_WORDS = 30
_CELL_SEPARATOR = "\x1f"
_IRREGULAR = re.compile(r"[|<]|[^\S \x1f]| (?=[ \x1f])|\x1f |^ | $")
"""Matches joined cells that a row of Markdown does not show unchanged."""


class FoundRow(NamedTuple):
    """A row of a large table, and the share of the words of a query that it contains."""

    passage: Passage
    share: float


class TableExcerpt(NamedTuple):
    """The stretch of a text that describes a large table and shows its first rows, and the line with its labels."""

    start: int
    end: int
    head: str


class _LargeTable(CatalogEntry):
    first_row: int


def _own_words(table: StoredTable) -> set[str]:
    """Return the words of the title, path and labels. A query has them although no row does."""
    labels = " ".join(column.label for column in table.columns)
    return {remove_plural(word) for word in search_words(f"{table.title} {table.path} {table.section} {labels}")}


class RowFinder:
    """The rows of the large tables of one index.

    Args:
        name: name of the index if several are searched together; else empty.
    """

    def __init__(self, part: TablePart, name: str) -> None:
        self._part, self._name = part, name

    def _read(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return read_rows(self._part.path, statement, values)

    @cached_property
    def _tables(self) -> list[_LargeTable]:
        return [
            _LargeTable(**dict(each)) for each in read_catalog(self._part.path).values() if each.first_row is not None
        ]

    def has_rows(self) -> bool:
        """Return whether there is a large table."""
        return bool(self._tables)

    def find(self, text: str, k: int, where: Where, only_here: Sequence[str] = ()) -> list[FoundRow]:
        """Return at most `k` rows that have a good part of the words of a text, best first.

        The best rows with each word that no passage contains come first, in turn. Of many other rows that match equally
        well, only a few examples are returned.

        Args:
            only_here: the words of the text that no passage contains.
        """
        numbers, shares = self._scores(text, where)
        with_word = [self._best_with(word, numbers, shares, k) for word in only_here]
        in_turn = [row for rank in zip_longest(*with_word) for row in rank if row is not None]
        found = dict.fromkeys([*in_turn, *self._best(numbers, shares, k)])
        return [FoundRow(self._passage(number), share) for number, share in [*found][:k]]

    def _best_with(self, word: str, numbers: Any, shares: Any, k: int) -> list[tuple[int, float]]:
        """Return the row number and share of the best `k` rows with a word."""
        rows = self._rows_with(word)
        places: list[int] = np.flatnonzero(np.isin(numbers, rows)).tolist() if len(rows) <= MAX_FREQUENCY else []
        order = sorted(places, key=lambda at: -shares[at])[:k]
        return [(int(numbers[at]), float(shares[at])) for at in order]

    def _best(self, numbers: Any, shares: Any, k: int) -> list[tuple[int, float]]:
        """Return the row number and share of the best `k` rows; only examples if many rows match equally well."""
        order = np.argsort(-shares, kind="stable")[: MAX_TIED_ROWS + 1]
        best = [at for at in order.tolist() if shares[at] >= MIN_SHARE]
        if len(best) > MAX_TIED_ROWS and shares[best[-1]] >= shares[best[0]]:
            best = best[:EXAMPLES]
        return [(int(numbers[at]), float(shares[at])) for at in best[:k]]

    def best_share(self, text: str) -> float:
        """Return the share (0..1) of a text's words that the best row contains; rare words weigh more."""
        return float(self._scores(text, ())[1].max(initial=0.0))

    def words(self, text: str) -> list[str]:
        """Return the words of a text with which rows are searched."""
        return list(dict.fromkeys(search_words(" ".join(content_words(text)) or text)))[:_MAX_WORDS]

    def knows(self, word: str) -> bool:
        """Return whether a row contains a word."""
        return bool(self._tables) and all(len(self._rows_with(token)) for token in search_words(word))

    def _scores(self, text: str, where: Where) -> tuple[Any, Any]:
        """Return the rows with words of a text, and the share of words in each."""
        tables = self._under(where)
        total = sum(table.rows for table in self._tables)
        known = set[str]().union(*map(_own_words, tables))
        scores = np.zeros(total + 1, dtype=np.float32)
        possible = 0.0
        for word in self.words(text) if tables else ():
            rows = self._rows_with(word)
            if len(rows) > MAX_FREQUENCY or (not len(rows) and remove_plural(word) in known):
                continue
            weight = log(1 + (total - len(rows) + 0.5) / (len(rows) + 0.5))
            if remove_plural(word) not in known:
                possible += weight
            scores[rows] += weight
        allowed = np.zeros(total + 1, dtype=np.bool_)
        for table in tables:
            allowed[table.first_row + 1 + table.shown_rows : table.first_row + 1 + table.rows] = True
        numbers = np.flatnonzero((scores > 0) & allowed)
        return numbers, np.minimum(scores[numbers] / possible, 1.0) if possible else np.zeros(len(numbers))

    def _under(self, where: Where) -> list[_LargeTable]:
        part_where = self._part.where_in(where)
        if not part_where:
            return [] if part_where is None else self._tables
        names = {each.name for each in read_catalog(self._part.path, part_where).values()}
        return [table for table in self._tables if table.name in names]

    def _rows_with(self, word: str) -> Any:
        rows = self._read(
            "SELECT rowid FROM turnmark_rows WHERE turnmark_rows MATCH ? LIMIT ?",
            [match_both_numbers(word), MAX_FREQUENCY + 1],
        )
        return np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))

    def _passage(self, number: int) -> Passage:
        """Return the row with a number among the rows of all large tables."""
        table = self._table_of(number)
        (passage,) = self._passages(table, number - table.first_row, number - table.first_row)
        return passage

    def _table_of(self, number: int) -> _LargeTable:
        return next(each for each in self._tables if each.first_row < number <= each.first_row + each.rows)

    def _passages(self, table: _LargeTable, first: int, last: int) -> list[Passage]:
        """Return the rows of a table between two of its rows, counted from 1."""
        shown = ", ".join(cell_expressions(table.columns))
        rows = self._read(
            f"SELECT rowid, {shown} FROM {quote_name(table.name)} WHERE rowid BETWEEN ? AND ? ORDER BY rowid",
            [first, last],
        )
        header = f"{table.head}\n|{'---|' * len(table.columns)}"
        document = self._document(table)
        passages = []
        for number, *cells in rows:
            text = row_markdown(cells)
            start = table.first_offset + (number - 1) * table.row_room
            passages.append(
                Passage(
                    id=f"{document}-{start}-{start + len(text)}",
                    document=document,
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

    def shown(self, where: Where) -> Iterator[tuple[str, TableExcerpt]]:
        """Yield the document of each large table under a filter, and the stretch of its text that describes it."""
        for table in self._under(where):
            yield self._document(table), TableExcerpt(table.start, table.end, table.head)

    def texts(self, where: Where) -> Iterator[StoredText]:
        """Yield the rows of the large tables under a filter, with the fields that a scan needs."""
        for table in self._under(where):
            document, head, start = self._document(table), table.head, table.first_offset
            for (cells,) in self._scan(table):
                if _IRREGULAR.search(cells):
                    text = row_markdown(cells.split(_CELL_SEPARATOR))
                else:
                    text = f"| {cells.replace(_CELL_SEPARATOR, ' | ')} |"
                identity = f"{document}-{start}-{start + len(text)}"
                yield StoredText(identity, document, table.title, table.section, text, start, head)
                start += table.row_room

    def _scan(self, table: _LargeTable) -> Iterator[tuple[str]]:
        """Yield the cells of each row of a table as displayed, joined by `_CELL_SEPARATOR`."""
        cells = f" || '{_CELL_SEPARATOR}' || ".join(cell_expressions(table.columns))
        try:
            with closing(sqlite3.connect(read_only_address(self._part.path), uri=True)) as db:
                yield from db.execute(f"SELECT {cells} FROM {quote_name(table.name)} ORDER BY rowid")
        except sqlite3.DatabaseError as error:
            raise damage_error(self._part.path, error) from error

    def counts(self, text: str) -> Counter[str]:
        """Return document -> number of rows with all words of a text, except the rows that its text shows."""
        rows = [set(self._rows_with(word).tolist()) for word in self.words(text)]
        counts: Counter[str] = Counter()
        for number in set.intersection(*rows) if rows else ():
            table = self._table_of(number)
            counts[self._document(table)] += number - table.first_row > table.shown_rows
        return +counts

    def _document(self, table: _LargeTable) -> str:
        return f"{self._name}:{table.document}" if self._name else table.document

    def around(self, document: str, start: int) -> list[Passage]:
        """Return the row at an offset of a document, with the rows before and after it; empty if no row is there."""
        for table in self._tables:
            at = start - table.first_offset
            if self._document(table) == document and 0 <= at < table.rows * table.row_room:
                number = at // table.row_room + 1
                return self._passages(table, number - ROWS_AROUND, number + ROWS_AROUND)
        return []
