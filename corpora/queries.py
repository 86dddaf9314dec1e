"""Files of recorded queries: what was searched for at each turn, by whatever system wrote it down.

A row is BEIR's, `{"_id", "text"}`, and may hold `variants`: texts to be searched beside its own, which is then the raw
message. They stand there by name, or as a list (named 1, 2 …). `weights`, by the same names and `raw` for the row's own
text, ask for a nested fusion; a name that is not in it weighs 1. One row, shortened:

    {"_id": "dd6b…<::>2", "text": "Do they play outside the US?",
     "variants": {"minimal": "Do the Arizona Cardinals play outside the US?"}, "weights": {"raw": 0.5, "minimal": 1}}
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.corpora.mtrag import unmarked
from turnmark.corpora.rows import Loaded, Row, filled, gathered, parsed
from turnmark.corpora.types import Record

RAW = "raw"
"""What `weights` call the row's own text."""
MOST_WEIGHT = 1e6


class RecordedQuery(Record):
    """What was searched for at a turn, as a file of queries says it."""

    text: str
    variants: Mapping[str, str] | None = Field(
        default=None, description="name -> text searched beside it, `text` then being the raw message; None: text alone"
    )
    weights: Mapping[str, float] = Field(
        default_factory=dict, description="name of a variant, or `raw` -> weight in a nested fusion; empty: flat"
    )


def _variants(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if isinstance(value, list):
        value = {str(number): text for number, text in enumerate(value, 1)}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("'variants' is neither a list of texts nor an object of texts by name")
    if RAW in value or "" in value:
        raise ValueError(f"'variants': {RAW!r} is the row's own text; give the variant another name")
    return {name: unmarked(value, name) for name in value}


def _weights(value: Any, names: Collection[str]) -> dict[str, float]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("'weights' is not an object of numbers by the names of variants")
    if unknown := [name for name in value if name != RAW and name not in names]:
        raise ValueError(f"'weights': no variant is called {unknown[0]!r}; there are: {', '.join((RAW, *names))}")
    for name, weight in value.items():
        number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not number or not 0 <= weight <= MOST_WEIGHT or (name == RAW and not weight):
            lower_bound = "above 0" if name == RAW else "from 0"
            raise ValueError(f"'weights': {name} is {weight!r}; a number {lower_bound} to {MOST_WEIGHT:g} was expected")
    return {name: float(weight) for name, weight in value.items()}


def _parse_recorded(row: Row) -> tuple[str, RecordedQuery]:
    text, key = unmarked(row, "text"), filled(row, "_id")
    variants = _variants(row.get("variants"))
    if variants is None and row.get("weights") is not None:
        raise ValueError("'weights' without 'variants': there is nothing to weigh")
    weights = _weights(row.get("weights"), tuple(variants or ()))
    return key, RecordedQuery(text=text, variants=variants, weights=weights)


def read_recorded(path: Path, label: str) -> Loaded[dict[str, RecordedQuery]]:
    """The queries of a file by id, in its order, with `|user|: ` stripped from every line of their texts.

    Raises:
        RequestError: the file cannot be opened.
    """
    return gathered(parsed(path, label, _parse_recorded), path)
