"""Declaration of the benchmark KIWI."""

from __future__ import annotations

from turnmark.evaluation.tasks.benchmark import DeclaredBenchmark

_HERE = "turnmark.evaluation.benchmarks.kiwi"
BENCHMARKS = (
    DeclaredBenchmark(
        "kiwi",
        tasks=f"{_HERE}.revise:TASKS",
        data="turnmark.corpora.kiwi:locate",
        options=f"{_HERE}.options:KiwiOptions",
        cluster=("question", "questions"),
        main=True,
        suite={"kiwi-judge": ("judge", None), "kiwi-analyse": ("analyse", None)},
    ),
)
