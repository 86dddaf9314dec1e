"""`turnmark agreement`: scores against people, people against each other, judges against labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def agreement(
    sources: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN|FILE...",
            help="Files with ratings of people (InspectorRAGet JSON) or another judge's scores (official predictions, "
            ".jsonl), and folders of runs that scored the same answers.",
        ),
    ],
    as_json: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output, and nothing else there.")
    ] = False,
) -> None:
    """How far scores agree with people: correlations, raters among themselves, judges against labels."""
    from turnmark.evaluation.agreement.measuring import agreement as measured

    agreement_found = measured(sources)
    if as_json:
        from turnmark.corpora.console import print_json

        print_json(agreement_found.model_dump(mode="json"))
        return
    from rich.console import Console

    from turnmark.evaluation.agreement.tables import everything, notes, title
    from turnmark.evaluation.report.terminal import draw, plain

    console = Console()
    console.print(plain(title(agreement_found), "bold"))
    for table in everything(agreement_found):
        draw(table, console)
    for note in notes(agreement_found):
        console.print(plain(f"- {note}"))


def register(app: typer.Typer) -> None:
    """Mount `agreement`."""
    app.command(
        "agreement",
        epilog="Examples: turnmark agreement human_evaluations.json   ·   "
        "turnmark agreement human_evaluations.json runs/gpt-4o-scored",
    )(agreement)
