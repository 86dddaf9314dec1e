"""The configuration files: defaults of the command line, and prices; and budgets as written.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `turnmark.toml` in the working folder: the project's
    4. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it): the user's

The project's file may have come with somebody else's files. So it is read from the working folder alone, where one
sees it, and it may not say what is run or where keys and texts go: no address, no code. No file holds a key.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from turnmark.core.errors import ErrorCollector, RequestError
from turnmark.core.home import home
from turnmark.core.record import Record
from turnmark.core.specs import parse_spec

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"
COMMANDS = ("ask", "chat", "compare", "eval", "index", "mcp", "report", "score", "search", "serve", "synth")
"""Commands that may have a table of their own."""
TABLES = ("defaults", "prices", *COMMANDS)
COMMON = (
    "index", "generator", "retriever", "embedder", "step", "top-k", "tokens", "judge", "concurrency", "budget", "data",
)  # fmt: skip
"""Keys of `[defaults]`."""
_NEVER = ("help", "help-all", "version", "json", "token")
_DOORS = ("host", "port", "token", "http")
"""Flags of `serve` and `mcp` that open them to others."""
_SPECS = ("generator", "judge", "retriever", "embedder")
_RUNS_CODE = ("python", "llama-index")


@dataclass(frozen=True)
class ConfigFile:
    """One configuration file, read.

    Attributes:
        trusted: it is the user's, and not a project's.
    """

    path: Path
    trusted: bool
    content: Mapping[str, Any]

    def table(self, name: str) -> dict[str, Any]:
        """A table; empty if the file has none."""
        table = self.content.get(name, {})
        return table if isinstance(table, dict) else {}

    def problems(self) -> Iterator[str]:
        """A sentence for each table that is unknown or not a table."""
        for name, table in self.content.items():
            if name not in TABLES:
                yield f"{self.path}: {name}: no such table; there are: {', '.join(TABLES)}"
            elif not isinstance(table, dict):
                yield f"{self.path}: {name}: a table ([{name}]) was expected"

    def mistakes(self, name: str, table: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
        """A sentence for each key of a table that is unknown, or that this file may not have."""
        for key, value in table.items():
            if key not in known:
                yield f"{self.path}: {name}.{key}: no such key; there are: {', '.join(sorted(known))}"
            elif not self.trusted and (reason := _refused(key, value)):
                yield f"{self.path}: {name}.{key}: {reason}: give it as a flag, or in the user's file"


def _refused(key: str, value: Any) -> str:
    """Why a project's file may not give this value; empty if it may."""
    if key in _DOORS:
        return "says who may ask; a project's file may not"
    for text in value if isinstance(value, list) else [value]:
        if key not in _SPECS or not isinstance(text, str):
            continue
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # reported where the spec is opened
        if spec.name in _RUNS_CODE or spec.url or "api_key_env" in spec.options:
            return f"{text[:80]!r} says what is run or where keys go; a project's file may not"
    return ""


def sources() -> list[ConfigFile]:
    """The files there are, the first one first."""
    errors = ErrorCollector()
    project = errors.collect(read_source_file, Path(PROJECT_NAME).absolute(), trusted=False)
    user = errors.collect(read_source_file, home() / CONFIG_NAME)
    errors.raise_all()
    return [source for source in (project, user) if source is not None]


def read_source_file(path: Path, trusted: bool = True) -> ConfigFile | None:
    """One file, or None if there is none."""
    from pydantic_settings import BaseSettings, TomlConfigSettingsSource

    if not path.exists():
        return None
    try:
        return ConfigFile(path, trusted, TomlConfigSettingsSource(BaseSettings, path).toml_data)
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not TOML: {error}") from error


# --- defaults of the command line ------------------------------------------------------------------------------------


def apply(context: typer.Context) -> None:
    """Make what the files say the defaults of the command that is about to run."""
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    context.default_map = {str(command): defaults_of(context.command, str(command), sources())}


def defaults_of(root: Any, command: str, files: Sequence[ConfigFile]) -> dict[str, Any]:
    """The default of each parameter of a command, by name; of a group, a mapping for each of its commands.

    Typer converts and checks the values as if they had been typed; unknown keys and what a file may not say are
    mistakes, all of them reported at once.

    Args:
        root: the command line, as typer made it.
        files: the first one first.
    """
    problems: list[str] = []
    defaults: dict[str, Any] = {}
    for file in reversed(files):
        common = file.table("defaults")
        problems += [*file.problems(), *file.mistakes("defaults", common, COMMON)]
        table = file.table(command) if command in COMMANDS else {}
        defaults = _merge(defaults, _defaults_in(file, root.commands[command], command, table, common, problems))
    if problems:
        raise RequestError(list(dict.fromkeys(problems)))
    return defaults


def _defaults_in(
    file: ConfigFile, command: Any, name: str, table: dict[str, Any], common: dict[str, Any], problems: list[str]
) -> dict[str, Any]:
    """What a file has for the parameters of a command, or for each command of a group.

    Args:
        name: of the command's own table, for messages.
        common: `[defaults]`.
    """
    inner, flags = getattr(command, "commands", {}), options(command)
    problems += file.mistakes(name, table, (*flags, *inner))
    values: dict[str, Any] = {}
    for key, inner_command in inner.items():
        inner_table = table.get(key, {})
        if isinstance(inner_table, dict):
            values[key] = _defaults_in(file, inner_command, f"{name}.{key}", inner_table, common, problems)
        else:
            problems.append(f"{file.path}: {name}.{key}: a table was expected")
    for key, value in ({key: value for key, value in common.items() if key in COMMON} | table).items():
        if key not in flags:
            continue
        kind, given = flags[key].type_descriptor, value if isinstance(value, list) else [value]
        words = [word if isinstance(word, bool) else str(word) for word in given]
        if kind.is_path:  # relative to the file
            words = [str(file.path.parent / Path(str(word)).expanduser()) for word in words]
        if kind.is_list or len(words) == 1:
            values[flags[key].name] = words if kind.is_list else words[0]
        elif key in table:  # several judges of `[defaults]` are for the commands that take several
            problems.append(f"{file.path}: {name}.{key}: one value was expected")
    return {key: value for key, value in values.items() if value != {}}


def options(command: Any) -> dict[str, Any]:
    """The options of a command by the name after their dashes; none of a group's."""
    if getattr(command, "commands", None):
        return {}
    listed = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    by_name = {max(parameter.opts, key=len).lstrip("-"): parameter for parameter in listed}
    return {name: parameter for name, parameter in by_name.items() if name not in _NEVER}


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables of defaults; `above` has the last word, also inside the tables of a group's commands."""
    merged = dict(below)
    for key, value in above.items():
        lower = merged.get(key)
        merged[key] = _merge(lower, value) if isinstance(lower, dict) and isinstance(value, dict) else value
    return merged


# --- prices and budgets ----------------------------------------------------------------------------------------------

# Of a million tokens. Far above any price there is, and far below where a cost could overflow.
_Amount = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


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


_PRICES = TypeAdapter(dict[str, Price])


def load_prices() -> dict[str, Price]:
    """The prices that the files name, by model or spec in normal form; none if there is no file."""
    errors = ErrorCollector()
    prices: dict[str, Price] = {}
    for file in reversed(sources()):  # the first file has the last word
        errors.problems += file.problems()
        try:
            read = _PRICES.validate_python(file.table("prices"), strict=True)
        except ValidationError as error:
            errors.problems += [
                f"{file.path}: {'.'.join(('prices', *map(str, row['loc'])))}: {row['msg']}" for row in error.errors()
            ]
        else:
            prices |= {_normal(name): price for name, price in read.items()}
    errors.raise_all()
    return prices


def price_of(spec: str, prices: Mapping[str, Price]) -> Price | None:
    """The price of a generator: that of its spec, of its spec without options, without URL too, or of its model."""
    try:
        parsed = parse_spec(spec)
    except RequestError:
        return prices.get(spec)
    plain = replace(parsed, options={})
    keys = (str(parsed), str(plain), str(replace(plain, url="")), parsed.argument)
    return next((prices[key] for key in keys if key and key in prices), None)


def _normal(name: str) -> str:
    """A spec in normal form; the name of a model as it is."""
    try:
        return str(parse_spec(name))
    except RequestError:
        return name


class Budget(Record):
    """The most that a run may spend: tokens of prompts and replies together, or money. One of the two is None."""

    tokens: int | None = None
    money: float | None = None
    currency: str | None = Field(default=None, description="of the money; None with tokens")


_BUDGET = re.compile(r"([$€£]?)\s*([0-9]{1,15}(?:\.[0-9]{1,6})?|\.[0-9]{1,6})\s*([a-z]*)", re.IGNORECASE | re.ASCII)
_SYMBOLS = {"$": "USD", "€": "EUR", "£": "GBP"}
_SCALES = {"": 1, "K": 1_000, "M": 1_000_000}


def parse_budget(text: str) -> Budget:
    """A budget as it is written: `200000`, `200k`, `1.5M` tokens; `$5`, `5usd`, `2.50 EUR` of money."""
    written = _BUDGET.fullmatch(text.strip())
    symbol, number, unit = (written[1], float(written[2]), written[3].upper()) if written else ("", 0.0, "")
    currency = _SYMBOLS.get(symbol) if not unit else unit if not symbol and len(unit) == 3 else None
    if currency and number > 0:
        return Budget(money=number, currency=currency)
    if not symbol and unit in _SCALES and round(number * _SCALES[unit]) > 0:
        return Budget(tokens=round(number * _SCALES[unit]))
    raise RequestError(
        f"--budget {text[:80]!r} is no budget above 0; write tokens (200000, 200k, 1.5M) or money ($5, 5usd, 2.50 EUR)"
    )
