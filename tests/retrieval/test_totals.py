"""Rows of totals: by arithmetic, by their place in the table, and by their labels in many languages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from turnmark.corpora.readers.office.workbook import read_csv
from turnmark.corpora.types import Document
from turnmark.retrieval.tables.table_writer import TableWriter

Row = tuple[object, ...]
LABELS = """Zwischensumme {}|Gesamtsumme; {} Ergebnis|Gesamtergebnis; Summe {}|Insgesamt; {} Total|Grand Total
{} Result|Total Result; Subtotal: {}|OVERALL TOTAL; {}|All; Subtotaal {}|Eindtotaal; Sous-total {}|Total général
{} Totale|Totale complessivo; {} Suma|Suma końcowa; {} Итог|Общий итог; {} Підсумок|Загальний підсумок
{} المجموع|المجموع الإجمالي; รวม {}|รวมทั้งสิ้น; {} Toplamı|Genel Toplam; {} Summa|Totalsumma; {} Sum|Hovedtotal
{} Summa|Kaikki yhteensä; Celkem z {}|Celkový součet; {} összeg|Végösszeg; Άθροισμα {}|Γενικό άθροισμα; {} 集計|総計
{} 汇总|总计; {} 요약|총합계; {} סה"כ|סכום כולל; {} योग|कुल योग; {} Tổng|Tổng cộng; Σ {}|Σ; {} total|T O T A L"""
PAIRS = [tuple(pair.split("|")) for line in LABELS.splitlines() for pair in line.split("; ")]
SELLERS = {"North": {"Ann": 3, "Ben": 4}, "South": {"Cem": 5, "Dora": 8}, "West": {"Eve": 6}}
EUROS = {"Ann": 103, "Ben": 204, "Dora": 78, "Eve": 6}


def totals(folder: Path, rows: Sequence[Row]) -> list[int]:
    """Return the positions of the rows below the header that count as totals."""
    (folder / "a.csv").write_text("\n".join(";".join(map(str, row)) for row in rows), encoding="utf-8")
    (document,) = read_csv(folder / "a.csv", "a.csv", lambda *_: None)
    assert isinstance(document, Document)
    writer = TableWriter(folder / "tables.db")
    writer.add(document)
    found = writer._db.execute("SELECT row_number FROM a WHERE is_total = 1").fetchall()
    writer.close()
    return [number - 2 for (number,) in found]


def flat(subtotal: str, total: str) -> Iterator[Row]:
    """Yield rows with subtotals below each group, without further columns of text."""
    yield "Name", "Sales"
    for region, sellers in SELLERS.items():
        yield from sellers.items()
        yield subtotal.format(region), sum(sellers.values())
    yield total, 26


def pivot(subtotal: str, total: str, repeated: bool) -> Iterator[Row]:
    """Yield rows as a pivot table has them; the region is repeated, or blank after the first row of each."""
    yield "Region", "Seller", "Sales"
    for region, sellers in SELLERS.items():
        for at, (seller, sales) in enumerate(sellers.items()):
            yield region if repeated or at == 0 else "", seller, 100 + sales
        yield subtotal.format(region), "", sum(100 + sales for sales in sellers.values())
    yield total, "", 526


@pytest.mark.parametrize(("subtotal", "total"), PAIRS)
def test_subtotals_and_totals_in_every_language(tmp_path: Path, subtotal: str, total: str) -> None:
    assert totals(tmp_path, [*flat(subtotal, total)]) == [2, 5, 7, 8]
    assert totals(tmp_path, [*pivot(subtotal, total, repeated=True)]) == [2, 5, 7, 8]
    assert totals(tmp_path, [*pivot(subtotal, total, repeated=False)]) == [2, 5, 7, 8]


def test_totals_above_their_rows_need_no_label(tmp_path: Path) -> None:
    rows: list[Row] = [("Row labels", "Sales")]
    for region, sellers in SELLERS.items():
        rows += [(region, sum(sellers.values())), *sellers.items()]
    assert totals(tmp_path, [*rows, ("Everything", 26)]) == [0, 3, 6, 8]
    world = [("Town", "Men", "Women"), ("World", 36, 45), ("A", 11, 12), ("B", 22, 30), ("C", 3, 3)]
    assert totals(tmp_path, world) == [0]


def test_amounts_in_several_currencies_are_added_up_by_currency(tmp_path: Path) -> None:
    rows: list[Row] = [("Region", "Seller", "Net")]
    for region, sellers in SELLERS.items():
        rows += [(region, name, f"{EUROS[name]},00 €" if name in EUROS else "70,00 CHF") for name in sellers]
        rows.append((f"Zwischensumme {region}", "", f"{sum(EUROS.get(name, 0) for name in sellers)},00 €"))
    assert totals(tmp_path, [*rows, ("Gesamt", "", "391,00 €"), ("", "", "70,00 CHF")]) == [2, 5, 7, 8, 9]


@pytest.mark.parametrize(
    "rows",
    [
        [("Game", "Sold"), ("Doom", 5), ("Quake", 9), ("Total Annihilation", 12), ("Total War", 99)],
        [("Sector", "Budget"), ("Press", 120), ("Media", 300), ("Radio", 250), ("Film", 77)],
        [("Operation", "Count"), ("Subtotal hysterectomy", 45), ("Total hysterectomy", 88), ("Partial", 31)],
        [("Year", "Value"), (2001, 100), (2002, 100), (2003, 200), (2004, 400)],
        [("Name", "Town", "Age"), ("Ann", "Bonn", 30), ("Bob", "", 30), ("Cem", "Ulm", 60)],
        [("Item", "Plan", "Actual"), ("a", 1, 2), ("b", 2, 3), ("c", 3, 5)],
    ],
)
def test_records_are_no_totals(tmp_path: Path, rows: list[Row]) -> None:
    assert totals(tmp_path, rows) == []
