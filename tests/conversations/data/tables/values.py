"""Recompute the right values of `tables.toml` from the files with pandas, and compare the labels with them:

    python -m tests.conversations.data.tables.values

It prints each value, and exits with 1 if a label disagrees. `tests/conversations/collections.py` fetches the files.
A label agrees if its patterns match the right value in every usual format, and do not match a value next to it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from tests.conversations.collections import LABELS, collections_named
from tests.conversations.labels import LabelledTurn, read_labels
from tests.conversations.scoring import Answer, score

Value = int | float | str | date
_AMOUNT = "Amount in 100 g"
_MONTHS = {
    "en": "January February March April May June July August September October November December".split(),
    "de": "Januar Februar März April Mai Juni Juli August September Oktober November Dezember".split(),
}


class Files:
    """The five files as data frames, each read when it is first needed. Codes stay text, as they are shown."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @cached_property
    def weather(self) -> Any:
        """The days; `date` is the parsed date, the other columns have English names."""
        frame = self._german_csv("wetter-seattle.csv", "Datum")
        frame.columns = ["date", "rain", "high", "low", "wind", "sky"]
        frame["date"] = pd.to_datetime(frame["date"], format="%d.%m.%Y")
        return frame

    @cached_property
    def amounts(self) -> Any:
        """The rows of the list of nutrients: one per food and nutrient."""
        return self._german_csv("food-nutrients.csv", "Food no.")

    @cached_property
    def foods(self) -> Any:
        """One row per food, one column per nutrient; a food whose file has no amount has none here."""
        return self.amounts.pivot_table(index=["Food no.", "Food"], columns="Nutrient", values=_AMOUNT).reset_index()

    @cached_property
    def countries(self) -> Any:
        """The sheet of countries."""
        return self._workbook("countries-and-regions.xlsx", "Countries")

    @cached_property
    def regions(self) -> Any:
        """The sheet of regions, each with the columns of its country."""
        regions = self._workbook("countries-and-regions.xlsx", "Regions").rename(columns={"Code": "Region code"})
        return regions.merge(self.countries, left_on="Country code", right_on="Code", validate="many_to_one")

    @cached_property
    def banks(self) -> Any:
        """The entries of the list of bank codes."""
        return self._workbook("bankleitzahlen.xlsx", "Bankleitzahlen")

    @cached_property
    def vendors(self) -> Any:
        """The assigned blocks of network addresses."""
        return pd.read_csv(self._folder / "network-vendors.csv", dtype=str, keep_default_na=False, na_values=[""])

    def _german_csv(self, name: str, text: str) -> Any:
        return pd.read_csv(self._folder / name, sep=";", decimal=",", thousands=".", dtype={text: str})

    def _workbook(self, name: str, sheet: str) -> Any:
        # "NA" is the code of Namibia, not a missing value.
        return pd.read_excel(self._folder / name, sheet, dtype=str, keep_default_na=False, na_values=[""])


def _hottest_day(files: Files) -> tuple[Value, ...]:
    day = files.weather.loc[files.weather["high"].idxmax()]
    return day["date"].date(), float(day["high"])


def _wettest_month(files: Files) -> tuple[Value, ...]:
    days = files.weather
    months = days.groupby([days["date"].dt.year, days["date"].dt.month])["rain"].sum()
    year, month = months.idxmax()
    return f"{_MONTHS['en'][month - 1]} {year}", float(months.max())


def _largest_range(files: Files) -> tuple[Value, ...]:
    ranges = files.weather["high"] - files.weather["low"]
    return files.weather.loc[ranges.idxmax(), "date"].date(), float(ranges.max())


def _rain_of_years(files: Files) -> Mapping[int, float]:
    days = files.weather
    return {int(year): float(rain) for year, rain in days.groupby(days["date"].dt.year)["rain"].sum().items()}


def _snow_of_2012(files: Files) -> tuple[Value, ...]:
    days = files.weather
    return (int(((days["date"].dt.year == 2012) & (days["sky"] == "Schnee")).sum()),)


def _richest_in(files: Files, nutrient: str, prefix: str = "") -> tuple[Value, ...]:
    """Return the food with the largest amount among those whose name starts with `prefix`, and the amount."""
    foods = files.foods[files.foods["Food"].str.startswith(prefix)]
    food = foods.loc[foods[nutrient].idxmax()]
    return food["Food"], float(food[nutrient])


def _calcium_of_cheese(files: Files) -> tuple[Value, ...]:
    return (float(files.foods[files.foods["Food"].str.startswith("Cheese,")]["Calcium"].mean()),)


def _without_sugars(files: Files) -> tuple[Value, ...]:
    return (int(files.foods["Sugars"].isna().sum()),)


def _more_protein_than_carbs(files: Files) -> tuple[Value, ...]:
    foods = files.foods
    return (int((foods["Protein"] > foods["Carbs"]).sum()),)


def _regions_of(files: Files, country: str, kind: str) -> tuple[Value, ...]:
    return (int(((files.regions["Country"] == country) & (files.regions["Kind"] == kind)).sum()),)


def _country_of_most_regions(files: Files) -> tuple[Value, ...]:
    counts = files.regions["Country"].value_counts()
    return counts.index[0], int(counts.iloc[0])


def _countries_without_regions(files: Files) -> tuple[Value, ...]:
    return (int((~files.countries["Code"].isin(files.regions["Country code"])).sum()),)


def _countries_with_prefectures(files: Files) -> tuple[Value, ...]:
    countries = sorted(set(files.regions[files.regions["Kind"] == "Prefecture"]["Country"]))
    return len(countries), *countries


def _unnamed_officially(files: Files) -> tuple[Value, ...]:
    return (int(files.countries["Official name"].isna().sum()),)


def _town_of_most_entries(files: Files) -> tuple[Value, ...]:
    counts = files.banks["Ort"].value_counts()
    return counts.index[0], int(counts.iloc[0])


def _named(frame: Any, column: str, words: str) -> tuple[Value, ...]:
    return (int(frame[column].str.contains(words, case=False, regex=False).sum()),)


def _method_of_main_entries(files: Files) -> tuple[Value, ...]:
    counts = files.banks[files.banks["Merkmal"] == "1"]["Prüfziffermethode"].value_counts()
    return str(counts.index[0]), int(counts.iloc[0])


def _owner(files: Files, block: str) -> tuple[Value, ...]:
    (owner,) = files.vendors[files.vendors["Assignment"] == block]["Organization Name"]
    return (owner,)


def _largest_owner(files: Files) -> tuple[Value, ...]:
    counts = files.vendors["Organization Name"].value_counts()
    return counts.index[0], int(counts.iloc[0])


def _cisco_minus_intel(files: Files) -> tuple[Value, ...]:
    counts = files.vendors["Organization Name"].value_counts()
    return (int(counts["Cisco Systems, Inc"] - counts["Intel Corporate"]),)


VALUES: Mapping[str, Callable[[Files], tuple[Value, ...]]] = {
    "weather-total": lambda files: (_rain_of_years(files)[2014],),
    "weather-hottest": _hottest_day,
    "weather-month": _wettest_month,
    "weather-snow": _snow_of_2012,
    "weather-range": _largest_range,
    "food-iron": lambda files: _richest_in(files, "Iron"),
    "food-cheese": _calcium_of_cheese,
    "food-nuts": lambda files: _richest_in(files, "Fat", "Nuts,"),
    "food-blank": _without_sugars,
    "food-protein": _more_protein_than_carbs,
    "regions-turkey": lambda files: _regions_of(files, "Türkiye", "Province"),
    "regions-most": _country_of_most_regions,
    "regions-none": _countries_without_regions,
    "regions-prefectures": _countries_with_prefectures,
    "regions-official": _unnamed_officially,
    "banks-town": _town_of_most_entries,
    "banks-codes": lambda files: (int(files.banks["Bankleitzahl"].nunique()),),
    "banks-zero": lambda files: (int(files.banks["PLZ"].str.startswith("0").sum()),),
    "banks-commerzbank": lambda files: _named(files.banks, "Bezeichnung", "commerzbank"),
    "banks-method": _method_of_main_entries,
    "vendors-huawei": lambda files: _named(files.vendors, "Organization Name", "huawei"),
    "vendors-nintendo": lambda files: _named(files.vendors, "Organization Name", "nintendo"),
    "vendors-most": _largest_owner,
    "vendors-difference": _cisco_minus_intel,
    "vendors-owner": lambda files: _owner(files, "00D0EF"),
}
"""The right values by the id of the conversation. Questions without an entry cannot be answered from the files."""


def formats(value: Value) -> Iterator[str]:
    """Yield the ways in which a reply may write a value."""
    if isinstance(value, date):
        english, german = _MONTHS["en"][value.month - 1], _MONTHS["de"][value.month - 1]
        yield from (value.isoformat(), f"{value:%d.%m.%Y}", f"{value.day}. {german} {value.year}")
        yield from (f"{value.day} {english} {value.year}", f"{english} {value.day}, {value.year}")
    elif isinstance(value, str):
        yield value
    else:
        digits = (0,) if isinstance(value, int) else (1, 2)
        for text in (f"{value:,.{count}f}" for count in digits):
            yield from (text, text.replace(",", ""))
            yield text.translate({ord(","): ".", ord("."): ","})
            yield text.translate({ord(","): "\N{NO-BREAK SPACE}", ord("."): ","})


def neighbors(value: Value) -> tuple[Value, ...]:
    """Return wrong values near a number or a date: a label that accepts one of them is too loose."""
    if isinstance(value, date):
        return (value.replace(year=value.year + 1), value.replace(day=value.day + 1))
    if isinstance(value, int):
        return (value + 1, value - 1, value * 10)
    return (value * 1.02, value * 10) if isinstance(value, float) else ()


def problems(turn: LabelledTurn, values: tuple[Value, ...]) -> Iterator[str]:
    """Yield what is wrong with a label whose right values are given."""
    for at, value in enumerate(values):
        before, after = ([next(formats(each)) for each in rest] for rest in (values[:at], values[at + 1 :]))
        for text in formats(value):
            if not _is_right(turn, [*before, text, *after]):
                yield f"does not accept {text!r}"
        for neighbor in neighbors(value):
            text = next(formats(neighbor))
            if _is_right(turn, [*before, text, *after]):
                yield f"accepts {text!r}"


def _is_right(turn: LabelledTurn, texts: list[str]) -> bool:
    reply = f"The answer: {' and '.join(texts)}."
    return score(turn, Answer(text=reply, decision="answer", seconds=0.0), None).right


def main() -> int:
    """Print every value and the labels that disagree; return 1 if one does."""
    collection = collections_named(["tables"])["tables"]
    files, failed = Files(collection.documents()), False
    labels = {each.id: each.turn[0] for each in read_labels(LABELS / "tables" / "tables.toml")}
    answered = {name for name, turn in labels.items() if turn.kind != "unknown"}
    for name in sorted(answered ^ set(VALUES)):
        failed = True
        print(f"{name}: has a label or a value, but not both")
    for name in sorted(answered & set(VALUES)):
        values = VALUES[name](files)
        print(f"{name}: {'; '.join(map(str, values))}")
        for problem in problems(labels[name], values):
            failed = True
            print(f"    WRONG LABEL: {problem}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
