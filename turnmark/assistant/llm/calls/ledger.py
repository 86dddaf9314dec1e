"""The ledger of a command that calls a model: prices, usage, cost and the limit of `--budget`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from math import isfinite
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from turnmark.assistant.config_files import CONFIG_NAME, sources
from turnmark.assistant.types import Usage
from turnmark.core.errors import RequestError
from turnmark.core.home import home
from turnmark.core.record import Record, mistakes_in
from turnmark.core.specs import parse_spec

# Price of a million tokens. The bound is far above any real price, and far below where a cost could overflow.
_Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Price(Record):
    """The price of a million tokens of a model, for prompts and for replies."""

    prompt: _Amount
    completion: _Amount
    currency: Annotated[str, StringConstraints(to_upper=True, pattern="^[A-Za-z]{3}$")] = Field(
        default="USD", description="three letters (ISO 4217)"
    )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """Return the cost of so many tokens, in `currency`."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


_PRICES = TypeAdapter(dict[str, Price])


def load_prices() -> dict[str, Price]:
    """Return the prices in the configuration files, by name of a model or by spec in normal form."""
    problems: list[str] = []
    prices: dict[str, Price] = {}
    for file in reversed(sources()):  # the first file takes precedence
        problems += file.problems()
        try:
            prices |= _PRICES.validate_python(file.table("prices"), strict=True)
        except ValidationError as error:
            problems += [f"{file.path}: prices.{mistake}" for mistake in mistakes_in(error)]
    if problems:
        raise RequestError(problems)
    return {_normalize_spec(name): price for name, price in prices.items()}


def price_of(spec: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a generator, or None if the files contain none.

    It is looked up by the spec, the spec without options, the spec without options and URL, and then the model.
    """
    try:
        parsed = parse_spec(spec)
    except RequestError:
        return prices.get(spec)
    without_options = replace(parsed, options={})
    without_url = replace(without_options, url="")
    for key in (str(parsed), str(without_options), str(without_url), parsed.argument):
        if key and key in prices:
            return prices[key]
    return None


def _normalize_spec(name: str) -> str:
    """Return a spec in normal form; the name of a model unchanged."""
    try:
        return str(parse_spec(name))
    except RequestError:
        return name


class Budget(Record):
    """The limit on what a run may spend: tokens of prompts and replies together, or money. One of the two is None."""

    tokens: int | None = None
    money: float | None = None
    currency: str | None = Field(default=None, description="currency of `money`; None with tokens")


_BUDGET = re.compile(r"([$€£]?)\s*([0-9]{1,15}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_SCALES = {"": 1, "K": 1_000, "M": 1_000_000}


def parse_budget(text: str) -> Budget:
    """Parse a budget: tokens as `200000`, `200k`, `1.5M`; money as `$5`, `5usd`, `2.50 EUR`."""
    match = _BUDGET.fullmatch(text.strip())
    if match is not None:
        symbol, number, unit = match[1], float(match[2]), match[3].upper()
        currency = None
        if not unit:
            currency = _SYMBOLS.get(symbol)
        elif not symbol and len(unit) == 3:
            currency = unit
        if currency and number > 0:
            return Budget(money=number, currency=currency)
        if not symbol and unit in _SCALES and round(number * _SCALES[unit]) > 0:
            return Budget(tokens=round(number * _SCALES[unit]))
    raise RequestError(
        f"--budget {text[:80]!r} is not a budget above 0; "
        "write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)"
    )


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
        usage_before = self.now
        for usage_of_role in usage.values():
            self.now += usage_of_role
        self._paid += _tokens(self.now) > _tokens(usage_before)

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
