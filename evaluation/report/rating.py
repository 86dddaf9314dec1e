"""`report --rate FILE`: a page on which people rate the answers of runs without knowing whose they are.

MTRAG section 7: a task is the conversation up to the last question, with the passages of each answer; each answer is
rated on faithfulness, appropriateness, naturalness and completeness from 1 to 4, and each two answers to a task against
each other, ties allowed; three raters. KIWI section 2.2: each revision good, neutral or bad. What was asked and shown
is what the runs noted for their own pages (`browse.jsonl`).

Systems have letters, drawn anew for each task by its id; who is behind a letter, and a task's answerability, is in the
file next to the page (`FILE.key.json`), not in the page. Ratings are kept in the browser as they are made, so that a
rater can go on later, and are saved as JSON lines, which `turnmark agreement FILE.key.json RATINGS.jsonl…` reads.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from turnmark.core.console import valid_text
from turnmark.core.errors import RequestError
from turnmark.core.home import write_atomic, write_json
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.rows import json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import Sample
from turnmark.evaluation.report.browse import FILE, Browsed, SeenPassage, Text
from turnmark.evaluation.report.stored import StoredRun, distinct_names, samples
from turnmark.evaluation.runs.journal import read_records

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


class RatingTask(TypedDict):
    """A task of the page. Texts are indices into the page's `texts`."""

    id: str
    said: list[tuple[str, int]]
    question: int
    answers: dict[str, RatedAnswer]


class RatedAnswer(TypedDict):
    """An answer under its letter.

    Keys:
        passages: those that it was given, in its order; None: they are not known.
        previous: of a revision, the answer that it changed.
    """

    text: int
    passages: list[int] | None
    previous: int | None


class Texts:
    """The texts of a page, each once."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def add(self, text: str) -> int:
        """The index of a text."""
        return self._places.setdefault(text, len(self._places))

    @property
    def listed(self) -> list[str]:
        """Text after text, in the order of their indices."""
        return list(self._places)


def write_rating(runs: Sequence[StoredRun], page: Path) -> Path:
    """Write the page, and next to it the key."""
    if len({run.summary.benchmark for run in runs}) > 1:
        raise RequestError("--rate: the runs are of several benchmarks; rate those of one")
    by_name = dict(zip(distinct_names([run.path for run in runs]), runs, strict=True))
    answers = {
        name: {s.id: s for s in samples(run.path) if s.status == "done" and not s.repeat}
        for name, run in by_name.items()
    }
    shared = [name for name in next(iter(answers.values()), {}) if all(name in mine for mine in answers.values())]
    if not shared:
        raise RequestError("--rate: no task is answered in all of these runs")
    seen = {name: _seen(run, shared) for name, run in by_name.items()}
    settings = {name: run.summary.setting for name, run in by_name.items()}
    kiwi = runs[0].summary.benchmark == "kiwi"
    texts = Texts()
    tasks: list[RatingTask] = []
    systems_of: dict[str, dict[str, str]] = {}
    for name in shared:
        systems = list(answers)
        random.Random(name).shuffle(systems)
        letters = dict(zip("ABCDEFGHIJKLMNOPQRSTUVWXYZ", systems, strict=False))
        systems_of[name] = letters
        asked = seen[systems[0]][name]
        said = asked.history[: -1 if kiwi else None]  # the last one is the answer that is revised
        tasks.append({
            "id": name, "said": [(utterance.role, texts.add(_shown(utterance.text))) for utterance in said],
            "question": texts.add(_shown(asked.question)),
            "answers": {
                letter: _answer(answers[system][name], seen[system][name], settings[system], kiwi, texts)
                for letter, system in letters.items()
            },
        })  # fmt: skip
    scales = KIWI if kiwi else dict.fromkeys(FANC, SCALE)
    asks = "Instruction" if kiwi else "Question"
    digest = write_page(
        page, {"tasks": tasks, "texts": texts.listed, "scales": scales, "pairs": not kiwi, "asks": asks}
    )
    labels = {name: seen[next(iter(seen))][name].labels.get("answerability", ())[:1] for name in shared}
    write_json(key_file(page), {
        "form": _FORM, "page": digest, "systems": systems_of, "points": dict.fromkeys(scales, 1.0),
        "answerability": {name: label for name, found in labels.items() for label in found},
        "texts": {run: {name: mine[name].prediction or "" for name in shared} for run, mine in answers.items()},
    })  # fmt: skip
    return page


def write_page(page: Path, content: Mapping[str, Any]) -> str:
    """Write a rating page; its digest, under which the browser keeps what was rated on it, and on no other."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    data = json.dumps({**content, "page": digest}, ensure_ascii=False).replace("<", "\\u003c")
    data = valid_text(data.replace("\u2028", "\\u2028"))
    write_atomic(page, Path(__file__).with_name("rating.html").read_text(encoding="utf-8").replace("@DATA@", data))
    return digest


def _seen(run: StoredRun, names: Collection[str]) -> dict[str, Browsed]:
    """What a reader of the run's samples sees with them: conversation, question, passages."""
    seen = {entry.id: entry for entry in read_records(run.path / FILE, Browsed) if not entry.repeat}
    if missing := sum(name not in seen for name in names):
        raise RequestError(
            f"--rate: {str(run.path)!r} does not say what was asked and shown in {missing} of {len(names)} tasks "
            f"({FILE}); evaluate or score it again"
        )
    return seen


def _answer(sample: Sample, seen: Browsed, setting: str | None, revision: bool, texts: Texts) -> RatedAnswer:
    given = _given(sample, seen, setting)
    passages = None if given is None else [texts.add(_passage(passage)) for passage in given]
    if passages is not None and (more := len(sample.contexts) - len(passages)) > 0:
        passages.append(texts.add(f"{more} more passages, which {FILE} does not keep"))
    recorded = _shown(seen.history[-1].text) if revision and seen.history else None
    previous = recorded if sample.previous is None else sample.previous
    return {
        "text": texts.add(sample.prediction or ""),
        "passages": passages,
        "previous": None if previous is None else texts.add(previous),
    }


def _given(sample: Sample, seen: Browsed, setting: str | None) -> list[SeenPassage] | None:
    """The passages that an answer was given; None: they are not known.

    In the setting `reference` they are the task's own. Elsewhere another system may have been shown passages that its
    file does not name; ours always records a decision.
    """
    if not sample.contexts and setting == "reference":
        return list(seen.passages)
    if not sample.contexts and sample.decision is None:
        return None
    return [passage for passage in seen.passages if passage.rank is not None]


def _passage(passage: SeenPassage) -> str:
    if passage.text is None:
        return f"{passage.title or passage.id}: the text is not known"
    text = _shown(passage.text)
    return text if not passage.title or text.startswith(passage.title) else f"{passage.title}\n{text}"


def _shown(text: Text) -> str:
    return f"{text.text} … ({text.left_out:,} more characters)" if text.left_out else text.text


# --- what people said ------------------------------------------------------------------------------------------------


class Rated(NamedTuple):
    """An answer with its ratings: property -> a rating for each person."""

    task: str
    system: str
    text: str
    answerability: str | None
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
    page, labels = content.get("page"), content.get("answerability", {})
    given: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
    problems: list[Problem] = []
    for path in files:
        for number, row in json_lines(path, path.name):
            letters = None
            if not isinstance(row, Problem) and row.get("page", page) == page:
                letters = content["systems"].get(row.get("id"))
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
        answers.append(Rated(canonical_id(task), system, content["texts"][system][task], labels.get(task), by_rater))
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
