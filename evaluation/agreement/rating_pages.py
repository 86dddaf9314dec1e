"""Ratings from a page of `report --rate`: its key says whose the answers are; each rater has a file."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from turnmark.corpora.errors import RequestError
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.rows import json_lines
from turnmark.corpora.types import Problem

FORM = "turnmark rating key"
WIN, TIE, LOSS = 100.0, 50.0, 0.0
"""Of a comparison of two answers, as MTRAG's file has them."""
RATINGS: Mapping[str, float] = {"good": 2.0, "neutral": 1.0, "bad": 0.0}


class Rated(NamedTuple):
    """An answer with its ratings: property -> a rating for each person."""

    task: str
    system: str
    text: str
    ratings: dict[str, tuple[float, ...]]


def is_key(path: Path) -> bool:
    """Whether a file is the key of a rating page."""
    if path.suffix != ".json":
        return False
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("form") == FORM


def is_ratings(path: Path) -> bool:
    """Whether a file holds the ratings of one person."""
    row = next((row for _, row in json_lines(path, path.name)), None) if path.suffix == ".jsonl" else None
    return isinstance(row, dict) and {"rater", "id", "given"} <= row.keys()


def rated_answers(key: Path, files: Sequence[Path]) -> tuple[list[Rated], list[Problem]]:
    """The answers of a page with all of their ratings."""
    content: dict[str, Any] = json.loads(key.read_bytes())
    given: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    problems: list[Problem] = []
    for path in files:
        for number, row in json_lines(path, path.name):
            letters = None if isinstance(row, Problem) else content["systems"].get(row.get("id"))
            if isinstance(row, Problem) or letters is None or not isinstance(row.get("given"), dict):
                problems.append(Problem(file=path.name, line=number, what="no rating of this page"))
                continue
            for label, value in row["given"].items():
                for letter, name, number_given in _read(label, str(value), letters):
                    system = letters[letter]
                    mine = given.setdefault((row["id"], system), {}).setdefault(name, {})
                    mine.setdefault(str(row["rater"]), []).append(number_given)
    if not given:
        raise RequestError(f"{str(key)!r}: no file of ratings of this page is named with it")
    answers = []
    for (task, system), ratings in given.items():
        by_rater = {name: tuple(statistics.mean(v) for v in raters.values()) for name, raters in ratings.items()}
        answers.append(Rated(canonical_id(task), system, content["texts"][system][task], by_rater))
    return answers, problems


def _read(label: str, value: str, letters: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Letter, property and number of one choice: `A faithfulness` of `3`, or `AB` of `A`, `B` or `tie`."""
    letter, _, name = label.partition(" ")
    if name:
        number = RATINGS.get(value) if value in RATINGS else float(value) if value.isdecimal() else None
        return [(letter, name, number)] if letter in letters and number is not None else []
    first, second = label[:1], label[1:2]
    if first not in letters or second not in letters or value not in (first, second, "tie"):
        return []
    points = {first: (WIN, LOSS), second: (LOSS, WIN), "tie": (TIE, TIE)}[value]
    return [(first, "win-rate", points[0]), (second, "win-rate", points[1])]
