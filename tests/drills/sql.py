"""Statements over stored tables that try to do more than read, or to take all time or memory; and hostile names."""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import openpyxl
import pytest

import turnmark as tm
from tests.drills.tally import Effort, Tally
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.retrieval.tables.table_store import TableStore

MAX_SECONDS = 60.0
"""Seconds for a statement, on a machine that is busy; its own limit is a few seconds of processor time."""
MAX_GROWN_MB = 900
"""Memory by which the process may grow during all statements."""
WIDE = 1_000_000
"""Rows of the large table."""
HOSTILE_NAMES = (
    'x"; DROP TABLE turnmark_tables; --', "x'); ATTACH 'other.db' AS o; --", "select", "sqlite_master",
    "turnmark_tables", "a.b", "[x]", "`x`", "rowid", "row_number", "is_total", "x" * 300, "ß ẞ İ ı ﬁ", "合計", "🙂🙂",
    "1", "", " ", "x\ny", "%s", "{0}", "$1", "?", "--", "/*", "*/", "main", "temp", "NULL", "é" * 50, "x_text",
)  # fmt: skip
REFUSED = (
    "ATTACH '{file}' AS other", "DETACH main", "PRAGMA table_info(t)", "PRAGMA writable_schema=ON", "DELETE FROM t",
    "INSERT INTO t VALUES (1)", "UPDATE t SET a = 1", "DROP TABLE t", "CREATE TABLE x (a)", "CREATE TEMP TABLE x (a)",
    "CREATE VIEW v AS SELECT 1", "ALTER TABLE t RENAME TO u", "VACUUM INTO '{file}'", "REINDEX", "ANALYZE", "BEGIN",
    "SAVEPOINT s", "EXPLAIN SELECT 1", "SELECT 1; SELECT 2", "SELECT 1; ATTACH '{file}' AS other",
    "SELECT load_extension('{file}')", "SELECT writefile('{file}', 'x')", "SELECT readfile('/etc/passwd')",
    "SELECT edit('x')", "SELECT fts3_tokenizer('x')", "SELECT sqlite_compileoption_get(1)",
    "SELECT * FROM sqlite_master", "SELECT count(*) FROM sqlite_master", "SELECT * FROM sqlite_schema",
    "SELECT * FROM sqlite_temp_master",
    "SELECT * FROM turnmark_tables", "SELECT * FROM turnmark_words", "SELECT count(*) FROM turnmark_words_content",
    "SELECT * FROM turnmark_rows", "SELECT * FROM pragma_table_info('t')", "SELECT * FROM pragma_database_list",
    "SELECT * FROM dbstat", "SELECT * FROM json_each('[1]')", "SELECT * FROM json_tree('[1]')", "SELECT zeroblob(1)",
    "SELECT randomblob(1)", "SELECT x GLOB '*' FROM (SELECT 'x' AS x)", "SELECT 'x' REGEXP 'x'", "SELECT 'x' MATCH 'x'",
    "WITH x AS (SELECT 1) DELETE FROM t", "WITH x AS (SELECT 1) INSERT INTO t SELECT * FROM x", "", ";", "--", "/*",
    "SELECT", "SELECT * FROM", "WITH", "VALUES", "SELECT \0 1", "SELECT :name", "SELECT ?1",
    "WITH sqlite_master AS (SELECT 1 AS a) SELECT name FROM main.sqlite_master",
    "SELECT 'x' LIKE 'y' ESCAPE 'ab' FROM nowhere",
)  # fmt: skip
ENDLESS = (
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT count(*) FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c",
    "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c ORDER BY x DESC",
    "WITH RECURSIVE c(x) AS (SELECT 'x' UNION ALL SELECT x || x FROM c) SELECT length(x) FROM c",
    "WITH RECURSIVE c(x) AS (SELECT printf('%.*c', 900000, 'x') UNION ALL SELECT x || '' FROM c) "
    "SELECT x FROM c ORDER BY 1",
    "SELECT count(*) FROM t a, t b, t c, t d", "SELECT max(a.id + b.id + c.id) FROM t a, t b, t c",
    "SELECT a.id FROM t a, t b, t c ORDER BY a.id + b.id + c.id", "SELECT group_concat(a.name) FROM t a, t b",
    "SELECT group_concat(printf('%.*c', 900000, 'x')) FROM t", "SELECT printf('%.*c', 900000000, 'x')",
    "SELECT printf('%.*c', 900000, name) FROM t a, t b ORDER BY 1",
    "SELECT replace(hex(printf('%.*c', 400000, 'x')), '7', printf('%.*c', 9000, 'y'))",
    "SELECT count(DISTINCT a.id * 1000000 + b.id) FROM t a, t b",
    "SELECT sum(number(printf('%.*c', 900000, '1'))) FROM t a, t b",
    "SELECT count(*) FROM t WHERE fold(name) = fold(name || name)",
    "SELECT count(*) FROM t WHERE printf('%.*c', 100000, 'a') LIKE '" + "%a" * 40 + "%b'",
    "SELECT " + "(" * 2000 + "1" + ")" * 2000, "SELECT " + "abs(" * 500 + "1" + ")" * 500,
    "SELECT " + " + ".join(["1"] * 2400),
    "SELECT " + "NOT " * 1200 + "1", "SELECT 1" + " UNION SELECT 1" * 300, "SELECT 1 WHERE 1 IN (" + "1," * 2000 + "1)",
    "SELECT row_number() OVER (ORDER BY a.id + b.id) FROM t a, t b",
)  # fmt: skip


def drills(effort: Effort) -> Iterator[Tally]:
    """Try hostile names, refused and endless statements, a table of a million rows and damaged files."""
    folder = effort.folder("sql")
    yield _names(folder / "names")
    large = _large(folder / "large")
    yield _refused(large, folder / "other.db")
    yield _endless(large)
    yield _damaged(folder / "names", effort)


def _store(source: Path, name: str) -> TableStore:
    tables = tm.Index.build(source, name, retriever="bm25").tables
    assert tables is not None
    return tables


def _names(folder: Path) -> Tally:
    """Build from sheets with hostile names of sheets, columns and cells; each can be read under its stored name."""
    folder.mkdir()
    tally = Tally("names of sheets, columns and cells")
    for number, name in enumerate(HOSTILE_NAMES):
        book = openpyxl.Workbook()
        sheet = book.active
        assert sheet is not None
        sheet.title = "".join(each for each in name if each not in "[]:*?/\\\n'")[:31] or "sheet"
        for row in ([name, name, "value"], *([name, f"{name} {at}", at] for at in range(6))):
            sheet.append(row)
        book.save(folder / f"book {number}.xlsx")
    (folder / "x'; DROP TABLE x; --.csv").write_text("a,b\n1,2\n3,4\n", encoding="utf-8")
    store = _store(folder, "names")
    for table in store.tables():
        with tally.attempt(f"{table.document} {table.name}"):
            assert table.name.replace("_", "a").isalnum(), table.name
            assert len({column.name for column in table.columns}) == len(table.columns)
            names = [name for column in table.columns for name in (column.name, column.text_name) if name]
            result = store.run(f"SELECT {', '.join(names)}, row_number, is_total FROM {table.name}")
            assert len(result.rows) == table.rows
            assert store.find(table.title)
    with tally.attempt("the catalog is whole"):
        assert len(store.tables()) > len(HOSTILE_NAMES) - 3
    return tally


def _large(folder: Path) -> TableStore:
    folder.mkdir()
    with (folder / "t.csv").open("w", encoding="utf-8") as file:
        file.write("id,name,amount\n")
        file.writelines(f"{at},name {at % 9973},{at % 1000}.5\n" for at in range(WIDE))
    return _store(folder, "large")


def _refused(store: TableStore, file: Path) -> Tally:
    """Each statement is refused with a message, and changes nothing."""
    tally = Tally("statements that do more than read")
    before = store.parts[0].path.read_bytes()
    for statement in REFUSED:
        with tally.attempt(statement[:60]):
            with pytest.raises(RequestError, match=r"\w"):
                store.run(statement.replace("{file}", str(file)))
            assert not file.exists()
    with tally.attempt("the file is as it was"):
        assert store.parts[0].path.read_bytes() == before
    return tally


def _endless(store: TableStore) -> Tally:
    """Each statement ends in time and within memory, with a result or a message."""
    tally = Tally("statements that take all time or memory")
    grown = 0
    before = _peak_mb()
    slowest = 0.0
    for statement in ENDLESS:
        with tally.attempt(statement[:60]):
            began = time.monotonic()
            with suppress(RequestError):
                result = store.run(statement)
                assert len(result.rows) <= 200
                assert sum(len(str(value)) for row in result.rows for value in row) < 50_000
            slowest = max(slowest, time.monotonic() - began)
            assert time.monotonic() - began < MAX_SECONDS
    with tally.attempt("a table of a million rows"):
        result = store.run("SELECT count(*), sum(amount), max(id) FROM t")
        assert result.rows == ((WIDE, sum(at % 1000 + 0.5 for at in range(WIDE)), WIDE - 1),), result.rows
        assert result.basis[0].count == WIDE
    with tally.attempt("memory"):
        grown = _peak_mb() - before
        assert grown < MAX_GROWN_MB, grown
    tally.figures.append(f"slowest statement {slowest:.1f} s, memory grew by {grown} MB")
    return tally


def _damaged(source: Path, effort: Effort) -> Tally:
    """A damaged SQLite file gives rows or a message; the program goes on."""
    tally = Tally("damaged tables.db")
    store = _store(source, "names")
    path = store.parts[0].path
    whole = path.read_bytes()
    statements = [f"SELECT * FROM {table.name} ORDER BY 1" for table in store.tables()[:5]]
    dice = random.Random(effort.seed)
    for number in range(effort.kills):
        with tally.attempt(f"variant {effort.seed + number}"):
            content = bytearray(whole)
            if number % 4 == 0:
                content = content[: dice.randrange(len(content))]
            for _ in range(dice.choice((1, 10, 1000))):
                if content:
                    content[dice.randrange(len(content))] = dice.randrange(256)
            path.write_bytes(content)
            damaged = TableStore(store.parts, is_joint=False)
            for statement in statements:
                with suppress(TurnmarkError):
                    damaged.run(statement)
            with suppress(TurnmarkError):
                damaged.find("value")
    path.write_bytes(whole)
    return tally


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
