"""The benchmarks of this package, each in its folder: tasks, rubrics, prompts, synthesis and published values.

A new benchmark is a folder, or a single module, with a declaration like those below, and an entry in the table here.
"""

from __future__ import annotations

from turnmark.evaluation.benchmarks import compound_qa, inscoqa, kiwi, mtrag
from turnmark.evaluation.tasks.declarations import DeclaredBenchmark

_CHECK = "turnmark.evaluation.check"
OWN_QUESTIONS = DeclaredBenchmark(
    "questions",
    tasks=f"{_CHECK}.question_task:OwnQuestions",
    data=f"{_CHECK}.question_file:read_questions",
    options="turnmark.evaluation.tasks.request:TaskOptions",
    command="check",
)
BENCHMARKS = (*mtrag.BENCHMARKS, *inscoqa.BENCHMARKS, *compound_qa.BENCHMARKS, *kiwi.BENCHMARKS, OWN_QUESTIONS)
SYNTHESES = (*mtrag.SYNTHESES, *inscoqa.SYNTHESES, *compound_qa.SYNTHESES)
