"""The judges of a run of `eval` or `score`: check them, open them, and note what they do not grade."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import starmap

from turnmark.assistant.llm.calls.ledger import price_in
from turnmark.assistant.llm.calls.prices import load_prices, parse_budget
from turnmark.assistant.llm.calls.thread_pool import DEFAULT_CONCURRENCY
from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.evaluation.judging.judges import can_grade, open_judges, own_rubrics, panel_notes
from turnmark.evaluation.judging.panel import Judging
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.stored_answers import read_run_manifests
from turnmark.evaluation.tasks.declarations import benchmarks
from turnmark.evaluation.tasks.registry import find_task
from turnmark.evaluation.tasks.task import Task


def judged_metrics(task: type[Task]) -> tuple[str, ...]:
    """Return the judged metrics of a task. No model is loaded."""
    return (*(rubric.name for rubric in task.rubrics(None, "minilm")), *task.brought)


def judge_problems(benchmark: str, tasks: Sequence[str], specs: Sequence[str]) -> list[str]:
    """Return the mistakes in `--judge`, as sentences.

    Args:
        benchmark: the benchmark's name, or `all`.
        tasks: the tasks whose metrics the judges may grade; empty for `all`.
    """
    errors = ErrorCollector()
    judges = errors.collect(open_judges, specs) or ()
    named = [(name, None) for name in benchmarks()] if benchmark == "all" else [(benchmark, task) for task in tasks]
    judged = {name for task in filter(None, starmap(find_task, named)) for name in judged_metrics(task)}
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


def check_judges_can_spend(budget: str | None, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Check that the judges have prices in the currency of the budget."""
    if budget is None:
        return
    limit, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # reported where the judges are checked
        for judge in open_judges(judges):
            if judge.has_model and limit is not None and prices is not None:
                errors.collect(price_in, limit, judge.name, prices)


def open_judging(plan: Plan) -> Judging | None:
    """Open the judges of a plan, or return None if the request names no judge, or nothing is judged."""
    request, metrics = plan.request, judged_metrics(type(plan.task))
    if not request.judge or not metrics:
        return None
    judges = open_judges(request.judge)
    judges_rubrics = own_rubrics(judges, metrics)
    replaced_names = {rubric.name for rubric in judges_rubrics}  # RAGAS's faithfulness replaces ours
    rubrics = plan.task.rubrics(plan.manifest.setting, request.embedder)
    return Judging(
        judges,
        [*(rubric for rubric in rubrics if rubric.name not in replaced_names), *judges_rubrics],
        tested=_tested_generators(plan),
        concurrency=DEFAULT_CONCURRENCY if request.scoring else request.concurrency,
        prices=load_prices(),
        prompts=request.assistant.prompts,
        budget=parse_budget(request.budget) if request.budget else None,
        elsewhere=plan.elsewhere,
    )


def note_judges(plan: Plan) -> tuple[str, ...]:
    """Return the notes of a run on its judges: judges that are missing, or that its task has no metrics for."""
    judge, manifest = plan.request.judge, plan.manifest
    if not judge:
        return ()
    if judged_metrics(type(plan.task)):
        return tuple(panel_notes(judge))
    return (f"--judge: {manifest.benchmark} has no judged metrics in {manifest.task}, and is scored without a judge",)


def _tested_generators(plan: Plan) -> list[str]:
    """Return the generators that wrote the samples: that of the run, or those of the runs whose samples are scored."""
    runs = read_run_manifests(plan.request.predictions) if plan.request.scoring else [plan.manifest]
    return [run.specs["generator"] for run in runs if run is not None and "generator" in run.specs]
