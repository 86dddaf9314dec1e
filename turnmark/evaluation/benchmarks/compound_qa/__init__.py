"""Declaration of the benchmark Compound-QA."""

from __future__ import annotations

from turnmark.evaluation.benchmarks.compound_qa.synthesis_request import CompoundSynthRequest
from turnmark.evaluation.synth.request import DeclaredSynthesis
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
SYNTHESES = (DeclaredSynthesis("compound-qa", f"{_HERE}.synthesis:CompoundQuestions", CompoundSynthRequest),)
