"""Ratings that a judge writes as lines of text, for prompts that ask for no JSON (InsCoQA appendix E):

    Total rating: 8
    Task completion rate: 75

A number stands after its name; the last one counts, and all of them must be there and on their scales.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from turnmark.assistant.generators.base import Generator, GeneratorError, PromptMessage
from turnmark.assistant.steps.llm import written
from turnmark.assistant.structured import Failure, joined
from turnmark.assistant.types import Usage
from turnmark.evaluation.judging.verdicts import spoken

R = TypeVar("R", bound=BaseModel)
TRIES = 2


def ask_ratings(
    generator: Generator, messages: Sequence[PromptMessage], names: Mapping[str, str], reply: type[R]
) -> tuple[R | Failure, Usage]:
    """The ratings of a reply in plain text, or a failure with what the judge wrote last; and what it cost.

    A reply that lacks a rating, or has one off its scale, is asked for once more.

    Args:
        names: name of a rating in the text -> field of `reply`, which has a field `reason` besides.
    """
    usage, raw, problem = Usage(), "", ""
    for _ in range(TRIES):
        try:
            answer = written(generator, joined(messages))
        except GeneratorError as error:
            return Failure(kind=error.kind, raw=raw, reason=str(error)), usage + error.usage
        usage, raw = usage + answer.usage, answer.text
        if answer.note is not None:
            kind = "length" if answer.finish_reason == "length" else "content_filter"
            return Failure(kind=kind, raw=raw, reason=answer.note), usage
        text = spoken(answer.text)
        numbers = {field: number for name, field in names.items() if (number := _last(name, text)) is not None}
        missing = [name for name, field in names.items() if field not in numbers]
        try:
            if not missing:
                return reply.model_validate({"reason": text.strip(), **numbers}), usage
            problem = f"no line '{missing[0]}: N'"
        except ValidationError as error:
            problem = error.errors(include_url=False)[0]["msg"]
    return Failure(kind="invalid", raw=raw, reason=f"no ratings, twice: {problem}"), usage


def _last(name: str, text: str) -> str | None:
    numbers = re.findall(rf"{re.escape(name)}[*_`]*\s*:\s*[*_`(]*([0-9.]+\s*(?:/\s*[0-9]+|%)?)", text, re.IGNORECASE)
    return numbers[-1].strip().rstrip(".") if numbers else None
