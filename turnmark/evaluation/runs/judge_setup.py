"""The judges of a plan of `eval` or `score`: check and open them, and estimate their usage."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.assistant.llm.calls.thread_pool import DEFAULT_CONCURRENCY
from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.judging.judge_calls import estimate_judgment
from turnmark.evaluation.judging.judges import Judge, can_grade, open_judges, own_rubrics, panel_notes
from turnmark.evaluation.judging.panel import ROLE, Judging
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.tasks.declarations import benchmarks
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.registry import find_task
from turnmark.evaluation.tasks.request import EvalRequest
from turnmark.evaluation.tasks.rubric import Rubric
from turnmark.evaluation.tasks.task import Task

if TYPE_CHECKING:
    from turnmark.evaluation.runs.plan import Plan


def judged_metrics(benchmark: str, task: str | None) -> tuple[str, ...]:
    """Return the judged metrics of a task (None: the benchmark's default task). No model is loaded."""
    task_class = find_task(benchmark, task)
    if task_class is None:
        return ()
    return (*(rubric.name for rubric in task_class.rubrics(None, "minilm")), *task_class.brought)


def judge_problems(benchmark: str, tasks: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Return the mistakes in `--judge`, as sentences.

    Args:
        benchmark: the benchmark's name, or `all`.
        tasks: the tasks whose metrics the judges may grade; empty for `all`.
    """
    errors = ErrorCollector()
    judges = errors.collect(open_judges, specs) or ()
    judged: set[str] = set()
    if benchmark == "all":
        for name in benchmarks():
            judged.update(judged_metrics(name, None))
    else:
        for task in tasks:
            judged.update(judged_metrics(benchmark, task))
    if not judged:
        if specs:
            errors.add(f"--judge: {' '.join([benchmark, *tasks])} has no judged metrics")
        return errors.problems
    for judge in judges:
        offered = {name for name in judged if can_grade(name, judge.name)}
        if not offered:
            errors.add(f"--judge {judge.name}: {benchmark} has no metrics that it measures; leave it out")
            continue
        unknown = sorted((judge.metrics or frozenset()) - offered)
        if unknown or judge.metrics == frozenset():
            errors.add(
                f"--judge {judge.name}: metrics={','.join(unknown)}: the judged metrics of {benchmark} are "
                f"{', '.join(sorted(offered))}"
            )
    return errors.problems


def open_judging(plan: Plan) -> tuple[Judging | None, tuple[str, ...]]:
    """Open the judges of a plan; return them with notes. None: the request names no judge, or nothing is judged."""
    from turnmark.assistant.config_files import load_prices, parse_budget

    request, manifest = plan.request, plan.manifest
    if not request.judge:
        return None, ()
    metrics = judged_metrics(manifest.benchmark, manifest.task)
    if not metrics:
        note = f"--judge: {manifest.benchmark} has no judged metrics in {manifest.task}, and is scored without a judge"
        return None, (note,)
    judges = open_judges(request.judge)
    judges_rubrics = own_rubrics(judges, metrics)
    replaced_names = {rubric.name for rubric in judges_rubrics}  # RAGAS's faithfulness replaces ours
    benchmark_rubrics = [rubric for rubric in _rubrics(plan) if rubric.name not in replaced_names]
    judging = Judging(
        judges,
        [*benchmark_rubrics, *judges_rubrics],
        tested=_tested_generators(request, manifest),
        concurrency=DEFAULT_CONCURRENCY if request.scoring else request.concurrency,
        prices=load_prices(),
        prompts=request.assistant.prompts,
        budget=parse_budget(request.budget) if request.budget else None,
        elsewhere=plan.elsewhere,
    )
    return judging, tuple(panel_notes(request.judge))


def _rubrics(plan: Plan) -> Sequence[Rubric]:
    task = find_task(plan.manifest.benchmark, plan.manifest.task)
    assert task is not None, "the plan is of a task"
    return task.rubrics(plan.manifest.setting, plan.request.embedder)


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return the output of `--dry-run` for a plan, with the judges of its request."""
    description = plan.describe()
    manifest, request = plan.manifest, plan.request
    if not request.judge or not judged_metrics(manifest.benchmark, manifest.task):
        return description
    from turnmark.evaluation.calls.cost_estimates import usage_json
    from turnmark.evaluation.tasks.request import select_items

    judges = open_judges(request.judge)
    estimate = estimate_judging(
        plan.task, select_items(plan.task.items(), plan.chosen), plan.items * request.repeat, judges, _rubrics(plan),
        searched=plan.task.searched, prompts=request.assistant.prompts,
    )  # fmt: skip
    specs = description["specs"] | {ROLE: ", ".join(judge.name for judge in judges)}
    return description | {"estimated": description["estimated"] | usage_json(estimate), "specs": specs}


def _tested_generators(request: EvalRequest, manifest: RunManifest) -> list[str]:
    """Return the generators that wrote the samples: that of the run, or those of the runs whose samples are scored."""
    if "generator" in manifest.specs:
        return [manifest.specs["generator"]]
    generators: list[str] = []
    for path in request.predictions:
        if not path.is_dir() and path.name != "predictions.jsonl":
            continue
        folder = path if path.is_dir() else path.parent
        with suppress(OSError, ValidationError):
            scored_run = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
            if "generator" in scored_run.specs:
                generators.append(scored_run.specs["generator"])
    return generators


# --- the estimate ----------------------------------------------------------------------------------------------------

MAX_ESTIMATED_CASES = 200
"""Maximum number of items whose prompts are rendered for an estimate; if there are more, every n-th one is rendered."""
_ANSWER = "A sentence of typical length for an answer. " * 8
_STEPS = ({"step": "A step of typical length for a procedure.", "citations": []},) * 6
_PASSAGES = ("A sentence of a passage that a retriever found. " * 25,) * 5


def estimate_judging(
    benchmark: Task,
    items: Iterable[Item],
    total: int,
    judges: Sequence[Judge],
    rubrics: Sequence[Rubric],
    searched: bool,
    prompts: Path | None = None,
) -> dict[str, Usage]:
    """Estimate calls and tokens of all judges over `total` items, with placeholder answers of typical length.

    Args:
        searched: whether passages are retrieved; a case without passages then gets placeholder passages.
    """
    from turnmark.evaluation.calls.cost_estimates import estimate_items

    def usage(item: Item) -> dict[str, Usage]:
        sample = Sample(id=item.id, status="done", prediction=_ANSWER, procedure=_STEPS, decision="answer")
        case = benchmark.context(item, sample)
        if searched and not case.passages:
            case = replace(case, passages=_PASSAGES)
        total_usage = Usage()
        for rubric in rubrics:
            if rubric.without(case):
                continue
            for judge in judges:
                if judge.grades(rubric.name):
                    total_usage += estimate_judgment(rubric, case, prompts)
        return {ROLE: total_usage}

    return estimate_items(items, total, usage, MAX_ESTIMATED_CASES)
