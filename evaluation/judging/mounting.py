"""The judges of a plan of `eval` or `score`: checked, opened, and what asking them would take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.assistant.types import Usage
from turnmark.core.errors import ErrorCollector
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.registry import BENCHMARKS, find_task
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.judging.calls import estimate_judgement
from turnmark.evaluation.judging.judge import Judge, can_grade, open_judges, own_rubrics, panel_notes
from turnmark.evaluation.judging.judged import ROLE, Judging
from turnmark.evaluation.judging.rubrics import Rubric
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.runs.request import EvalRequest
from turnmark.evaluation.runs.scheduler import CONCURRENCY

if TYPE_CHECKING:
    from turnmark.evaluation.runs.planning import Plan


def judged_metrics(benchmark: str, task: str | None) -> tuple[str, ...]:
    """The judged metrics of a task (None: of the benchmark's first); empty where it has none. No model is loaded."""
    known = find_task(benchmark, task)
    if known is None:
        return ()
    return (*(rubric.name for rubric in known.rubrics(None, "minilm")), *known.brought)


def judge_problems(benchmark: str, tasks: Sequence[str], specs: Sequence[str]) -> list[str]:
    """What is wrong with `--judge`, a sentence a mistake; empty where nothing is.

    Args:
        benchmark: its name, or `all`.
        tasks: those of the benchmark that may be meant; of `all`, none.
    """
    errors = ErrorCollector()
    judges = errors.collect(open_judges, specs) or ()
    meant = [(name, None) for name in BENCHMARKS] if benchmark == "all" else [(benchmark, task) for task in tasks]
    judged = {metric for name, task in meant for metric in judged_metrics(name, task)}
    if specs and not judged:
        errors.add(f"--judge: {' '.join([benchmark, *tasks])} has no judged metrics")
    for judge in judges if judged else ():
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
    """The judges of a plan and notes on them; None if its request names none, or nothing is judged."""
    from turnmark.assistant.settings import load_prices, parse_budget

    request, manifest = plan.request, plan.manifest
    if not request.judge:
        return None, ()
    metrics = judged_metrics(manifest.benchmark, manifest.task)
    if not metrics:
        note = f"--judge: {manifest.benchmark} has no judged metrics in {manifest.task}, and is scored without a judge"
        return None, (note,)
    judges = open_judges(request.judge)
    brought = own_rubrics(judges, metrics)
    taken = {rubric.name for rubric in brought}  # RAGAS's faithfulness replaces ours
    judging = Judging(
        judges,
        [*(rubric for rubric in _rubrics(plan) if rubric.name not in taken), *brought],
        tested=_tested(request, manifest),
        concurrency=CONCURRENCY if request.scoring else request.concurrency,
        prices=load_prices(),
        prompts=request.prompts,
        budget=parse_budget(request.budget) if request.budget else None,
        elsewhere=plan.elsewhere,
    )
    return judging, tuple(panel_notes(request.judge))


def _rubrics(plan: Plan) -> Sequence[Rubric]:
    task = find_task(plan.manifest.benchmark, plan.manifest.task)
    assert task is not None, "the plan is of a task"
    return task.rubrics(plan.manifest.setting, plan.request.embedder)


def described(plan: Plan) -> dict[str, Any]:
    """What `--dry-run` says of a plan, with the judges of its request."""
    description = plan.describe()
    manifest, request = plan.manifest, plan.request
    if not request.judge or not judged_metrics(manifest.benchmark, manifest.task):
        return description
    from turnmark.evaluation.runs.budget import usage_json
    from turnmark.evaluation.runs.request import selected

    judges = open_judges(request.judge)
    used = estimate_judging(
        plan.task, selected(plan.task.items(), plan.chosen), plan.items * request.repeat, judges, _rubrics(plan),
        searched=plan.task.searched, prompts=request.prompts,
    )  # fmt: skip
    specs = description["specs"] | {ROLE: ", ".join(judge.name for judge in judges)}
    return description | {"estimated": description["estimated"] | usage_json(used), "specs": specs}


def _tested(request: EvalRequest, manifest: RunManifest) -> list[str]:
    """The generators that wrote the samples: the run's own, or those of the runs whose samples are scored."""
    manifests = [manifest]
    if "generator" not in manifest.specs:
        for path in request.predictions:
            folder = path if path.is_dir() else path.parent
            if path.is_dir() or path.name == "predictions.jsonl":
                with suppress(OSError, ValidationError):
                    manifests.append(RunManifest.model_validate_json((folder / "manifest.json").read_bytes()))
    return [each.specs["generator"] for each in manifests if "generator" in each.specs]


# --- the estimate ----------------------------------------------------------------------------------------------------

MOST = 200
"""Items whose prompts are rendered for an estimate; of more, so many at even distances, and the sum is scaled."""
_ANSWER = "A sentence of an answer as long as most of them are. " * 8
_STEPS = ({"step": "A step of a procedure as long as most of them are.", "citations": []},) * 6
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
    """Calls and tokens of all judges over `total` items, with answers of common length that nobody has written yet.

    Where passages are searched for, a task without any is judged with some.
    """
    from turnmark.evaluation.runs.budget import estimate_items

    def usage(item: Item) -> dict[str, Usage]:
        sample = Sample(id=item.id, status="done", prediction=_ANSWER, procedure=_STEPS, decision="answer")
        case = benchmark.context(item, sample)
        if searched and not case.passages:
            case = replace(case, passages=_PASSAGES)
        asked = [
            estimate_judgement(rubric, case, prompts)
            for rubric in rubrics
            for judge in judges
            if judge.grades(rubric.name) and not rubric.without(case)
        ]
        return {ROLE: sum(asked, Usage())}

    return estimate_items(items, total, usage, MOST)
