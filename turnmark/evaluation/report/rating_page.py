"""Write the page of `report --rate FILE`, on which people rate the answers of runs without knowing the systems.

MTRAG section 7: a task is the conversation up to the last question, with the passages of each answer. Raters rate each
answer on faithfulness, appropriateness, naturalness and completeness from 1 to 4, and compare each two answers to a
task, ties allowed; three raters. KIWI section 2.2: each revision is good, neutral or bad. Conversations and passages
come from the runs' `browse.jsonl`.

Systems appear as letters, shuffled for each task by its id. The file next to the page (`FILE.key.json`), not the page,
says which system a letter is, and whether a task is answerable. The browser stores ratings as they are made, so that a
rater can continue later, and saves them as JSON lines, which `turnmark agreement FILE.key.json RATINGS.jsonl…` reads.
"""

from __future__ import annotations

import hashlib
import json
import random
import statistics
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

from turnmark.core.errors import RequestError
from turnmark.core.home import write_atomic, write_json
from turnmark.core.untrusted import valid_text
from turnmark.corpora.benchmarks.task_ids import canonical_id
from turnmark.corpora.jsonl_rows import json_lines
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import Sample
from turnmark.evaluation.report.finished_runs import StoredRun, distinct_names, first_answers
from turnmark.evaluation.report.sample_browser import BROWSE_FILE, BrowsedSample, SeenPassage, Text, TextIndex
from turnmark.evaluation.storage.journal import read_records
from turnmark.evaluation.tasks.rating_form import RatingForm
from turnmark.evaluation.tasks.registry import find_task

_KEY_FORMAT = "turnmark rating key"
WIN, TIE, LOSS = 100.0, 50.0, 0.0
"""Points for the comparison of two answers, as in MTRAG's file."""
_RATINGS: Mapping[str, float] = {"good": 2.0, "neutral": 1.0, "bad": 0.0}
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def key_file(page: Path) -> Path:
    """Return the path of a page's key, the file that says which system each letter is."""
    return page.with_name(f"{page.name}.key.json")


class RatingTask(TypedDict):
    """A task of the page. Texts are indices into the page's `texts`."""

    id: str
    said: list[tuple[str, int]]
    question: int
    answers: dict[str, AnswerOnPage]


class AnswerOnPage(TypedDict):
    """An answer to rate. Texts are indices into the page's `texts`.

    Keys:
        passages: the passages that the generator was given, in order, or None if it is not known.
        previous: the answer that a revision changed, or None if there is no revision.
    """

    text: int
    passages: list[int] | None
    previous: int | None


def write_rating(runs: Sequence[StoredRun], page: Path) -> Path:
    """Write the page, and its key next to it."""
    if len({run.summary.benchmark for run in runs}) > 1:
        raise RequestError("--rate: the runs are of several benchmarks; rate those of one")
    by_name = dict(zip(distinct_names([run.path for run in runs]), runs, strict=True))
    answers = {name: first_answers(run.path) for name, run in by_name.items()}
    first_run_tasks = next(iter(answers.values()), {})
    shared = [name for name in first_run_tasks if all(name in of_run for of_run in answers.values())]
    if not shared:
        raise RequestError("--rate: no task is answered in all of these runs")
    browsed = {name: _read_browsed(run, shared) for name, run in by_name.items()}
    settings = {name: run.summary.setting for name, run in by_name.items()}
    task_class = find_task(runs[0].summary.benchmark, runs[0].summary.task)
    form = task_class.rating_form if task_class else RatingForm()
    texts = TextIndex()
    tasks: list[RatingTask] = []
    systems_of: dict[str, dict[str, str]] = {}
    for name in shared:
        systems = list(answers)
        random.Random(name).shuffle(systems)
        letters = dict(zip(_LETTERS, systems, strict=False))
        systems_of[name] = letters
        task = browsed[systems[0]][name]
        # An answer to revise is shown with each revision, not as a turn.
        history = task.history[:-1] if form.revises else task.history
        said = [(utterance.role, texts.add(_full_text(utterance.text))) for utterance in history]
        question = texts.add(_full_text(task.question))
        rated_answers_of_task = {
            letter: _answer(answers[system][name], browsed[system][name], settings[system], form.revises, texts)
            for letter, system in letters.items()
        }
        tasks.append({"id": name, "said": said, "question": question, "answers": rated_answers_of_task})
    digest = write_page(
        page, {"tasks": tasks, "texts": list(texts), "scales": form.scales, "pairs": form.pairs, "asks": form.asks}
    )
    first_browsed = next(iter(browsed.values()))
    labels_of = {name: first_browsed[name].labels.get("answerability", ()) for name in shared}
    key = {
        "form": _KEY_FORMAT,
        "page": digest,
        "systems": systems_of,
        "points": dict.fromkeys(form.scales, 1.0),
        "answerability": {name: labels[0] for name, labels in labels_of.items() if labels},
        "texts": {run: {name: of_run[name].prediction or "" for name in shared} for run, of_run in answers.items()},
    }
    write_json(key_file(page), key)
    return page


def write_page(page: Path, content: Mapping[str, Any]) -> str:
    """Write a rating page; return its digest, under which the browser stores the page's ratings."""
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode("utf-8", "surrogatepass")).hexdigest()[:16]
    data = json.dumps({**content, "page": digest}, ensure_ascii=False).replace("<", "\\u003c")
    data = valid_text(data.replace("\u2028", "\\u2028"))
    template = Path(__file__).with_name("rating.html").read_text(encoding="utf-8")
    write_atomic(page, template.replace("@DATA@", data))
    return digest


def _read_browsed(run: StoredRun, task_ids: Collection[str]) -> dict[str, BrowsedSample]:
    entries = read_records(run.path / BROWSE_FILE, BrowsedSample)
    browsed = {entry.id: entry for entry in entries if not entry.repeat}
    missing = sum(task_id not in browsed for task_id in task_ids)
    if missing:
        raise RequestError(
            f"--rate: {str(run.path)!r} does not say what was asked and shown in {missing} of {len(task_ids)} tasks "
            f"({BROWSE_FILE}); evaluate or score it again"
        )
    return browsed


def _answer(
    sample: Sample, browsed: BrowsedSample, setting: str | None, revision: bool, texts: TextIndex
) -> AnswerOnPage:
    context = _context_of(sample, browsed, setting)
    passages: list[int] | None = None
    if context is not None:
        passages = [texts.add(_passage(passage)) for passage in context]
        more = len(sample.contexts) - len(passages)
        if more > 0:
            passages.append(texts.add(f"{more} more passages, which {BROWSE_FILE} does not keep"))
    previous = sample.previous
    if previous is None and revision and browsed.history:
        previous = _full_text(browsed.history[-1].text)
    return {
        "text": texts.add(sample.prediction or ""),
        "passages": passages,
        "previous": None if previous is None else texts.add(previous),
    }


def _context_of(sample: Sample, browsed: BrowsedSample, setting: str | None) -> list[SeenPassage] | None:
    """Return the passages that the generator was given, or None if it is not known.

    In the setting `reference` they are the passages of the task. In other settings another system may have seen
    passages that its file does not name; Turnmark itself always records a decision.
    """
    if not sample.contexts and setting == "reference":
        return list(browsed.passages)
    if not sample.contexts and sample.decision is None:
        return None
    return [passage for passage in browsed.passages if passage.rank is not None]


def _passage(passage: SeenPassage) -> str:
    if passage.text is None:
        return f"{passage.title or passage.id}: the text is not known"
    text = _full_text(passage.text)
    return text if not passage.title or text.startswith(passage.title) else f"{passage.title}\n{text}"


def _full_text(text: Text) -> str:
    """Return a text and, if it was cut, how many characters are missing."""
    return f"{text.text} … ({text.left_out:,} more characters)" if text.left_out else text.text


# --- reading ratings -------------------------------------------------------------------------------------------------


class AnswerRatings(NamedTuple):
    """An answer with its ratings: property -> one rating for each person."""

    task: str
    system: str
    text: str
    answerability: str | None
    ratings: dict[str, tuple[float, ...]]


def is_key(path: Path) -> bool:
    """Return whether a file is the key of a rating page."""
    if path.suffix != ".json":
        return False
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(content, dict) and content.get("form") == _KEY_FORMAT


def is_ratings(path: Path) -> bool:
    """Return whether a file contains the ratings of one person."""
    if path.suffix != ".jsonl":
        return False
    first_row = next((row for _, row in json_lines(path, path.name)), None)
    return isinstance(first_row, dict) and {"rater", "id", "given"} <= first_row.keys()


def read_rated_answers(key: Path, files: Sequence[Path]) -> tuple[list[AnswerRatings], list[Problem]]:
    """Return the answers of a page with all of their ratings, and the lines that are not ratings of the page.

    Raises:
        RequestError: no file has a rating of this page.
    """
    content: dict[str, Any] = json.loads(key.read_bytes())
    page = content.get("page")
    answerability = content.get("answerability", {})
    # (task, system) -> property -> rater -> ratings
    ratings_of: dict[tuple[str, str], dict[str, dict[str, list[float]]]] = {}
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
                for letter, name, rating in _read_choice(label, str(value), letters):
                    by_property = ratings_of.setdefault((row["id"], letters[letter]), {})
                    by_rater = by_property.setdefault(name, {})
                    by_rater.setdefault(str(row["rater"]), []).append(rating)
    if not ratings_of:
        raise RequestError(f"{str(key)!r}: no file of ratings of this page is named with it")
    answers = []
    for (task, system), by_property in ratings_of.items():
        # A rater compares an answer with several others: its win rate is the mean.
        means = {name: tuple(map(statistics.mean, by_rater.values())) for name, by_rater in by_property.items()}
        text = content["texts"][system][task]
        answers.append(AnswerRatings(canonical_id(task), system, text, answerability.get(task), means))
    return answers, problems


def _read_choice(label: str, value: str, letters: Mapping[str, str]) -> list[tuple[str, str, float]]:
    """Return letter, property and number of a choice: `A faithfulness` of `3`, or `AB` of `A`, `B` or `tie`."""
    letter, _, name = label.partition(" ")
    if name:
        rating = _RATINGS.get(value)
        if rating is None and value.isdecimal():
            rating = float(value)
        return [(letter, name, rating)] if letter in letters and rating is not None else []
    first, second = label[:1], label[1:2]
    if first not in letters or second not in letters or value not in (first, second, "tie"):
        return []
    points = {first: (WIN, LOSS), second: (LOSS, WIN), "tie": (TIE, TIE)}[value]
    return [(first, "win-rate", points[0]), (second, "win-rate", points[1])]
