"""The fields of a KIWI turn as files write them: ratings, types, passages, under whatever name and in whatever case."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from turnmark.corpora.types import Record

Rating = Literal["good", "neutral", "bad"]
Coarse = Literal["information-seeking", "stylistic"]

FINE_TYPES = (
    "More information", "Expand coverage", "Clarification", "Remove", "Specific edit", "Condense", "Reorganize",
    "Others",
)  # fmt: skip
"""The fine-grained instruction types of the paper's Table 3."""
ERROR_TYPES = ("Unrequested change", "Ignored", "Constraint failure", "Poor integration", "Others")
"""What goes wrong in a revision that is not good, by the paper's Table 4."""
SCALES: Mapping[str, Mapping[int, Rating]] = {
    "1/0/-1": {1: "good", 0: "neutral", -1: "bad"},
    "2/1/0": {2: "good", 1: "neutral", 0: "bad"},
}
TITLES = ("title", "paper_title", "paper")
BODIES = ("text", "passage", "paragraph", "content", "paragraphs", "passages")


class Passage(Record):
    """A piece of a paper: what was retrieved for a turn, or a paragraph of the companion file."""

    title: str = Field(description="the paper's title; empty where the file has none")
    text: str


def number_of(value: Any) -> int | None:
    """The whole number that a rating is written as, if it is: 1, 1.0, "1", "-1"; never a Boolean."""
    if isinstance(value, str):
        value = {name: int(name) for name in ("-1", "0", "1", "2")}.get(value.strip().removeprefix("+"))
    if isinstance(value, bool) or not isinstance(value, int | float) or value not in (-1, 0, 1, 2):
        return None
    return int(value)


def rating_of(value: Any, scale: Mapping[int, Rating]) -> Rating:
    """A rating in words, or as a number on the scale; a ValueError where it is neither."""
    if isinstance(value, str):
        for name in SCALES["1/0/-1"].values():
            if value.strip().lower() == name:
                return name
    number = number_of(value)
    if number is None or number not in scale:
        written_value = json.dumps(value, ensure_ascii=False)[:40]
        raise ValueError(
            "'rating' is missing"
            if value is None
            else f"'rating' is {written_value}; good, neutral or bad was expected"
        )
    return scale[number]


def either(row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """The value of the first of these keys that a row has and that is neither null nor blank."""
    values = (row.get(key) for key in keys)
    return next((value for value in values if value is not None and value != "" and value != []), None)


def coarse_of(value: Any) -> Coarse | None:
    """The class of an instruction; None where a value names neither."""
    name = "".join(filter(str.isalpha, value.lower())) if isinstance(value, str) else ""
    if name.startswith("info"):
        return "information-seeking"
    return "stylistic" if name.startswith("styl") else None


def _named(value: Any, offered: Sequence[str], **spellings: str) -> str | None:
    """Which of the names a value is, in any letter case and with any punctuation."""
    names = {name.lower().replace(" ", ""): name for name in offered} | spellings
    return names.get("".join(filter(str.isalpha, value.lower()))) if isinstance(value, str) else None


def fine_of(value: Any) -> str | None:
    """One of `FINE_TYPES`; None where a value names none."""
    return _named(value, FINE_TYPES, reorganise="Reorganize")


def error_of(value: Any) -> str | None:
    """One of `ERROR_TYPES`; None where a value names none."""
    return _named(value, ERROR_TYPES)


def passages_of(value: Any, title: str = "") -> Iterator[Passage]:
    """What can be read of a list of passages, whatever it is nested in: texts, or objects with a title and a text."""
    pending: list[tuple[Any, str]] = [(value, title)]
    while pending:
        item, name = pending.pop()
        if isinstance(item, str) and item.strip():
            yield Passage(title=name, text=item)
        elif isinstance(item, list):
            pending += [(part, name) for part in reversed(item)]
        elif isinstance(item, dict):
            own_title = either(item, TITLES)
            body = either(item, BODIES)
            pending.append((body, own_title if isinstance(own_title, str) else name))
        elif item is not None and not isinstance(item, str):
            raise ValueError(f"a passage is {type(item).__name__}, neither text nor an object with one")
