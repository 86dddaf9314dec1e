"""Runs one SELECT over the stored tables of an index. The statement comes from a model and is not trusted.

It can only read the tables: the files are opened read-only and an authorizer refuses everything else, such as ATTACH,
PRAGMA and functions that open files. Time, memory, rows and characters are limited.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter, deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.tables.column_types import CellValue
from turnmark.retrieval.tables.select_statements import RowQuery, Statement
from turnmark.retrieval.tables.sql_functions import add_functions
from turnmark.retrieval.tables.sql_names import ROW_NUMBER, TOTAL_COLUMN
from turnmark.retrieval.tables.table_records import Basis, QueryResult, StoredTable
from turnmark.retrieval.tables.tables_db import damage_error, read_only_address

MAX_STATEMENT_CHARACTERS = 5_000
"""Maximum length of a statement."""
MAX_SECONDS = 5.0
"""Maximum processor time of a statement."""
MAX_WAITED_SECONDS = 30.0
"""Maximum time of a statement by the clock, on a machine that is busy with other work."""
MAX_ROWS = 200
LAST_ROWS = 3
"""Number of the last rows of a longer result that are returned."""
MAX_NOISE = 1e-13
"""Maximum share of a number by which rounding to 12 digits may change it; a greater change may be of its digits."""
MAX_CHARACTERS = 20_000
"""Maximum characters of a result; further rows are left out."""
MAX_VALUE_CHARACTERS = 2_000
"""Maximum characters of one value; the rest is cut."""
MAX_COUNTED_ROWS = 1_000_000
MAX_BASIS_ROWS = 20
"""Maximum number of returned rows of each table that a result rests on."""
MAX_HEAP_BYTES = 256 * 1024**2
"""Maximum memory of SQLite in this process. A statement that needs more fails."""
_STEPS_PER_CHECK = 2_000  # of SQLite's virtual machine, after which the time is checked
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: 1_000_000,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 4 * MAX_STATEMENT_CHARACTERS,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 200,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 50,
    sqlite3.SQLITE_LIMIT_VDBE_OP: 100_000,
    sqlite3.SQLITE_LIMIT_FUNCTION_ARG: 50,
    sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
    sqlite3.SQLITE_LIMIT_WORKER_THREADS: 0,
}
_FUNCTIONS = frozenset(
    """abs avg ceil ceiling char coalesce count cume_dist date datetime degrees dense_rank exp first_value floor fold
    format glob group_concat hex ifnull iif instr julianday lag last_value lead length like ln log log10 log2 lower
    ltrim max median min mod nth_value ntile nullif number percent_rank pi pow power printf quantile radians rank
    replace round row_number rtrim sign sqrt stddev strftime string_agg substr substring sum time total trim trunc
    typeof unicode unixepoch upper acos asin atan atan2 cos sin tan""".split()
)
MAX_ATTACHED = 10
"""Maximum number of files that SQLite opens together."""
MAX_LISTED_NAMES = 30
"""Maximum names in an error message that are all listed; of more, half as many are."""


@dataclass
class _Watch:
    """The time limits of a statement, and the columns that it read."""

    known: dict[str, StoredTable]  # schema and name, such as "main.spending" -> table
    defined: frozenset[str]  # names that the statement defines in WITH
    began: float = field(default_factory=time.thread_time)
    began_clock: float = field(default_factory=time.monotonic)
    read: dict[str, dict[str, None]] = field(default_factory=dict)
    refused: str = ""

    def authorize(self, action: int, first: str | None, second: str | None, file: str | None, _: str | None) -> int:
        """Return SQLite's code for "allowed" or "refused"."""
        if action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_RECURSIVE):
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION:
            if str(second).lower() in _FUNCTIONS:
                return sqlite3.SQLITE_OK
            self.refused = f"the function {second!r} is not available"
            return sqlite3.SQLITE_DENY
        if action == sqlite3.SQLITE_READ:
            tables = self._named(str(first), file)
            for table in tables:
                self.read.setdefault(table.name, {})[str(second)] = None
            # SQLite also asks whether the rows of what WITH defines may be counted.
            if tables or (file is None and not second and str(first).lower() in self.defined):
                return sqlite3.SQLITE_OK
            self.refused = f"the table {first!r} cannot be read"
        return sqlite3.SQLITE_DENY

    def _named(self, name: str, file: str | None) -> list[StoredTable]:
        """Return the tables with a name; without the name of the file, those of all files."""
        key = name.lower()
        if file is not None:
            found = self.known.get(f"{file}.{key}")
            return [found] if found else []
        return [table for known, table in self.known.items() if known.rpartition(".")[2] == key]

    def is_over(self) -> bool:
        """Return whether the time is over."""
        return time.thread_time() - self.began > MAX_SECONDS or time.monotonic() - self.began_clock > MAX_WAITED_SECONDS


def run_statement(
    files: Mapping[str, Path], stored: Sequence[StoredTable], text: str, most: int = MAX_ROWS
) -> QueryResult:
    """Run one SELECT and return its result with the rows that it rests on.

    Args:
        files: schema -> file with its tables; a single file has the schema `main`.
        most: maximum number of rows, with at most `MAX_CHARACTERS` for every `MAX_ROWS`.

    Raises:
        RequestError: the statement is wrong, is not allowed, or exceeds a limit. For a wrong name, the message lists
            the names that exist.
    """
    tables = {_key(table): table for table in stored}
    statement = Statement(text, MAX_STATEMENT_CHARACTERS)
    _check_quoted(statement, tables.values())
    watch = _Watch(tables, statement.defined_names())
    with _connection(files, statement) as db:
        _guard(db, watch)
        result = _fetch_rows(db, statement, watch, most)
        read = [table for table in tables.values() if table.name in watch.read]
        basis, reason = _basis(db, statement, read, watch)
    return result.model_copy(update={"tables": tuple(read), "basis": basis, "no_basis": reason})


def _key(table: StoredTable) -> str:
    """Return the name of a table with its schema, without quotation marks."""
    return table.name.replace('"', "") if "." in table.name else f"main.{table.name}"


@contextmanager
def _connection(files: Mapping[str, Path], statement: Statement) -> Iterator[sqlite3.Connection]:
    """Open the files of some indexes in a connection of their own; if they are too many, those that are named."""
    text = statement.text.lower()
    chosen = sorted(files, key=lambda schema: schema.lower() not in text)[:MAX_ATTACHED]
    # In the order of the indexes, since SQLite reads a table without a schema from the first file that has it.
    opened = [schema for schema in files if schema in chosen]
    schema = opened[0]
    try:
        db = sqlite3.connect(read_only_address(files["main"]) if "main" in files else ":memory:", uri=True)
        for schema in opened:
            if schema != "main":
                db.execute("ATTACH ? AS ?", [read_only_address(files[schema]), schema])
    except sqlite3.DatabaseError as error:
        raise damage_error(files[schema], error) from error
    with closing(db):
        db.execute(f"PRAGMA hard_heap_limit={MAX_HEAP_BYTES}")
        db.execute("PRAGMA temp_store=MEMORY")  # so that a large sort counts as memory and cannot fill the disk
        db.execute("PRAGMA cell_size_check=ON")
        yield db


def _guard(db: sqlite3.Connection, watch: _Watch) -> None:
    """Set the limits of a connection, for a statement that is not trusted."""
    for limit, most in _LIMITS.items():
        db.setlimit(limit, most)
    add_functions(db)
    db.set_authorizer(watch.authorize)
    db.set_progress_handler(watch.is_over, _STEPS_PER_CHECK)


def _fetch_rows(db: sqlite3.Connection, statement: Statement, watch: _Watch, most: int) -> QueryResult:
    """Return the rows within the limits, the number of further rows, and the last of them."""
    try:
        cursor = db.execute(statement.text)
        columns = tuple(str(each[0]) for each in cursor.description or ())
        rows: list[tuple[CellValue, ...]] = []
        last: deque[tuple[CellValue, ...]] = deque(maxlen=LAST_ROWS)
        room, cut = MAX_CHARACTERS * max(1, most // MAX_ROWS), 0
        for raw in cursor:
            row = tuple(map(_value, raw))
            room -= sum(len(str(value)) for value in row)
            if cut or len(rows) >= most or (room < 0 and rows):
                cut += 1
                last.append(row)
                if cut >= MAX_COUNTED_ROWS:
                    break
            else:
                rows.append(row)
        return QueryResult(columns=columns, rows=tuple(rows), cut=cut, last_rows=tuple(last))
    except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError, ValueError) as error:
        raise _explain_error(error, statement, watch) from error


def _value(value: Any) -> CellValue:
    if isinstance(value, bytes):
        value = value.decode("utf-8", "replace")
    if isinstance(value, str) and len(value) > MAX_VALUE_CHARACTERS:
        return f"{value[:MAX_VALUE_CHARACTERS]}…"
    if isinstance(value, float):
        return round_computed(value)
    return value if isinstance(value, str | int) else None


def round_computed(value: float) -> float:
    """Remove the noise of computed numbers in the last digits: 0.3 for 0.30000000000000004."""
    rounded = float(f"{value:.12g}")
    return rounded if abs(rounded - value) <= MAX_NOISE * abs(value) else float(f"{value:.15g}")


# --- errors ----------------------------------------------------------------------------------------------------------


_DAMAGE = frozenset((sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR))
"""SQLite's codes of errors that come from the file and not from the statement."""


def _explain_error(error: BaseException, statement: Statement, watch: _Watch) -> TurnmarkError:
    """Return the error of a statement with what to do about it."""
    said = str(error) or type(error).__name__
    # The code tells what happened. The message may quote the statement, in which any word can occur.
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    tables = list(watch.known.values())
    if missing := re.match(r"no such table: (?:main\.)?(.+)", said):
        names = _near_names([each.name for each in tables], missing[1])
        return RequestError(f"there is no table {missing[1]!r}; there are: {names or 'none'}")
    if missing := re.match(r"no such column: (.+)", said):
        return RequestError(f"there is no column {missing[1]!r}; {_columns_near(missing[1], statement, tables)}")
    if code == sqlite3.SQLITE_INTERRUPT:
        return RequestError(
            f"the statement takes longer than {MAX_SECONDS:g} s; join on equal values, or filter the rows first"
        )
    if code == sqlite3.SQLITE_TOOBIG:
        return RequestError("a value of the statement is too long; return numbers or short texts")
    if isinstance(error, MemoryError) or code == sqlite3.SQLITE_NOMEM:
        return RequestError("the statement needs too much memory; filter the rows first, or sort fewer columns")
    if code in _DAMAGE:
        return TurnmarkError(f"tables.db is damaged: {said}")
    if watch.refused or code == sqlite3.SQLITE_AUTH:
        why = watch.refused or "it does not only read"
        return RequestError(f"the statement is refused: {why}; write one SELECT over the tables")
    return RequestError(f"the statement is wrong: {said[:300]}")


def _near_names(names: Sequence[str], wanted: str) -> str:
    """Return the names that exist: all if they are few, else those that are near, or the first."""
    by_lower = {name.lower(): name for name in names}
    if len(names) > MAX_LISTED_NAMES:
        near = get_close_matches(wanted.rpartition(".")[2].lower(), by_lower, n=MAX_LISTED_NAMES // 2, cutoff=0.3)
        names = [by_lower[each] for each in near] or names[: MAX_LISTED_NAMES // 2]
    return ", ".join(names)


def _columns_near(wanted: str, statement: Statement, tables: Collection[StoredTable]) -> str:
    """Return the columns of the tables that a statement names."""
    said = []
    for table in tables:
        if re.search(rf"\b{re.escape(table.name.rpartition('.')[2])}\b", statement.text, re.IGNORECASE):
            names = [name for each in table.columns for name in (each.name, each.text_name) if name]
            said.append(f"{table.name} has: {_near_names([*names, ROW_NUMBER, TOTAL_COLUMN], wanted)}")
    return "; ".join(said[:5]) or "name a table in FROM"


def _check_quoted(statement: Statement, tables: Collection[StoredTable]) -> None:
    """Refuse a name between quotation marks that no table has: SQLite would silently read it as text."""
    known = {name.lower() for table in tables for each in table.columns for name in (each.name, each.text_name)}
    for name in statement.quoted_names():
        if name.lower() not in known | {ROW_NUMBER, TOTAL_COLUMN}:
            raise RequestError(
                f'there is no column "{name}"; text stands between single quotation marks; '
                f"{_columns_near(name, statement, tables)}"
            )


# --- the rows that a result rests on ---------------------------------------------------------------------------------


def _basis(
    db: sqlite3.Connection, statement: Statement, read: Sequence[StoredTable], watch: _Watch
) -> tuple[tuple[Basis, ...], str]:
    """Return the rows of each table that a result rests on, or why they are not known."""
    if not read:
        return (), ""
    queries = statement.row_queries({table.name.lower(): table.name for table in read})
    if not queries:
        return (), "the statement is too complex to list the rows that it rests on"
    by_name = {table.name: table for table in read}
    found: dict[str, dict[int, None]] = {}
    counts: dict[str, int] = {}
    totals: Counter[str] = Counter()
    used = {name: dict(columns) for name, columns in watch.read.items()}
    for query in queries:
        try:
            ids, count, total_count = _row_ids(db, query)
        except (sqlite3.Error, sqlite3.Warning, MemoryError, OverflowError):
            return (), "the rows that the statement rests on cannot be listed"
        found.setdefault(query.table, {}).update(dict.fromkeys(ids))
        counts[query.table] = max(counts.get(query.table, 0), count, len(found[query.table]))
        totals[query.table] = max(totals[query.table], total_count)
    return tuple(
        _basis_of(db, by_name[name], list(ids)[:MAX_BASIS_ROWS], used.get(name, {})).model_copy(
            update={"count": counts[name], "totals": totals[name]}
        )
        for name, ids in found.items()
    ), ""


def _row_ids(db: sqlite3.Connection, query: RowQuery) -> tuple[list[int], int, int]:
    """Return the first rows, the number of all rows, and the number of totals among them."""
    ids: dict[int, None] = {}
    for (number,) in db.execute(query.row_ids):
        if number is not None:
            ids[number] = None
        if len(ids) >= MAX_BASIS_ROWS:
            break
    ((count,),) = db.execute(query.row_count).fetchall()
    total_rows = f'SELECT count(*) FROM {query.table} WHERE "{TOTAL_COLUMN}" = 1 AND rowid IN ({query.row_ids})'
    ((totals,),) = db.execute(total_rows).fetchall()
    return list(ids), int(count), int(totals)


def _basis_of(db: sqlite3.Connection, table: StoredTable, ids: Sequence[int], used: dict[str, None]) -> Basis:
    """Return the rows as displayed: their first column, and the columns that the statement reads."""
    columns = [each for at, each in enumerate(table.columns) if at == 0 or each.name in used or each.text_name in used]
    names = ", ".join(f'"{each.text_name or each.name}"' for each in columns)
    listed = ", ".join(map(str, ids)) or "NULL"
    rows = {
        row[0]: tuple(map(_value, row[1:]))
        for row in db.execute(f'SELECT rowid, "{ROW_NUMBER}", {names} FROM {table.name} WHERE rowid IN ({listed})')
    }
    labels = (ROW_NUMBER, *(each.label for each in columns))
    return Basis(table=table.name, columns=labels, rows=tuple(rows[each] for each in ids if each in rows), count=0)
