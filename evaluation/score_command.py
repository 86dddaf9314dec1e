"""`turnmark score`: what some other system wrote, or an earlier run of ours, measured."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.judging.option import Judges, judges_of
from turnmark.evaluation.options import (
    AsJson,
    BenchmarkName,
    Data,
    Out,
    References,
    Seed,
    Setting,
    TaskName,
    command_line,
    names_of,
    planned,
    refusals,
    retrieves,
    show_summary,
)

if TYPE_CHECKING:
    from turnmark.evaluation.records import Summary
    from turnmark.evaluation.requests import PredictionsRequest, ScoreRequest


def score(
    benchmark: BenchmarkName,
    predictions: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Official prediction files, an official evaluation (.json, several systems), a run of ours or its "
            "predictions.jsonl; for --task retrieval, TREC runs. May be repeated, say one for each domain.",
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
    references: References = None,
    embedder: Annotated[str, typer.Option(metavar="SPEC", help="Of the metrics that embed.")] = "minilm",
    judge: Judges = None,
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Judges' prompts of your own, NAME.txt each.", show_default=False),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Tokens (200k) or money ($5) for the judges, all calls.", show_default="no limit"
        ),
    ] = None,
    seed: Seed = 0,
    engine: Annotated[
        str, typer.Option(metavar="local|ray[://HOST]", help="Who computes: this process, or a Ray cluster.")
    ] = "local",
    out: Out = None,
    as_json: AsJson = False,
) -> None:
    """Score what some other system wrote: its answers or, for --task retrieval, its TREC runs."""
    problems = refusals(benchmark, task, "score")
    named = names_of(domains, problems)
    from turnmark.evaluation.requests import PredictionsRequest, ScoreRequest

    common: dict[str, Any] = {
        "benchmark": benchmark, "predictions": tuple(predictions), "data": data, "domains": named, "seed": seed,
        "out": out, "command": command_line(),
    }  # fmt: skip
    if retrieves(benchmark, task):
        if setting is not None:
            problems.append(f"--setting {setting} belongs to generation; leave it out")
        if embedder != "minilm":
            problems.append("--embedder belongs to generation; leave it out")
        if references is not None:
            problems.append("--references belongs to generation; leave it out")
        if engine != "local":
            problems.append("--engine belongs to generation; leave it out")
        flags = {"--judge": judge, "--prompts": prompts, "--budget": budget}
        problems += [f"{flag} belongs to generation; leave it out" for flag, given in flags.items() if given]
        _score_lists(ScoreRequest(**common), problems, as_json)
    else:
        specs = judges_of(benchmark, task, judge, problems)
        problems += _asked(specs, prompts, budget)
        if references is not None and benchmark != "compound-qa":
            problems.append(f"--references is for compound-qa; {benchmark} has no use for it")
        request = PredictionsRequest(
            task=task,
            setting=setting,
            references=references,
            embedder=embedder,
            judge=specs,
            prompts=prompts,
            budget=budget,
            engine=engine,
            **common,
        )
        _score_answers(request, problems, as_json)


def _asked(judges: Sequence[str], prompts: Path | None, budget: str | None) -> list[str]:
    """What is wrong with how judges are to be asked."""
    from turnmark.evaluation.flags import check_budget
    from turnmark.evaluation.prompts import own_prompts

    errors = ErrorCollector()
    if prompts is not None:
        errors.collect(own_prompts, prompts)
    if budget is not None:
        check_budget(budget, judges, errors)
    for flag, given in {"--prompts": prompts, "--budget": budget}.items():
        if given is not None and not judges:
            errors.add(f"{flag} is for judges, and none is named; name one with --judge, or leave it out")
    return errors.problems


def _score_lists(request: ScoreRequest, problems: list[str], as_json: bool) -> None:
    from turnmark.evaluation.benchmarks.mtrag_plan import plan_score

    plan = planned(plan_score, request, problems)
    from turnmark.evaluation.benchmarks.mtrag_retrieval import run_score

    show_summary(*run_score(plan), as_json)


def _score_answers(request: PredictionsRequest, problems: list[str], as_json: bool) -> None:
    from turnmark.evaluation import answers, everything, rescoring
    from turnmark.evaluation.benchmarks.registry import task_names
    from turnmark.evaluation.judging.mounting import judged
    from turnmark.evaluation.spread import spread

    def scored(one: PredictionsRequest) -> tuple[Summary, Path]:
        with spread(judged(planned(answers.plan, one, problems))) as made:
            return answers.run(made)

    if not task_names(request.benchmark):  # there is no data to check the files against
        raise RequestError(problems)
    if rescoring.is_evaluation(request.predictions):
        systems = planned(rescoring.plan, request, problems)
        summaries = rescoring.run(systems, scored)
        if as_json:
            print_json({"run": str(systems.folder), "notes": list(systems.notes), **everything.as_json(summaries)})
            return
        for note in systems.notes:
            typer.echo(note, err=True)
        for name, summary in summaries.items():
            show_summary(summary, systems.folder / name, as_json)
    else:
        show_summary(*scored(request), as_json)


def register(app: typer.Typer) -> None:
    """Mount `score`."""
    app.command(
        "score",
        epilog="Examples: turnmark score mtrag-un --data mt-rag-benchmark --predictions answers.jsonl   ·   "
        "turnmark score mtrag --task retrieval --data mt-rag-benchmark --predictions elser_clapnq_rewrite.trec",
    )(score)
