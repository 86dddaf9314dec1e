"""The sheets that are made from packaged data, and the comparison of labels with values computed from them."""

from __future__ import annotations

import json
import zipfile
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tests.conversations.data.tables.values import VALUES, Files, problems
from tests.conversations.labels import LabelledTurn
from tests.conversations.sheets import write_sheets

FOODS = {
    "00002": ("Salt, table", {"Energy": 0.0, "Sodium": 38758.0}),
    "00001": ("Oats", {"Energy": 389.0, "Iron": 4.72}),
}
COUNTRIES = [
    {"alpha_2": "NA", "alpha_3": "NAM", "numeric": "516", "name": "Namibia", "official_name": "Republic of Namibia"},
    {"alpha_2": "AW", "alpha_3": "ABW", "numeric": "533", "name": "Aruba"},
]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    """Write small sheets from data in the form of the packages."""
    sources = tmp_path / "sources"
    sources.mkdir()
    with zipfile.ZipFile(sources / "usda_sr24.jar", "w") as archive:
        archive.writestr(
            "usda_sr24/foods.index", "".join(f"{number}|{name}\r\n" for number, (name, _) in FOODS.items())
        )
        archive.writestr("usda_sr24/00009.xml", "<food name='of an earlier edition'/>")
        for number, (name, amounts) in FOODS.items():
            content = "".join(f"<nutrient name='{each}' amount='{amount}'/>" for each, amount in amounts.items())
            archive.writestr(f"usda_sr24/{number}.xml", f"<food name='{name}'>{content}</food>")
    (sources / "seattle-weather.csv").write_text(
        "date,precipitation,temp_max,temp_min,wind,weather\n2014/08/10,1.5,30.0,15.0,2.5,rain\n2014/08/11,0.0,35.6,17.8,2.6,sun\n"
    )
    (sources / "iso_3166-1.json").write_text(json.dumps({"3166-1": COUNTRIES}))
    region = {"code": "NA-ER", "name": "Erongo", "type": "Region"}
    (sources / "iso_3166-2.json").write_text(json.dumps({"3166-2": [region]}))
    line = f"{'010000001Bundesbank':67}{'01067Dresden':40}{'BBk':27}     {'':11}09011380"
    (sources / "blz_20200420.txt").write_text(f"{line}\n", encoding="latin-1")
    (sources / "oui.csv").write_text(
        "Registry,Assignment,Organization Name,Organization Address\nMA-L,00D0EF,IGT,Reno\n"
    )
    return Files(write_sheets(sources, tmp_path / "sheets"))


def test_sheets_keep_numbers_dates_and_leading_zeros(files: Files, tmp_path: Path) -> None:
    lines = (tmp_path / "sheets" / "food-nutrients.csv").read_text("utf-8").splitlines()
    assert lines[-1] == "00002;Salt, table;Sodium;38.758,00;mg"
    assert files.amounts["Amount in 100 g"].tolist() == [389.0, 4.72, 0.0, 38758.0]
    assert files.weather["date"].dt.date.tolist() == [date(2014, 8, 10), date(2014, 8, 11)]
    assert files.banks.iloc[0][["Bankleitzahl", "PLZ", "Ort"]].tolist() == ["01000000", "01067", "Dresden"]
    assert files.regions[["Region", "Country"]].to_numpy().tolist() == [["Erongo", "Namibia"]]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("weather-hottest", (date(2014, 8, 11), 35.6)),
        ("weather-total", (1.5,)),
        ("food-iron", ("Oats", 4.72)),
        ("regions-none", (1,)),
        ("banks-zero", (1,)),
        ("vendors-owner", ("IGT",)),
    ],
)
def test_computes_right_values_from_the_sheets(files: Files, name: str, values: tuple[Any, ...]) -> None:
    assert VALUES[name](files) == values


def test_finds_labels_that_are_too_strict_or_too_loose() -> None:
    def label(*facts: str) -> LabelledTurn:
        return LabelledTurn(say="?", kind="answer", facts=facts)

    assert list(problems(label(r"(?<!\d)1[., ]?398(?![\d])"), (1398,))) == []
    strict = ["1,398", "1.398", "1\N{NO-BREAK SPACE}398"]
    assert list(problems(label("1398"), (1398,))) == [f"does not accept {text!r}" for text in strict]
    assert list(problems(label(r"\d"), (7,))) == ["accepts '8'", "accepts '6'", "accepts '70'"]
