"""The ledger of a command that calls a model: usage, cost and the limit of `--budget`."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite

from turnmark.assistant.config_files import CONFIG_NAME
from turnmark.assistant.llm.calls.prices import Budget, Price, price_of
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.core.home import home

SAFETY_FACTOR = 4
"""Factor by which the first concurrent samples are assumed to exceed the estimated cost."""


def _tokens(usage: Usage) -> float:
    return usage.prompt_tokens + usage.completion_tokens


def _money(usage: Usage) -> float:
    return usage.cost or 0.0


def with_cost(usage: Usage, price: Price | None) -> Usage:
    """Add the cost to usage: the endpoint's, if it reported a finite one; otherwise by the price; without one, None."""
    if usage.cost is not None and isfinite(usage.cost):
        return usage
    cost = price.cost(usage.prompt_tokens, usage.completion_tokens) if price is not None else None
    return usage.model_copy(update={"cost": cost})


class Ledger:
    """The usage of a command's samples, which decides whether the budget allows another one.

    Args:
        price: price of the generator's tokens, or None if it is not configured.
        budget: the limit, or None for no limit.
        spent: usage of earlier calls of the same command.
        guess: estimated usage of one sample, used until a sample has ended.

    Attributes:
        others: role -> price, for roles whose calls go to another model than the generator.
        now: usage of this call.
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
        self._currency = budget.currency if budget is not None else None
        if price is not None:
            self._currency = price.currency
        self._before = with_cost(spent or Usage(), price)
        self._guess = with_cost(guess or Usage(), price)
        self.now = Usage()
        self._paid = 0

    @property
    def guessed(self) -> bool:
        """Whether the usage of one sample has been estimated."""
        return _tokens(self._guess) > 0

    def expect(self, usage: Usage) -> None:
        """Set the estimated usage of one sample."""
        self._guess = with_cost(usage, self._price)

    def priced(self, usage: Mapping[str, Usage]) -> dict[str, Usage]:
        """Add the cost to usage by role, where a price is known."""
        return {role: with_cost(one, self.others.get(role, self._price)) for role, one in usage.items()}

    def spend(self, usage: Mapping[str, Usage]) -> None:
        """Record the usage of a sample, with its cost."""
        before = self.now
        self.now = sum(usage.values(), before)
        self._paid += _tokens(self.now) > _tokens(before)

    @property
    def total(self) -> Usage:
        """Usage of this call and of earlier calls."""
        return self._before + self.now

    def affords(self, running: int) -> bool:
        """Return whether the budget allows one more sample besides `running` others.

        If no other sample is running, the new one is assumed to cost the mean of the samples so far, or the estimate if
        none has ended. If others are running, it is assumed to cost the higher of the two, times a safety factor that
        falls as samples end. The factor is needed because the first samples to end are the short ones, and a wrong
        estimate affects every running sample.
        """
        if self._budget is None:
            return True
        measure, limit = (_tokens, self._budget.tokens) if self._budget.tokens else (_money, self._budget.money)
        guess = measure(self._guess)
        cost_of_one = measure(self.now) / self._paid if self._paid else guess
        if running:
            cost_of_one = max(cost_of_one, guess) * (1 + (SAFETY_FACTOR - 1) / (1 + self._paid))
        spent, limit = measure(self.total), limit or 0
        tolerance = 1 + 1e-9  # sums of money are not exact
        return spent < limit and spent + (running + 1) * cost_of_one <= limit * tolerance

    def exhausted(self) -> str:
        """Return the reason why no more samples are started."""
        return f"stopped by --budget: {', '.join(self.in_words()) or 'nothing'} spent, and one more would exceed it"

    def in_words(self) -> list[str]:
        """Return the usage so far, over all calls: tokens and, if there is a price, money."""
        total = self.total
        tokens = total.prompt_tokens + total.completion_tokens
        words = [f"{tokens:,} tokens"] if tokens else []
        if self._currency is not None and total.cost is not None:
            words.append(f"{total.cost:.4f} {self._currency}")
        return words


def price_in(budget: Budget, spec: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a model, which must be in the currency of the budget.

    Raises:
        RequestError: the budget is money and the model has no price, or the price is in another currency.
    """
    price = price_of(spec, prices)
    if budget.money is not None and price is None:
        raise RequestError(
            f"--budget: no price is known for {spec}; give the budget in tokens, e.g. --budget 200k, or write the "
            f"price of a million tokens into {home() / CONFIG_NAME}:\n"
            f'  [prices."{spec}"]\n  prompt = 0.00\n  completion = 0.00\n  currency = "{budget.currency}"'
        )
    if price is not None and budget.currency not in (None, price.currency):
        raise RequestError(f"--budget: the price of {spec} is in {price.currency}, not {budget.currency}")
    return price
