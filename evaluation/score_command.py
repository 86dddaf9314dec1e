"""`turnmark score`: what some other system wrote, or an earlier run of ours, measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.evaluation.benchmarks.registry import retrieves
from turnmark.evaluation.options import (
    AsJson,
    BenchmarkName,
    Data,
    Judges,
    Out,
    References,
    Seed,
    Setting,
    TaskName,
    command_line,
    from_flags,
    judges_of,
    names_of,
    planned,
    refusals,
    show_summary,
)

if TYPE_CHECKING:
    from turnmark.evaluation.records import Summary
    from turnmark.evaluation.request import EvalRequest


@dataclass(frozen=True)
class ScoreFlags:
    """The flags of `score`, as they are typed."""

    benchmark: BenchmarkName
    predictions: Annotated[
        list[Path],
        typer.Option(
            metavar="FILE",
            help="Official prediction files, an official evaluation (.json, several systems), a run of ours or its "
            "predictions.jsonl; for --task retrieval, TREC runs. May be repeated, say one for each domain.",
            show_default=False,
        ),
    ]
    data: Data = None
    task: TaskName = None
    setting: Setting = None
    domains: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Domains to score; what has no entry counts as 0 (retrieval) or failed (generation).",
            show_default="those with an entry in the file",
        ),
    ] = None
    references: References = None
    embedder: Annotated[str, typer.Option(metavar="SPEC", help="Of the metrics that embed.")] = "minilm"
    judge: Judges = None
    prompts: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Judges' prompts of your own, NAME.txt each.", show_default=False),
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(
            metavar="N", help="Tokens (200k) or money ($5) for the judges, all calls.", show_default="no limit"
        ),
    ] = None
    seed: Seed = 0
    out: Out = None
    as_json: AsJson = False


def score(flags: ScoreFlags) -> None:
    """Score what some other system wrote: its answers or, for --task retrieval, its TREC runs."""
    problems = refusals(flags.benchmark, flags.task, "score")
    domains = names_of(flags.domains, problems)
    if retrieves(flags.benchmark, flags.task):
        unused = {
            f"--setting {flags.setting}": flags.setting, "--embedder": flags.embedder != "minilm",
            "--references": flags.references, "--judge": flags.judge,
            "--prompts": flags.prompts, "--budget": flags.budget,
        }  # fmt: skip
        problems += [f"{flag} belongs to generation; leave it out" for flag, value in unused.items() if value]
        _score_answers(_request(flags, domains), problems, flags.as_json)
        return
    specs = judges_of(flags.benchmark, flags.task, flags.judge, problems)
    problems += _asked(specs, flags.prompts, flags.budget)
    copied = ("setting", "references", "embedder", "prompts", "budget")
    fields = {name: getattr(flags, name) for name in copied}
    _score_answers(_request(flags, domains, judge=specs, **fields), problems, flags.as_json)


def _request(flags: ScoreFlags, domains: tuple[str, ...], **fields: Any) -> EvalRequest:
    from turnmark.evaluation.request import EvalRequest

    copied = ("benchmark", "task", "data", "seed", "out")
    return EvalRequest(
        predictions=tuple(flags.predictions), domains=domains, command=command_line(),
        **{name: getattr(flags, name) for name in copied}, **fields,
    )  # fmt: skip


def _asked(judges: Sequence[str], prompts: Path | None, budget: str | None) -> list[str]:
    """What is wrong with how judges are to be asked."""
    from turnmark.evaluation.prompts import own_prompts
    from turnmark.evaluation.request import check_budget

    errors = ErrorCollector()
    if prompts is not None:
        errors.collect(own_prompts, prompts)
    if budget is not None:
        check_budget(budget, judges, errors)
    for flag, value in {"--prompts": prompts, "--budget": budget}.items():
        if value is not None and not judges:
            errors.add(f"{flag} is for judges, and none is named; name one with --judge, or leave it out")
    return errors.problems


def _score_answers(request: EvalRequest, problems: list[str], as_json: bool) -> None:
    from turnmark.evaluation import rescoring, running, suites
    from turnmark.evaluation.benchmarks.registry import task_names
    from turnmark.evaluation.planning import plan

    def scored(system_request: EvalRequest) -> tuple[Summary, Path]:
        return running.run(planned(plan, system_request, problems))[:2]

    if not task_names(request.benchmark):  # there is no data to check the files against
        raise RequestError(problems)
    if rescoring.is_evaluation(request.predictions):
        systems = planned(rescoring.plan, request, problems)
        summaries = rescoring.run(systems, scored)
        if as_json:
            print_json({"run": str(systems.folder), "notes": list(systems.notes), **suites.as_json(summaries)})
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
    )(from_flags(ScoreFlags, score))
