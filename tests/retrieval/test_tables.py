"""Stored tables: what a build keeps of the tables of documents, and statements over them."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import turnmark as tm
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.core.home import write_json
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.storage.filters import parse_where
from turnmark.retrieval.tables.sql_functions import add_functions
from turnmark.retrieval.tables.sql_names import MAX_NAME_LENGTH, TEXT_ENDING, column_names
from turnmark.retrieval.tables.sql_queries import MAX_ROWS, MAX_VALUE_CHARACTERS
from turnmark.retrieval.tables.table_store import TableStore

SPENDING = """Month;Team;Item;Amount;Share;Paid on
March;North;Train;1.234,50 €;12 %;01.03.2024
March;South;Hotel;80,00 €;3 %;13.03.2024
April;North;Train;200,00 €;(5) %;02.04.2024
April;South;Taxi;n/a;;
May;North;Hotel;20,25 €;-1 %;31.05.2024
Total;;;1.534,75 €;9 %;
"""
PRICES = """# Prices

## Machines

Table 1: What the machines cost

| Name | Price | Since |
|---|---|---|
| Alpha | $1,200.00 | March 3, 2021 |
| Beta | $900.50 | July 4, 2022 |
| Gamma | $15.00 | May 5, 2023 |
| Delta | $7.25 | June 1, 2020 |
| Order | $1.00 | June 2, 2020 |
"""


def write_documents(folder: Path) -> Path:
    folder.mkdir()
    (folder / "spending.csv").write_text(SPENDING, encoding="utf-8")
    (folder / "prices.md").write_text(PRICES, encoding="utf-8")
    return folder


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    return write_documents(tmp_path / "docs")


@pytest.fixture(scope="module")
def money(tmp_path_factory: pytest.TempPathFactory) -> TableStore:
    """Store both tables once, for the tests that only read them."""
    folder = tmp_path_factory.mktemp("money")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(folder / "home"))
        return stored(write_documents(folder / "docs"))


def stored(source: Path, name: str = "money") -> TableStore:
    tables = tm.Index.build(source, name, retriever="bm25").tables
    assert tables is not None
    return tables


def test_tables_of_documents_are_stored_with_types_and_values(money: TableStore) -> None:
    prices, spending = money.tables()
    assert (prices.name, prices.document, prices.section, prices.rows) == ("prices", "prices.md", "Machines", 5)
    assert prices.caption == "Table 1: What the machines cost"
    columns = {column.name: (column.type, column.unit, column.unparsed) for column in spending.columns}
    assert columns["amount"] == ("real", "€", 0)
    assert columns["share"] == ("integer", "%", 0)
    assert columns["paid_on"] == ("date", "", 0)
    assert (spending.rows, spending.totals) == (6, 1)
    assert money.first_rows(spending, 1) == [("March", "North", "Train", 1234.5, 12, "2024-03-01")]
    assert money.first_rows(spending, 1, shown=True) == [
        ("March", "North", "Train", "1.234,50 €", "12 %", "01.03.2024")
    ]


def test_a_result_names_its_tables_and_the_rows_it_rests_on(money: TableStore) -> None:
    result = money.run("SELECT sum(amount) AS total FROM spending WHERE item = 'Train' AND is_total = 0")
    assert (result.columns, result.rows, result.cut) == (("total",), ((1434.5,),), 0)
    assert [table.name for table in result.tables] == ["spending"]
    (basis,) = result.basis
    assert (basis.table, basis.count) == ("spending", 2)
    assert basis.columns == ("row_number", "Month", "Item", "Amount")
    assert [row[-1] for row in basis.rows] == ["1.234,50 €", "200,00 €"]


def test_tables_are_found_by_their_title_labels_and_cells(money: TableStore) -> None:
    assert [found.table.name for found in money.find("machines")] == ["prices"]
    assert [found.table.name for found in money.find("who paid the taxi")] == ["spending"]
    assert money.find("hotel", where=parse_where("path=*.md")) == []


def test_a_wrong_name_is_answered_with_the_names_that_exist(money: TableStore) -> None:
    with pytest.raises(RequestError, match=r"no column 'amounts'; spending has: .*\bamount\b"):
        money.run("SELECT amounts FROM spending")
    with pytest.raises(RequestError, match=r"no table 'spendings'; there are: prices, spending"):
        money.run("SELECT * FROM spendings")
    with pytest.raises(RequestError, match='no column "Hotels"'):
        money.run('SELECT "Hotels" FROM spending')


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM spending",
        "ATTACH 'other.db' AS other",
        "PRAGMA table_info(spending)",
        "SELECT * FROM pragma_table_info('spending')",
        "SELECT * FROM sqlite_master",
        "SELECT count(*) FROM sqlite_master",
        "SELECT * FROM turnmark_tables",
        "SELECT load_extension('x')",
        "SELECT 1; SELECT 2",
        "WITH x AS (SELECT 1) DELETE FROM spending",
    ],
)
def test_a_statement_that_does_more_than_read_tables_is_refused(money: TableStore, statement: str) -> None:
    with pytest.raises(RequestError):
        money.run(statement)


def test_unchanged_files_keep_their_tables(docs: Path) -> None:
    for path in docs.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first = stored(docs)
    (docs / "new.md").write_text("# New\n\nOther words.\n", encoding="utf-8")
    second = stored(docs)
    assert second.tables() == first.tables()
    assert second.run("SELECT sum(amount) FROM spending").rows == first.run("SELECT sum(amount) FROM spending").rows
    assert [found.table.name for found in second.find("taxi")] == ["spending"]


def test_tables_of_an_earlier_version_are_written_again_without_embedding(docs: Path) -> None:
    build_index(docs, "money")
    index = open_index("money")
    earlier = index.manifest.model_copy(update={"tables_version": 5})
    write_json(index.folder / "manifest.json", earlier.model_dump(mode="json", exclude={"tables_version"}))
    with closing(sqlite3.connect(index.files / "passages.db")) as db, db:
        name = f"manifest {earlier.revision}"
        db.execute('UPDATE state SET "value" = ? WHERE "name" = ?', [earlier.checksum(), name])
        db.execute("""UPDATE state SET "value" = replace("value", 'tables 6', 'tables 5') WHERE "name" = 'made_by'""")
    with pytest.raises(RequestError, match=r"nothing is embedded\): turnmark index build"):
        open_index("money")
    report = build_index(docs, "money")
    assert (report.embedded, report.unchanged, report.problems) == (0, False, [])
    assert [table.name for table in stored(docs, "money").tables()] == ["prices", "spending"]


def test_tables_of_joined_indexes_begin_with_the_name_of_the_index(docs: Path, tmp_path: Path) -> None:
    stored(docs, "money")
    other = tmp_path / "other"
    other.mkdir()
    (other / "spending.csv").write_text(SPENDING, encoding="utf-8")
    stored(other, "more-money")
    tables = tm.Index.open("money", "more-money").tables
    assert tables is not None
    assert [table.name for table in tables.tables()] == ["money.prices", "money.spending", '"more-money".spending']
    assert tables.tables()[0].document == "money:prices.md"
    statement = 'SELECT a.amount FROM money.spending a JOIN "more-money".spending b ON a.row_number = b.row_number'
    result = tables.run(statement)
    assert [table.name for table in result.tables] == ["money.spending", '"more-money".spending']
    assert [basis.count for basis in result.basis] == [6, 6]


def test_tables_of_joined_indexes_are_read_whatever_the_names_of_the_indexes(docs: Path) -> None:
    names = ["main", "temp", "order", "a", "A", *(f"part-{number}" for number in range(7))]
    for name in names:
        tm.Index.build(docs, name, retriever="bm25")
    tables = tm.Index.open(*names).tables
    assert tables is not None
    spending = [table for table in tables.tables() if table.path == "spending.csv"]
    assert [table.index for table in spending] == names
    for table in spending:
        result = tables.run(f"SELECT count(*) FROM {table.name}")
        assert (result.rows, [read.index for read in result.tables]) == (((6,),), [table.index])


@pytest.mark.parametrize("word", ["malformed", "interrupted", "prohibited"])
def test_words_of_a_wrong_statement_are_not_taken_for_the_cause_of_its_error(money: TableStore, word: str) -> None:
    with pytest.raises(RequestError, match="the statement is wrong"):
        money.run(f"SELECT 1 a {word}")


def test_a_changed_number_changes_the_tables(docs: Path) -> None:
    stored(docs)
    assert build_index(docs, "money", retriever="bm25").unchanged
    (docs / "spending.csv").write_text(SPENDING.replace("80,00", "81,00"), encoding="utf-8")
    report = build_index(docs, "money", retriever="bm25")
    assert (report.unchanged, report.changed) == (False, 1)
    assert stored(docs).run("SELECT amount FROM spending WHERE item = 'Hotel'").rows == ((81.0,), (20.25,))


def test_a_removed_file_takes_its_tables_with_it(docs: Path) -> None:
    stored(docs)
    (docs / "spending.csv").unlink()
    assert [table.name for table in stored(docs).tables()] == ["prices"]


def test_verification_finds_damage_of_the_tables(docs: Path) -> None:
    stored(docs)
    index = open_index("money")
    assert verify_index(index) == []
    (path,) = (index.files / "tables").iterdir()
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert verify_index(index) == [f"tables/{path.name} is damaged: its SHA-256 differs from the one in passages.db"]


def test_damaged_tables_of_the_current_generation_are_read_from_the_files_again(docs: Path) -> None:
    for path in docs.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    stored(docs)
    (path,) = (open_index("money").files / "tables").iterdir()
    path.write_bytes(b"no database")
    tables = tm.Index.open("money").tables
    assert tables is not None
    with pytest.raises(TurnmarkError, match=r"tables.db is damaged"):
        tables.run("SELECT 1")
    (docs / "new.md").write_text("# New\n\nOther words.\n", encoding="utf-8")
    assert [table.name for table in stored(docs).tables()] == ["prices", "spending"]


def test_results_are_cut_and_say_how_much_is_missing(money: TableStore) -> None:
    result = money.run("SELECT a.row_number FROM spending a, spending b, spending c, spending d")
    assert (len(result.rows), result.cut, result.last_rows[-1]) == (MAX_ROWS, 6**4 - MAX_ROWS, (7,))
    long = money.run("SELECT printf('%.*c', 5000, 'x') FROM spending")
    assert len(str(long.rows[0][0])) == MAX_VALUE_CHARACTERS + 1


def test_rows_of_a_ranking_come_first_in_its_basis(money: TableStore) -> None:
    (basis,) = money.run("SELECT name FROM prices ORDER BY price DESC LIMIT 1").basis
    assert (basis.count, basis.rows[0]) == (5, (1, "Alpha", "$1,200.00"))


def test_rows_inside_of_with_and_subqueries_are_the_basis(money: TableStore) -> None:
    inner = money.run("WITH paid AS (SELECT amount FROM spending WHERE is_total = 0) SELECT max(amount) FROM paid")
    assert [basis.count for basis in inner.basis] == [5]
    nested = money.run("SELECT avg(x) FROM (SELECT amount AS x FROM spending WHERE month = 'March')")
    assert [basis.count for basis in nested.basis] == [2]


def test_functions_for_numbers_and_spelling(money: TableStore) -> None:
    assert money.run("SELECT number('about 1,234.5 kg'), fold('  ÉCOLE  Süd ')").rows == ((1234.5, "ecole sud"),)
    patterns = "'ÄRGER' LIKE 'ä%r', 'a_b' LIKE 'a!_b' ESCAPE '!', 'axb' LIKE 'a!_b' ESCAPE '!'"
    assert money.run(f"SELECT {patterns}").rows == ((1, 1, 0),)


@given(st.text("ab%_", max_size=8), st.text("ab%_", max_size=8))
def test_like_agrees_with_sqlite(pattern: str, text: str) -> None:
    ours, plain = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    add_functions(ours)
    statement = "SELECT ? LIKE ?"
    assert ours.execute(statement, [text, pattern]).fetchall() == plain.execute(statement, [text, pattern]).fetchall()
    ours.close()
    plain.close()


@given(st.text("ab*?[]^-", max_size=8), st.text("ab*?[^-", max_size=8))
def test_glob_agrees_with_sqlite(pattern: str, text: str) -> None:
    ours, plain = sqlite3.connect(":memory:"), sqlite3.connect(":memory:")
    add_functions(ours)
    # SQLite reads a set without its end as no match; in a statement, the difference does not matter.
    if pattern.count("[") == pattern.count("]") == 0:
        assert (
            ours.execute("SELECT ? GLOB ?", [text, pattern]).fetchall()
            == plain.execute("SELECT ? GLOB ?", [text, pattern]).fetchall()
        )
    assert ours.execute("SELECT 'B7' GLOB '[A-C][^a-z]', 'x' GLOB '[A-C]*', '4 €' GLOB '*€'").fetchone() == (1, 0, 1)
    ours.close()
    plain.close()


def test_statistics_and_dates_of_years_and_months(money: TableStore) -> None:
    statement = "SELECT median(price), quantile(price, 0.25), stddev(price), min(since) FROM prices"
    result = money.run(statement)
    assert result.rows == ((15.0, 7.25, 580.757264268, "2020-06-01"),)
    assert result.basis[0].count == 5
    assert money.run(
        "SELECT strftime('%Y', '1904'), date('1761-10'), strftime('%Y', 1998), date('2024-02-03')"
    ).rows == (("1904", "1761-10-01", "1998", "2024-02-03"),)
    assert money.run("SELECT number('4.829 €'), number('4,829 CHF'), number('1.234'), 0.1 + 0.2").rows == (
        (4829, 4829, 1.234, 0.3),
    )


def test_totals_count_only_if_they_are_in_the_result(money: TableStore) -> None:
    statement = "SELECT sum(amount) FROM spending WHERE month = '{}'"
    assert [money.run(statement.format(month)).basis[0].totals for month in ("March", "Total")] == [0, 1]


def test_names_are_readable_unique_and_no_keywords(tmp_path: Path) -> None:
    (tmp_path / "Select.csv").write_text("Order,order,Größe %,,2024\nx,y,1,2,3\nx,y,1,2,4\n", encoding="utf-8")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "Select.csv").write_text("A,B\nx,1\n", encoding="utf-8")
    first, second = stored(tmp_path, "names").tables()
    assert (first.name, second.name) == ("select_", "select_2")
    columns = {column.label: column.name for column in first.columns}
    assert columns.pop("2024") == "c_2024"
    assert columns == {"Order": "order_", "order": "order_2", "Größe %": "grosse_percent", "column 4": "column_4"}


def test_columns_have_their_range_or_their_few_values(money: TableStore) -> None:
    columns = {column.name: column for column in money.tables()[1].columns}
    assert (columns["amount"].low, columns["amount"].high) == (20.25, 1234.5)
    assert (columns["paid_on"].low, columns["paid_on"].high) == ("2024-03-01", "2024-05-31")
    assert columns["team"].values == ("North", "South")
    assert columns["amount"].values == ()


def test_without_a_table_that_has_all_words_those_with_most_are_found(docs: Path) -> None:
    (docs / "hotels.csv").write_text("Hotel,Stars\nRitz hotel,5\nSea hotel,4\n", encoding="utf-8")
    found = stored(docs).find("zebra or taxi or hotel in the south")
    assert [(each.table.name, each.lacks) for each in found] == [("spending", ("zebra",))]


def test_the_column_of_the_cells_as_shown_is_always_named_after_its_column() -> None:
    long = "Average receipt per visitor 2009 (USD/turista)"
    labels = [long, f"{long} again", "Price", "Price text", "Price"]
    names = column_names(labels, [True, True, True, False, True])
    flat = [name for pair in names for name in pair if name]
    assert all(text in ("", f"{name}{TEXT_ENDING}") for name, text in names)
    assert len(flat) == len({*flat})
    assert max(map(len, flat)) <= MAX_NAME_LENGTH


@given(st.lists(st.tuples(st.text("ab_ 1é", max_size=50) | st.sampled_from(["a", "a text", "order"]), st.booleans())))
def test_names_of_columns_are_unique_for_any_labels(columns: list[tuple[str, bool]]) -> None:
    names = column_names([label for label, _ in columns], [typed for _, typed in columns])
    flat = [name for pair in names for name in pair if name]
    assert len(flat) == len({*flat})
    assert all(text == f"{name}{TEXT_ENDING}" for (name, text), (_, typed) in zip(names, columns, strict=True) if typed)


def test_repeated_column_names_within_a_table_are_no_records(tmp_path: Path) -> None:
    text = "Town,People,Men,Women\nAbad,1694,844,850\nBrul,6638,3326,3312\nVillage,People,Men,Women\nCol,9,4,5\n"
    (tmp_path / "towns.csv").write_text(text, encoding="utf-8")
    store = stored(tmp_path, "towns")
    (table,) = store.tables()
    assert (table.rows, table.totals, table.columns[1].unparsed) == (4, 1, 0)
    assert store.run("SELECT count(*), sum(people) FROM towns WHERE is_total = 0").rows == ((3, 8341),)
