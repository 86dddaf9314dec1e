"""What a synthesis would ask its models, before anything is spent: a few attempts with a model that only counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel

from turnmark.assistant.generators.base import Generator, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.evaluation.budget import OBJECT_TOKENS, Counting, added
from turnmark.evaluation.judging.mtrag import ClaimsReply, VerdictsReply
from turnmark.evaluation.synth.attempt import Attempt, Rejected, Seed, Synthesis, Tools

SAMPLED, CLAIMS = 5, 5
"""Attempts that an estimate is the mean of; claims that it takes an answer to make."""


class Reply(BaseModel):
    """Base of what prompts ask for: `example` is what a dry run takes for the reply, `tokens` its length."""

    example: ClassVar[dict[str, Any]]
    tokens: ClassVar[int] = OBJECT_TOKENS


class DryModel(Counting):
    """Counts the tokens of what it is asked, and replies what passes every filter."""

    def written(self, messages: Sequence[PromptMessage], schema: type[BaseModel] | None) -> tuple[str, int]:  # noqa: ARG002
        """See `Counting.written`."""
        value: dict[str, Any] = {}
        tokens = OBJECT_TOKENS
        if schema is not None and issubclass(schema, Reply):
            value, tokens = schema.example, schema.tokens
        elif schema is not None and issubclass(schema, ClaimsReply):
            value = {"claims": ["a claim"] * CLAIMS}
        elif schema is not None and issubclass(schema, VerdictsReply):
            verdicts = [{"claim": number, "supported": True} for number in range(1, CLAIMS + 1)]
            value, tokens = {"verdicts": verdicts}, OBJECT_TOKENS * 2
        return json.dumps(value) if value else "Verdict: [[no]]", tokens


def estimate(synthesis: Synthesis, seeds: Sequence[Seed], tools: Tools, generator: Generator) -> dict[str, Usage]:
    """Mean usage of an attempt by role, if every filter is passed; nothing is sent."""
    model = DryModel(generator.name, reply_tokens=generator.reply_tokens)
    dry_tools = replace(tools, dry=True, judge=model if tools.judge is not None else None)
    total: dict[str, Usage] = {}
    sampled = seeds[:SAMPLED]
    for seed in sampled:
        attempt = Attempt(seed, dry_tools, model)
        try:
            synthesis.make(attempt)
        except Rejected:  # a prompt that does not fit costs nothing
            pass
        total = added(total, attempt.usage)
    return {
        role: Usage(
            calls=-(-usage.calls // len(sampled)),
            prompt_tokens=usage.prompt_tokens // len(sampled),
            completion_tokens=usage.completion_tokens // len(sampled),
        )
        for role, usage in total.items()
    }
