"""What a run would ask a model, before anything is spent: the turn is run with a model that only counts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from pydantic import BaseModel

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import CONTEXT_TOKENS, MAX_TOKENS, Completion, Generator, OnText, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.engine import added
from turnmark.evaluation.records import Sample

ANSWER_TOKENS, OBJECT_TOKENS = 200, 60
"""Tokens that a reply is taken to have: an answer as long as the prompt asks for, or a small JSON object."""
TWO_PARTS = "Answer: An answer.\nProcedural instructions:\n1. A step."
MOST = 2000
"""Items whose prompts are rendered; of more, so many are taken at even distances and the sum is scaled."""


class Counting:
    """A generator that counts the tokens of what it is asked (`turnmark.assistant.budget.count_tokens`) and asks
    nobody.
    """

    def __init__(self, name: str, context_tokens: int = CONTEXT_TOKENS, reply_tokens: int = MAX_TOKENS) -> None:
        self.name, self.context_tokens, self.reply_tokens = name, context_tokens, reply_tokens

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,  # noqa: ARG002
        schema: type[BaseModel] | None = None,
        deadline: float | None = None,  # noqa: ARG002
        on_text: OnText | None = None,  # noqa: ARG002
        logprobs: bool = False,  # noqa: ARG002
    ) -> Completion:
        """A reply of the right form that says nothing."""
        said = TWO_PARTS if "Procedural instructions:" in messages[0].content else "An answer. [1]"
        text = json.dumps(filled(schema.model_json_schema())) if schema else said
        prompt = sum(count_tokens(message.content) for message in messages)
        usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=OBJECT_TOKENS if schema else ANSWER_TOKENS)
        limit = max_tokens or self.reply_tokens
        return Completion(text=text, finish_reason="stop", usage=usage, model=self.name, max_tokens=limit)


def filled(schema: dict[str, Any]) -> Any:
    """The smallest value that fits a JSON schema of ours."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: filled(part) for name, part in schema.get("properties", {}).items()}
    return {"string": "word", "array": [], "boolean": False, "integer": 1, "number": 1.0}.get(kind)


def estimate(
    items: Iterable[Item], total: int, answer: Callable[[Item, Generator | None], Sample], generator: Generator
) -> dict[str, Any]:
    """Usage by role over all items, one answer each.

    Args:
        total: how many items there are.
        answer: as the run's own, with parts that search nothing.
        generator: whose name and limits count.
    """
    counting = Counting(generator.name, reply_tokens=generator.reply_tokens)
    step = max(1, -(-total // MOST))
    usage: dict[str, Usage] = {}
    seen = 0
    for number, item in enumerate(items):
        if number % step == 0:
            seen += 1
            with suppress(Exception):  # an item that cannot be answered (too long, say) costs next to nothing
                usage = added(usage, answer(item, counting).usage)
    scale = total / seen if seen else 0.0
    return {
        role: {key: round(value * scale) for key, value in used.model_dump().items() if value is not None}
        for role, used in usage.items()
    }
