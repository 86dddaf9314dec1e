"""Declaration of the benchmark KIWI."""

from __future__ import annotations

from turnmark.evaluation.tasks.declarations import DeclaredBenchmark

_HERE = "turnmark.evaluation.benchmarks.kiwi"
BENCHMARKS = (
    DeclaredBenchmark(
        "kiwi",
        tasks=f"{_HERE}.revision:TASKS",
        data="turnmark.corpora.benchmarks.kiwi:locate",
        options=f"{_HERE}.options:KiwiOptions",
        cluster=("question", "questions"),
        main=True,
        suite={"kiwi-judge": ("judge", None), "kiwi-analyse": ("analyse", None)},
    ),
)
