"""Declaration of the benchmark Compound-QA."""

from __future__ import annotations

from typing import Annotated

import typer
from pydantic import BeforeValidator

from turnmark.core.flags import split_names
from turnmark.evaluation.synth.request import DeclaredSynthesis, SynthRequest
from turnmark.evaluation.tasks.declarations import DeclaredBenchmark, JudgePreset

_HERE = "turnmark.evaluation.benchmarks.compound_qa"
BENCHMARKS = (
    DeclaredBenchmark(
        "compound-qa",
        tasks=f"{_HERE}.generation:CompoundQA",
        data="turnmark.corpora.benchmarks.compound_qa:locate",
        options=f"{_HERE}.options:CompoundOptions",
        cluster=("source context", "source contexts"),
        main=True,
        judges=JudgePreset("gpt-3.5-turbo"),  # section 4
    ),
)


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


SYNTHESES = (DeclaredSynthesis("compound-qa", f"{_HERE}.synthesis:CompoundQuestions", CompoundSynthRequest),)
