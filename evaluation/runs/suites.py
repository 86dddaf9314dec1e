"""Several runs in one folder with one summary: `turnmark eval all`, the four benchmarks or a suite of more, and the
systems of one official evaluation file, each scored again by any judge: how good is the judge?"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.core.home import file_sha256, write_json
from turnmark.corpora.inspector import Evaluation, RatedTask, read_evaluation
from turnmark.evaluation.benchmarks.mtrag_data import problem_notes
from turnmark.evaluation.benchmarks.registry import RETRIEVAL
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.page import write_page
from turnmark.evaluation.runs import running
from turnmark.evaluation.runs.budget import spent_in
from turnmark.evaluation.runs.planning import Plan, check_specs, plan
from turnmark.evaluation.runs.predictions import MTRAG_FAMILY
from turnmark.evaluation.runs.request import EvalRequest
from turnmark.evaluation.runs.rundir import check_folder, default_folder

SMOKE = 8
"""Samples of each benchmark in the suite `smoke`."""


FOUR = {name: (name, None, None) for name in ("mtrag", "inscoqa", "compound-qa", "kiwi")}
SUITES: Mapping[str, Mapping[str, tuple[str, str | None, str | None]]] = {
    "smoke": FOUR,
    "full": {
        **FOUR,
        "mtrag-retrieval": ("mtrag", RETRIEVAL, None),
        "mtrag-rag": ("mtrag", None, "rag"),
        "mtrag-un": ("mtrag-un", None, None),
        "mtrag-un-rag": ("mtrag-un", None, "rag"),
        "mtrag-s": ("mtrag-s", None, None),
        "inscoqa-rag": ("inscoqa", None, "rag"),
        "kiwi-judge": ("kiwi", "judge", None),
        "kiwi-analyse": ("kiwi", "analyse", None),
    },
}
"""Suite -> its runs: name of the folder and entry -> benchmark, task and setting (None: the first); the four first."""


@dataclass(frozen=True)
class SuitePlan:
    """Runs in one folder: a plan for each part, or why it is left out."""

    plans: Mapping[str, Plan | str]
    folder: Path
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """What `--dry-run` says."""
        from turnmark.evaluation.judging.mounting import described

        parts = {
            name: {"skipped": part} if isinstance(part, str) else described(part) for name, part in self.plans.items()
        }
        return {"dry_run": True, "benchmark": "all", "benchmarks": parts, "run": str(self.folder)}


def plan_suite(request: EvalRequest) -> SuitePlan:
    """Check the request for each part.

    One whose data is not in the folder that was named is left out, with the reason; demo data never replaces it.
    """
    errors = ErrorCollector()
    for flag, value in (("--only", request.only), ("--domains", request.domains), ("--setting", request.setting)):
        if value:
            errors.add(f"{flag} means something of one benchmark, and `all` runs four; name that benchmark")
    for flag in ("query", "queries", "passages", "counterfactual"):
        if getattr(request, flag):
            errors.add(f"--{flag} belongs to MTRAG's setting rag, which `all` runs with its defaults, if at all")
    if errors.problems:
        check_specs(request, errors)
    errors.raise_all()
    if request.suite == "smoke" and request.sample is None and request.limit is None:
        request = request.model_copy(update={"sample": SMOKE})
    plans = _planned(request.suite, request)
    runnable = [part for part in plans.values() if not isinstance(part, str)]
    if not runnable:
        raise RequestError([reason for reason in plans.values() if isinstance(reason, str)])
    names = "".join(default_folder(part.manifest).name for part in runnable)
    folder = request.out or Path("runs") / f"all-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    for name, part in plans.items():
        if not isinstance(part, str):
            check_folder(folder / name, part.manifest)
            plans[name] = replace(part, folder=folder / name)
    return SuitePlan(plans, folder)


def _planned(suite: str | None, request: EvalRequest) -> dict[str, Plan | str]:
    """Each part checked; a mistake that several have is reported once."""
    plans: dict[str, Plan | str] = {}
    parts_of_problem: dict[str, list[str]] = {}
    for name, (benchmark, task, setting) in SUITES[suite or "smoke"].items():
        if missing := _missing(benchmark, request.data):
            plans[name] = missing
            continue
        changed: dict[str, Any] = {"benchmark": benchmark, "task": task, "setting": setting}
        changed |= {"out": request.out / name} if request.out else {}
        if task == RETRIEVAL:  # no model is asked, and nothing of a budget is taken
            changed |= {"generator": "extractive", "judge": (), "steps": (), "repeat": 1, "budget": None}
            changed["prompts"] = None
        try:
            plans[name] = plan(request.model_copy(update=changed))
        except RequestError as error:
            if name not in FOUR:  # what the data at hand do not allow keeps the four from nothing
                plans[name] = str(error)
                continue
            for problem in error.problems:
                parts_of_problem.setdefault(problem, []).append(name)
    if parts_of_problem:
        raise RequestError([
            problem if len(names) > 1 else f"{names[0]}: {problem}" for problem, names in parts_of_problem.items()
        ])  # fmt: skip
    return plans


def _missing(name: str, data: Path | None) -> str:
    """Why there is no data for a benchmark; empty if there is."""
    from turnmark.corpora import compound_qa, inscoqa, kiwi, mtrag

    locate = {"inscoqa": inscoqa.locate, "compound-qa": compound_qa.locate, "kiwi": kiwi.locate}
    try:
        locate.get(name, mtrag.locate)(data)
    except RequestError as error:
        return str(error)
    return ""


def run_suite(plan: SuitePlan) -> tuple[dict[str, Summary | str], Path, bool]:
    """Run the parts; one that fails does not keep the others from running.

    Returns:
        Benchmark -> its summary, or why there is none; the folder; whether any failed.
    """
    from turnmark.evaluation.runs.ray_engine import use_workers

    entries: dict[str, Summary | str] = {name: part for name, part in plan.plans.items() if isinstance(part, str)}
    failed = False
    for name, part in plan.plans.items():
        if isinstance(part, str):
            continue
        try:
            # `--budget` is one for all parts: what the others have used, in this call and in earlier ones.
            others = (plan.folder / key for key, other in plan.plans.items() if key != name and isinstance(other, Plan))
            elsewhere = sum(map(spent_in, others), Usage())
            ready = replace(part, began=time.perf_counter(), elsewhere=elsewhere)
            entries[name], _, gave_up = running.run_plan(use_workers(ready))
            failed |= gave_up
        except (TurnmarkError, OSError) as error:
            entries[name] = f"failed: {error}"
            failed = True
        # After each, so that what has ended can be reported whatever becomes of the rest.
        entries = {key: entries[key] for key in plan.plans if key in entries}
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_json(plan.folder / "summary.json", as_json(entries))
    write_page(plan.folder)
    return entries, plan.folder, failed


def as_json(entries: Mapping[str, Summary | str]) -> dict[str, Any]:
    """The entries as `summary.json` holds them."""
    return {
        name: {"skipped": entry} if isinstance(entry, str) else entry.model_dump(mode="json")
        for name, entry in entries.items()
    }


# --- the systems of an evaluation file

ANSWERS = "answers"
"""Folder of a rescoring that holds each system's answers as official predictions."""
_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._-]+")


def is_evaluation(predictions: Sequence[Path]) -> bool:
    """Whether what is to be scored is an evaluation file: one JSON object, in a file that ends in `.json`."""
    return any(path.suffix == ".json" and path.is_file() for path in predictions)


def plan_systems(request: EvalRequest) -> SuitePlan:
    """Check an evaluation file, write each system's answers as a file of predictions, and plan a run of each.

    `mtrag-human/evaluations` and `mtrag-synthetic/evaluations` of MTRAG's repository hold answers with the ratings of
    people, which `turnmark agreement FILE RUN` holds against the runs' scores.
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
