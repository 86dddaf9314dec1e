"""What `eval` and `score` share: the names that the contract gives, their options, and how a summary is printed."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from inspect import Parameter, Signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.benchmarks.registry import TASKS, benchmark_names, import_tasks, task_names

if TYPE_CHECKING:
    from turnmark.evaluation.records import Summary

R = TypeVar("R")
P = TypeVar("P")
F = TypeVar("F")

BenchmarkName = Annotated[
    str,
    typer.Argument(
        metavar="BENCHMARK",
        help="mtrag, mtrag-un, mtrag-s, inscoqa, compound-qa, kiwi, all; python:pkg.mod:factory for your own.",
    ),
]
Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="SPEC",
        help="Judges the answers; repeatable.",
        show_default=False,
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="The benchmark's folder; default: the demo.", show_default=False),
]
TaskName = Annotated[
    str | None,
    typer.Option(metavar="TASK", help="Such as retrieval, generation, judge.", show_default=False),
]
Setting = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Such as rag; the docs list them.", show_default=False),
]
References = Annotated[
    Path | None,
    typer.Option(
        metavar="RUN",
        help="compound-qa: a run in the setting dialogue, with whose answers a judge compares those to each part.",
        show_default=False,
        hidden=True,
    ),
]
Domains = Annotated[
    str | None,
    typer.Option(metavar="A,B", help="Domains, or capabilities; default: all.", show_default=False),
]
Types = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="compound-qa: question types; default: all five.", show_default=False, hidden=True
    ),
]
Budget = Annotated[
    str | None, typer.Option(metavar="N", help="At most: tokens (200k) or money ($5).", show_default=False)
]
Seed = Annotated[int, typer.Option(metavar="S", help="Of the intervals, and of --sample.", hidden=True)]
Out = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="Run folder; the same command resumes it.", show_default=False),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


def _help_all(context: typer.Context, asked: bool) -> None:
    if asked and not context.resilient_parsing:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


def from_flags(kind: type[F], run: Callable[[F], None]) -> Callable[..., None]:
    """A command whose options are the fields of a dataclass, and which hands them on as one.

    The options that are hidden are the rare ones; `--help-all` shows them too.
    """

    def command(help_all: bool = False, **values: Any) -> None:  # noqa: ARG001
        run(kind(**values))

    hints = get_type_hints(kind, include_extras=True)
    parameters = [
        Parameter(
            field.name, Parameter.KEYWORD_ONLY, annotation=hints[field.name],
            default=Parameter.empty if field.default is MISSING else field.default,
        )
        for field in fields(kind)  # type: ignore[arg-type]
    ]  # fmt: skip
    if any(getattr(extra, "hidden", False) for hint in hints.values() for extra in getattr(hint, "__metadata__", ())):
        option = typer.Option("--help-all", callback=_help_all, is_eager=True, help="The rare options too.")
        hints["help_all"] = Annotated[bool, option]
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, annotation=hints["help_all"], default=False))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__, command.__doc__ = hints, run.__doc__
    return command


def refusals(benchmark: str, task: str | None, command: str) -> list[str]:
    """Why a request names nothing that there is."""
    errors = ErrorCollector()
    errors.collect(import_tasks, benchmark)
    own_tasks = task_names(benchmark)
    task_choices = own_tasks or TASKS
    if not own_tasks and benchmark != "all" and not errors.problems:
        errors.add(f"no benchmark is called {benchmark!r}; there are: {', '.join(benchmark_names())}")
    elif benchmark == "all" and command == "score":
        errors.add("score: name one benchmark; `all` is for eval")
    if task is not None and benchmark == "all":
        errors.add("--task: `all` runs the default task of each benchmark; leave it out")
    elif task is not None and task not in task_choices:
        choices = f"{benchmark} has no task {task!r}; it has" if own_tasks else f"no task {task!r}; there are"
        errors.add(f"--task: {choices}: {', '.join(task_choices)}")
    return errors.problems


def names_of(text: str | None, problems: list[str], flag: str = "--domains") -> tuple[str, ...]:
    """The names in `--domains` or another flag; that there is none is taken down."""
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        problems.append(f"{flag} is empty; name {flag.removeprefix('--')}, separated by commas")
    return names


def judges_of(benchmark: str, task: str | None, specs: Sequence[str] | None, problems: list[str]) -> tuple[str, ...]:
    """The specs of `--judge`; what is wrong with them is taken down."""
    if not specs:
        return ()
    from turnmark.evaluation.benchmarks.registry import task_names
    from turnmark.evaluation.judging.mounting import judge_problems

    problems += judge_problems(benchmark, [task] if task else task_names(benchmark)[:1], specs)
    return tuple(specs)


def protocol_problems(benchmark: str, protocol: str) -> list[str]:
    """What is wrong with asking a benchmark by this protocol."""
    if protocol not in ("turn", "paper"):
        return [f"--protocol {protocol!r}: turn or paper was expected"]
    if protocol == "turn" or benchmark.startswith("mtrag") or benchmark == "kiwi":
        return []
    setting = {"inscoqa": "prompt", "compound-qa": "vanilla"}.get(benchmark)
    instead = f"; the paper's way to ask is --setting {setting} of {benchmark}" if setting else ""
    return [f"--protocol is for the MTRAG family and kiwi{instead}"]


def show_summary(summary: Summary, run: Path, as_json: bool, full: bool = False) -> None:
    """Print a summary, as the screen or as one JSON object.

    Args:
        full: of the screen: with the breakdowns, and with every table of the paper.
    """
    if as_json:
        print_json({**summary.model_dump(mode="json"), "run": str(run)})
        return
    from rich.console import Console

    from turnmark.evaluation.report.rendering import show

    show(summary, run, Console(), full)


def command_line() -> str:
    """What was typed, for the manifest."""
    return shlex.join(["turnmark", *sys.argv[1:]])


def planned(make: Callable[[R], P | None], request: R, problems: Sequence[str]) -> P:
    """The plan of a request.

    Args:
        make: checks the request and plans it; None where it only checks, beside `problems` that say why.
        problems: what the flags alone showed to be wrong.

    Raises:
        RequestError: these, and whatever else is wrong with it, at once.
    """
    errors = ErrorCollector()
    for problem in problems:
        errors.add(problem)
    plan = errors.collect(make, request)
    errors.raise_all()
    assert plan is not None, "errors.raise_all() raised otherwise"
    return plan
