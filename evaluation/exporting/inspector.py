"""Runs as one evaluation in the format of InspectorRAGet, as MTRAG publishes its own (`turnmark.corpora.inspector`
reads it).

Source: https://github.com/IBM/InspectorRAGet and mtrag-human/evaluations in IBM/mt-rag-benchmark. A run is a model; its
scores stand under `system`, or under `composite` where judges gave them. A score that failed or does not apply has no
entry. A task's `contexts` are those of the first run; a run that saw others has its own in the `evaluations`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from turnmark.evaluation.agreement.rows import sample_metrics
from turnmark.evaluation.exporting.material import COLLECTIONS, Counted, Told, told
from turnmark.evaluation.records import Score
from turnmark.evaluation.report.stored import StoredRun, scores

FILTERS = {
    "Question Type": "question_type",
    "Multi-Turn": "multi_turn",
    "Answerability": "answerability",
    "Turn": "turn",
    "Collection": "domain",
}
"""What a reader filters by -> our dimension."""


def evaluation(runs: Sequence[tuple[str, StoredRun]], counted: Counted) -> dict[str, Any]:
    """The whole file.

    Args:
        runs: what to call each model, and its run; all of one benchmark.
    """
    made = _Made()
    for name, run in runs:
        made.add(name, run, counted)
    first = runs[0][1].summary
    return {
        "name": f"{first.benchmark} {first.task}" + (f" ({first.setting})" if first.setting else ""),
        "filters": [name for name in FILTERS if any(name in task for task in made.tasks.values())],
        "models": made.models,
        "metrics": [_metric(name, made.by[name], values) for name, values in made.values.items()],
        "documents": list(made.documents.values()),
        "tasks": list(made.tasks.values()),
        "evaluations": made.evaluations,
    }


class _Made:
    """The lists of the file so far."""

    def __init__(self) -> None:
        self.models: list[dict[str, str]] = []
        self.by: dict[str, str] = {}
        self.values: dict[str, list[float]] = {}
        self.documents: dict[str, dict[str, str]] = {}
        self.tasks: dict[str, dict[str, Any]] = {}
        self.evaluations: list[dict[str, Any]] = []

    def add(self, name: str, run: StoredRun, counted: Counted) -> None:
        """Take in a run."""
        said = ", ".join(f"{role} {spec}" for role, spec in run.summary.specs.items() if spec)
        self.models.append({"model_id": name, "name": name, "owner": said or "not said"})
        everything = [one for one in told(run, counted) if one.sample.status == "done"]
        names = sample_metrics(run.summary)
        found = scores(run.path, [one.sample.key for one in everything], names)
        for one in everything:
            refs = self._passages(one)
            task = self.tasks.setdefault(one.sample.id, _task(one, refs))
            own = {} if task["contexts"] == refs else {"contexts": refs}
            self.evaluations.append({
                "task_id": one.sample.id,
                "model_id": name,
                "model_response": one.answer,
                **own,
                "annotations": self._annotations(found[one.sample.key], run.summary.judging),
            })  # fmt: skip

    def _passages(self, one: Told) -> list[dict[str, str]]:
        for passage in one.passages():
            document = {"document_id": passage["document_id"], "text": passage.get("text", "")}
            known = self.documents.get(passage["document_id"])
            if known is None or not known["text"]:
                title = {"title": passage["title"]} if "title" in passage else {}
                self.documents[passage["document_id"]] = document | title
        return [{"document_id": ref.document_id} for ref in one.contexts]

    def _annotations(self, measured: Mapping[str, Score], judged: Mapping[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, score in measured.items():
            if score.value is not None:
                self.by.setdefault(name, score.by)
                self.values.setdefault(name, []).append(score.value)
                made[name] = {"composite" if name in judged else "system": {"value": score.value}}
        return made


def _task(one: Told, refs: list[dict[str, str]]) -> dict[str, Any]:
    domain = one.sample.domain or ""
    labels: dict[str, Any] = {name: one.labels(dimension) for name, dimension in FILTERS.items()}
    labels |= {"Turn": one.turn, "Collection": COLLECTIONS.get(domain, domain)}
    return {
        "task_id": one.sample.id,
        "task_type": "rag",
        "input": one.messages(),
        "contexts": refs,
        "targets": [{"speaker": "agent", "text": text}] if (text := one.reference()) else [],
        "annotations": {"context_relevance": {"system": one.relevant()}},
        **{name: value for name, value in labels.items() if value},
    }


def _metric(name: str, by: str, values: Sequence[float]) -> dict[str, Any]:
    return {
        "name": name,
        "display_name": name,
        "description": by,
        "author": "algorithm",
        "type": "numerical",
        "aggregator": "average",
        "range": _range(values),
    }


def _range(values: Sequence[float]) -> list[float]:
    """From, to and step of a scale: fractions are on one from 0 to 1, all else on one that holds every value."""
    low, high = min(0.0, *values), max(1.0, *values)
    if (low, high) == (0.0, 1.0):
        return [0, 1, 0.1]
    low, high = float(math.floor(low)), float(math.ceil(high))
    return [low, high, (high - low) / 10]
