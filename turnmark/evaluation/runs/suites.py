"""Several runs in one folder with one summary: `turnmark eval all`, and `score` for an official evaluation file.

`eval all` runs the main benchmarks, or more tasks and settings with `--suite`. An evaluation file contains the answers
of several systems with human ratings; each system becomes a run, so that any judge can be compared with the ratings.
"""

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
from turnmark.corpora.benchmarks.inspector_raget import HumanEvaluation, RatedTask, read_evaluation
from turnmark.evaluation.calls.cost_estimates import spent_in
from turnmark.evaluation.records import Summary
from turnmark.evaluation.report.html_page import write_page
from turnmark.evaluation.runs.benchmark_run import run_plan
from turnmark.evaluation.runs.estimates import describe_plan
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.planning import check_specs, plan_run
from turnmark.evaluation.storage.run_folder import check_folder, default_folder
from turnmark.evaluation.tasks.data_notes import problem_notes
from turnmark.evaluation.tasks.declarations import benchmarks
from turnmark.evaluation.tasks.registry import RETRIEVAL, find_task
from turnmark.evaluation.tasks.request import EvalRequest

SMOKE_SAMPLES = 8
"""Number of samples of each benchmark in the suite `smoke`."""
SuiteRun = tuple[str, str | None, str | None]
"""Benchmark, task and setting of a run of a suite, or None for the default."""


def suite_runs(suite: str) -> dict[str, SuiteRun]:
    """Return the runs of a suite by the name of their folder: those of the main benchmarks first."""
    declared = benchmarks()
    runs: dict[str, SuiteRun] = {name: (name, None, None) for name, benchmark in declared.items() if benchmark.main}
    if suite == "full":
        for benchmark in declared.values():
            runs |= {name: (benchmark.name, task, setting) for name, (task, setting) in benchmark.suite.items()}
    return runs


@dataclass(frozen=True)
class SuitePlan:
    """Runs in one folder.

    Attributes:
        plans: name of the run -> its plan, or the reason why it is left out.
    """

    plans: Mapping[str, Plan | str]
    folder: Path
    notes: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Return the output of `--dry-run`."""
        plans = self.plans.items()
        runs = {name: {"skipped": run} if isinstance(run, str) else describe_plan(run) for name, run in plans}
        return {"dry_run": True, "benchmark": "all", "benchmarks": runs, "run": str(self.folder)}


def plan_suite(request: EvalRequest, errors: ErrorCollector) -> SuitePlan:
    """Check the request for each run of a suite.

    A run whose data are not in the folder of `--data` is left out, with the reason; demo data never replaces it.

    Raises:
        RequestError: all mistakes, including those in `errors`.
    """
    return errors.require(_plan_suite, request)


def _plan_suite(request: EvalRequest) -> SuitePlan:
    errors = ErrorCollector()
    for flag, value in (("--only", request.only), ("--domains", request.domains), ("--setting", request.setting)):
        if value:
            errors.add(f"{flag} depends on the benchmark, and `all` runs several; name one benchmark")
    if errors.problems:
        check_specs(request, errors)
    errors.raise_all()
    if request.suite == "smoke" and request.sample is None and request.limit is None:
        request = request.model_copy(update={"sample": SMOKE_SAMPLES})
    plans = _plan_runs(request.suite, request)
    runnable = [run for run in plans.values() if not isinstance(run, str)]
    if not runnable:
        raise RequestError([reason for reason in plans.values() if isinstance(reason, str)])
    names = "".join(default_folder(run.manifest).name for run in runnable)
    folder = request.out or Path("runs") / f"all-{hashlib.sha256(names.encode()).hexdigest()[:12]}"
    for name, run in plans.items():
        if not isinstance(run, str):
            check_folder(folder / name, run.manifest)
            plans[name] = replace(run, folder=folder / name)
    return SuitePlan(plans, folder)


def _plan_runs(suite: str | None, request: EvalRequest) -> dict[str, Plan | str]:
    """Plan each run of a suite; a mistake that several runs have is reported once."""
    plans: dict[str, Plan | str] = {}
    runs_of_problem: dict[str, list[str]] = {}
    for name, (benchmark, task, setting) in suite_runs(suite or "smoke").items():
        missing = _missing_data(benchmark, request.data)
        if missing:
            plans[name] = missing
            continue
        changed: dict[str, Any] = {"benchmark": benchmark, "task": task, "setting": setting}
        if request.out:
            changed["out"] = request.out / name
        if task == RETRIEVAL:  # no model is asked, and the budget is not used
            changed |= {"judge": (), "repeat": 1, "budget": None}
            changed["assistant"] = request.reset(("generator", "steps", "prompts")).assistant
        try:
            plans[name] = plan_run(request.model_copy(update=changed))
        except RequestError as error:
            # A problem in an additional run does not stop the runs of the main benchmarks.
            if name != benchmark or not benchmarks()[benchmark].main:
                plans[name] = str(error)
                continue
            for problem in error.problems:
                runs_of_problem.setdefault(problem, []).append(name)
    if runs_of_problem:
        several = runs_of_problem.items()
        raise RequestError([problem if len(names) > 1 else f"{names[0]}: {problem}" for problem, names in several])
    return plans


def _missing_data(name: str, data: Path | None) -> str:
    """Return why a benchmark has no data; empty if it has data."""
    try:
        benchmarks()[name].find_data(data)
    except RequestError as error:
        return str(error)
    return ""


def run_suite(plan: SuitePlan) -> tuple[dict[str, Summary | str], Path, bool]:
    """Carry out the runs; if one fails, the others still run.

    Returns:
        Name of the run -> its summary, or the reason why it has none; the folder; whether a run failed.
    """
    from turnmark.evaluation.runs.ray_workers import use_workers

    entries: dict[str, Summary | str] = {name: run for name, run in plan.plans.items() if isinstance(run, str)}
    failed = False
    for name, run in plan.plans.items():
        if isinstance(run, str):
            continue
        try:
            # The runs share one budget, so the usage of the others counts, from this call and earlier ones.
            elsewhere = Usage()
            for other_name, other in plan.plans.items():
                if other_name != name and isinstance(other, Plan):
                    elsewhere += spent_in(plan.folder / other_name)
            ready = replace(run, began=time.perf_counter(), elsewhere=elsewhere)
            entries[name], _, gave_up = run_plan(use_workers(ready))
            failed |= gave_up
        except (TurnmarkError, OSError) as error:
            entries[name] = f"failed: {error}"
            failed = True
        # Write the summary after each run, so that finished runs can be reported even if the command is stopped.
        entries = {key: entries[key] for key in plan.plans if key in entries}
        plan.folder.mkdir(parents=True, exist_ok=True)
        write_json(plan.folder / "summary.json", as_json(entries))
    write_page(plan.folder)
    return entries, plan.folder, failed


def as_json(entries: Mapping[str, Summary | str]) -> dict[str, Any]:
    """Return the entries in the form of `summary.json`."""
    return {
        name: {"skipped": entry} if isinstance(entry, str) else entry.model_dump(mode="json")
        for name, entry in entries.items()
    }


# --- the systems of an evaluation file

ANSWERS_FOLDER = "answers"
"""Name of the folder with each system's answers as official predictions."""
_UNSAFE_CHARACTERS = re.compile(r"[^A-Za-z0-9._-]+")


def is_evaluation(predictions: Sequence[Path]) -> bool:
    """Return whether `--predictions` names an evaluation file, whose name ends in `.json`."""
    return any(path.suffix == ".json" and path.is_file() for path in predictions)


def plan_systems(request: EvalRequest, errors: ErrorCollector) -> SuitePlan:
    """Check an evaluation file, write each system's answers to a prediction file, and plan a run for each system.

    An evaluation file contains the answers of several systems with human ratings. `turnmark agreement FILE RUN`
    compares the ratings with the scores of the runs.

    Raises:
        RequestError: all mistakes, including those in `errors`.
    """
    if find_task(request.benchmark, None) is None:  # without a benchmark, the file cannot be checked
        errors.raise_all()
    return errors.require(_plan_systems, request)


def _plan_systems(request: EvalRequest) -> SuitePlan:
    errors = ErrorCollector()
    if len(request.predictions) > 1:
        errors.add("--predictions: an evaluation file already contains several systems; score one file at a time")
    task = find_task(request.benchmark, request.task)
    if task is None or not task.has_evaluations:
        errors.add(f"--predictions: there are no evaluation files of {request.benchmark}; name files of predictions")
    path = request.predictions[0]
    content = errors.require(read_evaluation, path)
    names = _folder_names(content)
    if not names:
        raise RequestError(f"--predictions {str(path)!r}: no system in the file has a readable answer")
    folder = request.out or Path("runs") / f"{request.benchmark}-{file_sha256(path)[:12]}"
    plans: dict[str, Plan | str] = {}
    for model, name in names.items():
        answers = folder / ANSWERS_FOLDER / f"{name}.jsonl"
        _write_answers(answers, content, model)
        changed = {"predictions": (answers,), "out": folder / name, "answered_only": True}
        plans[name] = plan_run(request.model_copy(update=changed))
    return SuitePlan(plans, folder, tuple(problem_notes(content.problems)))


def _folder_names(content: HumanEvaluation) -> dict[str, str]:
    """Return model id -> unique folder name. An id from a file is untrusted, so it is not used as a path."""
    names: dict[str, str] = {}
    used_names = {ANSWERS_FOLDER}
    for model in dict.fromkeys(answer.model for answer in content.answers):
        plain_name = _UNSAFE_CHARACTERS.sub("-", model).strip(".-")[:60] or "system"
        name = plain_name
        number = 1
        while name in used_names:
            number += 1
            name = f"{plain_name}-{number}"
        used_names.add(name)
        names[model] = name
    return names


def _write_answers(path: Path, content: HumanEvaluation, model: str) -> None:
    """Write the answers of a model as official predictions; an unchanged file is not written again."""
    answers = [answer for answer in content.answers if answer.model == model]
    rows = [
        {"task_id": one.task, **_contexts(content.tasks[one.task]), "predictions": [{"text": one.response}]}
        for one in answers
    ]
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def _contexts(task: RatedTask) -> dict[str, list[dict[str, str]]]:
    """Return the passages that the systems were shown, as the field `contexts` of the official form."""
    if task.contexts is None:
        return {}
    contexts = [{"document_id": one.id, "title": one.title, "text": one.text} for one in task.contexts]
    return {"contexts": [{name: text for name, text in one.items() if text is not None} for one in contexts]}
