"""What `turnmark synth` is asked for: the options that every kind of data has, and each kind's own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import BeforeValidator, Field

from turnmark.corpora.flags import AsJson, Request, split_names
from turnmark.evaluation.request import Budget, Concurrency, MaxFailures, Prompts, Seed


class SynthRequest(Request):
    """The options of every kind of data."""

    index: Annotated[
        str | None, typer.Option(metavar="NAME", envvar="TURNMARK_INDEX", help="The documents to make data from.")
    ] = None
    n: Annotated[int, Field(ge=1), typer.Option("--n", metavar="N", help="Items wanted; more later goes on.")] = 10
    generator: Annotated[
        str | None,
        typer.Option(metavar="SPEC", envvar="TURNMARK_GENERATOR", help="The model that writes; must be named."),
    ] = None
    prompts: Prompts = None
    seed: Seed = 0
    concurrency: Concurrency = 16
    max_failures: MaxFailures = None
    budget: Budget = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder; the same command resumes it.")] = None
    as_json: AsJson = False


class MtragRequest(SynthRequest):
    """`synth mtrag`."""

    turns: Annotated[int, typer.Option(metavar="N", help="The most turns of a conversation, up to 8.")] = 8


class InscoqaRequest(SynthRequest):
    """`synth inscoqa`."""

    documents: Annotated[int, typer.Option(metavar="N", help="The most documents of a sample.")] = 6


class CompoundRequest(SynthRequest):
    """`synth compound-qa`."""

    types: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(metavar="A,B", help="Factual-Statement, Cause-and-Effect …; default: all five, in turn."),
    ] = ()
