"""Judges put to a plan of `eval` or `score`: the same plan, its benchmark judged as well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.assistant.types import Usage
from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.benchmarks.registry import find_task
from turnmark.evaluation.judging.calls import AT_ONCE, counted
from turnmark.evaluation.judging.judge import Judge, can_grade, open_judges, own_rubrics, panel_notes
from turnmark.evaluation.judging.judged import ROLE, JudgedBenchmark, Judging
from turnmark.evaluation.judging.judgements import Case
from turnmark.evaluation.judging.rubrics import JudgedTask, Rubric
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.request import EvalRequest

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.planning import Plan
    from turnmark.retrieval.types import Retriever

MODULES: Mapping[str, str] = {
    "mtrag": "mtrag",
    "mtrag-un": "mtrag",
    "mtrag-s": "mtrag",
    "inscoqa": "inscoqa",
    "compound-qa": "compound_qa",
    "kiwi": "kiwi",
}
"""Benchmark -> the module of this package that says what its replies are judged by."""


def judged_metrics(benchmark: str, task: str) -> tuple[str, ...]:
    """The judged metrics of a task, nothing heavy being loaded; empty where it has none."""
    if benchmark not in MODULES:
        own = judged_task(benchmark, task, None, "minilm")
        return tuple(rubric.name for rubric in own.rubrics) if own else ()
    names: tuple[str, ...] = _module(benchmark).judged_metrics(benchmark, task)
    return names


def judged_task(benchmark: str, task: str, setting: str | None, embedder: str) -> JudgedTask | None:
    """What judges are asked of a task; None where it has nothing to judge.

    Args:
        embedder: spec of the run's embedder, for measures that compare texts.
    """
    if benchmark not in MODULES:
        own = find_task(benchmark, task)
        return own.rubrics(setting, embedder) if own is not None and own.rubrics is not None else None
    task_rubrics: JudgedTask | None = _module(benchmark).judged_task(benchmark, task, setting, embedder)
    return task_rubrics


def _module(benchmark: str) -> Any:
    return import_module(f"turnmark.evaluation.judging.{MODULES[benchmark]}")


def judge_problems(benchmark: str, tasks: Sequence[str], specs: Sequence[str]) -> list[str]:
    """What is wrong with `--judge`, a sentence a mistake; empty where nothing is.

    Args:
        benchmark: its name, or `all`.
        tasks: those of the benchmark that may be meant; of `all`, none.
    """
    errors = ErrorCollector()
    judges = errors.collect(open_judges, specs) or ()
    benchmarks = MODULES if benchmark == "all" else [benchmark]
    tasks_of = {name: _TASKS.get(name, ("generation",)) if benchmark == "all" else tasks for name in benchmarks}
    judged = {
        name
        for benchmark_name, names in tasks_of.items()
        for task in names
        for name in judged_metrics(benchmark_name, task)
    }
    if specs and not judged:
        errors.add(f"--judge: {' '.join([benchmark, *tasks])} has no judged metrics")
    for judge in judges if judged else ():
        offered = {name for name in judged if can_grade(name, judge.name)}
        if not offered:
            errors.add(f"--judge {judge.name}: {benchmark} has no metrics that it measures; leave it out")
            continue
        strange = sorted((judge.metrics or frozenset()) - offered)
        if strange or judge.metrics == frozenset():
            errors.add(
                f"--judge {judge.name}: metrics={','.join(strange)}: the judged metrics of {benchmark} are "
                f"{', '.join(sorted(offered))}"
            )
    return errors.problems


_TASKS: Mapping[str, tuple[str, ...]] = {"kiwi": ("revise",)}


def judged(plan: Plan) -> Plan:
    """The plan with the judges of its request, or as it is where it names none, or its benchmark has nothing to judge.

    Raises:
        RequestError: something is wrong with the judges.
    """
    request, manifest = plan.request, plan.manifest
    if not request.judge:
        return plan
    if not judged_metrics(manifest.benchmark, manifest.task):
        note = f"--judge: {manifest.benchmark} has no judged metrics in {manifest.task}, and is scored without a judge"
        return replace(plan, notes=(*plan.notes, note))
    judges = open_judges(request.judge)
    missing: tuple[str, ...] = tuple(panel_notes(request.judge))
    prepared = plan.prepared
    build = prepared.build

    def built(parts: Parts, retrievers: Mapping[str, Retriever]) -> Benchmark[Any]:
        task = judged_task(manifest.benchmark, manifest.task, manifest.setting, request.embedder)
        assert task is not None, "it has judged metrics"
        return JudgedBenchmark(build(parts, retrievers), _judging(task, judges, request, manifest, plan.elsewhere))

    return replace(plan, prepared=replace(prepared, build=built), notes=(*plan.notes, *missing))


def described(plan: Plan) -> dict[str, Any]:
    """What `--dry-run` says of a plan, with the judges of its request."""
    description = plan.describe()
    manifest, request = plan.manifest, plan.request
    if not request.judge or not judged_metrics(manifest.benchmark, manifest.task):
        return description
    task = judged_task(manifest.benchmark, manifest.task, manifest.setting, request.embedder)
    assert task is not None, "it has judged metrics"
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.evaluation.request import selected

    judges = open_judges(request.judge)
    benchmark = plan.prepared.build(Parts(), {})
    used = estimate_judging(
        benchmark, selected(benchmark.items(), plan.chosen), plan.items, judges, task.rubrics, task.case,
        searched=plan.prepared.searched, prompts=request.prompts,
    )  # fmt: skip
    used = {key: value * request.repeat for key, value in used.items()}
    specs = description["specs"] | {ROLE: ", ".join(judge.name for judge in judges)}
    return description | {"estimated": description["estimated"] | {ROLE: used}, "specs": specs}


def _judging(
    task: JudgedTask, judges: Sequence[Judge], request: EvalRequest, manifest: RunManifest, elsewhere: Usage | None
) -> Judging:
    from turnmark.assistant.settings import load_prices, parse_budget

    brought_rubrics = own_rubrics(judges, judged_metrics(manifest.benchmark, manifest.task))
    return Judging(
        judges,
        [*task.rubrics, *brought_rubrics],
        task.case,
        tested=_tested(request, manifest),
        at_once=AT_ONCE if request.scoring else request.concurrency,
        prices=load_prices(),
        prompts=request.prompts,
        budget=parse_budget(request.budget) if request.budget else None,
        elsewhere=elsewhere,
    )


def _tested(request: EvalRequest, manifest: RunManifest) -> list[str]:
    """The generators that wrote the samples: the run's own, or those of the runs whose samples are scored."""
    if "generator" in manifest.specs:
        return [manifest.specs["generator"]]
    generators = []
    for path in request.predictions:
        folder = path if path.is_dir() else Path(path).parent
        if path.is_dir() or path.name == "predictions.jsonl":
            with suppress(OSError, ValidationError):
                source = RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
                generators += [source.specs["generator"]] if "generator" in source.specs else []
    return generators


# --- the estimate ----------------------------------------------------------------------------------------------------

MOST = 200
"""Items whose prompts are rendered for an estimate; of more, so many at even distances, and the sum is scaled."""
_ANSWER = "A sentence of an answer as long as most of them are. " * 8
_STEPS = ({"step": "A step of a procedure as long as most of them are.", "citations": []},) * 6
_PASSAGES = ("A sentence of a passage that a retriever found. " * 25,) * 5


def estimate_judging(
    benchmark: Benchmark[Any],
    items: Iterable[Item],
    total: int,
    judges: Sequence[Judge],
    rubrics: Sequence[Rubric],
    case: Callable[[Item, Sample, Any], Case],
    searched: bool,
    prompts: Path | None = None,
) -> dict[str, int]:
    """Calls and tokens of all judges, over answers of common length that nobody has written yet.

    Args:
        total: how many items there are.
        searched: passages are found, so that a task without any of its own is judged with some.
        prompts: folder with prompts of one's own.
    """
    step = max(1, -(-total // MOST))
    used, sampled = Usage(), 0
    for number, item in enumerate(items):
        if number % step:
            continue
        sampled += 1
        sample = Sample(id=item.id, status="done", prediction=_ANSWER, procedure=_STEPS, decision="answer")
        case_shown = case(item, sample, benchmark.context(item, sample))
        if searched and not case_shown.passages:
            case_shown = replace(case_shown, passages=_PASSAGES)
        for rubric in rubrics:
            times = sum(judge.grades(rubric.name) for judge in judges)
            if times and not rubric.without(case_shown):
                once = counted(rubric, case_shown, prompts)
                for _ in range(times):
                    used += once
    scale = total / sampled if sampled else 0.0
    return {
        "calls": round(used.calls * scale),
        "prompt_tokens": round(used.prompt_tokens * scale),
        "completion_tokens": round(used.completion_tokens * scale),
    }
