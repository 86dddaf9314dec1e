"""The rows of a large table, which the text of its document does not show, are found by their values."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import turnmark as tm
from turnmark.corpora.data_tables import LARGE_CELLS
from turnmark.retrieval.listing import list_documents
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.table_rows import EXAMPLES

ROWS = LARGE_CELLS // 4 + 1_000
COMMON = 30


@pytest.fixture(scope="module")
def orders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("orders")
    lines = ["Order;Customer;City;Amount;Remark"]
    for number in range(ROWS):
        remark = "zebra" if number == ROWS - 5 else f"lot {number % COMMON}"
        lines.append(f"PO-{number:05};Customer {number % 7};Köln;{number},50 €;{remark} | <b>")
    (folder / "orders.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "terms.md").write_text("# Terms\n\nEvery order is paid within 30 days.\n", encoding="utf-8")
    for path in folder.iterdir():
        os.utime(path, (1_700_000_000, 1_700_000_000))
    return folder


def test_a_row_is_found_by_a_value_and_is_a_passage(orders: Path) -> None:
    index = tm.Index.build(orders, "orders", retriever="bm25")
    hits = index.search("Which customer has order PO-10990?", 4)
    row = hits[0].passage
    assert row.text.startswith("| PO-10990 | Customer 0 | Köln | 10990,50 € |")
    assert row.header.startswith("| Order | Customer | City | Amount | Remark |")
    assert (row.document, row.end - row.start) == ("orders.csv", len(row.text))
    assert row.id == f"orders.csv-{row.start}-{row.end}"
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    text_end = max(passage.end for passage in index if passage.document == "orders.csv")
    assert row.start > text_end


def test_the_neighbors_of_a_row_are_the_rows_around_it(orders: Path) -> None:
    index = tm.Index.build(orders, "orders", retriever="bm25")
    row = index.search("zebra", 2)[0].passage
    neighbors = index.neighbors(row)
    assert neighbors.index(row) == 25
    assert [passage.start for passage in neighbors] == sorted(passage.start for passage in neighbors)
    first = next(passage for passage in index if passage.document == "orders.csv")
    assert row not in index.neighbors(first)


def test_of_many_rows_with_a_value_some_are_returned(orders: Path) -> None:
    index = tm.Index.build(orders, "orders", retriever="bm25")
    hits = [hit for hit in index.search("Köln", 5) if "rows" in hit.found]
    assert len(hits) == EXAMPLES
    assert all("Köln" in hit.passage.text for hit in hits)


def test_a_table_is_found_by_a_value_of_its_last_rows(orders: Path) -> None:
    tables = tm.Index.build(orders, "orders", retriever="bm25").tables
    assert tables is not None
    assert [table.name for table in tables.find("zebra", 3)] == ["orders"]


def test_a_filter_leaves_out_the_rows_of_other_documents(orders: Path) -> None:
    index = tm.Index.build(orders, "orders", retriever="bm25")
    assert all(hit.passage.document == "terms.md" for hit in index.search("zebra", 5, where={"path": "*.md"}))


def test_rows_are_found_after_a_build_that_took_the_file_over(orders: Path) -> None:
    before = tm.Index.build(orders, "orders", retriever="bm25").search("zebra", 1)[0].passage
    new = orders / "new.md"
    new.write_text("# New\n\nOther words.\n", encoding="utf-8")
    try:
        index = tm.Index.build(orders, "orders", retriever="bm25")
        assert index.manifest.generation == 2
        assert index.search("zebra", 1)[0].passage == before
    finally:
        new.unlink()


def test_rows_are_found_in_joined_indexes(orders: Path, tmp_path: Path) -> None:
    tm.Index.build(orders, "orders", retriever="bm25")
    (tmp_path / "notes.md").write_text("# Notes\n\nA zoo has lions.\n", encoding="utf-8")
    tm.Index.build(tmp_path, "notes", retriever="bm25")
    joined = tm.Index.open("notes", "orders")
    hits = joined.search("zebra", 2)
    assert (hits[0].passage.index, hits[0].passage.document) == ("orders", "orders.csv")


def test_statements_compute_over_all_rows(orders: Path) -> None:
    tables = tm.Index.build(orders, "orders", retriever="bm25").tables
    assert tables is not None
    result = tables.run("SELECT count(*), sum(amount) FROM orders WHERE customer = 'Customer 3'")
    numbers = [number for number in range(ROWS) if number % 7 == 3]
    assert result.rows == ((len(numbers), sum(numbers) + 0.5 * len(numbers)),)
    assert result.basis[0].count == len(numbers)


def test_counts_see_every_row_once(orders: Path) -> None:
    collection = open_retriever("bm25", tm.Index.build(orders, "orders", retriever="bm25")).collection()
    assert collection is not None
    assert collection.grep("zebra").times == {"orders.csv": 1}
    assert collection.grep("PO-00003").times == {"orders.csv": 1}
    assert collection.grep("Customer 3").times == {"orders.csv": sum(1 for number in range(ROWS) if number % 7 == 3)}
    assert [entry.document for entry, _ in collection.containing("zebra")] == ["orders.csv"]
    assert collection.grep("zebra", where={"path": "*.md"}).times == {}


def test_documents_are_listed_by_values_of_their_rows(orders: Path) -> None:
    index = tm.Index.build(orders, "orders", retriever="bm25")
    assert [(each.document, each.matches) for each in list_documents(index, "zebra lot")] == []
    assert [(each.document, each.matches) for each in list_documents(index, "zebra Köln")] == [("orders.csv", 1)]
