"""Declaration of the benchmark InsCoQA."""

from __future__ import annotations

from turnmark.evaluation.benchmarks.inscoqa.synthesis_request import InscoqaSynthRequest
from turnmark.evaluation.synth.request import DeclaredSynthesis
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
SYNTHESES = (DeclaredSynthesis("inscoqa", f"{_HERE}.synthesis:Instructions", InscoqaSynthRequest),)
