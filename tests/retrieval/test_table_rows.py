"""The rows of a large table, which the text of its document does not show, are found by their values."""

from __future__ import annotations

import os
from pathlib import Path

import openpyxl
import pytest

import turnmark as tm
from turnmark.corpora.tables.data_tables import LARGE_CELLS
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.storage.filters import parse_where
from turnmark.retrieval.tables.row_finder import EXAMPLES

ROWS = LARGE_CELLS // 4 + 1_000
COMMON = 30


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def index(home: Path) -> tm.Index:
    """Build the index of a large table and a note, for all tests."""
    folder = home / "orders"
    folder.mkdir()
    lines = ["Order;Customer;City;Amount;Remark"]
    for number in range(ROWS):
        remark = "zebra" if number == ROWS - 5 else f"lot {number % COMMON}"
        lines.append(f"PO-{number:05};Customer {number % 7};Köln;{number},50 €;{remark} | <b>")
    (folder / "orders.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "terms.md").write_text("# Terms\n\nEvery order is paid within 30 days.\n", encoding="utf-8")
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        return tm.Index.build(folder, "orders", retriever="bm25")


@pytest.fixture
def in_home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test in the home of the index."""
    monkeypatch.setenv("TURNMARK_HOME", str(home))


def test_a_row_is_found_by_a_value_and_is_a_passage(index: tm.Index) -> None:
    hits = index.search("Which customer has order PO-10990?", 4)
    row = hits[0].passage
    assert row.text.startswith("| PO-10990 | Customer 0 | Köln | 10990,50 € |")
    assert row.header.startswith("| Order | Customer | City | Amount | Remark |")
    assert (row.document, row.end - row.start) == ("orders.csv", len(row.text))
    assert row.id == f"orders.csv-{row.start}-{row.end}"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    text_end = max(passage.end for passage in index if passage.document == "orders.csv")
    assert row.start > text_end


def test_the_neighbors_of_a_row_are_the_rows_around_it(index: tm.Index) -> None:
    row = index.search("zebra", 2)[0].passage
    neighbors = index.neighbors(row)
    assert neighbors.index(row) == 25
    assert [passage.start for passage in neighbors] == sorted(passage.start for passage in neighbors)
    first = next(passage for passage in index if passage.document == "orders.csv")
    assert row not in index.neighbors(first)


def test_of_many_rows_with_a_value_some_are_returned(index: tm.Index) -> None:
    hits = [hit for hit in index.search("Köln", 5) if "rows" in hit.found]
    assert len(hits) == EXAMPLES
    assert all("Köln" in hit.passage.text for hit in hits)


def test_a_filter_leaves_out_the_rows_of_other_documents(index: tm.Index) -> None:
    assert all(hit.passage.document == "terms.md" for hit in index.search("zebra", 5, where={"path": "*.md"}))


@pytest.mark.usefixtures("in_home")
def test_rows_are_found_after_a_build_that_took_the_file_over(index: tm.Index, home: Path) -> None:
    new = home / "orders" / "new.md"
    new.write_text("# New\n\nOther words.\n", encoding="utf-8")
    rebuilt = tm.Index.build(home / "orders", "orders", retriever="bm25")
    assert rebuilt.manifest.revision == index.manifest.revision + 1
    assert rebuilt.search("zebra", 1)[0].passage == index.search("zebra", 1)[0].passage


@pytest.mark.usefixtures("index", "in_home")
def test_rows_are_found_in_joined_indexes(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("# Notes\n\nA zoo has lions.\n", encoding="utf-8")
    tm.Index.build(tmp_path, "notes", retriever="bm25")
    joined = tm.Index.open("notes", "orders")
    hits = joined.search("zebra", 2)
    assert (hits[0].passage.index, hits[0].passage.document) == ("orders", "orders.csv")
    collection = Collection(joined.store, tuple(joined.row_finders))
    assert collection.grep("zebra").times == {"orders:orders.csv": 1}
    assert collection.grep("PO-00000").times == {"orders:orders.csv": 1}
    assert collection.grep("lions").times == {"notes:notes.md": 1}


def test_statements_compute_over_all_rows(index: tm.Index) -> None:
    tables = index.tables
    assert tables is not None
    result = tables.run("SELECT count(*), sum(amount) FROM orders WHERE customer = 'Customer 3'")
    numbers = [number for number in range(ROWS) if number % 7 == 3]
    assert result.rows == ((len(numbers), sum(numbers) + 0.5 * len(numbers)),)
    assert result.basis[0].count == len(numbers)
    assert [found.table.name for found in tables.find("zebra")] == ["orders"], "a word of the last rows"


def test_counts_include_the_rows_of_large_tables_exactly(index: tm.Index) -> None:
    collection = Collection(index.store, tuple(index.row_finders))
    found = collection.grep("Customer 3")
    assert found.times == {"orders.csv": sum(number % 7 == 3 for number in range(ROWS))}
    assert (found.documents, found.sections) == (2, 1)
    assert collection.grep("PO-00000").times == {"orders.csv": 1}, "the first rows are also in the text"
    assert collection.grep("examples").times == {}, "the description of the table is not its content"
    assert collection.grep("/^\\| Order \\|/").times == {"orders.csv": 1}, "its labels are"
    assert collection.grep("lot", parse_where("path=*.md")).times == {}
    [(entry, passages)] = collection.containing("zebra köln")
    assert (entry.document, passages) == ("orders.csv", ROWS)


def test_counts_of_a_workbook_see_small_sheets_and_large_ones_once(tmp_path: Path) -> None:
    book = openpyxl.Workbook(write_only=True)
    for name, rows in (("Few", 30), ("Many", LARGE_CELLS // 2 + 10), ("Last", 6)):
        sheet = book.create_sheet(name)
        sheet.append(["Part", "Place"])
        for number in range(rows):
            sheet.append([f"bolt {number}", "depot | north" if number % 2 else "cellar"])
    book.save(tmp_path / "parts.xlsx")
    index = tm.Index.build(tmp_path, "parts", retriever="bm25")
    collection = Collection(index.store, tuple(index.row_finders))
    assert collection.grep("bolt 5").times == {"parts.xlsx": 3}
    assert collection.grep("bolt 25").times == {"parts.xlsx": 2}
    assert collection.grep(f"bolt {LARGE_CELLS // 2}").times == {"parts.xlsx": 1}
    assert collection.grep("bolt").times == {"parts.xlsx": LARGE_CELLS // 2 + 46}
    assert collection.grep("Place").times == {"parts.xlsx": 3}, "once as the label of each table"
    assert collection.grep("bolt 20001").lines[0].text == "Part: bolt 20001; Place: depot | north"


def test_lines_from_rows_name_the_columns(index: tm.Index) -> None:
    collection = Collection(index.store, tuple(index.row_finders))
    number = ROWS - 5
    [line] = collection.grep("zebra").lines
    row = f"Order: PO-{number:05}; Customer: Customer {number % 7}; City: Köln; Amount: {number},50 €; Remark: zebra"
    assert line.text == f"{row} | <b>"
    assert line.text[line.at :].startswith("Remark: zebra")
    assert line.passage in [passage.id for passage in index.rows_around("orders.csv", line.start)]


def test_documents_with_words_include_those_with_a_row(index: tm.Index) -> None:
    [found] = index.documents("zebra")
    assert (found.document, found.matches) == ("orders.csv", 1)
    number = 10_990
    assert index.documents(f"the PO-{number}")[0].matches == 1


def test_mentions_in_rows_are_counted_without_a_model(index: tm.Index) -> None:
    reply = tm.Assistant(index).reply([], "How many documents mention zebra?")
    assert "1 time in 1 of 2 documents" in reply.text
    assert "zebra" in reply.citations[0].text


def test_rows_with_a_word_that_no_passage_contains_are_among_the_first_hits(tmp_path: Path) -> None:
    shops = [f"Shop {number},{('Lugano', 'Mbabane')[number % 2]},open" for number in range(LARGE_CELLS // 3 + 100)]
    shops[600] = "Mani Shoes,Town,open"
    shops[500:560] = [f"Nintando {number},Kyoto,open" for number in range(60)]
    (tmp_path / "shops.csv").write_text("\n".join(["Name,Town,State", *shops]) + "\n", encoding="utf-8")
    (tmp_path / "visits.md").write_text("# Visits\n\nA shop in a town is visited once.\n", encoding="utf-8")
    index = tm.Index.build(tmp_path, "shops", retriever="bm25")
    for question in ("Nintando", "In which town is Nintando visited?", "which towns have nintando shops in 2014"):
        hits = index.search(question, 6)
        assert any(hit.passage.text.startswith("| Nintando 0 | Kyoto |") for hit in hits[:2]), question
        assert len([hit for hit in hits if "Nintando" in hit.passage.text]) == 3, "the other half are passages"
    assert "rows" not in index.search("How many visits?", 1)[0].found, "the stem of many is no name"
    assert "rows" not in index.search("How often is a shop in a town visited?", 1)[0].found
    assert "rows" in index.search("Nintando 34", 1)[0].found
    assert "Nintando 34" in index.search("Nintando 34", 1)[0].passage.text
