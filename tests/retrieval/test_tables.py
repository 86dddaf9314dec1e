"""Stored tables: what a build keeps of the tables of documents, and statements over them."""

from __future__ import annotations

from pathlib import Path

import pytest

import turnmark as tm
from turnmark.core.errors import RequestError
from turnmark.retrieval.tables import TableStore

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


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "spending.csv").write_text(SPENDING, encoding="utf-8")
    (folder / "prices.md").write_text(PRICES, encoding="utf-8")
    return folder


def stored(source: Path, name: str = "money") -> TableStore:
    tables = tm.Index.build(source, name, retriever="bm25").tables
    assert tables is not None
    return tables


def test_tables_of_documents_are_stored_with_types_and_values(docs: Path) -> None:
    store = stored(docs)
    prices, spending = store.tables()
    assert (prices.name, prices.document, prices.section, prices.rows) == ("prices", "prices.md", "Machines", 5)
    assert prices.caption == "Table 1: What the machines cost"
    columns = {column.name: (column.type, column.unit, column.unparsed) for column in spending.columns}
    assert columns["amount"] == ("real", "€", 0)
    assert columns["share"] == ("integer", "%", 0)
    assert columns["paid_on"] == ("date", "", 0)
    assert (spending.rows, spending.totals) == (6, 1)
    assert store.first_rows(spending, 1) == [("March", "North", "Train", 1234.5, 12, "2024-03-01")]
    assert store.first_rows(spending, 1, shown=True) == [
        ("March", "North", "Train", "1.234,50 €", "12 %", "01.03.2024")
    ]


def test_a_result_names_its_tables_and_the_rows_it_rests_on(docs: Path) -> None:
    store = stored(docs)
    result = store.run("SELECT sum(amount) AS total FROM spending WHERE item = 'Train' AND is_total = 0")
    assert (result.columns, result.rows, result.cut) == (("total",), ((1434.5,),), 0)
    assert [table.name for table in result.tables] == ["spending"]
    (basis,) = result.basis
    assert (basis.table, basis.count) == ("spending", 2)
    assert basis.columns == ("row_number", "Month", "Item", "Amount")
    assert [row[-1] for row in basis.rows] == ["1.234,50 €", "200,00 €"]


def test_tables_are_found_by_their_title_labels_and_cells(docs: Path) -> None:
    store = stored(docs)
    assert [table.name for table in store.find("machines", 5)] == ["prices"]
    assert [table.name for table in store.find("who paid the taxi", 5)] == ["spending"]
    assert [table.name for table in store.find("hotel", 5, where={"path": "*.md"})] == []


def test_a_wrong_name_is_answered_with_the_names_that_exist(docs: Path) -> None:
    store = stored(docs)
    with pytest.raises(RequestError, match=r"no column 'amounts'; spending has: .*\bamount\b"):
        store.run("SELECT amounts FROM spending")
    with pytest.raises(RequestError, match=r"no table 'spendings'; there are: prices, spending"):
        store.run("SELECT * FROM spendings")
    with pytest.raises(RequestError, match='no column "Hotels"'):
        store.run('SELECT "Hotels" FROM spending')


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
def test_a_statement_that_does_more_than_read_tables_is_refused(docs: Path, statement: str) -> None:
    with pytest.raises(RequestError):
        stored(docs).run(statement)


def test_unchanged_files_keep_their_tables(docs: Path) -> None:
    import os

    for path in docs.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    first = stored(docs)
    (docs / "new.md").write_text("# New\n\nOther words.\n", encoding="utf-8")
    second = stored(docs)
    assert second.parts[0].path != first.parts[0].path
    assert second.tables() == first.tables()
    assert second.run("SELECT sum(amount) FROM spending").rows == first.run("SELECT sum(amount) FROM spending").rows
    assert [table.name for table in second.find("taxi", 5)] == ["spending"]


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


def test_an_index_without_tables_has_no_store(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nOnly words.\n", encoding="utf-8")
    assert tm.Index.build(tmp_path, "notes", retriever="bm25").tables is None
