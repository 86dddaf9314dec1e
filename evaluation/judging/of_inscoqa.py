"""What judges are asked of InsCoQA: INSEVAL's judge score and task completion rate (section 5.1, appendix E)."""

from __future__ import annotations

from typing import Any

from turnmark.corpora.inscoqa import Task
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.judging.inscoqa_embedded import COMPLETION_NAME, SCORE_NAME, embedded_inseval
from turnmark.evaluation.judging.inscoqa_measures import COVERAGE, INSEVAL, JUDGE_SCORE, REFERENCE_STEP, STEP, STEPS
from turnmark.evaluation.judging.juries import Jury
from turnmark.evaluation.judging.records import Case
from turnmark.evaluation.records import Sample

NAMES = (JUDGE_SCORE, COVERAGE, SCORE_NAME, COMPLETION_NAME)
"""What judges can be asked for. `task_completion` comes with the judge score, `task_completion[steps]` with the
coverage, its `[gap]` with both."""


def names(benchmark: str, task: str) -> tuple[str, ...]:  # noqa: ARG001
    """See `turnmark.evaluation.judging.juries.names_of`."""
    return NAMES if task == "generation" else ()


def jury(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:  # noqa: ARG001
    """See `turnmark.evaluation.judging.juries.jury_of`."""
    from turnmark.evaluation.embedding import shared_embedder

    return Jury((INSEVAL, STEPS, *embedded_inseval(shared_embedder(embedder), embedder)), case_of)


def case_of(item: Item, sample: Sample, context: Any) -> Case:  # noqa: ARG001
    """Item, sample and context of InsCoQA -> what is judged; the judge of appendix E is shown no documents."""
    task: Task = item.task
    return Case(
        question=task.question,
        answer=context.answer,
        history=task.history,
        reference=task.answer,
        more=(
            *((STEP, step) for step in context.steps),
            *((REFERENCE_STEP, step) for step in task.procedure),
        ),
    )
