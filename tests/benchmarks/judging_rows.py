"""Answers that people or another judge rated, as `tests.benchmarks.judging` looks at them."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turnmark.corpora.mtrag import conversation_of
from turnmark.corpora.types import Message
from turnmark.evaluation.judging.judgements import Case

RATED = "mt-rag-benchmark/mtrag-human/evaluations/reference_subset_with_human_evaluations.json"
SYNTHETIC = "mt-rag-benchmark/mtrag-synthetic/evaluations/synthetic.json"
RECORDED = "mtragun-predictions"
LABELS = {1.0: "yes", 0.5: "partial", 0.0: "no"}
REFERENCE = "reference"


@dataclass(frozen=True)
class Row:
    """An answer.

    Attributes:
        people: property -> median of the raters.
        scores: what the file says of it, by the file's names.
        idk: the official judge's verdict; None where it is not known.
        says_idk: whether the verdict is yes; None where it is not known.
    """

    task: str
    system: str
    case: Case
    people: dict[str, float]
    scores: dict[str, float]
    idk: str | None = None
    says_idk: bool | None = None

    @property
    def conversation(self) -> str:
        return conversation_of(self.task)


def evaluated(path: Path) -> list[Row]:
    """The rows of a file in the format of InspectorRAGet, in its order; the reference answers are a system too."""
    content = json.loads(path.read_text(encoding="utf-8"))
    tasks = {task["task_id"]: task for task in content["tasks"]}
    documents = {document["document_id"]: document["text"] for document in content["documents"]}
    raters = {metric["name"] for metric in content["metrics"] if metric["author"] == "human"}
    rows = []
    for answer in content["evaluations"]:
        task = tasks[answer["task_id"]]
        label = _first(task["Answerability"])
        people: dict[str, float] = {}
        scores: dict[str, float] = {}
        for name, ratings in answer["annotations"].items():
            values = [float(rating["value"]) for rating in ratings.values() if rating["value"] is not None]
            if not values:
                continue
            (people if name in raters else scores)[name] = statistics.median(values)
        right = scores.get("conditional_idk")
        case = _case(
            task["input"], answer["model_response"], task["targets"],
            [documents[context["document_id"]] for context in task["contexts"]], label,
        )  # fmt: skip
        says = None if right is None else (right == 1) == (label == "UNANSWERABLE")
        rows.append(Row(answer["task_id"], answer["model_id"], case, people, scores, says_idk=says))
    return rows


def recorded(folder: Path) -> list[Row]:
    """The recorded answers to MTRAG-UN, with the official script's scores."""
    return [row for path in sorted(folder.glob("*.jsonl")) for row in _recorded(path)]


def _recorded(path: Path) -> Iterator[Row]:
    for line in path.read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        scores = {name: float(values[0]) for name, values in record["metrics"].items() if values[0] is not None}
        case = _case(
            record["input"], record["predictions"][0]["text"], record["targets"],
            [context["text"] for context in record["contexts"]], _first(record["answerability"]),
        )  # fmt: skip
        idk = LABELS.get(scores["idk_eval"]) if "idk_eval" in scores else None
        yield Row(record["task_id"], path.stem, case, {}, scores, idk, None if idk is None else idk == "yes")


def _first(label: Any) -> str:
    return str(label[0] if isinstance(label, list) else label).upper()


def _case(messages: Any, answer: str, targets: Any, passages: list[str], label: str) -> Case:
    roles = {"user": "user", "agent": "assistant"}
    history = tuple(Message(role=roles[message["speaker"]], content=message["text"]) for message in messages[:-1])
    reference = targets[0]["text"] if targets else ""
    return Case(messages[-1]["text"], answer, history, reference, tuple(passages), label)
