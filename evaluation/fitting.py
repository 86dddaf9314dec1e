"""A request with only what its task takes: the rest is a mistake if it was typed, and left out if configured."""

from __future__ import annotations

from typing import Literal

from turnmark.corpora.errors import ErrorCollector
from turnmark.corpora.flags import flag_of
from turnmark.evaluation.benchmarks.registry import (
    TASKS,
    benchmark_names,
    import_tasks,
    measures_judges,
    retrieves,
    task_names,
)
from turnmark.evaluation.checks import check_judges_can_spend
from turnmark.evaluation.request import EvalRequest

CALL_FIELDS = frozenset({"generator", "prompts", "concurrency", "deadline", "max_failures", "budget"})
"""How a model is asked; a retrieval takes them if its query mode asks one."""
RETRIEVAL_FIELDS = frozenset({
    "typed", "benchmark", "predictions", "data", "task", "domains", "retriever", "embedder", "query", "queries",
    "suite", "limit", "sample", "only", "seed", "out", "dry_run", "full", "as_json", "answered_only", "command",
})  # fmt: skip


def fit_request(request: EvalRequest, command: Literal["eval", "score"], errors: ErrorCollector) -> EvalRequest:
    """A request with only what its task takes: the rest is a mistake where it was typed, and else left out."""
    _check_task(request.benchmark, request.task, command, errors)
    if request.suite is not None and request.benchmark != "all":
        errors.add(f"--suite is for `all`; {request.benchmark} alone is no suite")
    if retrieves(request.benchmark, request.task):
        return _fit_retrieval(request, errors)
    _check_protocol(request, errors)
    if request.judge and not request.scoring and measures_judges(request.benchmark, request.task):
        return _fit_judge_test(request, errors)
    if request.judge:
        from turnmark.evaluation.judging.mounting import judge_problems

        tasks = [request.task] if request.task else task_names(request.benchmark)[:1]
        for problem in judge_problems(request.benchmark, tasks, request.judge):
            errors.add(problem)
    if request.scoring:
        _check_judging(request, errors)
    return request


def _check_task(benchmark: str, task: str | None, command: str, errors: ErrorCollector) -> None:
    known = errors.collect(import_tasks, benchmark)
    known_tasks = task_names(benchmark)
    if known == () and benchmark != "all":
        errors.add(f"no benchmark is called {benchmark!r}; there are: {', '.join(benchmark_names())}")
    if benchmark == "all" and command == "score":
        errors.add("score: name one benchmark; `all` is for eval")
    elif benchmark == "all" and task is not None:
        errors.add("--task: `all` runs the default task of each benchmark; leave it out")
    elif task is not None and task not in (known_tasks or TASKS):
        choices = f"{benchmark} has no task {task!r}; it has" if known_tasks else f"no task {task!r}; there are"
        errors.add(f"--task: {choices}: {', '.join(known_tasks or TASKS)}")


def _check_protocol(request: EvalRequest, errors: ErrorCollector) -> None:
    benchmark = request.benchmark
    if request.protocol == "turn" or benchmark.startswith("mtrag") or benchmark == "kiwi":
        return
    setting = {"inscoqa": "prompt", "compound-qa": "vanilla"}.get(benchmark)
    instead = f"; the paper's way to ask is --setting {setting} of {benchmark}" if setting else ""
    errors.add(f"--protocol is for the MTRAG family and kiwi{instead}")


def _fit_retrieval(request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
    from turnmark.assistant.steps.understand_llm import MINIMAL
    from turnmark.evaluation.benchmarks.mtrag_queries import known_mode

    asks = request.query == MINIMAL
    used = RETRIEVAL_FIELDS | (CALL_FIELDS if asks else set()) - ({"embedder"} if request.scoring else set())
    unused = [name for name in EvalRequest.model_fields if name not in used]
    for name in unused:
        flag = flag_of(EvalRequest, name)
        if name not in request.typed:
            continue
        if name not in CALL_FIELDS or request.scoring:
            errors.add(f"{flag} belongs to generation; leave it out")
        elif request.query is None or known_mode(request.query):  # an unknown mode might ask a model
            errors.add(f"{flag} is for the calls of a model: generation, or --query {MINIMAL}; leave it out")
    return request.reset(unused)


def _fit_judge_test(request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
    """A task that measures judges takes the one of `--judge` as its generator."""
    judge = request.judge[0]
    if len(request.judge) > 1:
        errors.add("--judge: this task measures one judge at a time; `turnmark compare` sets runs side by side")
    if "generator" in request.typed and request.generator != judge:
        errors.add("--generator and --judge name the same thing in this task, the judge that is measured; give one")
    return request.model_copy(update={"generator": "extractive" if judge == "embedded" else judge, "judge": ()})


def _check_judging(request: EvalRequest, errors: ErrorCollector) -> None:
    """Check how the judges of `score` are to be asked."""
    from turnmark.evaluation.prompts import own_prompts

    if request.prompts is not None:
        errors.collect(own_prompts, request.prompts)
    check_judges_can_spend(request.budget, request.judge, errors)
    for name in ("prompts", "budget"):
        if name in request.typed and not request.judge:
            errors.add(f"--{name} is for judges, and none is named; name one with --judge, or leave it out")
