"""The ledger of a run with the usage of its samples and judges, and estimates before a run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel

from turnmark.assistant.llm.calls.ledger import Ledger, price_in
from turnmark.assistant.llm.calls.prices import load_prices, parse_budget, price_of
from turnmark.assistant.llm.calls.protocols import (
    CONTEXT_TOKENS,
    MAX_TOKENS,
    CallOptions,
    Completion,
    Generator,
    GeneratorBase,
    PromptMessage,
    traits_of,
)
from turnmark.assistant.llm.generators.openai import HOSTED_CONTEXT_TOKENS
from turnmark.assistant.llm.prompts.context_budget import count_tokens
from turnmark.assistant.types import Usage
from turnmark.evaluation.calls.judgment_store import JUDGMENTS_FILE, open_judgments
from turnmark.evaluation.storage.journal import SampleJournal, open_samples

T = TypeVar("T")


def add_usage(first: Mapping[str, Usage], second: Mapping[str, Usage]) -> dict[str, Usage]:
    """Add usage by role."""
    total = dict(first)
    for role, usage in second.items():
        total[role] = total.get(role, Usage()) + usage
    return total


def open_ledger(
    generator: str,
    budget: str | None,
    samples: SampleJournal | None = None,
    guess: Usage | None = None,
    judged: Usage | None = None,
) -> Ledger:
    """Open the ledger of a run, with prices, budget and earlier usage.

    Args:
        generator: spec of the generator, whose price is looked up.
        budget: value of `--budget`.
        samples: the samples of the run so far.
        guess: estimated usage of one sample.
        judged: usage of the run's judges and of other runs on the same budget.

    Raises:
        RequestError: the budget or the prices are wrong; see `price_in`.
    """
    prices = load_prices()
    limit = parse_budget(budget) if budget is not None else None
    price = price_of(generator, prices) if limit is None else price_in(limit, generator, prices)
    spent = judged or Usage()
    if samples:
        spent = spent_on(samples) + spent
    return Ledger(price, limit, spent, guess)


def spent_on(samples: SampleJournal) -> Usage:
    """Usage of a run's samples, over all their attempts."""
    total = Usage()
    for sample in samples.records():
        total = sum(sample.usage.values(), total)
    return total


def spent_on_judges(folder: Path) -> Usage:
    """Usage of the judgments in a run's folder."""
    return sum((judgment.usage for judgment in open_judgments(folder / JUDGMENTS_FILE).records()), Usage())


def spent_in(folder: Path) -> Usage:
    """Usage of samples and judgments in a run's folder; zero if there is no such folder."""
    return spent_on(open_samples(folder / "predictions.jsonl")) + spent_on_judges(folder)


# --- estimates -------------------------------------------------------------------------------------------------------

ANSWER_TOKENS, VERDICT_TOKENS, OBJECT_TOKENS = 200, 150, 60
"""Assumed tokens of a reply: an answer, a verdict with its reasons, a small JSON object."""
TWO_PART_REPLY = "Answer: An answer.\nProcedural instructions:\n1. A step."
CLAIMS_PER_ANSWER = 5
"""Assumed number of claims in an answer."""
PLACEHOLDER_FIELDS: Mapping[str, Any] = {
    "claims": ["a claim of some words"] * CLAIMS_PER_ANSWER,
    "verdicts": [{"claim": number, "reason": "", "supported": True} for number in range(1, CLAIMS_PER_ANSWER + 1)],
    "questions": ["why"],
    "evasive": True,
    "completion": 50,
}
"""Field of a judge's reply -> placeholder value in an estimate."""
MAX_ESTIMATED_ITEMS = 2000
"""Maximum number of items whose prompts are rendered; if there are more, every n-th one is rendered."""


class CountingModel(GeneratorBase):
    """A generator for estimates: counts the tokens of its prompts (`count_tokens`) and calls no model.

    Its replies are placeholders in the right form: the smallest value of the schema, or a short text.

    Args:
        verdict: its reply as a judge if no object is asked for, or None if it is not a judge.
    """

    def __init__(
        self,
        name: str,
        context_tokens: int = CONTEXT_TOKENS,
        reply_tokens: int = MAX_TOKENS,
        verdict: str | None = None,
    ) -> None:
        self.name, self.context_tokens, self.reply_tokens = name, context_tokens, reply_tokens
        self._verdict = verdict

    def complete(self, messages: Sequence[PromptMessage], **options: Unpack[CallOptions]) -> Completion:
        """See `Generator.complete`."""
        text, tokens = self._reply(messages, options.get("schema"))
        prompt = sum(count_tokens(message.content) for message in messages)
        usage = Usage(calls=1, prompt_tokens=prompt, completion_tokens=tokens)
        limit = options.get("max_tokens") or self.reply_tokens
        return Completion(text=text, finish_reason="stop", usage=usage, model=self.name, max_tokens=limit)

    def _reply(self, messages: Sequence[PromptMessage], schema: type[BaseModel] | None) -> tuple[str, int]:
        """Return a placeholder reply and the assumed tokens of a real one."""
        if schema is not None:
            value = smallest_value(schema.model_json_schema())
            if self._verdict is None:
                return json.dumps(value), OBJECT_TOKENS
            return json.dumps({name: PLACEHOLDER_FIELDS.get(name, value[name]) for name in value}), 2 * OBJECT_TOKENS
        if self._verdict is not None:
            return self._verdict, VERDICT_TOKENS
        asks_for_two_parts = "Procedural instructions:" in messages[0].content
        return TWO_PART_REPLY if asks_for_two_parts else "An answer. [1]", ANSWER_TOKENS


def smallest_value(schema: dict[str, Any]) -> Any:
    """Return the smallest value that fits a JSON schema of ours."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: smallest_value(part) for name, part in schema.get("properties", {}).items()}
    return {"string": "word", "array": [], "boolean": False, "integer": 1, "number": 1.0}.get(kind)


def counting_like(generator: Generator) -> CountingModel:
    """Return a counting generator for which prompts are made as for `generator`."""
    # Reading the generator's own context size could call its endpoint.
    counting = CountingModel(generator.name, HOSTED_CONTEXT_TOKENS, generator.reply_tokens)
    counting.size = traits_of(generator).size
    return counting


def estimate_items(
    items: Iterable[T], total: int, usage: Callable[[T], Mapping[str, Usage]], most: int = MAX_ESTIMATED_ITEMS
) -> dict[str, Usage]:
    """Estimate the usage by role over all items.

    Args:
        total: number of items, times repeats.
        usage: function from an item to its usage, by a `CountingModel`.
        most: maximum number of items to examine; if there are more, every n-th one is examined and the sum is scaled.
    """
    step = max(1, -(-total // most))
    sum_of_sampled: dict[str, Usage] = {}
    sampled = 0
    for item in itertools.islice(items, 0, None, step):
        sampled += 1
        with suppress(Exception):  # an item that cannot be answered, e.g. because it is too long, costs almost nothing
            sum_of_sampled = add_usage(sum_of_sampled, usage(item))
    scale = total / sampled if sampled else 0.0
    return {
        role: Usage(
            calls=round(one.calls * scale),
            prompt_tokens=round(one.prompt_tokens * scale),
            completion_tokens=round(one.completion_tokens * scale),
        )
        for role, one in sum_of_sampled.items()
    }


def usage_words(usage: Mapping[str, float | None]) -> str:
    """Describe usage in words: `12 calls, 3,400 tokens in, 210 out, cost 0.0021`; the cost only if a price is known."""
    calls, tokens_in, tokens_out = (usage.get(name) or 0 for name in ("calls", "prompt_tokens", "completion_tokens"))
    words = f"{calls:,.0f} calls, {tokens_in:,.0f} tokens in, {tokens_out:,.0f} out"
    cost = usage.get("cost")
    return words if cost is None else f"{words}, cost {cost:.4f}"
