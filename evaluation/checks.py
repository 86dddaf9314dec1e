"""What is wrong with a request whatever the data: its task, flags that the task has no use for, specs, budgets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from turnmark.assistant.forms import Reader, forms_for
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.flags import flag_of
from turnmark.evaluation.benchmarks.registry import (
    TASKS,
    benchmark_names,
    import_tasks,
    measures_judges,
    retrieves,
    task_names,
)
from turnmark.evaluation.request import EvalRequest

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator

CALL_FIELDS = frozenset({"generator", "prompts", "concurrency", "deadline", "max_failures", "budget"})
"""How a model is asked; a retrieval takes them if its query mode asks one."""
RETRIEVAL_FIELDS = frozenset({
    "typed", "benchmark", "predictions", "data", "task", "domains", "retriever", "embedder", "query", "queries",
    "suite", "limit", "sample", "only", "seed", "out", "dry_run", "full", "as_json", "answered_only", "command",
})  # fmt: skip


# --- what the task takes ---------------------------------------------------------------------------------------------


def fit_request(request: EvalRequest, command: Literal["eval", "score"], errors: ErrorCollector) -> EvalRequest:
    """A request with only what its task takes: the rest is a mistake where it was typed, and else left out."""
    _check_task(request.benchmark, request.task, command, errors)
    if request.suite is not None and request.benchmark != "all":
        errors.add(f"--suite is for `all`; {request.benchmark} alone is no suite")
    if retrieves(request.benchmark, request.task):
        return _fit_retrieval(request, errors)
    if request.protocol == "paper" and not request.benchmark.startswith(("mtrag", "kiwi")):
        others = "inscoqa has --setting prompt for it, compound-qa --setting vanilla"
        errors.add(f"--protocol is for the MTRAG family and kiwi; {others}")
    if request.judge and not request.scoring and measures_judges(request.benchmark, request.task):
        judge = request.judge[0]  # the one that is measured is who answers
        if len(request.judge) > 1 or ("generator" in request.typed and request.generator != judge):
            errors.add("--judge: this task measures one judge; name it once, with --judge or with --generator")
        return request.model_copy(update={"generator": "extractive" if judge == "embedded" else judge, "judge": ()})
    if request.judge:
        from turnmark.evaluation.judging.mounting import judge_problems

        tasks = [request.task] if request.task else task_names(request.benchmark)[:1]
        errors.problems += judge_problems(request.benchmark, tasks, request.judge)
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


def _fit_retrieval(request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
    from turnmark.assistant.steps.understand_llm import MINIMAL
    from turnmark.evaluation.benchmarks.mtrag_queries import known_mode

    used = RETRIEVAL_FIELDS | (CALL_FIELDS if request.query == MINIMAL else set())
    used -= {"embedder"} if request.scoring else set()
    unused = [name for name in EvalRequest.model_fields if name not in used]
    for name in unused:
        flag = flag_of(EvalRequest, name)
        if name in request.typed and (name not in CALL_FIELDS or request.scoring):
            errors.add(f"{flag} belongs to generation; leave it out")
        elif name in request.typed and (request.query is None or known_mode(request.query)):
            errors.add(f"{flag} is for the calls of a model: generation, or --query {MINIMAL}; leave it out")
    return request.reset(unused)


def _check_judging(request: EvalRequest, errors: ErrorCollector) -> None:
    """Check how the judges of `score` are to be asked."""
    from turnmark.evaluation.prompts import own_prompts

    errors.collect(own_prompts, request.prompts)
    check_judges_can_spend(request.budget, request.judge, errors)
    for name in ("prompts", "budget"):
        if name in request.typed and not request.judge:
            errors.add(f"--{name} is for judges, and none is named; name one with --judge, or leave it out")


# --- specs -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CheckedSpecs:
    """The generator, the hashes of its prompts, and specs in normal form."""

    generator: Generator | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    retriever: str = ""
    embedder: str = ""


def check_specs(request: EvalRequest, errors: ErrorCollector) -> CheckedSpecs:
    """Check the specs of a request and how its model is asked, whatever the benchmark."""
    from turnmark.assistant.generators import open_generator
    from turnmark.evaluation.budget import open_ledger
    from turnmark.evaluation.prompts import own_prompts
    from turnmark.retrieval.workers import check_engine

    errors.collect(check_engine, request.engine)
    if request.scoring:
        return CheckedSpecs()
    prompts = errors.collect(own_prompts, request.prompts) or {}
    generator = errors.collect(open_generator, request.generator)
    retriever, embedder = errors.collect(_retriever_specs, request.retriever, request.embedder) or ("", "")
    reader: Reader = "large" if request.asks_model else "none"
    errors.collect(forms_for, reader, request.steps)
    if request.budget is not None:
        only_judged = bool(request.judge) and not request.asks_model
        if only_judged or errors.collect(open_ledger, request.generator, request.budget) is not None:
            check_judges_can_spend(request.budget, request.judge, errors)
    if request.generator.startswith("reference") and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, and no reference answers")
    return CheckedSpecs(generator, prompts if generator is not None else {}, retriever, embedder)


def check_judges_can_spend(budget: str | None, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Check a budget that judges spend from."""
    from turnmark.assistant.settings import load_prices, parse_budget
    from turnmark.evaluation.budget import price_in
    from turnmark.evaluation.judging.judge import open_judges

    if budget is None:
        return
    limit, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # reported where the judges are checked
        for judge in open_judges(judges):
            if judge.has_model and limit is not None and prices is not None:
                errors.collect(price_in, limit, judge.name, prices)


def _retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Both specs in normal form; the embedder's is empty if none takes part."""
    from turnmark.retrieval.embed import EMBEDDERS
    from turnmark.retrieval.registry import RETRIEVERS, build_settings

    errors = ErrorCollector()
    settings = errors.collect(build_settings, retriever, embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.raise_all()
    assert settings is not None, "errors.raise_all() raised otherwise"
    return str(RETRIEVERS.check(retriever)), settings.embedder
