"""`turnmark eval`: flags in, a run folder and one table (or one JSON object) out. `score` is beside it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import turnmark.evaluation.score_command
from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector, TurnmarkError
from turnmark.evaluation.benchmarks.registry import RETRIEVAL, measures_judges, retrieves, task_names
from turnmark.evaluation.options import (
    AsJson,
    BenchmarkName,
    Budget,
    Data,
    Domains,
    Judges,
    Out,
    References,
    Seed,
    Setting,
    TaskName,
    Types,
    command_line,
    from_flags,
    judges_of,
    names_of,
    planned,
    protocol_problems,
    refusals,
    show_summary,
)

if TYPE_CHECKING:
    from turnmark.evaluation.request import EvalRequest


def _ids(words: list[str] | None, problems: list[str]) -> tuple[str, ...]:
    """The ids of `--only`; `@FILE` stands for the lines of a file."""
    ids: list[str] = []
    for name in words or ():
        if not name.startswith("@"):
            ids.append(name)
            continue
        try:
            lines = Path(name[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"--only {name!r} cannot be read: {error}")
        else:
            listed = [line.strip() for line in lines if line.strip()]
            if not listed:
                problems.append(f"--only {name!r}: there is no id in it")
            ids += listed
    return tuple(dict.fromkeys(ids))


@dataclass(frozen=True)
class EvalFlags:
    """The flags of `eval`, as they are typed."""

    benchmark: BenchmarkName
    data: Data = None
    task: TaskName = None
    setting: Setting = None
    domains: Domains = None
    generator: Annotated[
        str,
        typer.Option(metavar="SPEC", envvar="TURNMARK_GENERATOR", show_envvar=False, help="Answers and rewrites."),
    ] = "extractive"
    retriever: Annotated[
        str | None,
        typer.Option(metavar="SPEC", help="Such as bm25; default: conversational."),
    ] = None
    embedder: Annotated[
        str, typer.Option(metavar="SPEC", help="Makes the vectors of dense and hybrid.", hidden=True)
    ] = "minilm"
    query: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="Such as last-turn; default: assistant.",
            show_default=False,
        ),
    ] = None
    queries: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help='Your own queries, {"_id", "text"[, "variants"]} a line.',
            show_default=False,
            hidden=True,
        ),
    ] = None
    passages: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN|FILE",
            help="Answer from recorded passages.",
            show_default=False,
        ),
    ] = None
    counterfactual: Annotated[
        bool,
        typer.Option("--counterfactual", help="Each answerable task again, its passages hidden (rag).", hidden=True),
    ] = False
    references: References = None
    types: Types = None
    protocol: Annotated[
        str,
        typer.Option(
            metavar="turn|paper",
            help="mtrag*, kiwi: the assistant's turn, or the paper's own prompts (need a model).",
            hidden=True,
        ),
    ] = "turn"
    chain: Annotated[
        bool,
        typer.Option("--chain", help="kiwi: go on from our own revisions, not from the recorded ones.", hidden=True),
    ] = False
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="smoke|full",
            help="all: a few samples of each, or every task and setting.",
            show_default=False,
            hidden=True,
        ),
    ] = None
    prompts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Your own prompts, NAME.txt.", show_default=False)
    ] = None
    step: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FORM", help="A step in another form.", show_default=False, hidden=True),
    ] = None
    limit: Annotated[int | None, typer.Option(metavar="N", help="Only the first N.", show_default=False)] = None
    sample: Annotated[int | None, typer.Option(metavar="N", help="N at random, by --seed.", show_default=False)] = None
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ID", help="Only this one, or those of @FILE; repeatable.", show_default=False),
    ] = None
    judge: Judges = None
    seed: Seed = 0
    repeat: Annotated[int, typer.Option(metavar="N", help="Answer each N times.")] = 1
    concurrency: Annotated[int, typer.Option(metavar="N", help="Samples at once.")] = 16
    deadline: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="For one sample, all its calls together.",
            show_default="300; for rewrites 20",
            hidden=True,
        ),
    ] = None
    max_failures: Annotated[
        str | None,
        typer.Option(
            metavar="N|P%", help="Give up beyond so many; of 'all', each part.", show_default="never", hidden=True
        ),
    ] = None
    budget: Budget = None
    engine: Annotated[
        str,
        typer.Option(metavar="local|ray[://HOST]", help="Who answers: this process, or a Ray cluster.", hidden=True),
    ] = "local"
    out: Out = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what it would take, and do nothing.")] = False
    full: Annotated[bool, typer.Option("--full", help="Print breakdowns and all tables too.")] = False
    as_json: AsJson = False


def eval_(flags: EvalFlags) -> None:
    """Run a benchmark: answer (or search), score, and set the figures beside the published ones."""
    problems = refusals(flags.benchmark, flags.task, "eval")
    if flags.suite is not None and flags.benchmark != "all":
        problems.append(f"--suite is for `all`; {flags.benchmark} alone is no suite")
    make = _retrieval_request if retrieves(flags.benchmark, flags.task) else _request
    request = make(flags, problems)
    if flags.benchmark == "all":
        _run_all(request, problems, flags)
    else:
        _run(request, problems, flags)


def _common(flags: EvalFlags, problems: list[str]) -> dict[str, Any]:
    """Fields of a request that every task takes."""
    copied = ("benchmark", "task", "data", "embedder", "query", "queries", "limit", "sample", "seed", "out")
    return {
        **{name: getattr(flags, name) for name in copied},
        **({} if flags.retriever is None else {"retriever": flags.retriever}),
        "domains": names_of(flags.domains, problems),
        "only": _ids(flags.only, problems),
        "command": command_line(),
    }


_OF_CALLS = ("generator", "prompts", "concurrency", "deadline", "max_failures", "budget")
"""Fields that say how a model is asked."""


def _retrieval_request(flags: EvalFlags, problems: list[str]) -> EvalRequest:
    """The request of a retrieval task; flags that it has no use for are taken down."""
    from turnmark.evaluation.request import EvalRequest

    common = _common(flags, problems)
    unused = {
        "--setting": flags.setting, "--passages": flags.passages, "--counterfactual": flags.counterfactual,
        "--repeat": flags.repeat != 1, "--step": flags.step, "--judge": flags.judge, "--chain": flags.chain,
        "--protocol": flags.protocol != "turn", "--references": flags.references, "--types": flags.types,
        "--engine": flags.engine != "local",
    }  # fmt: skip
    problems += [f"{flag} belongs to generation; leave it out" for flag, value in unused.items() if value]
    calls = {
        "--generator": flags.generator not in ("extractive", os.environ.get("TURNMARK_GENERATOR")),
        "--prompts": flags.prompts, "--concurrency": flags.concurrency != 16,
        "--deadline": flags.deadline is not None, "--max-failures": flags.max_failures is not None,
        "--budget": flags.budget is not None,
    }  # fmt: skip
    if _asks_a_model(flags.query, [flag for flag, value in calls.items() if value], problems):
        common |= {name: getattr(flags, name) for name in _OF_CALLS}
    return EvalRequest(**common)


def _request(flags: EvalFlags, problems: list[str]) -> EvalRequest:
    """The request of a task whose answers are written; what is wrong with its flags alone is taken down."""
    from turnmark.evaluation.request import EvalRequest

    common, benchmark = _common(flags, problems), flags.benchmark
    problems += protocol_problems(benchmark, flags.protocol)
    calls, judge = {name: getattr(flags, name) for name in _OF_CALLS}, flags.judge
    if judge and measures_judges(benchmark, flags.task):
        calls["generator"], judge = _under_test(flags.generator, judge, problems), None
    copied = ("setting", "passages", "counterfactual", "chain", "protocol", "references", "repeat", "engine")
    return EvalRequest(
        **common, **calls, **{name: getattr(flags, name) for name in copied},
        types=names_of(flags.types, problems, "--types"), steps=tuple(flags.step or ()),
        judge=judges_of(benchmark, flags.task, judge, problems),
    )  # fmt: skip


def _under_test(generator: str, judge: Sequence[str], problems: list[str]) -> str:
    """The spec of what is measured, in a task that measures judges: that of `--judge`, which is also a generator's."""
    if len(judge) > 1:
        problems.append("--judge: this task measures one judge at a time; `turnmark compare` sets runs side by side")
    if generator not in ("extractive", os.environ.get("TURNMARK_GENERATOR"), judge[0]):
        problems.append(
            "--generator and --judge name the same thing in this task, the judge that is measured; give one"
        )
    return "extractive" if judge[0] == "embedded" else judge[0]


def _asks_a_model(query: str | None, flags: Sequence[str], problems: list[str]) -> bool:
    """Whether the query mode of a retrieval asks a language model.

    Args:
        flags: those that were given for the calls of a model.
    """
    from turnmark.assistant.steps.rewrites import MODES
    from turnmark.evaluation.benchmarks.mtrag_queries import known_mode

    if query in MODES:
        return True
    if query is None or known_mode(query):  # of one that there is not, nobody knows what it would ask
        modes = " or ".join(MODES)
        problems += [
            f"{flag} is for the calls of a model: generation, or --query {modes}; leave it out" for flag in flags
        ]
    return False


def _run(request: EvalRequest, problems: list[str], flags: EvalFlags) -> None:
    from turnmark.evaluation import running
    from turnmark.evaluation.judging.mounting import described
    from turnmark.evaluation.planning import plan
    from turnmark.evaluation.spread import spread

    # Of a benchmark that there is not, only the flags can be checked.
    made_plan = planned(plan if task_names(request.benchmark) else _only_checked, request, problems)
    if flags.dry_run:
        _print_plan(described(made_plan), flags.as_json)
        return
    summary, folder, gave_up = running.run(spread(made_plan))
    show_summary(summary, folder, flags.as_json, flags.full)
    if gave_up:
        noun = "queries" if made_plan.task.retrieves else "samples"
        raise TurnmarkError(f"{summary.failed} {noun} failed; the same command tries them again, and what was skipped")


def _only_checked(request: EvalRequest) -> None:
    from turnmark.evaluation.request import check_flags

    errors = ErrorCollector()
    check_flags(request, errors)
    errors.raise_all()


def _run_all(request: EvalRequest, problems: list[str], flags: EvalFlags) -> None:
    from turnmark.evaluation import suites

    plan = planned(partial(suites.plan_suite, suite=flags.suite), request, problems)
    if flags.dry_run:
        described = plan.describe()
        if flags.as_json:
            print_json(described)
        else:
            for name, part in described["benchmarks"].items():
                _print_plan(part | {"benchmark": name}, flags.as_json)
        return
    entries, folder, failed = suites.run_suite(plan)
    if flags.as_json:
        print_json({"run": str(folder), **suites.as_json(entries)})
    else:
        from rich.console import Console

        from turnmark.evaluation.report.overview import overview
        from turnmark.evaluation.report.rendering import show, show_document
        from turnmark.evaluation.report.stored import read_run

        console = Console()
        stored = read_run(folder)
        for run in stored.runs:
            show(run.summary, run.path, console, flags.full)
            console.print()
        if together := overview([stored]):
            show_document(together, console)
    if failed:
        raise TurnmarkError("not all of it was done; the same command goes on")


def _print_plan(described: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(described)
        return
    from rich.console import Console

    from turnmark.evaluation.report.rendering import plain

    console = Console()
    if "skipped" in described:
        console.print(plain(f"would leave out {described['benchmark']}: {described['skipped']}"), soft_wrap=True)
        return
    domains = described["domains"]
    counts = (
        ", ".join(f"{name} {n}" for name, n in domains.items()) if isinstance(domains, dict) else ", ".join(domains)
    )
    specs = ", ".join(f"{role} {spec}" for role, spec in described["specs"].items() if spec)
    verb = "search for" if described["task"] == RETRIEVAL else "answer"
    noun = "queries" if described["task"] == RETRIEVAL else "samples"
    subject = " ".join(filter(None, (described["benchmark"], described.get("setting"))))
    lines = [f"would {verb} {described['n']} {noun} of {subject}" + (f" ({counts})" if counts else ""), f"with {specs}"]
    for role, used in described["estimated"].items():
        tokens = f"about {used['prompt_tokens']:,} tokens in, {used['completion_tokens']:,} out"
        lines.append(f"{role}: {used['calls']:,} calls, {tokens}")
    lines += [f"into {described['run']}", *(f"- {note}" for note in described["notes"])]
    for line in lines:
        console.print(plain(line), soft_wrap=True)


def register(app: typer.Typer) -> None:
    """Mount `eval` and `score`."""
    app.command(
        "eval",
        epilog="Examples: turnmark eval all   ·   turnmark eval mtrag --setting rag --data mt-rag-benchmark --limit 20 "
        "--dry-run   ·   turnmark eval mtrag --task retrieval --retriever bm25 --query last-turn",
    )(from_flags(EvalFlags, eval_))
    turnmark.evaluation.score_command.register(app)
