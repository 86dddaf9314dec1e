"""The answers of `agreement`, with the ratings and scores of people, another judge, or a run of ours.

A rating is of an answer, not of a task: a run's scores join the row of the same task only where the run's answer is the
text that was rated.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import file_sha256
from turnmark.corpora.inspector import Evaluation, read_evaluation
from turnmark.corpora.mtrag import canonical_id, conversation_of
from turnmark.corpora.rows import Row, json_lines, non_blank, objects, string
from turnmark.corpora.text import strip_citations
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import Sample, Summary
from turnmark.evaluation.report.rating import FANC, is_key, is_ratings, rated_answers
from turnmark.evaluation.report.stored import StoredRun, distinct_names, read_one, samples, scores
from turnmark.evaluation.scores.summary import Facts, read_facts

FANC_MEAN = "FANC"
"""The harmonic mean of the four, answer by answer, of the medians of the raters."""
_BASELINES = ("[lead]", "[-lead]", "[always-unknown]")
_PARTS = ("unknown.", "clarify.", "hidden.")  # what a sample adds to a ratio is no score of it
LARGEST = 1e100
"""A score beyond it, NaN included, is not a score."""
LEFT_OUT = "_idk"
"""Ends the names of an official file's conditioned scores, which are 0 if the paper's rule gives 1."""


@dataclass
class Answer:
    """An answer with its ratings and scores.

    Attributes:
        ratings: property -> a rating for each person.
        reference: what the scores are held against: the medians of the raters, or another judge's scores.
        scores: metric -> value.
    """

    task: str
    system: str
    text: str
    answerability: str | None = None
    ratings: dict[str, tuple[float, ...]] = field(default_factory=dict)
    reference: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def conversation(self) -> str:
        """What is resampled as one."""
        return conversation_of(self.task)


@dataclass
class Rows:
    """All rows of a request.

    Attributes:
        people: whether the reference scores are those of people.
        properties: names of the reference scores, in the order of the tables.
        metrics: names of the scores that are held against them.
        points: property -> step of its scale.
        systems: system -> its name in words.
    """

    sources: list[str] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    people: bool = False
    properties: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)
    points: dict[str, float] = field(default_factory=dict)
    systems: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def gather(paths: Sequence[Path]) -> Rows:
    """Read files first, then join the runs to them; without files, runs are the rows."""
    errors, rows = ErrorCollector(), Rows()
    paths = list(dict.fromkeys(paths))
    names = dict(zip(paths, distinct_names(paths), strict=True))
    files = [path for path in paths if path.is_file()]
    by_content: dict[str, Path] = {}
    for path in files:
        first = by_content.setdefault(file_sha256(path), path)
        if first is not path:
            errors.add(f"{names[first]} and {names[path]} are the same file; name one of them")
    errors.raise_all()
    errors.collect(_add_pages, files, rows)
    for path in files:
        if not (is_key(path) or is_ratings(path)):
            errors.collect(_add_file, path, names[path], rows)
    twice = [key for key, n in Counter((answer.task, answer.system) for answer in rows.answers).items() if n > 1]
    if twice:
        errors.add(f"{len(twice)} answers are in several files (the first: {twice[0][0]!r}); name one of the files")
    runs = {names[path]: errors.collect(read_one, path) for path in paths if path not in files}
    errors.raise_all()
    for name, run in runs.items():
        assert run is not None, "errors.raise_all() raised otherwise"
        errors.collect(_join if files else _alone, run, name, rows)
    errors.raise_all()
    rows.metrics = list(dict.fromkeys(name for answer in rows.answers for name in answer.scores))
    if not rows.answers:
        raise RequestError("there is no answer in what was named, or none that can be read")
    return rows


# --- files -----------------------------------------------------------------------------------------------------------


def _add_pages(files: Sequence[Path], rows: Rows) -> None:
    """Take in the ratings of pages of `report --rate`."""
    ratings = [path for path in files if is_ratings(path)]
    for key in filter(is_key, files):
        rated, problems = rated_answers(key, ratings)
        answers = [
            _rate(Answer(one.task, one.system, one.text, answerability=one.answerability), one.ratings) for one in rated
        ]
        rows.people = True
        rows.problems += problems
        _add_properties(rows, [name for answer in answers for name in answer.reference])
        rows.points |= dict.fromkeys((*FANC, "rating"), 1.0) | {"win-rate": 50.0}
        rows.systems |= {answer.system: answer.system for answer in answers}
        rows.answers += answers
        rows.sources += [key.name, *(path.name for path in ratings)]


def _rate(answer: Answer, ratings: Mapping[str, Sequence[float]]) -> Answer:
    """The answer with its ratings, their medians, and the harmonic mean of the four."""
    answer.ratings = {name: tuple(values) for name, values in ratings.items()}
    answer.reference = {name: float(statistics.median(values)) for name, values in ratings.items()}
    if all(name in answer.reference for name in FANC):
        answer.reference[FANC_MEAN] = statistics.harmonic_mean([answer.reference[name] for name in FANC])
    return answer


def _add_properties(rows: Rows, names: Sequence[str]) -> None:
    rows.properties = list(dict.fromkeys((*rows.properties, *names)))


def _add_file(path: Path, name: str, rows: Rows) -> None:
    """Tell the two forms apart by how the file begins: one JSON object, or lines with a task id each."""
    if path.suffix == ".jsonl":
        _add_lines(path, name, rows)
    else:
        _add_evaluation(read_evaluation(path), rows)
    rows.sources.append(name)


def _add_evaluation(content: Evaluation, rows: Rows) -> None:
    rows.people |= bool(content.people)
    rows.problems += content.problems
    rows.points |= content.points
    rows.systems |= content.models
    fanc = [*FANC, FANC_MEAN] if all(name in content.people for name in FANC) else FANC
    _add_properties(rows, [name for name in ("win-rate", *fanc) if name in (*content.people, FANC_MEAN)])
    _add_properties(rows, content.people)
    answers = []
    for rated in content.answers:
        task, system = canonical_id(rated.task), rated.model
        label = content.tasks[rated.task].answerability
        answer = Answer(task, system, rated.response, answerability=label, scores=dict(rated.scores))
        ratings = {name: [*values.values()] for name, values in rated.ratings.items() if name in content.people}
        answers.append(_rate(answer, ratings))
    rows.answers += answers


def _add_lines(path: Path, name: str, rows: Rows) -> None:
    """An official prediction file with another judge's scores under `metrics`; its system is called as the file."""
    system = name.removesuffix(path.suffix)
    rows.systems[system] = system
    answers: list[Answer] = []
    for number, row in json_lines(path, name):
        if isinstance(row, Problem):
            rows.problems.append(row)
            continue
        try:
            answer, left_out = _line(row, system)
        except ValueError as error:
            rows.problems.append(Problem(file=name, line=number, what=str(error)))
            continue
        rows.problems += [Problem(file=name, line=number, what=f"metrics.{metric} is no number") for metric in left_out]
        answers.append(answer)
        _add_properties(rows, [*answer.reference])
    if not answers:
        raise RequestError(
            f"{str(path)!r} has no line with an answer and scores: `task_id`, `predictions` and `metrics` were expected"
        )
    rows.answers += answers


def _normalise(text: str) -> str:
    return " ".join(strip_citations(text).split())


def _line(row: Row, system: str) -> tuple[Answer, list[str]]:
    """A row, and its metrics that have no number."""
    metrics = row.get("metrics")
    if not isinstance(metrics, dict):
        raise ValueError("'metrics' is missing, or no object")
    predictions = objects(row, "predictions")
    if not predictions:
        raise ValueError("'predictions' is empty")
    raw_label = row.get("Answerability", row.get("answerability"))
    label = raw_label[0] if isinstance(raw_label, list) and raw_label else raw_label
    values = {name: _value(value) for name, value in metrics.items() if not name.endswith(LEFT_OUT)}
    answer = Answer(
        task=canonical_id(non_blank(row, "task_id")),
        system=system,
        text=string(predictions[0], "text"),
        answerability=label if isinstance(label, str) else None,
        reference={name: value for name, value in values.items() if value is not None},
    )
    return answer, [name for name, value in values.items() if value is None]


def _value(value: Any) -> float | None:
    first = value[0] if isinstance(value, list) and value else value
    number = isinstance(first, int | float) and not isinstance(first, bool) and abs(first) <= LARGEST
    return float(first) if number else None


# --- runs ------------------------------------------------------------------------------------------------------------


def sample_metrics(summary: Summary) -> list[str]:
    """The metrics of a run that say something of a single answer: no baselines, no parts of a ratio."""
    return [name for name in summary.metrics if not name.endswith(_BASELINES) and not name.startswith(_PARTS)]


def _measured(run: StoredRun) -> Iterator[tuple[Sample, dict[str, float]]]:
    """The samples that are done, of the first repeat, and their scores."""
    finished = [sample for sample in samples(run.path) if sample.status == "done" and not sample.repeat]
    scores_of = scores(run.path, [sample.key for sample in finished], sample_metrics(run.summary))
    for sample in finished:
        yield sample, {name: score.value for name, score in scores_of[sample.key].items() if score.value is not None}


def _join(run: StoredRun, name: str, into: Rows) -> None:
    """Add a run's scores to the rows whose very answer it scored; with the run's name if a score is there already."""
    rated: dict[str, list[Answer]] = {}
    for answer in into.answers:
        rated.setdefault(answer.task, []).append(answer)
    matches: dict[str, list[tuple[Answer, dict[str, float]]]] = {}
    tasks = 0
    for sample, values in _measured(run):
        rows = rated.get(sample.id, [])
        tasks += bool(rows)
        for row in rows:
            if sample.prediction is not None and _normalise(row.text) == _normalise(sample.prediction):
                matches.setdefault(row.system, []).append((row, values))
    if not matches:
        raise RequestError(
            f"RUN {str(run.path)!r}: none of its answers is one that the file rates ({tasks} tasks in common); ratings "
            "are of answers, so the run has to be of the same ones (turnmark score)"
        )
    # A run is of one system, though two of them may now and then say the same.
    system = max(matches, key=lambda match: len(matches[match]))
    joined = matches[system]
    scored = {metric for row, _ in joined for metric in row.scores}
    for row, values in joined:
        row.scores |= {f"{key} ({name})" if key in scored else key: value for key, value in values.items()}
    into.sources.append(name)
    into.notes.append(f"{name}: its answers are those of {system} to {len(joined)} of {tasks} tasks in common")


def _alone(run: StoredRun, name: str, rows: Rows) -> None:
    facts_of: Mapping[str, Facts] = read_facts(run.path) or {}
    for sample, values in _measured(run):
        labels = facts_of[sample.id].labels.get("answerability", ()) if sample.id in facts_of else ()
        answer = Answer(
            task=sample.id,
            system=name,
            text=sample.prediction or "",
            answerability=labels[0] if labels else None,
            scores=values,
        )
        rows.answers.append(answer)
    rows.systems[name] = name
    rows.sources.append(name)
