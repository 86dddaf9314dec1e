"""The five tables of the collection `tables`, made from data files of Debian packages.

The packages contain XML, JSON, CSV and fixed-width text. Each file is written as a person would export it from a
spreadsheet or a database: with semicolons and decimal commas, as a workbook with two sheets, or as plain CSV.
"""

from __future__ import annotations

import csv
import json
import shutil
import zipfile
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from xml.etree import ElementTree

Row = Sequence[object]

_UNITS = {
    "Energy": "kcal", "Protein": "g", "Fat": "g", "Carbs": "g", "Sugars": "g", "Fiber": "g",
    "Sodium": "mg", "Calcium": "mg", "Iron": "mg", "Vitamin C": "mg",
}  # fmt: skip
"""Nutrients that are exported, with their units."""
_WEATHER = {"drizzle": "Nieselregen", "rain": "Regen", "sun": "Sonne", "snow": "Schnee", "fog": "Nebel"}
_BANK_FIELDS = (
    ("Bankleitzahl", 0, 8), ("Merkmal", 8, 9), ("Bezeichnung", 9, 67), ("PLZ", 67, 72), ("Ort", 72, 107),
    ("Kurzbezeichnung", 107, 134), ("PAN", 134, 139), ("BIC", 139, 150), ("Prüfziffermethode", 150, 152),
    ("Datensatznummer", 152, 158),
)  # fmt: skip
"""Columns of the bank code file of the Bundesbank, and their positions in a line."""


def write_sheets(sources: Path, folder: Path) -> Path:
    """Write the five tables from the packaged files in `sources`; return `folder`."""
    folder.mkdir()
    _write_nutrients(sources / "usda_sr24.jar", folder / "food-nutrients.csv")
    _write_weather(sources / "seattle-weather.csv", folder / "wetter-seattle.csv")
    _write_regions(sources, folder / "countries-and-regions.xlsx")
    _write_banks(sources / "blz_20200420.txt", folder / "bankleitzahlen.xlsx")
    shutil.copy(sources / "oui.csv", folder / "network-vendors.csv")
    return folder


def _write_nutrients(archive: Path, target: Path) -> None:
    """Write one row per food and nutrient, with numbers such as 1.234,50 and semicolons between columns."""
    rows: list[Row] = [("Food no.", "Food", "Nutrient", "Amount in 100 g", "Unit")]
    with zipfile.ZipFile(archive) as content:
        # The archive also contains foods of earlier editions, which the index does not list.
        index = content.read("usda_sr24/foods.index").decode("utf-8").splitlines()
        for number in sorted(line.partition("|")[0] for line in index if line):
            food = ElementTree.fromstring(content.read(f"usda_sr24/{number}.xml"))
            amounts = {each.get("name"): float(each.get("amount", "")) for each in food.iter("nutrient")}
            for name, unit in _UNITS.items():
                if name in amounts:
                    rows.append((number, food.get("name", ""), name, _decimal_comma(amounts[name], 2), unit))
    _write_csv(target, rows, ";")


def _write_weather(source: Path, target: Path) -> None:
    """Write daily weather with German dates and decimal commas."""
    rows: list[Row] = [
        ("Datum", "Niederschlag (mm)", "Höchsttemperatur (°C)", "Tiefsttemperatur (°C)", "Wind (m/s)", "Wetter")
    ]
    with source.open(encoding="utf-8", newline="") as file:
        for day in csv.DictReader(file):
            date = datetime.strptime(day["date"], "%Y/%m/%d").strftime("%d.%m.%Y")
            numbers = (
                _decimal_comma(float(day[name]), 1) for name in ("precipitation", "temp_max", "temp_min", "wind")
            )
            rows.append((date, *numbers, _WEATHER[day["weather"]]))
    _write_csv(target, rows, ";")


def _write_regions(sources: Path, target: Path) -> None:
    """Write a workbook with a sheet of countries and a sheet of their regions, which only names the country's code."""
    (countries,) = json.loads((sources / "iso_3166-1.json").read_text("utf-8")).values()
    (regions,) = json.loads((sources / "iso_3166-2.json").read_text("utf-8")).values()
    names = ("alpha_2", "alpha_3", "numeric", "name", "official_name")
    _write_workbook(
        target,
        {
            "Countries": [
                ("Code", "Code (3 letters)", "Number", "Country", "Official name"),
                *([country.get(name) for name in names] for country in countries),
            ],
            "Regions": [
                ("Code", "Country code", "Region", "Kind", "Part of"),
                *(
                    (region["code"], region["code"].partition("-")[0], *map(region.get, ("name", "type", "parent")))
                    for region in regions
                ),
            ],
        },
    )


def _write_banks(source: Path, target: Path) -> None:
    """Write the German bank codes as text cells, so that leading zeros stay."""
    lines = source.read_text("latin-1").splitlines()
    rows = [[line[start:end].strip() or None for _, start, end in _BANK_FIELDS] for line in lines]
    _write_workbook(target, {"Bankleitzahlen": [[name for name, _, _ in _BANK_FIELDS], *rows]})


def _decimal_comma(number: float, digits: int) -> str:
    """Format 1234.5 as 1.234,50."""
    return f"{number:,.{digits}f}".translate({ord(","): ".", ord("."): ","})


def _write_csv(target: Path, rows: Iterable[Row], delimiter: str) -> None:
    with target.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)


def _write_workbook(target: Path, sheets: dict[str, Sequence[Row]]) -> None:
    from openpyxl import Workbook

    workbook = Workbook(write_only=True)
    for name, rows in sheets.items():
        sheet = workbook.create_sheet(name)
        for row in rows:
            sheet.append(row)
    workbook.save(target)
