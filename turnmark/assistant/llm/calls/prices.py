"""Read the prices of models from the configuration files, and parse budgets."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from turnmark.assistant.config_files import sources
from turnmark.core.errors import RequestError
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
    keys = (str(parsed), str(without_options), str(replace(without_options, url="")), parsed.argument)
    return next((prices[key] for key in keys if key and key in prices), None)


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
