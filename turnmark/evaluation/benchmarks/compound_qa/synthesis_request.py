"""The options of its synthesis, `turnmark synth compound-qa`."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BeforeValidator

from turnmark.core.flags import split_names
from turnmark.evaluation.synth.request import SynthRequest


class CompoundSynthRequest(SynthRequest):
    """Make compound questions with reference answers in the form of Compound-QA."""

    types: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(metavar="A,B", help="Question types, e.g. Factual-Statement; default: all five in turn"),
    ] = ()
    capability: Annotated[
        str, typer.Option(metavar="NAME", help="What the questions test: Understanding, Reasoning or Knowledge")
    ] = "Understanding"
    judge: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Model that filters the items; default: the generator")
    ] = None
