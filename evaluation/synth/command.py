"""The command `turnmark synth`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from turnmark.core.console import print_json
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import command_from
from turnmark.evaluation.tasks.request import CompoundRequest, InscoqaRequest, MtragRequest, SynthRequest

if TYPE_CHECKING:
    from turnmark.evaluation.synth.run import SynthReport


R = TypeVar("R", bound=SynthRequest)

synth_app = typer.Typer(no_args_is_help=True, help="Make benchmark data from your own documents by published methods.")


def make_mtrag(request: MtragRequest, errors: ErrorCollector) -> None:
    """Make conversations in the form of MTRAG-S, of up to eight turns each."""
    _make("mtrag", {"turns": request.turns}, request, errors)


def make_inscoqa(request: InscoqaRequest, errors: ErrorCollector) -> None:
    """Make conversations over several instructional documents, with answer and procedure, in the form of InsCoQA."""
    _make("inscoqa", {"documents": request.documents}, request, errors)


def make_compound_qa(request: CompoundRequest, errors: ErrorCollector) -> None:
    """Make compound questions with reference answers in the form of Compound-QA."""
    options: dict[str, Any] = {"capability": request.capability}
    if request.types:
        options["types"] = list(request.types)
    _make("compound-qa", options, request, errors)


def _mount(name: str, kind: type[R], run: Callable[[R, ErrorCollector], None]) -> None:
    example = f"Example: turnmark synth {name} --index docs --n 50 --generator openai:MODEL@URL"
    synth_app.command(name, epilog=example)(command_from(kind, run))


_mount("mtrag", MtragRequest, make_mtrag)
_mount("inscoqa", InscoqaRequest, make_inscoqa)
_mount("compound-qa", CompoundRequest, make_compound_qa)


def add_synth_command(app: typer.Typer) -> None:
    """Mount `synth`."""
    app.add_typer(synth_app, name="synth")


def _make(name: str, options: Mapping[str, Any], request: SynthRequest, errors: ErrorCollector) -> None:
    """Check a request completely, and carry it out."""
    from turnmark.evaluation.synth.attempt import open_synthesis
    from turnmark.evaluation.synth.run import plan_synthesis, synthesize

    # If the options are wrong, the defaults replace them, so that the rest of the request is checked too.
    synthesis = errors.collect(open_synthesis, name, options) or open_synthesis(name, {})
    report, gave_up = synthesize(plan_synthesis(request, synthesis, errors))
    _show(report, request.as_json)
    if gave_up:
        raise TurnmarkError(f"{report.failed} attempts failed; the same command tries them again")


def _show(report: SynthReport, as_json: bool) -> None:
    if as_json:
        print_json(report.model_dump(mode="json"))
        return
    from rich.console import Console

    from turnmark.core.untrusted import rich_line
    from turnmark.evaluation.calls.budget import usage_words

    lines = [
        f"{report.kind}: {report.kept} of {report.wanted} items kept, {report.attempts} attempts, "
        f"{report.rejected} rejected, {report.failed} failed"
    ]
    for stage, reasons in report.filters.items():
        lines.append(f"  {stage}: " + "; ".join(f"{reason} ({count})" for reason, count in reasons.items()))
    for role, usage in report.usage.items():
        lines.append(f"{role}: {usage_words(usage)}")
    lines += [f"- {note}" for note in report.notes]
    lines.append(f"in {report.out}: items.jsonl, rejects.jsonl")
    console = Console()
    for line in lines:
        console.print(rich_line(line), soft_wrap=True)
