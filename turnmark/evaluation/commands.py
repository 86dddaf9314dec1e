"""The commands `turnmark eval` and `turnmark score`: check the request, carry it out, and show the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from turnmark.core.console import print_json, print_lines, print_result
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import RequestCommand, command_from
from turnmark.evaluation.runs.request_options import fit_request, option_names, options_elsewhere, request_type
from turnmark.evaluation.tasks.declarations import benchmarks
from turnmark.evaluation.tasks.registry import RETRIEVAL, benchmark_names
from turnmark.evaluation.tasks.request import EvalRequest

if TYPE_CHECKING:
    from turnmark.evaluation.records import Summary
    from turnmark.evaluation.runs.benchmark_run import FinishedRun
    from turnmark.evaluation.runs.suites import SuitePlan


def run_eval(request: EvalRequest, errors: ErrorCollector) -> None:
    """Run a benchmark: answer or search, score, and compare with the published figures."""
    request = fit_request(request, "eval", errors)
    if request.benchmark == "all":
        from turnmark.evaluation.runs.suites import plan_suite

        _run_suite(plan_suite(request, errors), request, {})
    else:
        _run_one(request, errors)


def _run_one(request: EvalRequest, errors: ErrorCollector) -> None:
    from turnmark.evaluation.runs.benchmark_run import run_plan
    from turnmark.evaluation.runs.estimates import describe_plan
    from turnmark.evaluation.runs.planning import plan_run
    from turnmark.evaluation.runs.ray_workers import use_workers

    plan = plan_run(request, errors)
    if request.dry_run:
        _show_plan(describe_plan(plan), request.as_json)
        return
    finished = run_plan(use_workers(plan))
    _show_summary(finished, request)
    if finished.gave_up:
        noun = "queries" if plan.task.retrieves else "samples"
        failed = finished.summary.failed
        raise TurnmarkError(f"{failed} {noun} failed; the same command retries them and what was skipped")
    _raise_without_verdicts({"": finished.summary})


def run_score(request: EvalRequest, errors: ErrorCollector) -> None:
    """Score the answers of another system or, with --task retrieval, its TREC runs."""
    from turnmark.evaluation.runs.suites import is_evaluation, plan_systems

    if not request.predictions:
        errors.add("--predictions is missing: name the files to score")
        errors.raise_all()
    request = fit_request(request, "score", errors)
    if is_evaluation(request.predictions):
        systems = plan_systems(request, errors)
        for note in systems.notes:
            typer.echo(note, err=True)
        _run_suite(systems, request, {"notes": list(systems.notes)})
    else:
        _run_one(request, errors)


def _run_suite(plan: SuitePlan, request: EvalRequest, more: Mapping[str, Any]) -> None:
    """Carry out the runs of a suite or of an evaluation file, and show them.

    Args:
        more: further fields for `--json`.
    """
    from turnmark.evaluation.runs.suites import as_json, run_suite

    if request.dry_run:
        described = plan.describe()
        if request.as_json:
            print_json(described)
        else:
            for name, run in described["benchmarks"].items():
                _show_plan(run | {"benchmark": name}, as_json=False)
        return
    entries, folder, failed = run_suite(plan)
    if request.as_json:
        print_json({"run": str(folder), **more, **as_json(entries)})
    else:
        _show_suite(folder, request)
    if failed:
        reasons = [f"{name}: {entry}" for name, entry in entries.items() if str(entry).startswith("failed: ")]
        raise TurnmarkError("; ".join(reasons) or "the runs are incomplete; the same command continues them")
    _raise_without_verdicts({name: entry for name, entry in entries.items() if not isinstance(entry, str)})


def _raise_without_verdicts(summaries: Mapping[str, Summary]) -> None:
    """Raise an error if every judgment of a run failed.

    Args:
        summaries: name of a run, empty for a single one -> its summary.
    """
    without: list[str] = []
    for name, summary in summaries.items():
        panels = summary.judging.values()
        failed = sum(sum(panel.failed.values()) for panel in panels)
        if failed and not any(any(panel.judged.values()) for panel in panels):
            without.append(f"{name}: {failed}" if name else str(failed))
    if without:
        raise TurnmarkError(f"every judgment failed ({', '.join(without)}); scoring the run again retries them")


def _show_summary(finished: FinishedRun, request: EvalRequest) -> None:
    from turnmark.evaluation.report.output_formats import show_run

    result = {**finished.summary.model_dump(mode="json"), "run": str(finished.folder)}
    show = partial(show_run, finished.summary, finished.folder, full=request.full)
    print_result(result, request.as_json, show)


def _show_suite(folder: Path, request: EvalRequest) -> None:
    from rich.console import Console

    from turnmark.evaluation.report.finished_runs import read_run
    from turnmark.evaluation.report.output_formats import show_report, show_run
    from turnmark.evaluation.report.overview import overview

    console = Console()
    stored = read_run(folder)
    for run in stored.runs:
        show_run(run.summary, run.path, console, request.full)
        console.print()
    if together := overview([stored]):
        show_report(together, console)


def _show_plan(described: Mapping[str, Any], as_json: bool) -> None:
    print_result(described, as_json, lambda console: print_lines(_plan_lines(described), console))


def _plan_lines(described: Mapping[str, Any]) -> Iterator[str]:
    if "skipped" in described:
        yield f"would skip {described['benchmark']}: {described['skipped']}"
        return
    domains = described["domains"]
    if isinstance(domains, dict):
        domains = [f"{name} {n}" for name, n in domains.items()]
    specs = ", ".join(f"{role} {spec}" for role, spec in described["specs"].items() if spec)
    action = "search for {n} queries of" if described["task"] == RETRIEVAL else "answer {n} samples of"
    if "predictions" in described["specs"]:
        action = "score {n} samples of"
    subject = " ".join(filter(None, (described["benchmark"], described.get("setting"))))
    in_domains = f" ({', '.join(domains)})" if domains else ""
    yield f"would {action.format(n=described['n'])} {subject}{in_domains}"
    yield f"with {specs}"
    for role, usage in described["estimated"].items():
        tokens = f"about {usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out"
        yield f"{role}: {usage['calls']:,} calls, {tokens}"
    yield f"into {described['run']}"
    yield from (f"- {note}" for note in described["notes"])


_ELSEWHERE = "turnmark.elsewhere"
"""Key under which the click context keeps the names of the options of other benchmarks."""


class BenchmarkCommand(RequestCommand):
    """The command `eval` or `score`, whose options depend on the benchmark named on its command line."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line by the parameters of its benchmark."""
        names = {*benchmark_names()}
        named = next((word for word in args if word in names or word.startswith("python:")), None)
        if named is not None:
            command: Any = _as_command(_make_command(self.name or "", named))
            self.params, self.callback = command.params, command.callback
        ctx.meta[_ELSEWHERE] = options_elsewhere(named)
        return super().parse_args(ctx, args)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help without the options of other benchmarks, which `--help-all` would otherwise show."""
        parameters = self.params
        self.params = [parameter for parameter in parameters if parameter.name not in ctx.meta[_ELSEWHERE]]
        super().format_help(ctx, formatter)
        self.params = parameters


def _make_command(name: str, benchmark: str | None = None) -> Callable[..., None]:
    """Return the function of a command, with the options of a benchmark."""
    kind = request_type(benchmark)
    if name == "eval":
        return command_from(kind, run_eval, option_names("eval", kind))
    return command_from(kind, run_score, option_names("score", kind))


def _as_command(function: Callable[..., None]) -> Any:
    app = typer.Typer(add_completion=False)
    app.command(cls=RequestCommand)(function)
    return typer.main.get_command(app)


def _examples(command: str, *first: str) -> str:
    """Return the last line of the help: examples that the benchmarks declare."""
    examples = [example for benchmark in benchmarks().values() for example in benchmark.examples]
    shown = [*first, *(example for example in examples if example.startswith(f"{command} "))]
    return "Examples: " + "   ·   ".join(f"turnmark {example}" for example in shown)


def add_eval_commands(app: typer.Typer) -> None:
    """Mount `eval` and `score`."""
    for name, first in (("eval", ("eval all",)), ("score", ())):
        app.command(name, cls=BenchmarkCommand, epilog=_examples(name, *first))(_make_command(name))
