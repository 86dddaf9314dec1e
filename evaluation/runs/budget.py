"""What a run has spent on its samples and their judges, what it may spend, and what it would take."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar, Unpack

from pydantic import BaseModel

from turnmark.assistant.budget import count_tokens
from turnmark.assistant.generators.base import (
    CONTEXT_TOKENS,
    MAX_TOKENS,
    CallOptions,
    Completion,
    Generator,
    GeneratorBase,
    PromptMessage,
    traits_of,
)
from turnmark.assistant.generators.openai import HOSTED_CONTEXT
from turnmark.assistant.settings import Budget, Price, load_prices, parse_budget, price_of
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.evaluation.runs.journal import SampleJournal, open_samples

T = TypeVar("T")

CAUTION = 4
"""The first samples that run at once are each assumed to cost so many times the guess."""


def _tokens(used: Usage) -> float:
    return used.prompt_tokens + used.completion_tokens


def _money(used: Usage) -> float:
    return used.cost or 0.0


def add_usage(first: Mapping[str, Usage], second: Mapping[str, Usage]) -> dict[str, Usage]:
    """Usage by role, summed."""
    total = dict(first)
    for role, used in second.items():
        total[role] = total.get(role, Usage()) + used
    return total


def with_cost(used: Usage, price: Price | None) -> Usage:
    """Usage with its cost: the endpoint's, if it reported a finite one, else by the price, if there is one."""
    if used.cost is not None and isfinite(used.cost):
        return used
    cost = price.cost(used.prompt_tokens, used.completion_tokens) if price is not None else None
    return used.model_copy(update={"cost": cost})


class Ledger:
    """Adds up usage over all calls of a command.

    Args:
        price: of the generator's tokens, if one is configured.
        budget: the most to be spent; None: no limit.
        spent: what earlier calls of the command have used.
        guess: what a sample takes, while none has ended.

    Attributes:
        others: role -> price, for roles whose calls go to another model than the generator.
    """

    def __init__(
        self,
        price: Price | None = None,
        budget: Budget | None = None,
        spent: Usage | None = None,
        guess: Usage | None = None,
    ) -> None:
        self._price, self._budget = price, budget
        self.others: dict[str, Price | None] = {}
        self._currency = price.currency if price is not None else budget.currency if budget is not None else None
        self._before = with_cost(spent or Usage(), price)
        self._guess = with_cost(guess or Usage(), price)
        self.now = Usage()
        self._paid = 0

    @property
    def guessed(self) -> bool:
        """Whether there is a guess of what one takes."""
        return _tokens(self._guess) > 0

    def expect(self, usage: Usage) -> None:
        """Guess what one takes, while none has ended."""
        self._guess = with_cost(usage, self._price)

    def priced(self, usage: Mapping[str, Usage]) -> dict[str, Usage]:
        """Usage by role with its cost, if there is a price."""
        return {role: with_cost(used, self.others.get(role, self._price)) for role, used in usage.items()}

    def spend(self, usage: Mapping[str, Usage]) -> None:
        """Record what a sample used, priced."""
        usage_before = self.now
        for used in usage.values():
            self.now += used
        self._paid += _tokens(self.now) > _tokens(usage_before)

    @property
    def total(self) -> Usage:
        """What all calls together have used."""
        return self._before + self.now

    def affords(self, running: int) -> bool:
        """Whether one more sample fits into the budget next to those that are running.

        Alone it is assumed to cost the mean of those that used anything, or the guess before there is one. Next to
        others the higher of the two counts, and while few have ended more than that: the first to end are short ones,
        and an error about one sample is an error about all that run at once.
        """
        if self._budget is None:
            return True
        measure, limit = (_tokens, self._budget.tokens) if self._budget.tokens else (_money, self._budget.money)
        guess = measure(self._guess)
        cost_of_one = measure(self.now) / self._paid if self._paid else guess
        if running:
            cost_of_one = max(cost_of_one, guess) * (1 + (CAUTION - 1) / (1 + self._paid))
        spent, limit = measure(self.total), limit or 0
        tolerance = 1 + 1e-9  # sums of money are not exact
        return spent < limit and spent + (running + 1) * cost_of_one <= limit * tolerance

    def exhausted(self) -> str:
        """Why no more samples are started."""
        return f"stopped by --budget: {', '.join(self.in_words()) or 'nothing'} spent, and one more would exceed it"

    def in_words(self) -> list[str]:
        """What was spent so far, over all calls: tokens, and money if there is a price."""
        used = self.total
        tokens = used.prompt_tokens + used.completion_tokens
        words = [f"{tokens:,} tokens"] if tokens else []
        if self._currency is not None and used.cost is not None:
            words.append(f"{used.cost:.4f} {self._currency}")
        return words


def open_ledger(
    generator: str,
    budget: str | None,
    samples: SampleJournal | None = None,
    guess: Usage | None = None,
    judged: Usage | None = None,
) -> Ledger:
    """Prices, budget and what a run has spent already.

    Args:
        generator: its spec, by which a price is looked up.
        budget: `--budget` as it was given.
        samples: those of the run so far.
        guess: what a sample may cost.
        judged: what judges of the run, and other runs on the same budget, have used.
    """
    prices = load_prices()
    limit = parse_budget(budget) if budget is not None else None
    price = price_of(generator, prices) if limit is None else price_in(limit, generator, prices)
    return Ledger(price, limit, (spent_on(samples) if samples else Usage()) + (judged or Usage()), guess)


def price_in(budget: Budget, spec: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a model; one in the currency of the budget if that is money."""
    price = price_of(spec, prices)
    if budget.money is not None and price is None:
        raise RequestError(
            f"--budget: no price is known for {spec}; write one into config.toml in $TURNMARK_HOME, or give the budget "
            "in tokens"
        )
    if price is not None and budget.currency not in (None, price.currency):
        raise RequestError(f"--budget: the price of {spec} is in {price.currency}, not {budget.currency}")
    return price


def spent_on(samples: SampleJournal) -> Usage:
    """What the samples of a run have used, over all their attempts."""
    return sum((used for sample in samples.records() for used in sample.usage.values()), Usage())


def spent_on_judges(folder: Path) -> Usage:
    """What the judgements in a run's folder have used."""
    from turnmark.evaluation.judging.rubrics import FILE, open_judgements

    return sum((judgement.usage for judgement in open_judgements(folder / FILE).records()), Usage())


def spent_in(folder: Path) -> Usage:
    """What samples and judgements in a run's folder have used; nothing if there is no such folder."""
    return spent_on(open_samples(folder / "predictions.jsonl")) + spent_on_judges(folder)


# --- what it would take ----------------------------------------------------------------------------------------------

ANSWER_TOKENS, VERDICT_TOKENS, OBJECT_TOKENS = 200, 150, 60
"""Tokens that a reply is assumed to have: an answer, a verdict with its reasons, a small JSON object."""
TWO_PARTS = "Answer: An answer.\nProcedural instructions:\n1. A step."
CLAIMS = 5
"""Claims that an answer is assumed to make."""
JUDGED: Mapping[str, Any] = {
    "claims": ["a claim of some words"] * CLAIMS,
    "verdicts": [{"claim": number, "reason": "", "supported": True} for number in range(1, CLAIMS + 1)],
    "questions": ["why"],
    "evasive": True,
    "completion": 50,
}
"""Field of a judge's reply -> its value in an estimate."""
MOST = 2000
"""Items whose prompts are rendered; of more, so many are taken at even distances and the sum is scaled."""


class CountingModel(GeneratorBase):
    """Counts the tokens of what it is asked (`turnmark.assistant.budget.count_tokens`) and asks nobody.

    Its replies have the right form and say nothing: a schema's own `example` (and `tokens`), or the smallest value.

    Args:
        verdict: what it replies as a judge if no object is asked for; None: it is not a judge.
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
        """A reply, and the tokens that one is assumed to have."""
        if schema is not None:
            value = smallest_value(schema.model_json_schema())
            if self._verdict is None:
                return json.dumps(value), OBJECT_TOKENS
            return json.dumps({name: JUDGED.get(name, value[name]) for name in value}), 2 * OBJECT_TOKENS
        if self._verdict is not None:
            return self._verdict, VERDICT_TOKENS
        return TWO_PARTS if "Procedural instructions:" in messages[0].content else "An answer. [1]", ANSWER_TOKENS


def smallest_value(schema: dict[str, Any]) -> Any:
    """The smallest value that fits a JSON schema of ours."""
    if "default" in schema:
        return schema["default"]
    if "enum" in schema:
        return schema["enum"][-1]
    kind = schema.get("type", "string")
    if kind == "object":
        return {name: smallest_value(part) for name, part in schema.get("properties", {}).items()}
    return {"string": "word", "array": [], "boolean": False, "integer": 1, "number": 1.0}.get(kind)


def counting_like(generator: Generator) -> CountingModel:
    """A generator that counts, and for which turns are laid out as for this one."""
    # Not the generator's own context, which an endpoint would be asked for.
    counting = CountingModel(generator.name, HOSTED_CONTEXT, generator.reply_tokens)
    counting.size = traits_of(generator).size
    return counting


def estimate_items(
    items: Iterable[T], total: int, usage: Callable[[T], Mapping[str, Usage]], most: int = MOST
) -> dict[str, Usage]:
    """Usage by role over all items: of a run, its judges.

    Args:
        total: how many items there are; with repeats, each counts so often.
        usage: what one item takes, by a `CountingModel`.
        most: items that are looked at, at even distances.
    """
    step = max(1, -(-total // most))
    used: dict[str, Usage] = {}
    sampled = 0
    for item in itertools.islice(items, 0, None, step):
        sampled += 1
        with suppress(Exception):  # an item that cannot be answered (too long, say) costs next to nothing
            used = add_usage(used, usage(item))
    scale = total / sampled if sampled else 0.0
    return {
        role: Usage(
            calls=round(one.calls * scale),
            prompt_tokens=round(one.prompt_tokens * scale),
            completion_tokens=round(one.completion_tokens * scale),
        )
        for role, one in used.items()
    }


def usage_json(used: Mapping[str, Usage]) -> dict[str, dict[str, int]]:
    """An estimate as `--dry-run` prints it."""
    return {role: one.model_dump(include={"calls", "prompt_tokens", "completion_tokens"}) for role, one in used.items()}
