"""Declaration of the benchmark InsCoQA."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.synth.request import DeclaredSynthesis, SynthRequest
from turnmark.evaluation.tasks.declarations import DeclaredBenchmark, JudgePreset

_HERE = "turnmark.evaluation.benchmarks.inscoqa"
BENCHMARKS = (
    DeclaredBenchmark(
        "inscoqa",
        tasks=f"{_HERE}.generation:InsCoQA",
        data="turnmark.corpora.benchmarks.inscoqa:locate",
        options=f"{_HERE}.options:InscoqaOptions",
        cluster=("set of documents", "sets of documents"),
        main=True,
        suite={"inscoqa-rag": (None, "rag")},
        judges=JudgePreset("Qwen/Qwen2-7B-Instruct"),  # section 5.1, by its name at Hugging Face
    ),
)


class InscoqaSynthRequest(SynthRequest):
    """Make conversations over several instructional documents, with answer and procedure, in the form of InsCoQA."""

    documents: Annotated[int, typer.Option(metavar="N", help="Maximum number of documents per item")] = 6


SYNTHESES = (DeclaredSynthesis("inscoqa", f"{_HERE}.synthesis:Instructions", InscoqaSynthRequest),)
