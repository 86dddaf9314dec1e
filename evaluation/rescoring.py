"""Answers of several systems in one official evaluation file, scored again by any judge: how good is the judge?

`mtrag-human/evaluations` and `mtrag-synthetic/evaluations` of MTRAG's repository hold answers with the ratings of
people and the published scores. Each system of such a file becomes a separate run, over the tasks of the file alone,
which `turnmark agreement FILE RUN` holds against the ratings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import file_sha256
from turnmark.corpora.inspector import Evaluation, RatedTask, read_evaluation
from turnmark.evaluation.benchmarks.mtrag_data import problem_notes
from turnmark.evaluation.planning import Plan, plan
from turnmark.evaluation.predictions import MTRAG_FAMILY
from turnmark.evaluation.request import EvalRequest
from turnmark.evaluation.suites import SuitePlan

ANSWERS = "answers"
"""Folder of a rescoring that holds each system's answers as official predictions."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def is_evaluation(predictions: Sequence[Path]) -> bool:
    """Whether what is to be scored is an evaluation file: one JSON object, in a file that ends in `.json`."""
    return any(path.suffix == ".json" and path.is_file() for path in predictions)


def plan_systems(request: EvalRequest) -> SuitePlan:
    """Check the file, write each system's answers as a file of predictions, and plan a run of each.

    Raises:
        RequestError: the file is not an evaluation, there are several, or no system in it has an answer.
    """
    errors = ErrorCollector()
    if len(request.predictions) > 1:
        errors.add("--predictions: an evaluation file holds several systems already; score one at a time")
    if request.benchmark not in MTRAG_FAMILY:
        errors.add(f"--predictions: evaluation files are of MTRAG's tasks; {request.benchmark} has none")
    path = request.predictions[0]
    content = errors.collect(read_evaluation, path)
    errors.raise_all()
    assert content is not None, "errors.raise_all() raised otherwise"
    names = _folders(content)
    if not names:
        raise RequestError(f"--predictions {str(path)!r}: no system in it has an answer that can be read")
    folder = request.out or Path("runs") / f"{request.benchmark}-{file_sha256(path)[:12]}"
    plans: dict[str, Plan | str] = {}
    for model, name in names.items():
        answers = folder / ANSWERS / f"{name}.jsonl"
        _write(answers, content, model)
        changed = {"predictions": (answers,), "out": folder / name, "answered_only": True}
        plans[name] = plan(request.model_copy(update=changed))
    return SuitePlan(plans, folder, tuple(problem_notes(content.problems)))


def _folders(content: Evaluation) -> dict[str, str]:
    """Model id -> a folder name: an id of a file is never a path."""
    names: dict[str, str] = {}
    for model in dict.fromkeys(answer.model for answer in content.answers):
        plain = _NOT_IN_A_NAME.sub("-", model).strip(".-")[:60] or "system"
        used = {*names.values(), ANSWERS}
        names[model] = next(
            name for name in (plain, *(f"{plain}-{n}" for n in range(2, len(used) + 3))) if name not in used
        )
    return names


def _write(path: Path, content: Evaluation, model: str) -> None:
    rows = [
        {"task_id": answer.task, **_shown(content.tasks[answer.task]), "predictions": [{"text": answer.response}]}
        for answer in content.answers
        if answer.model == model
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _shown(task: RatedTask) -> dict[str, list[dict[str, str]]]:
    """The passages that the systems were shown, in the official form."""
    if task.contexts is None:
        return {}
    return {"contexts": [
        {"document_id": passage.id, "title": passage.title} | ({} if passage.text is None else {"text": passage.text})
        for passage in task.contexts
    ]}  # fmt: skip
