"""The tables of sheets as data: labels, rows with their numbers, stored values, and large sheets."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import openpyxl

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


def test_a_table_without_column_names_keeps_its_first_row(tmp_path: Path) -> None:
    (tmp_path / "bare.csv").write_text("a,1,2.5\nb,2,3.5\nc,3,4.5\n", encoding="utf-8")
    (table,) = read(tmp_path / "bare.csv").tables
    assert table.columns == ("", "", "")
    assert [row.cells[0] for row in data_rows(table)] == ["a", "b", "c"]


def test_digits_with_an_e_may_be_a_code(tmp_path: Path) -> None:
    (tmp_path / "codes.csv").write_text("Prefix,Vendor\n10E451,North\n00E098,South\n", encoding="utf-8")
    (table,) = read(tmp_path / "codes.csv").tables
    assert [read_number(row.cells[0]) for row in data_rows(table)][:1] == [None]


def test_years_as_column_names_are_no_row(tmp_path: Path) -> None:
    (tmp_path / "years.csv").write_text("Team,2021,2022\nNorth,5,6\nSouth,7,8\n", encoding="utf-8")
    (table,) = read(tmp_path / "years.csv").tables
    assert table.columns == ("Team", "2021", "2022")


def test_days_as_column_names_are_no_row(tmp_path: Path) -> None:
    (tmp_path / "days.csv").write_text("Team,1,2,3,4\nNorth,5,6,9,0\nSouth,7,8,1,1\n", encoding="utf-8")
    (table,) = read(tmp_path / "days.csv").tables
    assert table.columns == ("Team", "1", "2", "3", "4")


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


def test_csv_with_backslashes_before_quotation_marks_keeps_its_columns(tmp_path: Path) -> None:
    (tmp_path / "heights.csv").write_text('"Name","Height","Weight"\n"Ann","5\'8\\"","60"\n"Bo","6\'1\\"","70"\n')
    (table,) = read(tmp_path / "heights.csv").tables
    assert table.rows == (("Ann", "5'8\"", "60"), ("Bo", "6'1\"", "70"))


def test_csv_with_escaped_quotation_marks_in_every_row_keeps_its_cells(tmp_path: Path) -> None:
    text = '"No","Title"\n"1","\\"Mull of Kintyre\\""\n"2","after \\"Hofgunst\\" by T"\n"3","\\"a, b\\""\n'
    (tmp_path / "songs.csv").write_text(text)
    table = read(tmp_path / "songs.csv").tables[0]
    assert [row[1] for row in table.rows] == ['"Mull of Kintyre"', 'after "Hofgunst" by T', '"a, b"']


def test_doubled_quotation_marks_after_a_backslash_are_no_escapes(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text('"No","Path"\n"1","the \\""C:\\a\\"" folder"\n"2","b\\"\n')
    table = read(tmp_path / "paths.csv").tables[0]
    assert [row[1] for row in table.rows] == ['the \\"C:\\a\\" folder', "b\\"]


def test_a_second_row_of_names_belongs_to_the_header(tmp_path: Path) -> None:
    (tmp_path / "game.csv").write_text("Name,Shots,Shots,Fouls\n,Made,%,\nAnn,4/9,44,1\nBen,1/2,50,2\n")
    document = read(tmp_path / "game.csv")
    table = document.tables[0]
    assert table.columns == ("Name", "Shots Made", "Shots %", "Fouls")
    assert [row.number for row in data_rows(table)] == [3, 4]
    assert "| Name | Shots Made | Shots % | Fouls |" in document.text


def test_rows_with_names_before_the_first_column_keep_their_columns(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text('"mpg","cyl"\n"Mazda RX4",21,6\n"Datsun 710",22.8,4\n"Fiat 128",32.4,4\n')
    table = read(tmp_path / "cars.csv").tables[0]
    assert table.columns == ("", "mpg", "cyl")
    assert table.rows[0] == ("Mazda RX4", "21", "6")


def test_a_delimiter_at_the_end_of_each_row_is_no_column(tmp_path: Path) -> None:
    (tmp_path / "cars.csv").write_text("car,mpg\nMazda,21,\nDatsun,22.8,\nFiat,32.4,\n")
    table = read(tmp_path / "cars.csv").tables[0]
    assert (table.columns, table.rows[0]) == (("car", "mpg"), ("Mazda", "21"))


def test_a_path_that_ends_with_a_backslash_is_no_escape(tmp_path: Path) -> None:
    (tmp_path / "paths.csv").write_text('"Folder","Size"\n"C:\\data\\","60"\n"D:\\old\\","70"\n')
    (table,) = read(tmp_path / "paths.csv").tables
    assert table.rows == (("C:\\data\\", "60"), ("D:\\old\\", "70"))
