"""The commands `turnmark eval` and `turnmark score`: check the request, carry it out, and show the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import typer

from turnmark.core.console import print_json
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import command_from
from turnmark.evaluation.tasks.registry import (
    RETRIEVAL,
    all_task_names,
    benchmark_names,
    find_task,
    import_tasks,
    measures_judges,
    retrieves,
    task_names,
)
from turnmark.evaluation.tasks.request import EvalRequest

if TYPE_CHECKING:
    from turnmark.evaluation.records import Summary
    from turnmark.evaluation.runs.suites import SuitePlan

P = TypeVar("P")

EVAL_OPTIONS = frozenset(EvalRequest.model_fields) - {"predictions"}
SCORE_OPTIONS = frozenset({
    "benchmark", "predictions", "data", "task", "setting", "domains", "references", "embedder", "judge", "prompts",
    "budget", "seed", "out", "as_json",
})  # fmt: skip


def planned(make: Callable[[EvalRequest], P], request: EvalRequest, errors: ErrorCollector) -> P:
    """Plan a request.

    Raises:
        RequestError: all mistakes, including those already in `errors`.
    """
    made_plan = errors.collect(make, request)
    errors.raise_all()
    assert made_plan is not None, "errors.raise_all() raised otherwise"
    return made_plan


def fit_request(request: EvalRequest, command: Literal["eval", "score"], errors: ErrorCollector) -> EvalRequest:
    """Reset the options that the task does not use; an unused option on the command line is a mistake."""
    _check_task(request.benchmark, request.task, command, errors)
    if request.suite is not None and request.benchmark != "all":
        errors.add(f"--suite is for `all`; {request.benchmark} alone is no suite")
    if retrieves(request.benchmark, request.task):
        task = find_task(request.benchmark, request.task)
        return task.fit(request, errors) if task else request
    if request.live:
        request = _fit_live(request, errors)
    if request.protocol == "paper" and not request.benchmark.startswith(("mtrag", "kiwi")):
        others = "inscoqa has --setting prompt for it, compound-qa --setting vanilla"
        errors.add(f"--protocol is for the MTRAG family and kiwi; {others}")
    if request.judge and not request.scoring and measures_judges(request.benchmark, request.task):
        judge = request.judge[0]  # the judge is the system under test, so it takes the place of the generator
        if len(request.judge) > 1 or ("generator" in request.typed and request.generator != judge):
            errors.add("--judge: this task measures one judge; name it once, with --judge or with --generator")
        return request.model_copy(update={"generator": "extractive" if judge == "embedded" else judge, "judge": ()})
    if request.judge:
        from turnmark.evaluation.runs.judges import judge_problems

        tasks = [request.task] if request.task else task_names(request.benchmark)[:1]
        errors.problems += judge_problems(request.benchmark, tasks, request.judge)
    if request.scoring:
        _check_judging(request, errors)
    return request


def _fit_live(request: EvalRequest, errors: ErrorCollector) -> EvalRequest:
    if not request.benchmark.startswith("mtrag"):
        errors.add(f"--live: {request.benchmark} has no use for it; it is for the MTRAG family")
        return request
    if request.setting not in (None, "rag", "live"):
        errors.add(f"--live is a setting of its own, and --setting {request.setting} is given; leave one of them out")
    return request.model_copy(update={"setting": "live"})


def _check_task(benchmark: str, task: str | None, command: str, errors: ErrorCollector) -> None:
    known = errors.collect(import_tasks, benchmark)
    known_tasks = task_names(benchmark)
    if known == () and benchmark != "all":
        errors.add(f"no benchmark is called {benchmark!r}; there are: {', '.join(benchmark_names())}")
    if benchmark == "all" and command == "score":
        errors.add("score: name one benchmark; `all` is for eval")
    elif benchmark == "all" and task is not None:
        errors.add("--task: `all` runs the default task of each benchmark; leave it out")
    elif task is not None and task not in (choosable := known_tasks or all_task_names()):
        choices = f"{benchmark} has no task {task!r}; it has" if known_tasks else f"no task {task!r}; there are"
        errors.add(f"--task: {choices}: {', '.join(choosable)}")


def _check_judging(request: EvalRequest, errors: ErrorCollector) -> None:
    """Check the prompts and the budget of the judges of `score`."""
    from turnmark.evaluation.prompts import own_prompts
    from turnmark.evaluation.runs.plan import check_judges_can_spend

    errors.collect(own_prompts, request.prompts)
    check_judges_can_spend(request.budget, request.judge, errors)
    for name in ("prompts", "budget"):
        if name in request.typed and not request.judge:
            errors.add(f"--{name} is for judges, and none is named; name one with --judge, or leave it out")


def run_eval(request: EvalRequest, errors: ErrorCollector) -> None:
    """Run a benchmark: answer or search, score, and compare with the published figures."""
    request = fit_request(request, "eval", errors)
    if request.benchmark == "all":
        _run_all(request, errors)
    elif task_names(request.benchmark):
        _run_one(request, errors)
    else:  # for an unknown benchmark, only the specs can be checked
        from turnmark.evaluation.runs.plan import check_specs

        check_specs(request, errors)
        errors.raise_all()


def _run_one(request: EvalRequest, errors: ErrorCollector) -> None:
    from turnmark.evaluation.runs import execution
    from turnmark.evaluation.runs.judges import described
    from turnmark.evaluation.runs.plan import plan_run
    from turnmark.evaluation.runs.ray_workers import use_workers

    made_plan = planned(plan_run, request, errors)
    if request.dry_run:
        _show_plan(described(made_plan), request.as_json)
        return
    summary, folder, gave_up = execution.run_plan(use_workers(made_plan))
    _show_summary(summary, folder, request)
    if gave_up:
        noun = "queries" if made_plan.task.retrieves else "samples"
        raise TurnmarkError(f"{summary.failed} {noun} failed; the same command tries them again, and what was skipped")


def _run_all(request: EvalRequest, errors: ErrorCollector) -> None:
    from turnmark.evaluation.runs import suites

    plan = planned(suites.plan_suite, request, errors)
    if request.dry_run:
        described = plan.describe()
        if request.as_json:
            print_json(described)
        else:
            for name, run in described["benchmarks"].items():
                _show_plan(run | {"benchmark": name}, as_json=False)
        return
    _run_suite(plan, request, {})


def run_score(request: EvalRequest, errors: ErrorCollector) -> None:
    """Score the answers of another system or, with --task retrieval, its TREC runs."""
    from turnmark.evaluation.runs import execution, suites
    from turnmark.evaluation.runs.plan import plan_run

    if not request.predictions:
        errors.add("--predictions: name the files that are to be scored")
        errors.raise_all()

    request = fit_request(request, "score", errors)
    if not task_names(request.benchmark):  # without a benchmark, the files cannot be checked
        errors.raise_all()
    if suites.is_evaluation(request.predictions):
        systems = planned(suites.plan_systems, request, errors)
        for note in systems.notes:
            typer.echo(note, err=True)
        _run_suite(systems, request, {"notes": list(systems.notes)})
        return
    summary, folder, _ = execution.run_plan(planned(plan_run, request, errors))
    _show_summary(summary, folder, request)


def _run_suite(plan: SuitePlan, request: EvalRequest, more: Mapping[str, Any]) -> None:
    """Carry out the runs of a suite or of an evaluation file, and show them.

    Args:
        more: further fields for `--json`.
    """
    from turnmark.evaluation.runs import suites

    entries, folder, failed = suites.run_suite(plan)
    if request.as_json:
        print_json({"run": str(folder), **more, **suites.as_json(entries)})
    else:
        _show_suite(folder, request)
    if failed:
        reasons = [f"{name}: {entry}" for name, entry in entries.items() if str(entry).startswith("failed: ")]
        raise TurnmarkError("; ".join(reasons) or "not all of it was done; the same command goes on")


def _show_summary(summary: Summary, run: Path, request: EvalRequest) -> None:
    if request.as_json:
        print_json({**summary.model_dump(mode="json"), "run": str(run)})
        return
    from rich.console import Console

    from turnmark.evaluation.report.rendering import show_run

    show_run(summary, run, Console(), request.full)


def _show_suite(folder: Path, request: EvalRequest) -> None:
    from rich.console import Console

    from turnmark.evaluation.report.overview import overview
    from turnmark.evaluation.report.rendering import show_report, show_run
    from turnmark.evaluation.report.stored import read_run

    console = Console()
    stored = read_run(folder)
    for run in stored.runs:
        show_run(run.summary, run.path, console, request.full)
        console.print()
    if together := overview([stored]):
        show_report(together, console)


def _show_plan(described: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(described)
        return
    from rich.console import Console

    from turnmark.core.untrusted import rich_line

    console = Console()
    if "skipped" in described:
        console.print(rich_line(f"would leave out {described['benchmark']}: {described['skipped']}"), soft_wrap=True)
        return
    domains = described["domains"]
    if isinstance(domains, dict):
        domains = [f"{name} {n}" for name, n in domains.items()]
    specs = ", ".join(f"{role} {spec}" for role, spec in described["specs"].items() if spec)
    action = "search for {n} queries of" if described["task"] == RETRIEVAL else "answer {n} samples of"
    subject = " ".join(filter(None, (described["benchmark"], described.get("setting"))))
    in_domains = f" ({', '.join(domains)})" if domains else ""
    lines = [f"would {action.format(n=described['n'])} {subject}{in_domains}", f"with {specs}"]
    for role, usage in described["estimated"].items():
        tokens = f"about {usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out"
        lines.append(f"{role}: {usage['calls']:,} calls, {tokens}")
    lines.append(f"into {described['run']}")
    lines += [f"- {note}" for note in described["notes"]]
    for line in lines:
        console.print(rich_line(line), soft_wrap=True)


def add_eval_commands(app: typer.Typer) -> None:
    """Mount `eval` and `score`."""
    app.command(
        "eval",
        epilog="Examples: turnmark eval all   ·   turnmark eval mtrag --setting rag --data mt-rag-benchmark --limit 20 "
        "--dry-run   ·   turnmark eval mtrag --task retrieval --retriever bm25 --query last-turn",
    )(command_from(EvalRequest, run_eval, EVAL_OPTIONS))
    app.command(
        "score",
        epilog="Examples: turnmark score mtrag-un --data mt-rag-benchmark --predictions answers.jsonl   ·   "
        "turnmark score mtrag --task retrieval --data mt-rag-benchmark --predictions elser_clapnq_rewrite.trec",
    )(command_from(EvalRequest, run_score, SCORE_OPTIONS))
