"""`turnmark doctor`."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated

import typer

from turnmark.corpora.console import inert, print_json

if TYPE_CHECKING:
    from turnmark.evaluation.doctor.installation import Finding

MARKS = {"ok": ("ok", "green"), "absent": ("-", "dim"), "warn": ("!", "yellow"), "broken": ("BROKEN", "bold red")}


def doctor(
    context: typer.Context,
    as_json: Annotated[bool, typer.Option("--json", help="one JSON object on standard output")] = False,
) -> None:
    """Look at the installation: versions, extras, models, servers, what is kept, configuration. 1: something is broken.

    Nothing is changed. A server that is configured gets one GET; no key is shown.
    """
    from turnmark.evaluation.doctor.configured import configuration, endpoints
    from turnmark.evaluation.doctor.installation import folders, healthy, models, packages

    configured, specs = configuration(context.find_root().command)
    findings = [*packages(), *models(), *endpoints(specs), *folders(), *configured]
    well = healthy(findings)
    if as_json:
        print_json({"healthy": well, "checks": [finding.model_dump() for finding in findings]})
    else:
        _draw(findings, well)
    if not well:
        raise typer.Exit(1)


def _draw(findings: list[Finding], well: bool) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    for section, group in groupby(findings, key=lambda finding: finding.section):
        console.print(Text(section, style="bold"))
        grid = Table(box=None, show_header=False, pad_edge=False)
        for finding in group:
            mark, style = MARKS[finding.state]
            detail = Text(inert(finding.detail))
            if finding.advice:
                detail.append(f"\n→ {inert(finding.advice)}", style="cyan")
            grid.add_row(Text(f"  {mark:6}", style=style), Text(inert(finding.name)), detail)
        console.print(grid)
    broken = sum(finding.state == "broken" for finding in findings)
    subject = "1 thing is" if broken == 1 else f"{broken} things are"
    verdict = "everything that is needed is there" if well else f"{subject} broken; look for BROKEN above"
    console.print(Text(verdict, style="bold green" if well else "bold red"))


def register(app: typer.Typer) -> None:
    """Mount `doctor`."""
    app.command("doctor", epilog="Example: turnmark doctor --json")(doctor)
