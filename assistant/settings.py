"""The configuration files: which there are, their tables of prices, vLLM and tracing; and budgets as written.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `turnmark.toml` in the working folder: the project's
    4. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it): the user's

The project's file may have come with somebody else's files. So it is looked for in the working folder alone, where one
sees it, and it may not say what is run or where keys and texts go: no server's command, no address, no code.

    [prices."gpt-4o-mini"]    # the model's name, or a generator's spec: `openai:gpt-4o-mini`, with its URL if need be
    prompt = 0.15             # for a million tokens of the prompt
    completion = 0.60         # for a million tokens of the reply
    currency = "USD"          # the default

The other tables are records where they are used (`section`). No file holds a key: those come from the environment.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.home import home
from turnmark.corpora.specs import parse_spec
from turnmark.corpora.types import Record

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"

COMMANDS = ("ask", "chat", "compare", "eval", "index", "report", "score", "search", "serve", "synth")
"""Commands that may have a table of their own."""
TABLES = ("defaults", "endpoints", "prices", "vllm", "tracing", *COMMANDS)
USER_ONLY = ("endpoints", "vllm", "tracing")
"""Tables that name what is run, or where keys and texts are sent."""

T = TypeVar("T", bound=BaseModel)

_HEAD = re.compile(r"\s*\[\[?(?P<name>[^\[\]]+)\]\]?\s*(?:#.*)?")
_KEY = re.compile(r"""\s*(?P<name>(?:[A-Za-z0-9_.\s-]|"[^"]*"|'[^']*')+?)\s*=""")


@dataclass(frozen=True)
class Source:
    """One configuration file, read."""

    kind: Literal["project", "user"]
    path: Path
    content: Mapping[str, Any] = field(repr=False)
    text: str = field(repr=False)

    def at(self, *names: str) -> str:
        """`FILE: line N: ` of a table, or of a key in it; without the line where it cannot be told."""
        line = line_of(self.text, names)
        return f"{self.path}: line {line}: " if line else f"{self.path}: "


def sources() -> list[Source]:
    """The files there are, the first one first.

    Raises:
        RequestError: every one that cannot be read.
    """
    errors = ErrorCollector()
    files = (
        errors.collect(read_source_file, Path(PROJECT_NAME).absolute(), "project"),
        errors.collect(read_source_file, home() / CONFIG_NAME),
    )
    errors.raise_all()
    return [source for source in files if source is not None]


def read_source_file(path: Path, kind: Literal["project", "user"] = "user") -> Source | None:
    """One file, or None where there is none.

    Raises:
        RequestError: it cannot be read, or is no TOML.
    """
    try:
        text = path.read_bytes().removeprefix(b"\xef\xbb\xbf").decode("utf-8")
        return Source(kind, path, tomllib.loads(text), text)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from error
    except UnicodeDecodeError as error:
        raise RequestError(f"{path}: not valid UTF-8 text ({error})") from error
    except RecursionError as error:
        raise RequestError(f"{path}: tables or lists inside each other, too deep to be read") from error
    except ValueError as error:
        raise RequestError(f"{path}: not TOML: {error}") from error


def table_problems(source: Source) -> Iterator[str]:
    """Names of tables that there are not, or that this file may not have."""
    for name in source.content:
        place = source.at(name)
        if name not in TABLES:
            yield from (place + problem for problem in unknown((name,), TABLES, "table"))
        elif source.kind == "project" and name in USER_ONLY:
            user = home() / CONFIG_NAME
            yield f"{place}[{name}] says what is run or where keys go; a project's file may not, write it into {user}"
        elif not isinstance(source.content[name], dict):
            example = f'a table for each model was expected ([{name}."gpt-4o-mini"])' if name == "prices" else ""
            expected = example or f"a table ([{name}]) was expected"
            yield f"{place}{name}: {expected}, not {kind_of(source.content[name])}"


def line_of(text: str, names: tuple[str, ...]) -> int | None:
    """The line, from 1, where a table or key first stands; None where it is not found."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        head = _HEAD.fullmatch(line)
        key = None if head else _KEY.match(line)
        if head:
            table = _dotted(head["name"])
            full = table
        elif key:
            full = (*table, *_dotted(key["name"]))
        else:
            continue
        if full and full[: len(names)] == names:
            return number
    return None


def _dotted(name: str) -> tuple[str, ...]:
    """The parts of a dotted name, quotes taken off; empty where it is none."""
    try:
        value: Any = tomllib.loads(f"{name} = 0")
    except (ValueError, RecursionError):
        return ()
    parts = []
    while isinstance(value, dict) and len(value) == 1:
        key, value = next(iter(value.items()))
        parts.append(key)
    return tuple(parts)


def unknown(names: Mapping[str, Any] | tuple[str, ...], valid: tuple[str, ...], kind: str) -> Iterator[str]:
    """A sentence for each name that is not among the `valid`."""
    for key in names:
        if key not in valid:
            near = get_close_matches(key, valid, n=1)
            hint = f" (did you mean {near[0]!r}?)" if near else ""
            choices = f"there {'is' if len(valid) == 1 else 'are'}: {', '.join(valid)}"
            yield f"no {kind} is called {short(key)}{hint}; {choices}"


def short(value: object) -> str:
    """A value as it would be typed, cut to 80 characters."""
    try:
        text = repr(value)
    except ValueError:  # a number of more digits than Python writes
        return "a number of very many digits"
    return text if len(text) <= 80 else text[:77] + "…"


def kind_of(value: object) -> str:
    """What kind of TOML value it is, in words."""
    if isinstance(value, bool):
        return "true or false"
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (str, "a text"),
        ((int, float), "a number"),
        (list, "a list"),
        (dict, "a table"),
    )
    return next((word for kind, word in kinds if isinstance(value, kind)), "a date or time")


def section(name: str, model: type[T]) -> T:
    """One table of the files as a record, each key from the first file that has it.

    Raises:
        RequestError: every mistake in the table.
    """
    values: dict[str, Any] = {}
    for source in reversed(sources()):
        if source.kind == "project" and name in USER_ONLY:
            continue
        table = source.content.get(name, {})
        problems = list(_record_problems(name, table, model))
        if problems:
            raise RequestError([f"{source.at(name)}{problem}" for problem in problems])
        values |= table
    return model.model_validate(values)


def _record_problems(place: str, table: Any, model: type[BaseModel]) -> Iterator[str]:
    """What keeps a table from being such a record, each with the name of its key."""
    if not isinstance(table, dict):
        yield f"{place}: a table was expected, not {kind_of(table)}"
        return
    valid = tuple(model.model_fields)
    yield from (f"{place}: {problem}" for problem in unknown(table, valid, "key"))
    try:
        model.model_validate({key: value for key, value in table.items() if key in valid}, strict=True)
    except ValidationError as error:
        for row in error.errors():
            value = "" if row["type"] == "missing" else f" = {short(row['input'])}"
            yield f"{place}.{row['loc'][0]}{value}: {row['msg']}"


# --- prices ----------------------------------------------------------------------------------------------------------

# Of a million tokens. Far above any price there is, and far below where a cost could overflow.
_HIGHEST_PRICE = 1e9
_Amount = Annotated[float, Field(ge=0, le=_HIGHEST_PRICE, allow_inf_nan=False)]


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) and value.isascii() else value


class Price(Record):
    """What the tokens of a model cost: a million of the prompt's, a million of the reply's."""

    prompt: _Amount
    completion: _Amount
    currency: Annotated[str, BeforeValidator(_upper)] = Field(
        default="USD", pattern=r"^[A-Z]{3}$", description="three letters (ISO 4217)"
    )

    def cost(self, prompt_tokens: int, completion_tokens: int) -> float:
        """What so many tokens cost, in `currency`."""
        return (prompt_tokens * self.prompt + completion_tokens * self.completion) / 1_000_000


def load_prices() -> dict[str, Price]:
    """The prices that the files name, by model or spec in normal form; none where there is no file.

    Raises:
        RequestError: every mistake in the files, or that one cannot be read.
    """
    problems: list[str] = []
    prices: dict[str, Price] = {}
    for source in reversed(sources()):  # the first file has the last word
        problems += table_problems(source)
        tables = source.content.get("prices", {})
        of_file: dict[str, Price] = {}
        for name, table in tables.items() if isinstance(tables, dict) else ():
            key, place = _normal(name), f"prices.{short(name)}"
            table_mistakes = list(_price_problems(place, name, table))
            if key in of_file:
                table_mistakes.append(f"{place} is the same as another name in the file, {key!r}; keep one")
            problems += [source.at("prices", name) + problem for problem in table_mistakes]
            if not table_mistakes:
                of_file[key] = Price.model_validate(table)
        prices |= of_file
    if problems:
        raise RequestError(problems)
    return prices


def _price_problems(place: str, name: str, table: Any) -> Iterator[str]:
    if not name.strip():
        yield f"{place}: the name is empty; it is a model's or a generator's spec"
    dotted = [key for key, value in table.items() if isinstance(value, dict)] if isinstance(table, dict) else []
    if dotted:
        yield f'{place}: a name with a dot stands in quotes: [prices."{name}.{dotted[0]}"]'
    else:
        yield from _record_problems(place, table, Price)


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
