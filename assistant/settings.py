"""The configuration files: which there are, their tables of prices, vLLM and tracing; and budgets as written.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `turnmark.toml` in the working folder: the project's
    4. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it): the user's

The project's file may have come with somebody else's files. So it is read from the working folder alone, where one
sees it, and it may not say what is run or where keys and texts go: no server's command, no address, no code.

    [prices."gpt-4o-mini"]    # the model's name, or a generator's spec: `openai:gpt-4o-mini`, with its URL if need be
    prompt = 0.15             # for a million tokens of the prompt
    completion = 0.60         # for a million tokens of the reply
    currency = "USD"          # the default

The other tables are records where they are used (`section`). No file holds a key: those come from the environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, Field, StringConstraints, ValidationError, model_validator

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import home
from turnmark.corpora.specs import parse_spec
from turnmark.corpora.types import Record

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"

COMMANDS = ("ask", "chat", "compare", "eval", "index", "report", "score", "search", "serve", "synth")
"""Commands that may have a table of their own."""
TABLES = ("defaults", "prices", *COMMANDS)

T = TypeVar("T", bound=BaseModel)


class ConfigFile(Record):
    """One configuration file, read."""

    kind: Literal["project", "user"]
    path: Path
    content: Mapping[str, Any] = Field(repr=False)

    def problems(self) -> Iterator[str]:
        """A sentence for each table that is unknown or not a table."""
        for name, table in self.content.items():
            if name not in TABLES:
                yield f"{self.path}: {name}: no such table; there are: {', '.join(TABLES)}"
            elif not isinstance(table, dict):
                yield f"{self.path}: {name}: a table ([{name}]) was expected"

    def table(self, name: str) -> dict[str, Any]:
        """A table; empty if the file has none."""
        table = self.content.get(name, {})
        return table if isinstance(table, dict) else {}

    def record(self, name: str, model: type[T], values: Any) -> T:
        """A table as a record."""
        try:
            return model.model_validate(values, strict=True)
        except ValidationError as error:
            rows = [(".".join(filter(None, (name, *map(str, row["loc"])))), row["msg"]) for row in error.errors()]
            raise RequestError([f"{self.path}: {field}: {message}" for field, message in rows]) from None


def sources() -> list[ConfigFile]:
    """The files there are, the first one first."""
    errors = ErrorCollector()
    files = (
        errors.collect(read_source_file, Path(PROJECT_NAME).absolute(), "project"),
        errors.collect(read_source_file, home() / CONFIG_NAME),
    )
    errors.raise_all()
    return [source for source in files if source is not None]


def read_source_file(path: Path, kind: Literal["project", "user"] = "user") -> ConfigFile | None:
    """One file, or None if there is none."""
    from pydantic_settings import BaseSettings, TomlConfigSettingsSource

    if not path.exists():
        return None
    try:
        return ConfigFile(kind=kind, path=path, content=TomlConfigSettingsSource(BaseSettings, path).toml_data)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not TOML: {error}") from error


# --- prices ----------------------------------------------------------------------------------------------------------

# Of a million tokens. Far above any price there is, and far below where a cost could overflow.
_HIGHEST_PRICE = 1e9
_Amount = Annotated[float, Field(ge=0, le=_HIGHEST_PRICE, allow_inf_nan=False)]


class Price(Record):
    """What the tokens of a model cost: a million of the prompt's, a million of the reply's."""

    prompt: _Amount
    completion: _Amount
    currency: Annotated[str, StringConstraints(to_upper=True, pattern="^[A-Za-z]{3}$")] = Field(
        default="USD", description="three letters (ISO 4217)"
    )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost, in `currency`."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


class _Prices(Record):
    prices: dict[Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)], Price]


def load_prices() -> dict[str, Price]:
    """The prices that the files name, by model or spec in normal form; none if there is no file."""
    errors = ErrorCollector()
    prices: dict[str, Price] = {}
    for source in reversed(sources()):  # the first file has the last word
        for problem in source.problems():
            errors.add(problem)
        read = errors.collect(source.record, "", _Prices, {"prices": source.table("prices")})
        prices |= {_normal(name): price for name, price in (read.prices if read else {}).items()}
    errors.raise_all()
    return prices


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


def parse_budget(text: str) -> Budget:
    """A budget as it is written: `200000`, `200k`, `1.5M` tokens; `$5`, `5usd`, `2.50 EUR` of money."""
    budget_text = text.strip()
    forms = "write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)"
    tokens, money = _TOKENS.fullmatch(budget_text), _MONEY.fullmatch(budget_text)
    if tokens:
        exact = Decimal(re.sub("[,_]", "", tokens["number"])) * _SCALES[tokens["scale"].lower()]
        if exact != exact.to_integral_value():
            raise RequestError(
                f"--budget {text[:80]!r}: {exact.normalize():f} is not a whole number of tokens; {forms}"
            )
        if exact > 0:
            return Budget(tokens=int(exact))
    elif money:
        amount = float(re.sub("[,_]", "", money["number"] or money["amount"]))
        unit = money["symbol"] or money["unit"]
        if amount > 0:
            return Budget(money=amount, currency=_SYMBOLS.get(unit, unit.upper()))
    else:
        raise RequestError(f"--budget {text[:80]!r} is no budget; {forms}")
    raise RequestError(f"--budget {text[:80]!r}: more than 0 was expected; {forms}")
