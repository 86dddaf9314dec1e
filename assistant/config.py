"""What the configuration files say of prices, the cache and vLLM; and budgets as they are written.

    [prices."gpt-4o-mini"]    # the model's name, or a generator's spec: `openai:gpt-4o-mini`, with its URL if need be
    prompt = 0.15             # for a million tokens of the prompt
    completion = 0.60         # for a million tokens of the reply
    currency = "USD"          # the default

    [cache]                   # of models' replies: docs/turn.md
    megabytes = 512

    [vllm]                    # a server that is started here: docs/turn.md
    command = "vllm serve"
    arguments = ["--dtype", "half"]
    start = 600               # seconds that it may take until it answers

    [tracing]                 # spans of every turn: docs/serve.md
    on = true
    content = false           # what was said and found, too
    endpoint = "http://localhost:4318/v1/traces"

`turnmark.assistant.settings` says which files there are. They hold no keys: those come from the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from turnmark.assistant.settings import (
    USER_ONLY,
    Source,
    kind_of,
    read_source_file,
    short,
    sources,
    table_problems,
    unknown,
)
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import parse_spec
from turnmark.corpora.types import Record

# Of a million tokens. Far above any price there is, and far below where a cost could overflow.
_HIGHEST_PRICE = 1e9
_CURRENCY = re.compile(r"[A-Za-z]{3}")


class Price(Record):
    """What the tokens of a model cost."""

    prompt: float = Field(ge=0, le=_HIGHEST_PRICE, allow_inf_nan=False, description="of a million prompt tokens")
    completion: float = Field(ge=0, le=_HIGHEST_PRICE, allow_inf_nan=False, description="of a million reply tokens")
    currency: str = Field(default="USD", pattern=r"^[A-Z]{3}$", description="three letters (ISO 4217)")

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost, in `currency`."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


class Budget(Record):
    """The most that a run may spend: tokens of prompts and replies together, or money. One of the two is None."""

    tokens: int | None = Field(default=None, gt=0)
    money: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    currency: str | None = Field(default=None, pattern=r"^[A-Z]{3}$", description="of the money; None with tokens")

    @model_validator(mode="after")
    def _one_of_the_two(self) -> Budget:
        if (self.tokens is None) == (self.money is None) or (self.money is None) != (self.currency is None):
            raise ValueError("a budget is a number of tokens, or money with its currency")
        return self


# --- prices ----------------------------------------------------------------------------------------------------------


def load_prices(path: Path | None = None) -> dict[str, Price]:
    """The prices that the configuration names, by model or spec in normal form; none where there is no file.

    Args:
        path: the only file to read. None: all that `turnmark.assistant.settings` names.

    Raises:
        RequestError: every mistake in the file, or that it cannot be read.
    """
    files = _sources(path)
    problems: list[str] = []
    prices: dict[str, Price] = {}
    for source in reversed(files):  # the first file has the last word
        problems += table_problems(source)
        tables = source.content.get("prices", {})
        prices |= _prices(source, tables, problems) if isinstance(tables, dict) else {}
    if problems:
        raise RequestError(problems)
    return prices


def _sources(path: Path | None) -> list[Source]:
    if path is None:
        return sources()
    only = read_source_file(path)
    return [only] if only else []


def _prices(source: Source, tables: Mapping[str, Any], problems: list[str]) -> dict[str, Price]:
    """The prices of one file; what is wrong with them is taken down."""
    prices: dict[str, Price] = {}
    for name, table in tables.items():
        table_problems_found = list(_price_problems(name, table))
        key = _normal(name)
        if key in prices:
            table_problems_found.append(f"{_where(name)} is the same as another name in the file, {key!r}; keep one")
        problems += [source.at("prices", name) + problem for problem in table_problems_found]
        if not table_problems_found:
            currency = table.get("currency", "USD").upper()
            prices[key] = Price(prompt=table["prompt"], completion=table["completion"], currency=currency)
    return prices


def section(name: str, keys: tuple[str, ...], path: Path | None = None) -> dict[str, Any]:
    """One table of the files, key by key from the first that has it; empty where it is nowhere.

    Args:
        keys: those that it may have.
        path: the only file to read. None: all that `turnmark.assistant.settings` names.

    Raises:
        RequestError: the file cannot be read, or the table has another key.
    """
    merged: dict[str, Any] = {}
    for source in reversed(_sources(path)):
        if source.kind == "project" and name in USER_ONLY:
            continue
        table = source.content.get(name, {})
        if not isinstance(table, dict):
            raise RequestError(f"{source.at(name)}{name}: a table ([{name}]) was expected, not {kind_of(table)}")
        problems = [f"{source.at(name, key)}{name}: {next(unknown((key,), keys, 'key'))}"
                    for key in table if key not in keys]  # fmt: skip
        if problems:
            raise RequestError(problems)
        merged |= table
    return merged


def price_of(spec: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a generator: that of its spec, of its spec without options, without URL too, or of its model."""
    try:
        parsed = parse_spec(spec)
    except RequestError:
        return prices.get(spec)
    plain = replace(parsed, options={})
    for key in (str(parsed), str(plain), str(replace(plain, url="")), parsed.argument):
        if key and key in prices:
            return prices[key]
    return None


def _price_problems(name: str, table: Any) -> Iterator[str]:
    """What is wrong with one table of prices."""
    place = _where(name)
    if not name.strip():
        yield f"{place}: the name is empty; it is a model's or a generator's spec"
    if not isinstance(table, dict):
        yield f"{place}: a table with prompt and completion was expected, not {kind_of(table)}"
        return
    inner = [key for key, value in table.items() if isinstance(value, dict) and key not in Price.model_fields]
    if inner:
        yield f'{place}: a name with a dot stands in quotes: [prices."{name}.{inner[0]}"]'
        return
    yield from (f"{place}: {problem}" for problem in unknown(table, tuple(Price.model_fields), "key"))
    for key in ("prompt", "completion"):
        value = table.get(key)
        if value is None:
            yield f"{place}: {key} is missing: the price of a million {key} tokens"
        elif isinstance(value, bool) or not isinstance(value, int | float):
            yield f"{place}: {key}: a number was expected, not {kind_of(value)}"
        elif not 0 <= value <= _HIGHEST_PRICE:
            yield f"{place}: {key} = {short(value)}: a price from 0 to {_HIGHEST_PRICE:,.0f} was expected"
    currency = table.get("currency", "USD")
    if not isinstance(currency, str):
        yield f"{place}: currency: three letters such as USD were expected, not {kind_of(currency)}"
    elif not _CURRENCY.fullmatch(currency):
        yield f"{place}: currency = {short(currency)}: three letters such as USD were expected"


def _where(name: str) -> str:
    return f"prices.{short(name)}"


def _normal(name: str) -> str:
    """A spec in normal form; the name of a model as it is."""
    try:
        return str(parse_spec(name))
    except RequestError:
        return name


# --- budgets ---------------------------------------------------------------------------------------------------------

_NUMBER = r"(?P<number>[0-9]{1,3}(?:[,_][0-9]{3}){1,5}(?:\.[0-9]{1,6})?|[0-9]{1,18}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})"
_TOKENS = re.compile(rf"{_NUMBER}\s*(?P<scale>[km]?)(?:\s*tok(?:en)?s?)?", re.IGNORECASE | re.ASCII)
_MONEY = re.compile(
    rf"(?:(?P<symbol>[$€£])\s*{_NUMBER}|{_NUMBER.replace('number', 'amount')}\s*(?P<unit>[$€£]|[a-z]{{3}}))",
    re.IGNORECASE | re.ASCII,
)
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}


def parse_budget(text: str) -> Budget:
    """A budget as it is written: `200000`, `200k`, `1.5M` tokens; `$5`, `5usd`, `2.50 EUR` of money.

    Raises:
        RequestError: anything else, and nothing at all (0).
    """
    budget_text = text.strip()
    forms = "write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)"
    tokens, money = _TOKENS.fullmatch(budget_text), _MONEY.fullmatch(budget_text)
    if tokens:
        exact = Decimal(re.sub("[,_]", "", tokens["number"])) * _SCALES[tokens["scale"].lower()]
        if exact != exact.to_integral_value():
            raise RequestError(f"--budget {short(text)}: {exact.normalize():f} is no whole number of tokens; {forms}")
        if exact > 0:
            return Budget(tokens=int(exact))
    elif money:
        amount = float(re.sub("[,_]", "", money["number"] or money["amount"]))
        unit = money["symbol"] or money["unit"]
        if amount > 0:
            return Budget(money=amount, currency=_SYMBOLS.get(unit, unit.upper()))
    else:
        raise RequestError(f"--budget {short(text)} is no budget; {forms}")
    raise RequestError(f"--budget {short(text)}: more than 0 was expected; {forms}")
