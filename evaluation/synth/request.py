"""The flags of `turnmark synth`: those that every kind of data has, and each kind's own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from turnmark.evaluation.options import AsJson, Budget


@dataclass(frozen=True)
class SynthRequest:
    """What every kind of data is asked for with: the flags, as they are typed."""

    index: Annotated[
        str | None, typer.Option(metavar="NAME", help="The documents to make data from.", show_default=False)
    ] = None
    n: Annotated[int, typer.Option("--n", metavar="N", help="Items that are wanted; more later goes on.")] = 10
    generator: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", envvar="TURNMARK_GENERATOR", help="The model that writes; must be named.",
            show_default=False,
        ),
    ] = None  # fmt: skip
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="The model that filters.", show_default="mtrag: embedded; else the one that writes"
        ),
    ] = None
    retriever: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Finds the passages.", show_default="the index's own")
    ] = None
    prompts: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Prompts of your own, NAME.txt each.", show_default=False)
    ] = None
    seed: Annotated[int, typer.Option(help="Decides which documents, and what is planned for each.")] = 0
    concurrency: Annotated[
        int, typer.Option(metavar="N", help="Attempts at once; fewer while an endpoint answers 429.")
    ] = 16
    deadline: Annotated[float, typer.Option(metavar="SECONDS", help="For one attempt, all its calls together.")] = 600.0
    max_failures: Annotated[
        str | None, typer.Option(metavar="N|P%", help="Give up beyond so many failed attempts.", show_default="never")
    ] = None
    budget: Budget = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder; the same command resumes it.", show_default="synth/KIND-HASH"),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be asked and what it would take, and do nothing.")
    ] = False
    as_json: AsJson = False


@dataclass(frozen=True)
class MtragRequest(SynthRequest):
    """`synth mtrag`."""

    turns: Annotated[int, typer.Option(metavar="N", help="The most turns of a conversation, up to 8.")] = 8


@dataclass(frozen=True)
class InscoqaRequest(SynthRequest):
    """`synth inscoqa`."""

    documents: Annotated[int, typer.Option(metavar="N", help="The most documents of a sample.")] = 6


@dataclass(frozen=True)
class CompoundRequest(SynthRequest):
    """`synth compound-qa`."""

    types: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Factual-Statement, Cause-and-Effect …", show_default="all five, in turn"),
    ] = None
    capability: Annotated[
        str,
        typer.Option(metavar="NAME", help="Understanding, Reasoning (its own Hypothetical-Analysis) or Knowledge."),
    ] = "Understanding"
