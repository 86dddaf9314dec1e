"""`turnmark synth`: benchmark data made from a corpus, and people's decisions about it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from turnmark.corpora.console import print_json
from turnmark.corpora.errors import ErrorCollector, RequestError, TurnmarkError
from turnmark.evaluation.options import AsJson, command_line

if TYPE_CHECKING:
    from turnmark.evaluation.synth.records import Report
    from turnmark.evaluation.synth.run import Plan

synth_app = typer.Typer(
    no_args_is_help=True, help="Benchmark data made from your own documents by the published methods, and its review."
)

Index = Annotated[str | None, typer.Option(metavar="NAME", help="The documents to make data from.", show_default=False)]
Wanted = Annotated[
    int | None,
    typer.Option("--n", metavar="N", help="Items that are wanted; more later goes on.", show_default="all"),
]
Writer = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", envvar="TURNMARK_GENERATOR", help="The model that writes; must be named.", show_default=False
    ),
]
Judge = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC", help="The model that filters.", show_default="mtrag: embedded; else the one that writes"
    ),
]
Retriever = Annotated[
    str | None, typer.Option(metavar="SPEC", help="Finds the passages.", show_default="the index's own")
]
Prompts = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Prompts of your own, NAME.txt each.", show_default=False)
]
Seed = Annotated[int, typer.Option(help="Decides which documents, and what is planned for each.")]
Concurrency = Annotated[int, typer.Option(metavar="N", help="Attempts at once; fewer while an endpoint answers 429.")]
Deadline = Annotated[float, typer.Option(metavar="SECONDS", help="For one attempt, all its calls together.")]
MaxFailures = Annotated[
    str | None, typer.Option(metavar="N|P%", help="Give up beyond so many failed attempts.", show_default="never")
]
Budget = Annotated[
    str | None, typer.Option(metavar="N", help="Tokens (200k) or money ($5), all calls.", show_default="no limit")
]
Out = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder; the same command resumes it.", show_default="synth/KIND-HASH"),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Say what would be asked and what it would take, and do nothing.")
]


@synth_app.command("mtrag", epilog="Example: turnmark synth mtrag --index docs --n 50 --generator openai:MODEL@URL")
def mtrag(
    index: Index = None,
    n: Wanted = 10,
    turns: Annotated[int, typer.Option(metavar="N", help="The most turns of a conversation, up to 8.")] = 8,
    generator: Writer = None,
    judge: Judge = None,
    retriever: Retriever = None,
    prompts: Prompts = None,
    seed: Seed = 0,
    concurrency: Concurrency = 16,
    deadline: Deadline = 600.0,
    max_failures: MaxFailures = None,
    budget: Budget = None,
    out: Out = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make conversations as MTRAG-S has them: N of up to eight turns each."""
    _make("mtrag", {"turns": turns}, _common(locals()), dry_run, as_json)


@synth_app.command("inscoqa", epilog="Example: turnmark synth inscoqa --index docs --n 50 --generator openai:MODEL@URL")
def inscoqa(
    index: Index = None,
    n: Wanted = 10,
    documents: Annotated[int, typer.Option(metavar="N", help="The most documents of a sample.")] = 6,
    generator: Writer = None,
    judge: Judge = None,
    retriever: Retriever = None,
    prompts: Prompts = None,
    seed: Seed = 0,
    concurrency: Concurrency = 16,
    deadline: Deadline = 600.0,
    max_failures: MaxFailures = None,
    budget: Budget = None,
    out: Out = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make conversations over several instructional documents, with answer and procedure, as InsCoQA has them."""
    _make("inscoqa", {"documents": documents}, _common(locals()), dry_run, as_json)


@synth_app.command(
    "compound-qa", epilog="Example: turnmark synth compound-qa --index docs --n 50 --generator openai:MODEL@URL"
)
def compound_qa(
    index: Index = None,
    n: Wanted = 10,
    types: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Factual-Statement, Cause-and-Effect …", show_default="all five, in turn"),
    ] = None,
    capability: Annotated[
        str,
        typer.Option(metavar="NAME", help="Understanding, Reasoning (its own Hypothetical-Analysis) or Knowledge."),
    ] = "Understanding",
    generator: Writer = None,
    judge: Judge = None,
    retriever: Retriever = None,
    prompts: Prompts = None,
    seed: Seed = 0,
    concurrency: Concurrency = 16,
    deadline: Deadline = 600.0,
    max_failures: MaxFailures = None,
    budget: Budget = None,
    out: Out = None,
    dry_run: DryRun = False,
    as_json: AsJson = False,
) -> None:
    """Make compound questions with references as Compound-QA has them; `synth sft` makes training data of them."""
    options: dict[str, Any] = {"capability": capability}
    if types is not None:
        options["types"] = [name.strip() for name in types.split(",") if name.strip()]
    _make("compound-qa", options, _common(locals()), dry_run, as_json)


_COMMON = (
    "index", "n", "generator", "judge", "retriever", "prompts", "seed", "concurrency", "deadline", "max_failures",
    "budget", "out",
)  # fmt: skip


def _common(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: arguments[name] for name in _COMMON}


def _make(name: str, options: Mapping[str, Any], common: Mapping[str, Any], dry_run: bool, as_json: bool) -> None:
    """Check a request, all of it, and carry it out."""
    from turnmark.evaluation.synth.attempt import open_synthesis
    from turnmark.evaluation.synth.run import SynthRequest, plan, run

    request = SynthRequest(**common, command=command_line())
    errors = ErrorCollector()
    # With wrong settings of its own, a synthesis with the usual ones stands in, so that all else is checked too.
    synthesis = errors.collect(open_synthesis, name, options) or open_synthesis(name, {})
    planned = plan(request, synthesis, errors)
    if dry_run:
        _show_plan(planned, as_json)
        return
    report, gave_up = run(planned)
    _show_report(report, as_json)
    if gave_up:
        raise TurnmarkError(f"{report.failed} attempts failed; the same command tries them again")


def _show_plan(planned: Plan, as_json: bool) -> None:
    described = planned.describe()
    if as_json:
        print_json(described)
        return
    wanted = f"{described['wanted']} items" if described["wanted"] is not None else "what all seeds give"
    lines = [
        f"would make {wanted} of {described['kind']} from {described['corpus']['name']}, "
        f"in {described['attempts']} attempts or more ({described['seeds']} seeds)",
        "with " + ", ".join(f"{role} {spec}" for role, spec in described["specs"].items()),
    ]
    for role, usage in described["estimated"].items():
        tokens = f"about {usage['prompt_tokens']:,} tokens in, {usage['completion_tokens']:,} out"
        lines.append(f"{role}: {usage['calls']:,} calls, {tokens}")
    _say(*lines, f"into {described['out']}", *(f"- {note}" for note in described["notes"]))


def _show_report(report: Report, as_json: bool) -> None:
    """Print what came of a synthesis."""
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    wanted = f" of {report.wanted}" if report.wanted is not None else ""
    _say(
        f"{report.kind}: {report.kept}{wanted} items kept, {report.attempts} attempts, {report.rejected} rejected, "
        f"{report.failed} failed"
    )
    for stage, reasons in report.filters.items():
        _say(f"  {stage}: " + "; ".join(f"{reason} ({count})" for reason, count in reasons.items()))
    for role, usage in report.usage.items():
        cost = f", cost {usage['cost']:.4f}" if usage.get("cost") is not None else ""
        _say(
            f"{role}: {usage['calls']:,.0f} calls, {usage['prompt_tokens']:,.0f} tokens in, "
            f"{usage['completion_tokens']:,.0f} out{cost}"
        )
    _say(*(f"- {note}" for note in report.notes), f"in {report.out}: items.jsonl, rejects.jsonl, data_sheet.md")


def _say(*lines: str) -> None:
    from rich.console import Console

    from turnmark.evaluation.report.rendering import plain

    console = Console()
    for line in lines:
        console.print(plain(line), soft_wrap=True)


@synth_app.command(
    "review",
    epilog="Examples: turnmark synth review synth/mtrag-1234   ·   turnmark synth review items.jsonl --sample 10%  ·  "
    "turnmark synth review synth/compound-qa-1234 --reviewer ann",
)
def review(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The folder of a synthesis, or its items.jsonl.")],
    reviewer: Annotated[str, typer.Option(metavar="NAME", help="Who decides.")] = "reviewer",
    sample: Annotated[
        str | None,
        typer.Option(metavar="P%", help="Only so many, at random; prints their accuracy.", show_default="all"),
    ] = None,
    seed: Annotated[int, typer.Option(help="Draws the sample.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Accept, edit, reject or score what was made; again: goes on. Lines from a pipe are decisions too.

    `u` takes the last decision of this call back, `u ID` an earlier one; its item is asked about again.

    Compound-QA's items are scored 0, 1 or 2, and only what three reviewers gave a 2 is kept.
    """
    from rich.console import Console

    from turnmark.evaluation.synth.review import PAPER, review_items

    outcome = review_items(path, reviewer, sample, seed, Console(stderr=as_json))
    if as_json:
        print_json(outcome.as_json())
    else:
        counts = ", ".join(f"{name} {count}" for name, count in (outcome.decisions + outcome.reasons).items())
        counts = f" ({counts})" if counts else ""
        undone = f", {outcome.undone} taken back" if outcome.undone else ""
        _say(f"{outcome.decided} decided now{counts}{undone}, {outcome.left} of {outcome.asked} left")
        if outcome.sampled and outcome.sampled[1]:
            accepted, inspected = outcome.sampled
            _say(
                f"accuracy {accepted / inspected:.2%} of {inspected} inspected "
                f"(InsCoQA's inspection: {PAPER:.2%} of a tenth)"
            )
        _say(*(f"- {note}" for note in outcome.notes))
    if outcome.wrong:
        raise RequestError(outcome.wrong)


@synth_app.command(
    "sft",
    epilog="Examples: turnmark synth sft synth/compound-qa-1234 --out train   ·   "
    "turnmark synth sft Compound-QA --held-out Understanding --out train",
)
def sft(
    data: Annotated[Path, typer.Argument(metavar="DIR", help="Compound-QA data: published, or made by synth.")],
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder: sft/ to train on, data/ to evaluate on.")],
    held_out: Annotated[
        str | None,
        typer.Option(metavar="CAPABILITY", help="Evaluate on it and train on the others.", show_default=False),
    ] = None,
    train: Annotated[float, typer.Option(metavar="SHARE", help="Of the contexts, to train on.")] = 0.8,
    seed: Annotated[int, typer.Option(help="Decides which contexts.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Training data for fine-tuning from compound questions; no context of it is among those to evaluate on."""
    from turnmark.evaluation.synth.sft import write_training

    outcome = write_training(data, out, held_out, train, seed)
    if as_json:
        print_json(outcome.model_dump(mode="json"))
        return
    left_out = f", {outcome.left_out} left out for their context" if outcome.left_out else ""
    left_out += f", {outcome.unread} rows not readable" if outcome.unread else ""
    _say(
        f"{outcome.train} questions to train on, {outcome.evaluation} to evaluate on{left_out}",
        f"in {outcome.out}: {', '.join(outcome.files)}",
        f"evaluate: turnmark eval compound-qa --data {outcome.out}",
    )


def register(app: typer.Typer) -> None:
    """Mount `synth`."""
    app.add_typer(synth_app, name="synth")
