"""Reads an evaluation in the format of InspectorRAGet: answers of several models to the same tasks, with the ratings of
people and the scores of metrics. MTRAG publishes its human evaluation so.

    {"name": "…", "models": [{"model_id": "gpt-4o", "name": "GPT-4o"}],
     "metrics": [{"name": "faithfulness", "author": "human", "type": "categorical",
                  "values": [{"value": "4", "numeric_value": 4}]}],
     "tasks": [{"task_id": "c1<::>1", "input": […], "targets": [{"text": "…"}], "Answerability": ["ANSWERABLE"]}],
     "evaluations": [{"task_id": "c1<::>1", "model_id": "gpt-4o", "model_response": "…",
                      "annotations": {"faithfulness": {"46542882": {"value": "4"}},
                                      "rb_agg": {"composite": {"value": 0.7}}}}]}

Source: https://github.com/IBM/InspectorRAGet and the file in IBM/mt-rag-benchmark, mtrag-human/evaluations. What cannot
be read is a Problem that names its place in the file, and costs no other row.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.corpora.errors import RequestError
from turnmark.corpora.rows import non_blank, objects, string
from turnmark.corpora.types import Problem, Record

LARGEST = 512 * 1024 * 1024
"""Bytes of the largest file that is read: the format is one JSON object, which has to be in memory as a whole."""

_LISTS = ("models", "metrics", "tasks", "evaluations")
_SYSTEMS = frozenset(("system", "composite"))
"""Who gives a metric's value where no person does."""


class RatedTask(Record):
    """What was asked."""

    id: str
    question: str = Field(description="the last message; empty where there is none")
    reference: str = Field(description="the first target; empty where there is none")
    answerability: str | None = None
    collection: str | None = None


class RatedAnswer(Record):
    """What a model said to a task, and how that was rated."""

    task: str
    model: str
    response: str
    ratings: dict[str, dict[str, float]] = Field(description="property -> annotator -> rating, of people")
    scores: dict[str, float] = Field(description="metric -> value, of no person")


class Evaluation(Record):
    """A file as it was read."""

    name: str
    models: dict[str, str] = Field(description="model id -> name")
    people: tuple[str, ...] = Field(description="metrics that people give, in the order of the file")
    metrics: tuple[str, ...] = Field(description="the others")
    points: dict[str, float] = Field(description="property -> step of its scale, where the file lists the values")
    tasks: dict[str, RatedTask]
    answers: tuple[RatedAnswer, ...]
    problems: tuple[Problem, ...]


class _Bad(ValueError):
    """What is wrong, and where in the row."""

    def __init__(self, place: str, what: str) -> None:
        super().__init__(what)
        self.place = place


def read_evaluation(path: Path) -> Evaluation:
    """The evaluation in a file.

    Raises:
        RequestError: the file cannot be read, is no JSON object, or lacks one of its lists.
    """
    content = _content(path)
    if missing := [name for name in _LISTS if not isinstance(content.get(name), list)]:
        raise RequestError(
            f"{str(path)!r} is no evaluation in the format of InspectorRAGet: no list under {', '.join(missing)}"
        )
    reading = _Reading(path)
    for name in _LISTS:
        reading.rows(name, content[name])
    people = tuple(name for name, (human, _) in reading.scales.items() if human)
    return Evaluation(
        name=str(content.get("name") or path.name),
        models=reading.models,
        people=people,
        metrics=tuple(name for name in reading.scales if name not in people),
        points={name: _step(scale) for name, (_, scale) in reading.scales.items() if len(scale) > 1},
        tasks=reading.tasks,
        answers=tuple(reading.answers.values()),
        problems=tuple(reading.problems),
    )


class _Reading:
    """What has been read of a file so far; the lists come in the order of `_LISTS`."""

    def __init__(self, path: Path) -> None:
        self.models: dict[str, str] = {}
        self.scales: dict[str, tuple[bool, dict[str, float]]] = {}  # metric -> whether people give it, and how
        self.tasks: dict[str, RatedTask] = {}
        self.answers: dict[tuple[str, str], RatedAnswer] = {}
        self.problems: list[Problem] = []
        self._file = path.name
        self._take = {
            "models": self._model, "metrics": self._metric, "tasks": self._task, "evaluations": self._answer,
        }  # fmt: skip

    def rows(self, name: str, rows: Iterable[Any]) -> None:
        """Take in a list, and note the rows of it that cannot be read."""
        for number, row in enumerate(rows):
            place = f"{name}[{number}]"
            try:
                if not isinstance(row, dict):
                    raise ValueError("is no object")
                self._take[name](place, row)
            except ValueError as error:
                self._note(place, error)

    def _note(self, place: str, error: ValueError) -> None:
        inner = error.place if isinstance(error, _Bad) else ""
        self.problems.append(Problem(file=self._file, what=f"{place}{'.' if inner else ''}{inner}: {error}"))

    def _model(self, _: str, row: Mapping[str, Any]) -> None:
        self.models.setdefault(non_blank(row, "model_id"), string(row, "name", non_blank(row, "model_id")))

    def _metric(self, _: str, row: Mapping[str, Any]) -> None:
        self.scales.setdefault(non_blank(row, "name"), (row.get("author") == "human", _scale(row)))

    def _task(self, _: str, row: Mapping[str, Any]) -> None:
        task = _task(row)
        if task.id in self.tasks:
            raise ValueError(f"the task {task.id!r} stood there already; the first is kept")
        self.tasks[task.id] = task

    def _answer(self, place: str, row: Mapping[str, Any]) -> None:
        answer, doubtful = _answer(row, self.scales)
        for error in doubtful:
            self._note(place, error)
        if answer.task not in self.tasks:
            raise _Bad("task_id", f"no task {answer.task!r} in the file; left out")
        if answer.model not in self.models:
            raise _Bad("model_id", f"no model {answer.model!r} in the file; left out")
        if (answer.task, answer.model) in self.answers:
            raise ValueError(f"{answer.model!r} was rated on {answer.task!r} already; the first is kept")
        self.answers[answer.task, answer.model] = answer


def _content(path: Path) -> dict[str, Any]:
    try:
        size = path.stat().st_size
        if size > LARGEST:
            raise RequestError(f"{str(path)!r} is {size:,} bytes long; at most {LARGEST:,} are read")
        content = json.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise RequestError(f"{str(path)!r} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{str(path)!r} is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise RequestError(f"{str(path)!r} is no JSON object")
    return content


def _scale(row: Mapping[str, Any]) -> dict[str, float]:
    """Written value -> number, of a categorical metric; empty for one that is numerical."""
    if row.get("values") is None:
        return {}
    numbers = {}
    for value in objects(row, "values"):
        number = value.get("numeric_value", value.get("value"))
        numbers[str(value.get("value"))] = _number(number)
    return numbers


def _step(scale: Mapping[str, float]) -> float:
    numbers = sorted(set(scale.values()))
    return min((high - low for low, high in pairwise(numbers)), default=1.0)


def _number(value: Any) -> float:
    """A finite number, or a text that is one."""
    try:
        number = float(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else math.nan
    except (ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise ValueError(f"{str(value)[:40]!r} is no finite number")
    return number


def _task(row: Mapping[str, Any]) -> RatedTask:
    return RatedTask(
        id=non_blank(row, "task_id"),
        question=_last_text(row, "input", -1),
        reference=_last_text(row, "targets", 0),
        answerability=_first(row, "Answerability", "answerability"),
        collection=_first(row, "Collection", "collection"),
    )


def _last_text(row: Mapping[str, Any], key: str, index: int) -> str:
    if not row.get(key):
        return ""
    return string(objects(row, key)[index], "text", "")


def _first(row: Mapping[str, Any], *keys: str) -> str | None:
    for key in keys:
        value = row.get(key)
        first = value[0] if isinstance(value, list) and value else value
        if isinstance(first, str) and first:
            return first
    return None


def _answer(
    row: Mapping[str, Any], scales: Mapping[str, tuple[bool, Mapping[str, float]]]
) -> tuple[RatedAnswer, list[ValueError]]:
    """A row, and the values in it that are none: these are left out alone."""
    annotations = row.get("annotations")
    if not isinstance(annotations, dict):
        raise _Bad("annotations", "is missing, or no object")
    ratings: dict[str, dict[str, float]] = {}
    scores: dict[str, float] = {}
    doubtful: list[ValueError] = []
    for metric, annotation in annotations.items():
        if not isinstance(annotation, dict):
            doubtful.append(_Bad(f"annotations.{metric}", "is no object"))
            continue
        human, scale = scales.get(metric, (not _SYSTEMS & annotation.keys(), {}))
        for annotator, rating in annotation.items():
            try:
                label = rating.get("value") if isinstance(rating, dict) else rating
                number = scale[str(label)] if str(label) in scale else _number(label)
            except ValueError as error:
                doubtful.append(_Bad(f"annotations.{metric}.{annotator}", str(error)))
                continue
            if human:
                ratings.setdefault(metric, {})[annotator] = number
            else:
                scores[metric] = number
    answer = RatedAnswer(
        task=non_blank(row, "task_id"),
        model=non_blank(row, "model_id"),
        response=string(row, "model_response", ""),
        ratings=ratings,
        scores=scores,
    )
    return answer, doubtful
