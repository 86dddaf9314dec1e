"""`report --rate FILE`: a page on which people rate the answers of runs without knowing whose they are.

MTRAG section 7: each answer on faithfulness, appropriateness, naturalness and completeness from 1 to 4, and each two
answers to a task against each other, ties allowed; three raters. KIWI section 2.2: each revision good, neutral or bad.
Systems have letters, drawn anew for each task by its id; who is behind a letter is in the file next to the page
(`FILE.key.json`), not in the page. Ratings are kept in the browser as they are made, so that a rater can go on later,
and are saved as JSON lines, which `turnmark agreement FILE.key.json RATINGS.jsonl…` reads.
"""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from turnmark.core.errors import RequestError
from turnmark.core.home import write_atomic, write_json
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.rows import json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.report.stored import StoredRun, samples

FANC = ("faithfulness", "appropriateness", "naturalness", "completeness")
"""The properties that people rate, in the order of MTRAG's tables."""
SCALE = ("1", "2", "3", "4")
KIWI = {"rating": ("good", "neutral", "bad")}
_FORM = "turnmark rating key"
WIN, TIE, LOSS = 100.0, 50.0, 0.0
"""Of a comparison of two answers, as MTRAG's file has them."""
_RATINGS: Mapping[str, float] = {"good": 2.0, "neutral": 1.0, "bad": 0.0}


def key_file(page: Path) -> Path:
    """Where it is written down whose answers a page shows."""
    return page.with_name(f"{page.name}.key.json")


def write_rating(runs: Sequence[StoredRun], page: Path) -> Path:
    """Write the page, and next to it the key."""
    if len({run.summary.benchmark for run in runs}) > 1:
        raise RequestError("--rate: the runs are of several benchmarks; rate those of one")
    answers = {
        run.path.name: {s.id: s for s in samples(run.path) if s.status == "done" and not s.repeat} for run in runs
    }
    if len(answers) < len(runs):
        raise RequestError("--rate: two runs have one name; name folders that differ")
    shared = [name for name in next(iter(answers.values()), {}) if all(name in mine for mine in answers.values())]
    if not shared:
        raise RequestError("--rate: no task is answered in all of these runs")
    tasks: list[dict[str, Any]] = []
    key: dict[str, dict[str, str]] = {}
    for name in shared:
        systems = list(answers)
        random.Random(name).shuffle(systems)
        letters = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", systems, strict=False))
        key[name] = letters
        first = answers[systems[0]][name]
        tasks.append({
            "id": name, "question": first.query or "", "previous": first.previous or "",
            "passages": [ref.text for ref in first.contexts if ref.text],
            "answers": {letter: answers[system][name].prediction or "" for letter, system in letters.items()},
        })  # fmt: skip
    scales = KIWI if runs[0].summary.benchmark == "kiwi" else dict.fromkeys(FANC, SCALE)
    content = {"tasks": tasks, "scales": scales, "pairs": runs[0].summary.benchmark != "kiwi"}
    data = json.dumps(content, ensure_ascii=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    write_atomic(page, Path(__file__).with_name("rating.html").read_text(encoding="utf-8").replace("@DATA@", data))
    write_json(key_file(page), {
        "form": _FORM, "systems": key, "points": dict.fromkeys(scales, 1.0),
        "texts": {run: {name: mine[name].prediction or "" for name in shared} for run, mine in answers.items()},
    })  # fmt: skip
    return page


# --- what people said ------------------------------------------------------------------------------------------------


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
    return isinstance(content, dict) and content.get("form") == _FORM


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
        number = _RATINGS.get(value) if value in _RATINGS else float(value) if value.isdecimal() else None
        return [(letter, name, number)] if letter in letters and number is not None else []
    first, second = label[:1], label[1:2]
    if first not in letters or second not in letters or value not in (first, second, "tie"):
        return []
    points = {first: (WIN, LOSS), second: (LOSS, WIN), "tie": (TIE, TIE)}[value]
    return [(first, "win-rate", points[0]), (second, "win-rate", points[1])]
