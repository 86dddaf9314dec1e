"""The tools over the tables of the served indexes: `tables` lists them, `sql` runs a SELECT."""

from __future__ import annotations

from dataclasses import dataclass

from pydantic import Field

from turnmark.assistant.mcp.tool_records import FILTER_HELP, NonEmptyText, PassageFilter, ToolArguments
from turnmark.assistant.serving.served_indexes import ServedIndexes
from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.core.untrusted import valid_text
from turnmark.corpora.tables.column_types import CellValue
from turnmark.retrieval.tables.sql_queries import MAX_ROWS
from turnmark.retrieval.tables.table_records import Basis, StoredTable
from turnmark.retrieval.tables.table_store import TableStore

MAX_LISTED_TABLES, MAX_LISTED_NAMES, MAX_SAMPLE_ROWS = 20, 50, 3
"""Maximum tables that `tables` describes, maximum others that it only names, and the rows of each."""
MAX_LISTED_CHARS = 4_000
"""Maximum length of the JSON of the described tables, about 1,000 tokens; one table is always described."""
MAX_LISTED_ROWS = 10_000
"""Maximum rows that one call of `sql` returns, for whole lists."""


class TablesArguments(ToolArguments):
    """The arguments of `tables`."""

    words: str = Field(
        default="",
        description="list only tables with all of these words in names, headings or cells, or, without such a table, "
        "those with most of them; empty: all",
    )
    where: PassageFilter = Field(default=(), description=FILTER_HELP)


class SqlArguments(ToolArguments):
    """The arguments of `sql`."""

    statement: NonEmptyText = Field(
        description="one SELECT of SQLite with the names that `tables` lists; a column of numbers or ISO dates has its "
        "cells as shown in text_name; rows with is_total = 1 repeat others; number(text) and fold(text) are available"
    )
    k: int = Field(default=MAX_ROWS, ge=1, le=MAX_LISTED_ROWS, description="the maximum number of rows")


class DescribedTable(StoredTable):
    """A table with its first rows."""

    lacks: tuple[str, ...] = Field(default=(), description="those of the words that it does not contain")
    first_rows: tuple[tuple[CellValue, ...], ...] = Field(description="cells as shown, in the order of the columns")


class TablesResult(Record):
    """The result of `tables`."""

    index: str
    words: str
    tables: tuple[DescribedTable, ...] = Field(description="if words were given, the best matches come first")
    total: int = Field(description="number of tables that match, listed or not")
    of: int = Field(description="number of tables in the index")
    further: tuple[str, ...] = Field(description="names of matching tables that did not fit; words describe them")
    left_out: int = Field(description="number of matching tables that are not listed")


class SqlResult(Record):
    """The result of `sql`."""

    index: str
    statement: str
    columns: tuple[str, ...]
    rows: tuple[tuple[CellValue, ...], ...]
    left_out: int = Field(description="number of further rows that did not fit")
    tables: tuple[StoredTable, ...] = Field(description="the tables that were read, with the document of each")
    basis: tuple[Basis, ...] = Field(description="the first rows that the result rests on, by table")


@dataclass(frozen=True)
class ServedTables:
    """The tables of the served indexes."""

    indexes: ServedIndexes

    def exist(self) -> bool:
        """Return whether any index has tables."""
        stores = [self._store(name) for name in self.indexes.names]
        return any(store is not None and store.tables() for store in stores)

    def tables(self, arguments: TablesArguments) -> TablesResult:
        """List the tables of an index, or those that have all or most of the given words."""
        name, store = self._named(arguments.index)
        words = valid_text(arguments.words).strip()
        self.indexes.index(name).check_where(arguments.where)
        found = store.find(words, arguments.where)
        described: list[DescribedTable] = []
        room = MAX_LISTED_CHARS
        for table, lacks in found[:MAX_LISTED_TABLES]:
            rows = tuple(store.first_rows(table, MAX_SAMPLE_ROWS, shown=True))
            each = DescribedTable(**dict(table), first_rows=rows, lacks=lacks)
            room -= len(each.model_dump_json())
            if described and room < 0:
                break
            described.append(each)
        further = [table.name for table, _ in found[len(described) : len(described) + MAX_LISTED_NAMES]]
        return TablesResult(
            index=name,
            words=arguments.words,
            tables=tuple(described),
            total=len(found),
            of=len(store.tables()),
            further=tuple(further),
            left_out=len(found) - len(described) - len(further),
        )

    def sql(self, arguments: SqlArguments) -> SqlResult:
        """Run a statement over the tables of an index."""
        name, store = self._named(arguments.index)
        result = store.run(valid_text(arguments.statement), arguments.k)
        return SqlResult(
            index=name,
            statement=arguments.statement,
            columns=result.columns,
            rows=result.rows,
            left_out=result.cut,
            tables=result.tables,
            basis=result.basis,
        )

    def _named(self, requested: str) -> tuple[str, TableStore]:
        """Return the requested index and its tables; raise RequestError if it has none."""
        name = self.indexes.name(requested)
        store = self._store(name)
        if store is None:
            raise RequestError(f"index: {name!r} has no tables")
        return name, store

    def _store(self, name: str) -> TableStore | None:
        retriever = self.indexes.assistant(name).retriever
        return retriever.tables() if retriever is not None else None
