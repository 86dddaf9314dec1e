"""Reads an evaluation in the format of InspectorRAGet: answers of several models to the same tasks, with human ratings
and metric scores. MTRAG publishes its human evaluation in this format.

    {"name": "…", "models": [{"model_id": "gpt-4o", "name": "GPT-4o"}],
     "metrics": [{"name": "faithfulness", "author": "human", "type": "categorical",
                  "values": [{"value": "4", "numeric_value": 4}]}],
     "documents": [{"document_id": "p1", "text": "…"}],
     "tasks": [{"task_id": "c1<::>1", "input": […], "targets": [{"text": "…"}], "Answerability": ["ANSWERABLE"],
                "contexts": [{"document_id": "p1"}]}],
     "evaluations": [{"task_id": "c1<::>1", "model_id": "gpt-4o", "model_response": "…",
                      "annotations": {"faithfulness": {"46542882": {"value": "4"}},
                                      "rb_agg": {"composite": {"value": 0.7}}}}]}

Source: https://github.com/IBM/InspectorRAGet and the file in IBM/mt-rag-benchmark, mtrag-human/evaluations. A row
that cannot be read becomes a Problem with its address in the file; the others are still read.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora.jsonl_rows import get_non_blank, get_objects, get_string
from turnmark.corpora.types import Problem

_LISTS = ("models", "metrics", "tasks", "evaluations")
_SYSTEMS = frozenset(("system", "composite"))
"""Names of annotators that are not people."""


class EvaluationPassage(Record):
    """A passage that was shown to the systems."""

    id: str
    title: str = ""
    text: str | None = Field(default=None, description="None: not in the file")


class RatedTask(Record):
    """A task of the evaluation."""

    id: str
    answerability: str | None = None
    contexts: tuple[EvaluationPassage, ...] | None = Field(default=None, description="None: not in the file")


class RatedAnswer(Record):
    """A model's answer to a task, with its ratings and scores."""

    task: str
    model: str
    response: str
    ratings: dict[str, dict[str, float]] = Field(description="metric -> annotator -> human rating")
    scores: dict[str, float] = Field(description="metric -> value of an automatic metric")


class HumanEvaluation(Record):
    """The contents of an evaluation file."""

    models: dict[str, str] = Field(description="model id -> name")
    people: tuple[str, ...] = Field(description="metrics rated by people, in the file's order")
    points: dict[str, float] = Field(description="metric -> step of its scale, if the file lists the values")
    tasks: dict[str, RatedTask]
    answers: tuple[RatedAnswer, ...]
    problems: tuple[Problem, ...]


def read_evaluation(path: Path) -> HumanEvaluation:
    """Read an evaluation file."""
    content = _content(path)
    missing = [name for name in _LISTS if not isinstance(content.get(name), list)]
    if missing:
        raise RequestError(
            f"{str(path)!r} is not an evaluation in the format of InspectorRAGet: no list under {', '.join(missing)}"
        )
    reading = _EvaluationParts(path.name)
    documents = content.get("documents")
    if isinstance(documents, list):
        reading.documents = {str(row.get("document_id")): row for row in documents if isinstance(row, dict)}
    for name, read_row in zip(_LISTS, (reading.model, reading.metric, reading.task, reading.answer), strict=True):
        for number, row in enumerate(content[name]):
            address = f"{name}[{number}]"
            try:
                if not isinstance(row, dict):
                    raise ValueError("is not an object")
                read_row(address, row)
            except ValueError as error:
                reading.note(address, str(error))
    return HumanEvaluation(
        models=reading.models,
        people=tuple(name for name, (human, _) in reading.scales.items() if human),
        points={name: _step(scale) for name, (_, scale) in reading.scales.items() if len(scale) > 1},
        tasks=reading.tasks,
        answers=tuple(reading.answers.values()),
        problems=tuple(reading.problems),
    )


class _EvaluationParts:
    """The parts of a file read so far; a method raises ValueError for a row that cannot be read."""

    def __init__(self, file: str) -> None:
        self.models: dict[str, str] = {}
        self.scales: dict[str, tuple[bool, dict[str, float]]] = {}  # metric -> (rated by people, label -> number)
        self.tasks: dict[str, RatedTask] = {}
        self.answers: dict[tuple[str, str], RatedAnswer] = {}
        self.problems: list[Problem] = []
        self.documents: Mapping[str, Mapping[str, Any]] = {}
        self._file = file

    def note(self, address: str, message: str) -> None:
        """Add a Problem with its address in the file."""
        self.problems.append(Problem(file=self._file, what=f"{address}: {message}"))

    def model(self, _: str, row: Mapping[str, Any]) -> None:
        """Read a row of `models`."""
        self.models.setdefault(get_non_blank(row, "model_id"), get_string(row, "name", get_non_blank(row, "model_id")))

    def metric(self, _: str, row: Mapping[str, Any]) -> None:
        """Read a row of `metrics`; a categorical metric lists its values, a numerical one does not."""
        values = [] if row.get("values") is None else get_objects(row, "values")
        scale = {str(value.get("value")): _number(value.get("numeric_value", value.get("value"))) for value in values}
        self.scales.setdefault(get_non_blank(row, "name"), (row.get("author") == "human", scale))

    def task(self, _: str, row: Mapping[str, Any]) -> None:
        """Read a row of `tasks`."""
        task = RatedTask(
            id=get_non_blank(row, "task_id"),
            answerability=_label(row, "Answerability"),
            contexts=None if row.get("contexts") is None else tuple(map(self._passage, get_objects(row, "contexts"))),
        )
        if task.id in self.tasks:
            raise ValueError(f"duplicate task {task.id!r}; the first one is kept")
        self.tasks[task.id] = task

    def _passage(self, row: Mapping[str, Any]) -> EvaluationPassage:
        """Read an entry of a task's `contexts`; a text that it lacks is taken from `documents`."""
        name = get_non_blank(row, "document_id")
        joined = {**self.documents.get(name, {}), **row}
        text = joined.get("text")
        return EvaluationPassage(
            id=name, title=get_string(joined, "title", ""), text=text if isinstance(text, str) else None
        )

    def answer(self, address: str, row: Mapping[str, Any]) -> None:
        """Read a row of `evaluations`; a value that cannot be read is left out, the rest of the row is kept."""
        annotations = row.get("annotations")
        if not isinstance(annotations, dict):
            self.note(f"{address}.annotations", "is missing, or not an object")
            return
        ratings: dict[str, dict[str, float]] = {}
        scores: dict[str, float] = {}
        for metric, annotation in annotations.items():
            if not isinstance(annotation, dict):
                self.note(f"{address}.annotations.{metric}", "is not an object")
                continue
            human, scale = self.scales.get(metric, (not _SYSTEMS & annotation.keys(), {}))
            for annotator, rating in annotation.items():
                label = rating.get("value") if isinstance(rating, dict) else rating
                try:
                    number = scale[str(label)] if str(label) in scale else _number(label)
                except ValueError as error:
                    self.note(f"{address}.annotations.{metric}.{annotator}", str(error))
                    continue
                if human:
                    ratings.setdefault(metric, {})[annotator] = number
                else:
                    scores[metric] = number
        key = get_non_blank(row, "task_id"), get_non_blank(row, "model_id")
        response = get_string(row, "model_response", "")
        if key[0] not in self.tasks:
            self.note(f"{address}.task_id", f"no task {key[0]!r} in the file; left out")
        elif key[1] not in self.models:
            self.note(f"{address}.model_id", f"no model {key[1]!r} in the file; left out")
        elif key in self.answers:
            raise ValueError(f"{key[1]!r} was rated on {key[0]!r} already; the first is kept")
        else:
            self.answers[key] = RatedAnswer(
                task=key[0], model=key[1], response=response, ratings=ratings, scores=scores
            )


def _content(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{str(path)!r} is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise RequestError(f"{str(path)!r} is not a JSON object")
    return content


def _step(scale: Mapping[str, float]) -> float:
    numbers = sorted(set(scale.values()))
    return min((high - low for low, high in pairwise(numbers)), default=1.0)


def _number(value: Any) -> float:
    """Convert a number, or a text that contains only a number, to a finite float."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{str(value)[:40]!r} is not a finite number")
    return number


def _label(row: Mapping[str, Any], key: str) -> str | None:
    """Return the text under a key, with the key as given or in lower case; of a list of texts the first."""
    for value in (row.get(key), row.get(key.lower())):
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str) and first:
            return first
    return None
