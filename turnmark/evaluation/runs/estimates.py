"""What a plan would do and cost: the output of `--dry-run`, and the usage expected of one sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from turnmark.assistant.llm.generators.replay import ReferenceGenerator
from turnmark.assistant.steps.agent.search_agent import MAX_ROUNDS, RESULTS_FACTOR
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.assistant.types import Usage
from turnmark.evaluation.calls.cost_estimates import counting_like, estimate_items
from turnmark.evaluation.judging.judge_calls import estimate_judgment
from turnmark.evaluation.judging.judges import Judge, open_judges
from turnmark.evaluation.judging.panel import ROLE
from turnmark.evaluation.records import Sample
from turnmark.evaluation.runs.judge_setup import judged_metrics
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.storage.corpus_passages import FirstPassages
from turnmark.evaluation.tasks.items import Item
from turnmark.retrieval.types import Retriever

MAX_ESTIMATED_CASES = 200
"""Maximum number of items whose judge prompts are rendered; if there are more, every n-th one is rendered."""
ESTIMATED_FIELDS = {"calls", "prompt_tokens", "completion_tokens"}
_ANSWER = "A sentence of typical length for an answer. " * 8
_STEPS = ({"step": "A step of typical length for a procedure.", "citations": []},) * 6
_PASSAGES = ("A sentence of a passage that a retriever found. " * 25,) * 5


def describe_plan(plan: Plan) -> dict[str, Any]:
    """Return the output of `--dry-run`: samples, and estimated calls and tokens by role."""
    manifest, task = plan.manifest, plan.task
    estimate, specs = estimate_answers(plan), manifest.specs
    if plan.request.judge and judged_metrics(type(task)):
        judges = open_judges(plan.request.judge)
        estimate |= _estimate_judging(plan, judges)
        specs = specs | {ROLE: ", ".join(judge.name for judge in judges)}
    return {
        "dry_run": True,
        "benchmark": manifest.benchmark,
        "task": manifest.task,
        "setting": manifest.setting,
        "data": manifest.data.model_dump(),
        "specs": specs,
        "domains": dict(Counter(plan.domain_of_id.values())) if task.retrieves else list(manifest.domains),
        "n": plan.samples,
        "estimated": {role: usage.model_dump(include=ESTIMATED_FIELDS) for role, usage in estimate.items()},
        "run": str(plan.folder),
        "notes": [*plan.notes, *_note_tools(plan)],
    }


def _note_tools(plan: Plan) -> tuple[str, ...]:
    """Return a note that the estimate leaves out further searches with tools, whose number is not known in advance."""
    config = plan.request.config()
    with_tools = Assistant.from_parts(config, AssistantParts(generator=plan.generator)).forms["retrieve"] == "agent"
    searches = plan.manifest.specs.get("query") == "assistant" and not plan.task.retrieves
    if not (with_tools and searches and plan.task.protocol == "turn"):
        return ()
    return (
        "the estimate is for samples that are answered at once; one that searches further with tools "
        f"(retrieve=agent) makes up to {MAX_ROUNDS} more calls, each with all earlier messages, and reads up to "
        f"{RESULTS_FACTOR * config.tokens:,} tokens of results",
    )


def estimate_answers(plan: Plan) -> dict[str, Usage]:
    """Estimate calls and tokens by role, from prompts with passages of the corpus."""
    generator = plan.generator
    if generator is None or isinstance(generator, ReferenceGenerator):
        return {}
    retrievers: dict[str, Retriever] = {name: FirstPassages(path) for name, path in plan.task.corpora.items()}
    assistant = Assistant.from_parts(plan.request.config(), AssistantParts(generator=generator))
    task = plan.task.using(assistant, retrievers)
    counting = counting_like(generator)
    return estimate_items(plan.selected(task), plan.samples, lambda item: task.answer(item, counting).usage)


def mean_sample(plan: Plan) -> Usage:
    """Return the estimated usage of one sample."""
    total = sum(estimate_answers(plan).values(), Usage())
    n = max(1, plan.samples)
    return Usage(prompt_tokens=total.prompt_tokens // n, completion_tokens=total.completion_tokens // n)


def _estimate_judging(plan: Plan, judges: Sequence[Judge]) -> dict[str, Usage]:
    """Estimate calls and tokens of all judges, with placeholder answers of typical length.

    If the run searches, a case without passages gets placeholder passages.
    """
    task, prompts = plan.task, plan.request.assistant.prompts
    rubrics = task.rubrics(plan.manifest.setting, plan.request.embedder)

    def usage(item: Item) -> dict[str, Usage]:
        sample = Sample(id=item.id, status="done", prediction=_ANSWER, procedure=_STEPS, decision="answer")
        case = task.context(item, sample)
        if task.searched and not case.passages:
            case = replace(case, passages=_PASSAGES)
        asked = [
            rubric for rubric in rubrics if not rubric.without(case) for judge in judges if judge.grades(rubric.name)
        ]
        return {ROLE: sum((estimate_judgment(rubric, case, prompts) for rubric in asked), Usage())}

    return estimate_items(plan.selected(task), plan.items * plan.request.repeat, usage, MAX_ESTIMATED_CASES)
