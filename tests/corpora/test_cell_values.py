"""Types of columns and values of cells: numbers and dates in the forms of several countries, codes, totals."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnmark.corpora.tables.cell_dates import read_date
from turnmark.corpora.tables.cell_numbers import read_number
from turnmark.corpora.tables.column_types import (
    CellValue,
    ColumnType,
    file_habits,
    gather_evidence,
    join_labels,
    repeats_labels,
)
from turnmark.corpora.tables.total_rows import Amounts, TotalRows


def types_of(*columns: Sequence[str], labels: Sequence[str] = (), language: str = "") -> list[ColumnType]:
    labels = labels or [f"column {number}" for number in range(len(columns))]
    evidence = gather_evidence(labels, ((row, ()) for row in zip(*columns, strict=True)))
    habits = file_habits(evidence, lambda: language)
    return [column.type(habits) for column in evidence]


def values(column: Sequence[str], **options: str) -> list[CellValue]:
    (kind,) = types_of(column, **options)  # type: ignore[arg-type]
    return [kind.value(cell) for cell in column]


@pytest.mark.parametrize(
    ("cells", "kind", "unit", "expected"),
    [
        (["1.234,50 €", "80,00 €", "−5,25 €"], "real", "€", [1234.5, 80.0, -5.25]),
        (["$1,234.50", "-$80.00", "$(5.25)"], "real", "$", [1234.5, -80.0, -5.25]),
        (["12 %", "(5) %", "-1%"], "integer", "%", [12, -5, -1]),
        (["(35)", "1 234", "7"], "integer", "", [-35, 1234, 7]),
        (["1,2 Mio", "3 Mio", "0,5 Mio"], "real", "", [1_200_000, 3_000_000, 500_000]),
        (["1.5 million", "2 billion", "3 thousand"], "real", "", [1_500_000, 2_000_000_000, 3_000]),
        (["$1.2M", "$30K", "$2B"], "real", "$", [1_200_000, 30_000, 2_000_000_000]),
        (["12,5万", "3万", "1万"], "real", "", [125_000, 30_000, 10_000]),
        (["1'234.50", "12.00", "7'000.25"], "real", "", [1234.5, 12, 7000.25]),
        (["12,34,567", "1,00,000", "5,000"], "integer", "", [1_234_567, 100_000, 5_000]),
        (["123.45-", "10.00", "3.20-"], "real", "", [-123.45, 10, -3.2]),
        (["1st", "2nd", "23rd"], "integer", "", [1, 2, 23]),
        (["5 km", "12 km", "1.5 km"], "real", "km", [5, 12, 1.5]),
        (["3 m", "5 m", "4 m"], "integer", "m", [3, 5, 4]),
        (["1,234[1]", "500*", "7†"], "integer", "", [1234, 500, 7]),
        (["1", "–", "n/a", "", "4"], "integer", "", [1, None, None, None, 4]),
        (["1", "2", "3", "4", "DNF"], "integer", "", [1, 2, 3, 4, None]),
        (["1998", "2004", "2021"], "integer", "", [1998, 2004, 2021]),
        (["0.392555411592569123", "1.5", "0.25"], "real", "", [0.392555411592569123, 1.5, 0.25]),
        (["0,392555411592569123", "1,5", "4,5E-3"], "real", "", [0.392555411592569123, 1.5, 0.0045]),
        (["1e3", "2.5e-1", "4"], "real", "", [1000, 0.25, 4]),
        (["١٢", "٣٤", "٥"], "integer", "", [12, 34, 5]),
        (["12", "34", "5"], "integer", "", [12, 34, 5]),
    ],
)
def test_numbers_of_many_forms(cells: list[str], kind: str, unit: str, expected: list[CellValue]) -> None:
    (column,) = types_of(cells)
    assert (column.kind, column.unit) == (kind, unit)
    assert [column.value(cell) for cell in cells] == pytest.approx(expected)


@pytest.mark.parametrize(
    "cells",
    [
        ["00123", "45678", "00009"],
        ["+4930123456", "+4930123457", "+4930123458"],
        ["030/123456", "030/123457", "030/123458"],
        ["5 kg", "300 g", "7 kg"],
        ["1–3", "2–4", "0–0"],
        ["3-1", "2-2", "0-4"],
        ["12:30", "1:23.47", "2:14"],
        ["1/2", "3/4", "5/8"],
        ["2001–02", "2002–03", "2003–04"],
        ["<5", ">10", "≈7"],
        ["1234567890123456", "2234567890123456", "3234567890123456"],
        ["1.2.3", "1.2.4", "2.0.1"],
        ["192.168.0.1", "10.0.0.1", "10.0.0.2"],
        ["5'8\"", "6'1\"", "6'2\""],
        ["12 May", "3 May", "7 May"],
        ["1", "two", "three", "4"],
    ],
)
def test_codes_and_other_texts_stay_text(cells: list[str]) -> None:
    assert types_of(cells)[0].kind == "text"


@pytest.mark.parametrize(
    ("label", "cells", "kind"),
    [
        *[(label, ["12345", "23456"], "text")
          for label in ("PLZ", "Postal code", "ZIP", "Telefon", "ISBN", "Phone number")],
        ("Version", ["4.10", "5.04", "6.06"], "text"),
        ("Version", ["8", "9", "10"], "integer"),
        ("Price", ["4.10", "5.04", "6.06"], "real"),
    ],
)  # fmt: skip
def test_a_label_says_that_digits_are_a_code_or_a_version(label: str, cells: list[str], kind: str) -> None:
    assert types_of(cells, labels=[label])[0].kind == kind


@pytest.mark.parametrize(
    ("cells", "language", "expected"),
    [
        # the column decides what separates its decimals, or else the language
        (["1.234", "5.678", "1.234,5"], "", [1234, 5678, 1234.5]),
        (["1,234", "5,678", "1,234.5"], "", [1234, 5678, 1234.5]),
        (["1.234.567", "2.345"], "", [1234567, 2345]),
        (["1.234", "5.678"], "de", [1234, 5678]),
        (["1.234", "5.678"], "en", [1.234, 5.678]),
        (["1,234", "5,678"], "de", [1.234, 5.678]),
        (["1,234", "5,678"], "en", [1234, 5678]),
        (["1,147", "932", "2011"], "de", [1.147, 932, 2011]),  # 2011 has no mark, so the mark may be of decimals
        (["1.234,5", "1,234.5", "7.000"], "", [1234.5, 1234.5, None]),  # ambiguous next to both kinds
    ],
)
def test_separator_of_decimals(cells: list[str], language: str, expected: list[CellValue]) -> None:
    assert values(cells, language=language) == expected


def test_the_other_columns_of_a_file_decide_for_an_ambiguous_one() -> None:
    ambiguous, _ = types_of(["1.234", "5.678"], ["2,5", "3,75"])
    assert ambiguous.value("1.234") == 1234
    ambiguous, _ = types_of(["1.234", "5.678"], ["2.5", "3.75"])
    assert ambiguous.value("1.234") == 1.234


@pytest.mark.parametrize("language", ["de", "en"])
@pytest.mark.parametrize("mark", [",", "."])
def test_marks_next_to_whole_numbers_of_three_digits_group_thousands(mark: str, language: str) -> None:
    other = {",": ["7,4", "0,5", "3,2"], ".": ["7.4", "0.5", "3.2"]}[mark]
    column, decimals = types_of([f"1{mark}147", "932", f"12{mark}005"], other, language=language)
    assert column.kind == "integer"
    assert [column.value(cell) for cell in (f"1{mark}147", "932", f"12{mark}005")] == [1147, 932, 12005]
    assert decimals.value(other[0]) == 7.4


def test_ambiguous_columns_of_a_file_that_contradicts_itself_are_whole_numbers() -> None:
    for mark in ",.":
        ambiguous, _, _ = types_of([f"5{mark}288", f"22{mark}395"], ["7,4", "0,5"], ["4.20", "3.99"])
        assert (ambiguous.kind, ambiguous.value(f"5{mark}288")) == ("integer", 5288)


def test_versions_do_not_decide_for_the_other_columns() -> None:
    prices, versions, _ = types_of(
        ["1.234", "5.678"], ["4.10", "5.04"], ["2,5", "1,5"], labels=["Price", "Version", "Weight"]
    )
    assert (prices.value("1.234"), versions.kind) == (1234, "text")


# Repeated nines mark missing values, so they are not read back.
LONG = st.integers(1_000, 999_999).filter(lambda number: {*str(number)} != {"9"})


@given(st.lists(LONG, min_size=1), st.integers(100, 998), st.sampled_from([",", "."]))
def test_grouped_numbers_next_to_short_ones_are_read_back(long: list[int], short: int, mark: str) -> None:
    cells = [f"{number:,}".replace(",", mark) for number in long]
    assert values([*cells, str(short)]) == [*long, short]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["2024-03-01", "2024/3/2", "2024.12.31"], ["2024-03-01", "2024-03-02", "2024-12-31"]),
        (["01.03.2024", "2.4.2024", "31.12.2024"], ["2024-03-01", "2024-04-02", "2024-12-31"]),
        (["March 3, 2021", "Dec 24, 2020", "Sept. 1, 2020"], ["2021-03-03", "2020-12-24", "2020-09-01"]),
        (["1. März 2024", "2. Mai 2024", "3. Dezember 2023"], ["2024-03-01", "2024-05-02", "2023-12-03"]),
        (["1er avril 2024", "2 août 2023", "3 déc. 2022"], ["2024-04-01", "2023-08-02", "2022-12-03"]),
        (["5 de mayo de 2020", "1 de enero de 2021", "2 de abril de 2021"], ["2020-05-05", "2021-01-01", "2021-04-02"]),
        (["2024年3月1日", "2023年12月31日", "2020年1月2日"], ["2024-03-01", "2023-12-31", "2020-01-02"]),
        (["1 марта 2024", "2 мая 2023", "3 июня 2022"], ["2024-03-01", "2023-05-02", "2022-06-03"]),
        (["2024-03-01T10:15:00Z", "2024-03-02 08:00", "2024-03-03 23:59:59"],
         ["2024-03-01 10:15:00", "2024-03-02 08:00", "2024-03-03 23:59:59"]),
        (["5/1/1990 3:04 PM", "5/31/1990 12:00 AM", "6/2/1990 12:30 pm"],
         ["1990-05-01 15:04", "1990-05-31 00:00", "1990-06-02 12:30"]),
        (["March 2024", "April 2024", "May 2024"], ["2024-03", "2024-04", "2024-05"]),
    ],
)  # fmt: skip
def test_dates_of_many_forms(cells: list[str], expected: list[str]) -> None:
    assert types_of(cells)[0].kind == "date"
    assert values(cells) == expected


def test_one_cell_decides_the_order_of_day_and_month() -> None:
    assert values(["03/04/2024", "13/04/2024"]) == ["2024-04-03", "2024-04-13"]
    assert values(["03/04/2024", "04/13/2024"]) == ["2024-03-04", "2024-04-13"]
    assert values(["05/05/2024", "06/06/2024"]) == ["2024-05-05", "2024-06-06"]
    ambiguous, _ = types_of(["03/04/2024", "05/06/2024"], ["13/04/2024", "14/04/2024"])
    assert ambiguous.value("03/04/2024") == "2024-04-03"
    for cells in (["03/04/2024", "05/06/2024"], ["13/04/2024", "04/13/2024"], ["03/04/24", "13/04/24"]):
        assert types_of(cells)[0].kind == "text"


@pytest.mark.parametrize(
    ("label", "cells", "expected"),
    [
        ("Datum", ["02.01.24", "31.12.99", "1.2.29"], ["2024-01-02", "1999-12-31", "2029-02-01"]),
        ("Date", ["20240503", "20231231"], ["2024-05-03", "2023-12-31"]),
        ("x", ["2024-05-03", "20231231", "02.01.24"], ["2024-05-03", "2023-12-31", "2024-01-02"]),
        ("Release", ["02.01.24", "31.12.99"], ["02.01.24", "31.12.99"]),
        ("Pieces", ["20240503", "20231231"], [20240503, 20231231]),
        ("Invoice date", ["20240503", "12", "13"], [20240503, 12, 13]),
        ("Founded", ["1761-10", "1904", "1911", "1913"], ["1761-10", "1904", "1911", "1913"]),
    ],
)
def test_short_dates_and_years_in_a_column_of_dates(label: str, cells: list[str], expected: list[CellValue]) -> None:
    assert values(cells, labels=[label]) == expected


@pytest.mark.parametrize(
    ("cells", "missing", "remarks"),
    [
        (["12.5", "14", "13.5", "-999", "15", "11", "-999"], [-999], "2 cells with -999, far from all others, count"),
        (["12,5", "14", "13,5", "-99,9", "15", "11"], [-99.9], "1 cell with -99.9, far from all others, count"),
        (["1", "2", "3", "9999", "4", "5", "9999"], [9999], "2 cells with 9999, far from all others, count"),
        (["1", "2", "3", "9999", "4", "5"], [], "1 cell with 9999, far from all others, perhaps missing values"),
        (["800", "999", "9999", "7500", "9999", "12"], [], ""),
        (["-80", "-99", "-70", "-90", "-60", "-85"], [], ""),
        (["12", "~55.1", "ca. 7", "3"], [], "2 numbers not exact"),
    ],
)
def test_numbers_that_mean_missing_values(cells: list[str], missing: list[float], remarks: str) -> None:
    (column,) = types_of(cells)
    assert sorted(column.markers) == missing
    assert "; ".join(column.remarks).startswith(remarks) if remarks else column.remarks == ()
    assert sum(column.value(cell) is None for cell in cells) == sum(
        float(cell.replace(",", ".")) in missing for cell in cells if cell.strip("-")[0].isdigit()
    )


@pytest.mark.parametrize(
    ("label", "unit"),
    [("Kosten (€)", "€"), ("Size [kB]", "kB"), ("Preis in EUR", "EUR"), ("Umsatz (in Mio. €)", "Mio. €"),
     ("Share (%)", "%"),
     ("Amount (net)", ""), ("Population (2011)", ""), ("Price", "")],
)  # fmt: skip
def test_a_label_may_have_the_unit(label: str, unit: str) -> None:
    assert types_of(["12", "7", "9"], labels=[label])[0].unit == unit


def test_impossible_dates_have_no_value() -> None:
    assert values(["31.01.2024", "30.01.2024", "28.01.2024", "29.01.2024", "31.02.2024"])[-1] is None


@given(st.integers(-(10**9), 10**9), st.sampled_from(["", ",", ".", " ", "'", "\u202f"]))
def test_whole_numbers_are_read_back_whatever_groups_their_digits(number: int, mark: str) -> None:
    shown = f"{number:,}".replace(",", mark)
    assert number in (values([shown], language="de")[0], values([shown], language="en")[0])


@given(
    st.integers(-(10**9), 10**9), st.integers(0, 99), st.sampled_from([(",", "."), (".", ","), (" ", ","), ("'", ".")])
)
def test_numbers_with_two_decimals_are_read_back(whole: int, cents: int, marks: tuple[str, str]) -> None:
    group, point = marks
    shown = f"{whole:,}".replace(",", group) + f"{point}{cents:02}"
    expected = abs(whole) + cents / 100
    assert values([shown]) == [pytest.approx(-expected if shown.startswith("-") else expected)]


@given(st.dates(date(1900, 1, 1), date(2100, 1, 1)))
def test_dates_are_read_back_in_every_form(day: date) -> None:
    assert values([f"{day:%d.%m.%Y}"]) == values([f"{day:%B} {day.day}, {day.year}"]) == [day.isoformat()]
    shown = read_date(f"{day:%d/%m/%Y}")
    assert shown is not None
    assert shown.day_first == day.isoformat()
    assert shown.month_first in (None, date(day.year, day.day, day.month).isoformat() if day.day <= 12 else None)


@given(st.text(max_size=80))
def test_any_text_is_a_number_or_not_without_an_error(text: str) -> None:
    number, day = read_number(text), read_date(text)
    assert number is None or any(map(str.isdigit, text))
    assert day is None or any(map(str.isdigit, text))
    first, second = values([text, text])
    assert first == second


def totals(rows: Sequence[tuple[str, ...]], numeric: Sequence[bool]) -> list[int]:
    search = TotalRows(numeric)
    found = []
    for at, row in enumerate(rows):
        amounts = {
            (column, ""): float(cell)
            for column, (cell, is_numeric) in enumerate(zip(row, numeric, strict=True))
            if is_numeric and cell
        }
        if search.is_total(row, amounts):
            found.append(at)
    return found


TEAMS = [("Ann", "4/9", "44", "8"), ("Ben", "33/77", "43", "72")]


@pytest.mark.parametrize(
    ("rows", "numeric", "found"),
    [
        *[([("a", "1"), ("b", "2"), (label, "9")], [False, True], [2])
          for label in ("Total", "Summe:", "Gesamt", "Grand total", "合計", "Итого", "Total général", "**Total**")],
        # without a label, the numbers are sums
        ([("a", "1", "10"), ("b", "2", "20"), ("", "3", "30"), ("c", "4", "40"), ("d", "5", "50"), ("", "9", "90"),
          ("", "12", "120")], [False, True, True], [2, 5, 6]),
        # with any label, if a text is missing that the rows above have
        ([("N", "Ann", "100"), ("N", "Ben", "200"), ("All of N", "", "300"), ("S", "Cem", "50"), ("S", "Eve", "70"),
          ("Σ", "", "120"), ("T O T A L", "", "420")], [False, False, True], [2, 5, 6]),
        ([("N", "Ann", "1"), ("N", "Ben", "1"), ("N", "", "2")], [False, False, True], []),
        # names that begin like a total
        ([("Doom", "5"), ("Quake", "9"), ("Total Annihilation", "12"), ("Total War", "99")], [False, True], []),
        ([("North", "5"), ("South", "9"), ("Total sales", "14")], [False, True], [2]),
        # next to percentages and other texts
        ([*TEAMS, ("Team totals", "37/86", "43", "80")], [False, False, True, True], [2]),
        ([*TEAMS, ("Game totals", "1/2", "50", "9")], [False, False, True, True], []),
        # a table of numbers alone
        ([("1", "1"), ("2", "2"), ("3", "3")], [True, True], []),
    ],
)  # fmt: skip
def test_finds_rows_of_totals(rows: list[tuple[str, ...]], numeric: list[bool], found: list[int]) -> None:
    assert totals(rows, numeric) == found


def test_the_label_of_a_total_may_be_in_a_column_of_numbers() -> None:
    search = TotalRows([True, True])
    rows: list[tuple[list[str], Amounts]] = [
        (["1998", "5"], {(0, ""): 1998, (1, ""): 5}), (["1999", "7"], {(0, ""): 1999, (1, ""): 7}),
        (["Total", "12"], {(1, ""): 12}),
    ]  # fmt: skip
    assert [search.is_total(cells, numbers) for cells, numbers in rows] == [False, False, True]


LABELS = ["Towns", "Population", "Male", "Female", "Notes"]


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (LABELS, True),
        (["Villages", "Population", "Male", "Female", "Remarks"], True),
        (["", "Population", "Male", "Female", ""], True),
        (["Villages", "Population", "Male", "12", "5"], False),
        (["Population", "Population", "12", "9", ""], False),
        (["", "", "", "", ""], False),
        (["Notes", "7", "3", "4", "Notes"], False),
    ],
)
def test_rows_that_repeat_the_column_names_are_recognized(cells: list[str], expected: bool) -> None:
    assert repeats_labels(cells, LABELS) is expected


def test_repeated_column_names_do_not_change_the_type_of_a_column() -> None:
    page = [("a", "1"), ("b", "2"), ("Name", "Size")]
    evidence = gather_evidence(["Name", "Size"], ((row, ()) for row in page * 9))
    assert evidence[1].type(file_habits(evidence, lambda: "")).kind == "integer"


def test_a_second_row_of_names_tells_columns_apart() -> None:
    labels = ["Name", "Shots", "Shots", "Fouls"]
    assert join_labels(labels, [["", "Made", "%", ""], ["Ann", "4/9", "44", "1"], ["Ben", "1/2", "50", "2"]]) == [
        "Name",
        "Shots Made",
        "Shots %",
        "Fouls",
    ]


@pytest.mark.parametrize(
    ("labels", "rows"),
    [
        (["Name", "Name"], [["Smith", "John"], ["Miller", "Ann"]]),
        (["Day", "Shots", "Shots"], [["Monday", "Made", "%"], ["Tuesday", "4/9", "44"]]),
        (["Day", "Shots", "Shots"], [["", "Made", "Made"], ["Tuesday", "4", "44"]]),
        (["Day", "Shots", "Shots"], [["", "3", "5"], ["Tuesday", "4", "44"]]),
        (["Day", "Made", "Missed"], [["", "Made", "%"], ["Tuesday", "4", "44"]]),
        (["Day", "Shots", "Shots"], [["", "Made", "Missed"]]),
    ],
)
def test_a_row_of_data_is_no_second_row_of_names(labels: list[str], rows: list[list[str]]) -> None:
    assert join_labels(labels, rows) is None
