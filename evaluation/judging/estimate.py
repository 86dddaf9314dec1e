"""What judging a run would take, before anything is spent: the judges' prompts, counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from turnmark.assistant.generators.base import CONTEXT_TOKENS, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.budget import OBJECT_TOKENS, Counting, filled
from turnmark.evaluation.judging.judge import Judge
from turnmark.evaluation.judging.judgements import Case
from turnmark.evaluation.judging.rubrics import Rubric
from turnmark.evaluation.judging.verdicts import Offer, Scale
from turnmark.evaluation.records import Sample

REASONS_TOKENS = 150
CLAIMS = 5
"""Claims that a reply is taken to make."""
MOST = 200
"""Items whose prompts are rendered; of more, so many are taken at even distances and the sum is scaled."""
_ANSWER = "A sentence of an answer as long as most of them are. " * 8
_STEPS = ({"step": "A step of a procedure as long as most of them are.", "citations": []},) * 6
_PASSAGES = ("A sentence of a passage that a retriever found. " * 25,) * 5


class _CountingJudge(Counting):
    """A judge that counts the tokens of what it is asked, gives verdicts of the right form, and asks nobody."""

    def __init__(self, offer: Offer | None) -> None:
        super().__init__("counting", 8 * CONTEXT_TOKENS, 1024)
        self._verdict = "" if offer is None else _verdict(offer)

    def written(self, messages: Sequence[PromptMessage], schema: type[BaseModel] | None) -> tuple[str, int]:  # noqa: ARG002
        """See `Counting.written`."""
        return (_objects(schema), OBJECT_TOKENS * 2) if schema else (self._verdict, REASONS_TOKENS)


def _objects(schema: type[BaseModel]) -> str:
    verdicts = [{"claim": n, "reason": "", "supported": True} for n in range(1, CLAIMS + 1)]
    examples: dict[str, Any] = {
        "claims": ["a claim of some words"] * CLAIMS, "verdicts": verdicts, "questions": ["why"], "evasive": True,
        "completion": 50,
    }  # fmt: skip
    defaults = filled(schema.model_json_schema())
    return json.dumps({name: examples.get(name, defaults[name]) for name in schema.model_fields})


def _verdict(offer: Offer) -> str:
    label = f"{offer.low:g}" if isinstance(offer, Scale) else offer.offered[-1]
    return f"{offer.name}: [[{label}]]"


def counted(rubric: Rubric, case: Case, prompts: Path | None) -> Usage:
    """What asking a judge about one case would take."""
    return rubric.ask(_CountingJudge(rubric.offers), case, prompts).usage


def estimate_judging(
    benchmark: Benchmark[Any],
    items: Iterable[Item],
    total: int,
    judges: Sequence[Judge],
    rubrics: Sequence[Rubric],
    case: Callable[[Item, Sample, Any], Case],
    searched: bool,
    prompts: Path | None = None,
) -> dict[str, int]:
    """Calls and tokens of all judges, over answers of common length that nobody has written yet.

    Args:
        total: how many items there are.
        searched: passages are found, so that a task without any of its own is judged with some.
        prompts: folder with prompts of one's own.
    """
    step = max(1, -(-total // MOST))
    used, sampled = Usage(), 0
    for number, item in enumerate(items):
        if number % step:
            continue
        sampled += 1
        sample = Sample(id=item.id, status="done", prediction=_ANSWER, procedure=_STEPS, decision="answer")
        case_shown = case(item, sample, benchmark.context(item, sample))
        if searched and not case_shown.passages:
            case_shown = replace(case_shown, passages=_PASSAGES)
        for rubric in rubrics:
            times = sum(judge.grades(rubric.name) for judge in judges)
            if times and not rubric.without(case_shown):
                once = counted(rubric, case_shown, prompts)
                for _ in range(times):
                    used += once
    scale = total / sampled if sampled else 0.0
    return {
        "calls": round(used.calls * scale),
        "prompt_tokens": round(used.prompt_tokens * scale),
        "completion_tokens": round(used.completion_tokens * scale),
    }
