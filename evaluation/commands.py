"""`turnwise eval` and `turnwise score`: flags in, a run folder and one table (or one JSON object) out."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from corpora.console import print_json
from corpora.errors import Mistakes, TurnwiseError

if TYPE_CHECKING:
    from evaluation.records import Summary
    from evaluation.requests import EvalRequest, GenerationRequest, PredictionsRequest, ScoreRequest

# What the contract names, by benchmark: its tasks, the default first.
TASKS: Mapping[str, tuple[str, ...]] = {
    "mtrag": ("generation", "retrieval"),
    "mtrag-un": ("generation", "retrieval"),
    "mtrag-s": ("generation", "retrieval"),
    "inscoqa": ("generation",),
    "compound-qa": ("generation",),
    "kiwi": ("revise", "judge", "analyse"),
    "all": (),
}
PLANNED = ("judge", "analyse")
"""Tasks that are named and not there yet."""
RETRIEVAL = "retrieval"

BenchmarkName = Annotated[
    str, typer.Argument(metavar="BENCHMARK", help="mtrag, mtrag-un, mtrag-s, inscoqa, compound-qa, kiwi or all.")
]
Data = Annotated[
    Path | None,
    typer.Option(
        help="The benchmark's folder (a clone, or part of one), or the folder that holds it. "
        "Default: its folder in $TURNWISE_DATA, else the demo split.",
        show_default=False,
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(help="MTRAG family: generation or retrieval; kiwi: revise.", show_default="generation, or revise"),
]
Setting = Annotated[
    str | None,
    typer.Option(
        help="MTRAG family: reference, reference+rag or rag; inscoqa: documents or rag.", show_default="the first"
    ),
]
Domains = Annotated[
    str | None,
    typer.Option(
        metavar="A,B", help="Domains (compound-qa: capabilities), separated by commas.", show_default="all there are"
    ),
]
Seed = Annotated[int, typer.Option(help="Of the bootstrap intervals, and of --sample.")]
Out = Annotated[
    Path | None,
    typer.Option(metavar="RUN", help="Run folder; the same command resumes it.", show_default="runs/BENCHMARK-HASH"),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")]


def _refusals(benchmark: str, task: str | None, command: str) -> list[str]:
    """Why a request names nothing that there is."""
    problems = []
    tasks = TASKS.get(benchmark) or tuple(dict.fromkeys(name for names in TASKS.values() for name in names))
    if benchmark not in TASKS:
        problems.append(f"no benchmark is called {benchmark!r}; there are: {', '.join(TASKS)}")
    elif benchmark == "all" and command == "score":
        problems.append("score: name one benchmark; `all` is for eval")
    if task is not None and benchmark == "all":
        problems.append("--task: `all` runs the default task of each benchmark; leave it out")
    elif task is not None and task not in tasks:
        there = f"{benchmark} has no task {task!r}; it has" if TASKS.get(benchmark) else f"no task {task!r}; there are"
        problems.append(f"--task: {there}: {', '.join(tasks)}")
    elif task in PLANNED:
        problems.append(f"--task {task} is not there yet; {benchmark} has {tasks[0]}")
    return problems


def _names(text: str | None, problems: list[str]) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(name.strip() for name in (text or "").split(",") if name.strip()))
    if text is not None and not names:
        problems.append("--domains is empty; name domains, separated by commas")
    return names


def _ids(given: list[str] | None, problems: list[str]) -> tuple[str, ...]:
    """The ids of `--only`; `@FILE` stands for the lines of a file."""
    found: list[str] = []
    for name in given or ():
        if not name.startswith("@"):
            found.append(name)
            continue
        try:
            lines = Path(name[1:]).read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            problems.append(f"--only {name!r} cannot be read: {error}")
        else:
            named = [line.strip() for line in lines if line.strip()]
            if not named:
                problems.append(f"--only {name!r}: there is no id in it")
            found += named
    return tuple(dict.fromkeys(found))


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
    generator: Annotated[
        str,
        typer.Option(metavar="SPEC", envvar="TURNWISE_GENERATOR", help="Writes the answers; see `turnwise list`."),
    ] = "extractive",
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
    passages: Annotated[
        Path | None,
        typer.Option(metavar="RUN", help="Answer from a recorded retrieval: a run, a TREC run.", show_default=False),
    ] = None,
    counterfactual: Annotated[
        bool, typer.Option("--counterfactual", help="Each answerable task once more, its passages hidden (rag).")
    ] = False,
    prompts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Prompts of your own, NAME.txt each.", show_default=False)
    ] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first N.", show_default=False)] = None,
    sample: Annotated[int | None, typer.Option(metavar="N", help="N at random, by --seed.", show_default=False)] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ID", help="Only this one, or those of @FILE, an id a line; may be repeated.", show_default=False
        ),
    ] = None,
    seed: Seed = 0,
    repeat: Annotated[int, typer.Option(metavar="N", help="Answer each N times.")] = 1,
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Samples at once; fewer while an endpoint answers 429.")
    ] = 16,
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="For one sample, all its calls together.")] = 300.0,
    max_failures: Annotated[
        str | None, typer.Option(metavar="N|P%", help="Give up beyond so many.", show_default="never")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(metavar="N", help="Tokens (200k) or money ($5), all calls.", show_default="no limit")
    ] = None,
    out: Out = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done and what it would take, and do nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run a benchmark: answer (or search), score, and set the figures beside the published ones."""
    problems = _refusals(benchmark, task, "eval")
    named = _names(domains, problems)
    from evaluation.requests import EvalRequest, GenerationRequest

    common: dict[str, Any] = {
        "data": data, "domains": named, "retriever": retriever, "embedder": embedder, "query": query,
        "queries": queries, "limit": limit, "sample": sample, "only": _ids(only, problems), "seed": seed, "out": out,
        "command": _command(),
    }  # fmt: skip
    if task == RETRIEVAL and benchmark in ("mtrag", "mtrag-un", "mtrag-s"):
        unused = {
            "--setting": setting, "--passages": passages, "--counterfactual": counterfactual, "--prompts": prompts,
            "--repeat": repeat != 1, "--budget": budget, "--max-failures": max_failures,
            "--generator": generator not in ("extractive", os.environ.get("TURNWISE_GENERATOR")),
            "--concurrency": concurrency != 16, "--deadline": deadline != 300.0,
        }  # fmt: skip
        problems += [f"{flag} belongs to generation; leave it out" for flag, value in unused.items() if value]
        _retrieve(EvalRequest(benchmark=benchmark, **common), problems, dry_run, as_json)
        return
    request = GenerationRequest(
        benchmark=benchmark, setting=setting, passages=passages, counterfactual=counterfactual, prompts=prompts,
        generator=generator, repeat=repeat, concurrency=concurrency, deadline=deadline, max_failures=max_failures,
        budget=budget, **common,
    )  # fmt: skip
    if benchmark == "all":
        _everything(request, problems, dry_run, as_json)
    else:
        _generate(request, problems, dry_run, as_json)


def _taken_down(problems: list[str]) -> Mistakes:
    mistakes = Mistakes()
    for problem in problems:
        mistakes.add(problem)
    return mistakes


def _retrieve(request: EvalRequest, problems: list[str], dry_run: bool, as_json: bool) -> None:
    from evaluation.benchmarks.mtrag_plan import plan_eval

    mistakes = _taken_down(problems)
    plan = mistakes.caught(plan_eval, request)
    mistakes.check()
    assert plan is not None, "mistakes.check() raised otherwise"
    if dry_run:
        _print_plan(plan.describe(), as_json)
        return
    from evaluation.benchmarks.mtrag_retrieval import run_eval

    _print(*run_eval(plan), as_json)


def _generate(request: GenerationRequest, problems: list[str], dry_run: bool, as_json: bool) -> None:
    from evaluation import generation
    from evaluation.flags import check_flags

    mistakes = _taken_down(problems)
    plan = None
    if request.benchmark in TASKS:
        plan = mistakes.caught(generation.plan, request)
    else:
        check_flags(request, mistakes)
    mistakes.check()
    assert plan is not None, "mistakes.check() raised otherwise"
    if dry_run:
        _print_plan(plan.describe(), as_json)
        return
    summary, folder, gave_up = generation.run(plan)
    _print(summary, folder, as_json)
    if gave_up:
        raise TurnwiseError(f"{summary.failed} samples failed; the same command tries them again, and what was skipped")


def _everything(request: GenerationRequest, problems: list[str], dry_run: bool, as_json: bool) -> None:
    from evaluation import everything

    mistakes = _taken_down(problems)
    plan = mistakes.caught(everything.plan, request)
    mistakes.check()
    assert plan is not None, "mistakes.check() raised otherwise"
    if dry_run:
        described = plan.describe()
        if as_json:
            print_json(described)
        else:
            for name, one in described["benchmarks"].items():
                _print_plan(one | {"benchmark": name}, as_json)
        return
    entries, folder, failed = everything.run(plan)
    if as_json:
        print_json({"run": str(folder), **everything.as_json(entries)})
    else:
        from rich.console import Console

        from evaluation.report.terminal import show, show_all

        console = Console()
        for name, entry in entries.items():
            if not isinstance(entry, str):
                show(entry, folder / name, console)
                console.print()
        show_all(entries, folder, console)
    if failed:
        raise TurnwiseError("not all of it was done; the same command goes on")


def _print_plan(described: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(described)
        return
    from rich.console import Console

    from evaluation.report.terminal import plain

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
    of = " ".join(filter(None, (described["benchmark"], described.get("setting"))))
    lines = [f"would {verb} {described['n']} {noun} of {of}" + (f" ({counts})" if counts else ""), f"with {specs}"]
    for role, used in described.get("estimated", {}).items():
        tokens = f"about {used['prompt_tokens']:,} tokens in, {used['completion_tokens']:,} out"
        lines.append(f"{role}: {used['calls']:,} calls, {tokens}")
    lines += [f"into {described['run']}", *(f"- {note}" for note in described["notes"])]
    for line in lines:
        console.print(plain(line), soft_wrap=True)


def score(
    benchmark: BenchmarkName,
    predictions: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Official prediction files, a run of ours or its predictions.jsonl; for --task retrieval, TREC runs. "
            "May be repeated, say one for each domain.",
            show_default=False,
        ),
    ],
    data: Data = None,
    task: TaskName = None,
    setting: Setting = None,
    domains: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Domains to score; what has no entry counts as 0 (retrieval) or failed (generation).",
            show_default="those with an entry in the file",
        ),
    ] = None,
    embedder: Annotated[str, typer.Option(metavar="SPEC", help="Of the metrics that embed.")] = "minilm",
    seed: Seed = 0,
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Score what some other system wrote: its answers or, for --task retrieval, its TREC runs."""
    problems = _refusals(benchmark, task, "score")
    named = _names(domains, problems)
    from evaluation.requests import PredictionsRequest, ScoreRequest

    common: dict[str, Any] = {
        "benchmark": benchmark, "predictions": tuple(predictions), "data": data, "domains": named, "seed": seed,
        "out": out, "command": _command(),
    }  # fmt: skip
    if task == RETRIEVAL and benchmark in ("mtrag", "mtrag-un", "mtrag-s"):
        if setting is not None:
            problems.append(f"--setting {setting} belongs to generation; leave it out")
        if embedder != "minilm":
            problems.append("--embedder belongs to generation; leave it out")
        _score_lists(ScoreRequest(**common), problems, as_json)
    else:
        _score_answers(PredictionsRequest(setting=setting, embedder=embedder, **common), problems, as_json)


def _score_lists(request: ScoreRequest, problems: list[str], as_json: bool) -> None:
    from evaluation.benchmarks.mtrag_plan import plan_score

    mistakes = _taken_down(problems)
    plan = mistakes.caught(plan_score, request)
    mistakes.check()
    assert plan is not None, "mistakes.check() raised otherwise"
    from evaluation.benchmarks.mtrag_retrieval import run_score

    _print(*run_score(plan), as_json)


def _score_answers(request: PredictionsRequest, problems: list[str], as_json: bool) -> None:
    from evaluation import answers

    mistakes = _taken_down(problems)
    plan = mistakes.caught(answers.plan, request) if request.benchmark in TASKS and request.benchmark != "all" else None
    mistakes.check()
    assert plan is not None, "mistakes.check() raised otherwise"
    _print(*answers.run(plan), as_json)


def register(app: typer.Typer) -> None:
    """Mount `eval` and `score`."""
    app.command(
        "eval",
        epilog="Examples: turnwise eval all   ·   turnwise eval mtrag --setting rag --data mt-rag-benchmark --limit 20 "
        "--dry-run   ·   turnwise eval mtrag --task retrieval --retriever bm25 --query last-turn",
    )(eval_)
    app.command(
        "score",
        epilog="Examples: turnwise score mtrag-un --data mt-rag-benchmark --predictions answers.jsonl   ·   "
        "turnwise score mtrag --task retrieval --data mt-rag-benchmark --predictions elser_clapnq_rewrite.trec",
    )(score)
