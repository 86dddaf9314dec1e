"""What a synthesis would ask its models, before anything is spent: a few attempts with a model that only counts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from pydantic import BaseModel

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import Completion, PromptMessage
from turnmark.assistant.types import Usage
from turnmark.evaluation.engine import added
from turnmark.evaluation.estimate import OBJECT_TOKENS, Counting
from turnmark.evaluation.judging.mtrag import ClaimsReply, VerdictsReply
from turnmark.evaluation.synth.desk import Declined, Desk, Tools
from turnmark.evaluation.synth.kinds import Kind, Seed

REHEARSED = 5
"""Attempts that are rehearsed; the estimate is their mean."""
CLAIMS = 5
"""Claims that an answer is taken to make."""


class Reply(BaseModel):
    """Base of what prompts of a synthesis ask for: `example` is what a rehearsal is told, `tokens` how long it is."""

    example: ClassVar[dict[str, Any]]
    tokens: ClassVar[int] = OBJECT_TOKENS


class Rehearsal(Counting):
    """Counts the tokens of what it is asked, and says what passes every filter."""

    def complete(
        self,
        messages: Sequence[PromptMessage],
        *,
        max_tokens: int | None = None,
        schema: type[BaseModel] | None = None,
        **_: Any,
    ) -> Completion:
        """See `Generator.complete`."""
        tokens = OBJECT_TOKENS
        if schema is not None and issubclass(schema, Reply):
            value, tokens = schema.example, schema.tokens
        elif schema is not None and issubclass(schema, ClaimsReply):
            value = {"claims": ["a claim"] * CLAIMS}
        elif schema is not None and issubclass(schema, VerdictsReply):
            verdicts = [{"claim": n, "supported": True} for n in range(1, CLAIMS + 1)]
            value, tokens = {"verdicts": verdicts}, OBJECT_TOKENS * 2
        else:
            value = {}
        prompt = sum(count_tokens(message.content) for message in messages)
        return Completion(
            text=json.dumps(value) if value else "Verdict: [[no]]",
            finish_reason="stop",
            usage=Usage(calls=1, prompt_tokens=prompt, completion_tokens=tokens),
            model=self.name,
            max_tokens=max_tokens or self.reply_tokens,
        )


def rehearsed(kind: Kind, seeds: Sequence[Seed], tools: Tools, name: str, reply_tokens: int) -> dict[str, Usage]:
    """Mean usage of an attempt by role, if every filter is passed.

    Args:
        name, reply_tokens: of the generator.
    """
    chosen = seeds[:REHEARSED]
    total: dict[str, Usage] = {}
    model = Rehearsal(name, reply_tokens=reply_tokens)
    dry = replace(tools, rehearsing=True, judge=model if tools.judge is not None else None)
    for seed in chosen:
        desk = Desk(dry, model)
        try:
            kind.make(seed, desk)
        except Declined:  # a prompt that does not fit costs nothing
            pass
        total = added(total, desk.usage)
    return {
        role: Usage(
            calls=-(-used.calls // len(chosen)),
            prompt_tokens=used.prompt_tokens // len(chosen),
            completion_tokens=used.completion_tokens // len(chosen),
        )
        for role, used in total.items()
    }
