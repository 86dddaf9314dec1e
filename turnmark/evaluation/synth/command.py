"""The command `turnmark synth`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import typer

from turnmark.core.command_line import CommandGroup
from turnmark.core.console import print_lines, print_result
from turnmark.core.errors import ErrorCollector, TurnmarkError
from turnmark.core.flags import RequestCommand, command_from
from turnmark.evaluation.synth.request import DeclaredSynthesis, SynthRequest, syntheses

if TYPE_CHECKING:
    from turnmark.evaluation.synth.synthesis_run import SynthReport

synth_app = CommandGroup(help="Make benchmark data from your own documents by published methods.")


def _mount(declared: DeclaredSynthesis) -> None:
    def make(request: SynthRequest, errors: ErrorCollector) -> None:
        _make(declared.name, request, errors)

    make.__doc__ = declared.request.__doc__
    example = f"Example: turnmark synth {declared.name} --index docs --n 50 --generator openai:MODEL@URL"
    synth_app.command(declared.name, cls=RequestCommand, epilog=example)(command_from(declared.request, make))


for _declared in syntheses().values():
    _mount(_declared)


def add_synth_command(app: typer.Typer) -> None:
    """Mount `synth`."""
    app.add_typer(synth_app, name="synth")


def _make(name: str, request: SynthRequest, errors: ErrorCollector) -> None:
    from turnmark.evaluation.synth.synthesis_attempt import open_synthesis
    from turnmark.evaluation.synth.synthesis_run import plan_synthesis, synthesize

    # If the options are wrong, the defaults replace them, so that the rest of the request is checked too.
    synthesis = errors.collect(open_synthesis, name, request.options) or open_synthesis(name, {})
    report, gave_up = synthesize(plan_synthesis(request, synthesis, errors))
    print_result(report.model_dump(mode="json"), request.as_json, lambda console: print_lines(_lines(report), console))
    if gave_up:
        raise TurnmarkError(f"{report.failed} attempts failed; the same command tries them again")


def _lines(report: SynthReport) -> Iterator[str]:
    """Yield the lines of a report on the screen."""
    from turnmark.evaluation.calls.cost_estimates import usage_words

    yield (
        f"{report.kind}: {report.kept} of {report.wanted} items kept, {report.attempts} attempts, "
        f"{report.rejected} rejected, {report.failed} failed"
    )
    for stage, reasons in report.filters.items():
        yield f"  {stage}: " + "; ".join(f"{reason} ({count})" for reason, count in reasons.items())
    for role, usage in report.usage.items():
        yield f"{role}: {usage_words(usage)}"
    yield from (f"- {note}" for note in report.notes)
    yield f"in {report.out}: items.jsonl, rejects.jsonl"
