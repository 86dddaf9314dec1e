"""The benchmarks of this package, each in its folder: tasks, rubrics, prompts, synthesis and published values.

A new benchmark is a folder, or a single module, with a declaration like those below, and an entry in the table here.
"""

from __future__ import annotations

from turnmark.evaluation.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.evaluation.tasks.declarations import DeclaredBenchmark

_CHECK = "turnmark.evaluation.check"
_OPTIONS = "turnmark.evaluation.tasks.request:TaskOptions"
CHECKS = (
    DeclaredBenchmark(
        "questions",
        tasks=f"{_CHECK}.own_questions.question_task:OwnQuestions",
        data=f"{_CHECK}.own_questions.question_file:read_questions",
        options=_OPTIONS,
        command="check",
    ),
    DeclaredBenchmark(
        "simulated-users",
        tasks=f"{_CHECK}.simulation.users_task:SimulatedUsers",
        data="",
        options=_OPTIONS,
        cluster=("user", "users"),
        command="check",
    ),
)
"""What `turnmark check` runs over the user's own index."""
BENCHMARKS = (*mtrag.BENCHMARKS, *inscoqa.BENCHMARKS, *compound_qa.BENCHMARKS, *kiwi.BENCHMARKS, *CHECKS)
SYNTHESES = (*mtrag.SYNTHESES, *inscoqa.SYNTHESES, *compound_qa.SYNTHESES)
