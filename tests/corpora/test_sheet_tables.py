"""The tables of sheets as data: labels, rows with their numbers, stored values, and large sheets."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import openpyxl
import pytest

from turnmark.corpora.readers import read_source
from turnmark.corpora.readers.office.grid import LARGE_CELLS, SAMPLE_ROWS
from turnmark.corpora.tables.cell_numbers import read_number
from turnmark.corpora.tables.data_tables import data_rows
from turnmark.corpora.types import Document


def read(path: Path) -> Document:
    (document,) = read_source(path)
    assert isinstance(document, Document), document
    return document


def workbook(path: Path, *sheets: list[list[object]]) -> Document:
    book = openpyxl.Workbook()
    for number, rows in enumerate(sheets):
        sheet = book.active if number == 0 else book.create_sheet(f"Second {number}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return read(path)


def test_a_sheet_is_a_table_with_row_numbers_and_stored_values(tmp_path: Path) -> None:
    rows = [["Budget"], [], ["Item", "Amount", "On"], ["Train", 12.345, datetime(2024, 3, 1)], ["Taxi", 8, None]]
    document = workbook(tmp_path / "book.xlsx", rows, [["A", "B"], ["x", 1]])
    first, second = document.tables
    assert (first.sheet, first.section, first.columns) == ("Sheet", "Sheet › Budget", ("Item", "Amount", "On"))
    assert first.numbers == (4, 5)
    assert first.stored[0] == ("", "12.345", "2024-03-01")
    assert document.text[first.start : first.end].startswith("| Item | Amount | On |")
    assert (second.sheet, second.rows) == ("Second 1", (("x", "1"),))


@pytest.mark.parametrize(
    ("text", "columns", "rows"),
    [
        # without column names, the first row is a row; years and days may be names
        ("a,1,2.5\nb,2,3.5\nc,3,4.5\n", ("", "", ""), [("a", "1", "2.5"), ("b", "2", "3.5"), ("c", "3", "4.5")]),
        ("Team,2021,2022\nN,5,6\nS,7,8\n", ("Team", "2021", "2022"), [("N", "5", "6"), ("S", "7", "8")]),
        ("Team,1,2,3\nN,5,6,9\nS,7,8,1\n", ("Team", "1", "2", "3"), [("N", "5", "6", "9"), ("S", "7", "8", "1")]),
        # backslashes: before quotation marks in a cell, around every cell, as a part of a text, at the end of a path
        ('"Name","Height"\n"Ann","5\'8\\""\n"Bo","6\'1\\""\n', ("Name", "Height"), [("Ann", "5'8\""), ("Bo", "6'1\"")]),
        ('"No","Title"\n"1","\\"Mull\\""\n"2","after \\"Hof\\" by T"\n"3","\\"a, b\\""\n', ("No", "Title"),
         [("1", '"Mull"'), ("2", 'after "Hof" by T'), ("3", '"a, b"')]),
        ('"No","Path"\n"1","the \\""C:\\a\\"" folder"\n"2","b\\"\n', ("No", "Path"),
         [("1", 'the \\"C:\\a\\" folder'), ("2", "b\\")]),
        ('"Folder","Size"\n"C:\\data\\","60"\n"D:\\old\\","70"\n', ("Folder", "Size"),
         [("C:\\data\\", "60"), ("D:\\old\\", "70")]),
        # rows with one cell more than the header: with names before the first column, or with a delimiter at the end
        ('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n', ("", "mpg", "cyl"),
         [("Mazda RX4", "21", "6"), ("Datsun 710", "22.8", "4")]),
        ("car,mpg\nMazda,21,\nDatsun,22.8,\n", ("car", "mpg"), [("Mazda", "21"), ("Datsun", "22.8")]),
    ],
)  # fmt: skip
def test_csv_keeps_its_column_names_and_cells(
    tmp_path: Path, text: str, columns: tuple[str, ...], rows: list[tuple[str, ...]]
) -> None:
    (tmp_path / "a.csv").write_text(text)
    (table,) = read(tmp_path / "a.csv").tables
    assert (table.columns, list(table.rows)) == (columns, rows)


def test_digits_with_an_e_may_be_a_code(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("Prefix,Vendor\n10E451,North\n00E098,South\n", encoding="utf-8")
    (table,) = read(tmp_path / "codes.csv").tables
    assert [read_number(row.cells[0]) for row in data_rows(table)][:1] == [None]


def test_a_large_sheet_is_described_and_complete_as_data(tmp_path: Path) -> None:
    rows = LARGE_CELLS // 2
    lines = ["Key,Amount,Team", *(f"K-{number},{number}.5,North" for number in range(rows))]
    (tmp_path / "large.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    document = read(tmp_path / "large.csv")
    (table,) = document.tables
    assert f"A table with {rows:,} rows and 3 columns." in document.text
    assert f"Amount: numbers from 0.5 to {rows - 1}.5" in document.text
    assert "Team: text, 1 different values" in document.text
    assert document.text.count("| K-") == SAMPLE_ROWS
    assert document.text[table.start : table.end].startswith("A table with 20,000 rows"), "it includes the description"
    found = list(data_rows(table))
    assert len(found) == rows
    assert (found[-1].number, list(found[-1].cells)) == (rows + 1, [f"K-{rows - 1}", f"{rows - 1}.5", "North"])


def test_many_small_tables_on_one_sheet_are_written_out(tmp_path: Path) -> None:
    block = "Name,Amount\n" + "".join(f"row {number},{number}\n" for number in range(100)) + "\n"
    (tmp_path / "blocks.csv").write_text(block * 210, encoding="utf-8")
    document = read(tmp_path / "blocks.csv")
    assert len(document.tables) == 210
    assert document.text.count("| row 99 |") == 210


def test_a_second_row_of_names_belongs_to_the_header(tmp_path: Path) -> None:
    (tmp_path / "game.csv").write_text("Name,Shots,Shots,Fouls\n,Made,%,\nAnn,4/9,44,1\nBen,1/2,50,2\n")
    document = read(tmp_path / "game.csv")
    table = document.tables[0]
    assert table.columns == ("Name", "Shots Made", "Shots %", "Fouls")
    assert [row.number for row in data_rows(table)] == [3, 4]
    assert "| Name | Shots Made | Shots % | Fouls |" in document.text
