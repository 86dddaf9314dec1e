"""`turnwise eval` and `turnwise score`: flags in, a run folder and one table (or one JSON object) out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from corpora.console import print_json
from corpora.errors import Mistakes

if TYPE_CHECKING:
    from corpora.mtrag import Benchmark
    from evaluation.benchmarks.mtrag_plan import Plan
    from evaluation.records import Summary

T = TypeVar("T")

# What the contract names, by benchmark: its tasks, the default first.
TASKS = {
    "mtrag": ("generation", "retrieval"),
    "mtrag-un": ("generation", "retrieval"),
    "mtrag-s": ("generation", "retrieval"),
    "inscoqa": ("generation",),
    "compound-qa": ("generation",),
    "kiwi": ("revise", "judge", "analyse"),
    "all": (),
}
SETTINGS = ("reference", "reference+rag", "rag", "documents")
READY = ("mtrag", "mtrag-un")
# Their requests are checked to the end; MTRAG-S lacks relevance labels, which the check of its data says.
SERVED: dict[str, Benchmark] = {"mtrag": "mtrag", "mtrag-un": "mtrag-un", "mtrag-s": "mtrag-s"}

BenchmarkName = Annotated[str, typer.Argument(metavar="BENCHMARK", help="mtrag or mtrag-un (so far)")]
Data = Annotated[
    Path | None,
    typer.Option(
        help="A clone (or part of one) of IBM/mt-rag-benchmark, or the folder that holds it. "
        "Default: $TURNWISE_DATA/mt-rag-benchmark, else the demo split.",
        show_default=False,
    ),
]
TaskName = Annotated[str | None, typer.Option(help="retrieval (so far)", show_default="generation")]
Setting = Annotated[str | None, typer.Option(help="Of generation tasks; not used by retrieval.", show_default=False)]
Domains = Annotated[
    str | None, typer.Option(metavar="A,B", help="Domains to use, separated by commas.", show_default="all there are")
]
Seed = Annotated[int, typer.Option(help="Of the bootstrap intervals.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="Run folder; the same command resumes it.", show_default="runs/BENCHMARK-HASH"),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]


def _refusals(benchmark: str, task: str | None, setting: str | None) -> list[str]:
    """Why a request cannot be served, or not yet."""
    now = f"what works now: {' and '.join(READY)} with --task retrieval"
    problems = []
    tasks = TASKS.get(benchmark) or tuple(dict.fromkeys(name for names in TASKS.values() for name in names))
    if benchmark not in TASKS:
        problems.append(f"no benchmark is called {benchmark!r}; there are: {', '.join(TASKS)}; {now}")
    elif benchmark not in SERVED:
        problems.append(f"{benchmark} cannot be evaluated yet; {now}")
    if task is not None and task not in tasks:
        there = f"{benchmark} has no task {task!r}; it has" if TASKS.get(benchmark) else f"no task {task!r}; there are"
        problems.append(f"--task: {there}: {', '.join(tasks)}; {now}")
    elif benchmark in SERVED and task != "retrieval":
        asked = task or f"{tasks[0]} (the default of {benchmark})"
        problems.append(f"--task {asked} is not there yet; only --task retrieval is")
    if setting is not None and setting not in SETTINGS:
        problems.append(f"--setting: no setting is called {setting!r}; there are: {', '.join(SETTINGS)}")
    elif setting is not None and benchmark in SERVED:
        problems.append(f"--setting {setting} belongs to generation, which is not there yet; leave it out")
    return problems


def _names(text: str | None, problems: list[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        problems.append("--domains is empty; name domains, separated by commas")
    return names


def _taken_down(problems: list[str]) -> Mistakes:
    mistakes = Mistakes()
    for problem in problems:
        mistakes.add(problem)
    return mistakes


def _planned(
    benchmark: str,
    plan: Callable[[T], Plan],
    check: Callable[[T, Mistakes], object],
    request: T,
    problems: list[str],
) -> Plan:
    """The plan of a request; what the flags alone showed to be wrong is reported together with what it finds.

    Of a benchmark that cannot run yet there is nothing to plan: then the flags are checked, and that is all.
    """
    mistakes = _taken_down(problems)
    made = None
    if benchmark in SERVED:
        made = mistakes.caught(plan, request)
    else:
        check(request, mistakes)
    mistakes.check()
    assert made is not None, "mistakes.check() raised otherwise"
    return made


def _print(summary: Summary, run: Path, as_json: bool) -> None:
    if as_json:
        print_json({**summary.model_dump(mode="json"), "run": str(run)})
        return
    from rich.console import Console

    from evaluation.report.terminal import show

    show(summary, run, Console())


def _command() -> str:
    return shlex.join(["turnwise", *sys.argv[1:]])


def eval_(
    benchmark: BenchmarkName,
    data: Data = None,
    task: TaskName = None,
    setting: Setting = None,
    domains: Domains = None,
    retriever: Annotated[str, typer.Option(metavar="SPEC", help="bm25, dense[:MODEL], hybrid …")] = "hybrid",
    embedder: Annotated[str, typer.Option(metavar="SPEC", help="Makes the vectors of dense and hybrid.")] = "minilm",
    query: Annotated[
        str | None,
        typer.Option(
            metavar="MODE",
            help="last-turn, rewrite, questions (recorded), conversation, last-K, assistant.",
            show_default="assistant",
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Your own queries, {"_id", "text"} a line.', show_default=False),
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N queries.", show_default=False)] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Only this task; may be repeated.", show_default=False)
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark: search, score, and set the figures beside the published ones."""
    problems = _refusals(benchmark, task, setting)
    named = _names(domains, problems)
    from evaluation.benchmarks.mtrag_plan import check_flags, plan_eval
    from evaluation.requests import EvalRequest

    request = EvalRequest(
        benchmark=SERVED.get(benchmark, "mtrag"),
        data=data,
        domains=named,
        retriever=retriever,
        embedder=embedder,
        query=query,
        queries=queries,
        limit=limit,
        only=tuple(only or ()),
        seed=seed,
        out=out,
        command=_command(),
    )
    plan = _planned(benchmark, plan_eval, check_flags, request, problems)
    if dry_run:
        _print_plan(plan.describe(), as_json)
        return
    from evaluation.benchmarks.mtrag_retrieval import run_eval

    summary, folder = run_eval(plan)
    _print(summary, folder, as_json)


def _print_plan(described: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(described)
        return
    from rich.console import Console

    from evaluation.report.terminal import plain

    console = Console()
    counts = ", ".join(f"{domain} {n}" for domain, n in described["domains"].items())
    specs = ", ".join(f"{role} {spec}" for role, spec in described["specs"].items() if spec)
    for line in (
        f"would search for {described['n']} queries of {described['benchmark']} ({counts})",
        f"with {specs}",
        f"into {described['run']}",
        *(f"- {note}" for note in described["notes"]),
    ):
        console.print(plain(line), soft_wrap=True)


def score(
    benchmark: BenchmarkName,
    predictions: Annotated[
        list[Path],
        typer.Option(metavar="FILE", help="A TREC run; may be repeated, say one for each domain.", show_default=False),
    ],
    data: Data = None,
    task: TaskName = None,
    setting: Setting = None,
    domains: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Domains to score; a query of theirs without an entry counts as 0.",
            show_default="those with an entry in the file",
        ),
    ] = None,
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Score what some other system wrote: TREC runs, for --task retrieval."""
    problems = _refusals(benchmark, task, setting)
    named = _names(domains, problems)
    from evaluation.benchmarks.mtrag_plan import check_score_flags, plan_score
    from evaluation.requests import ScoreRequest

    request = ScoreRequest(
        benchmark=SERVED.get(benchmark, "mtrag"),
        predictions=tuple(predictions),
        data=data,
        domains=named,
        seed=seed,
        out=out,
        command=_command(),
    )
    plan = _planned(benchmark, plan_score, check_score_flags, request, problems)
    from evaluation.benchmarks.mtrag_retrieval import run_score

    summary, folder = run_score(plan)
    _print(summary, folder, as_json)


def register(app: typer.Typer) -> None:
    """Mount `eval` and `score`."""
    app.command(
        "eval",
        epilog="Examples: turnwise eval mtrag --task retrieval --retriever bm25 --query last-turn   ·   "
        "turnwise eval mtrag --task retrieval --data mt-rag-benchmark --domains clapnq --limit 20 --dry-run",
    )(eval_)
    app.command(
        "score",
        epilog="Example: turnwise score mtrag --task retrieval --data mt-rag-benchmark --predictions "
        "elser_clapnq_rewrite.trec",
    )(score)
