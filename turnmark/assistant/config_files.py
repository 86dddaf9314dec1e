"""Read the configuration files (defaults of the command line, and prices of models), and parse budgets.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `turnmark.toml` in the working folder: the project's
    4. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it): the user's

A project's file may come from somebody else, together with that person's files. Therefore it is read only from the
working folder, where the user sees it, and it may not decide what code runs or where keys and texts are sent. No file
may contain a key.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from turnmark.assistant.config import AssistantConfig
from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.core.flags import FlagMark, flags_of
from turnmark.core.home import home
from turnmark.core.record import Record
from turnmark.core.specs import parse_spec

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"
COMMANDS = (
    *("ask", "chat", "check", "compare", "documents", "eval", "index", "mcp", "report", "score", "search"),
    *("serve", "synth"),
)
"""Commands that may have a table, such as `[eval]`. `remove` has none: no file may confirm a deletion."""
TABLES = ("defaults", "prices", *COMMANDS)
COMMON_KEYS = (*(flag.key for flag in flags_of(AssistantConfig).values()), "judge", "concurrency", "budget", "data")
"""Keys that `[defaults]` may have."""
_COMMAND_LINE_ONLY_KEYS = ("help", "help-all", "version", "json", "token")
"""Flags that no file may set."""
_ACCESS = ("host", "port", "token", "http")
"""Flags of `serve` and `mcp` that decide who can reach the server. A project's file may not set them."""
_SPECS = ("judge", "describe", *(flag.key for flag in flags_of(AssistantConfig).values() if flag.has(FlagMark.SPEC)))
"""Flags whose values are specs, or `STEP=SPEC`."""
_RUNS_CODE = ("python", "llama-index")
"""Names of specs that run code of the user."""
_STEP = re.compile(r"^[a-z]+=")


@dataclass(frozen=True)
class ConfigFile:
    """The content of one configuration file.

    Attributes:
        trusted: whether it is the user's own file and not a project's.
    """

    path: Path
    trusted: bool
    content: Mapping[str, Any]

    def table(self, name: str) -> dict[str, Any]:
        """Return a table; empty if the file does not have it."""
        table = self.content.get(name, {})
        return table if isinstance(table, dict) else {}

    def problems(self) -> Iterator[str]:
        """Yield a sentence for each top-level entry that is unknown or not a table."""
        for name, table in self.content.items():
            if name not in TABLES:
                yield f"{self.path}: {name}: {unknown_name('table', name, TABLES)}"
            elif not isinstance(table, dict):
                yield f"{self.path}: {name}: a table ([{name}]) was expected"

    def mistakes(self, name: str, table: Mapping[str, Any], known: Iterable[str]) -> Iterator[str]:
        """Yield a sentence for each key of a table that is unknown, or whose value this file may not set.

        Args:
            name: of the table.
            known: keys that it may have.
        """
        for key, value in table.items():
            if key not in known:
                yield f"{self.path}: {name}.{key}: {unknown_name('key', key, sorted(known))}"
            elif not self.trusted:
                reason = _reason_to_refuse(key, value)
                if reason:
                    yield f"{self.path}: {name}.{key}: {reason}: give it as a flag, or in the user's file"


def _reason_to_refuse(key: str, value: Any) -> str:
    """Return why a project's file may not set this value; empty if it may."""
    if key in _ACCESS:
        return "decides who can reach the server; a project's file may not"
    if key not in _SPECS:
        return ""
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            continue
        try:
            spec = parse_spec(_STEP.sub("", text))
        except RequestError:
            continue  # reported where the spec is opened
        if spec.name in _RUNS_CODE or spec.url or "api_key_env" in spec.options:
            return f"{text[:80]!r} decides what code runs or where keys are sent; a project's file may not"
    return ""


def sources() -> list[ConfigFile]:
    """Read the existing configuration files, in order of precedence: the project's, then the user's."""
    errors = ErrorCollector()
    project = errors.collect(read_source_file, Path(PROJECT_NAME).absolute(), trusted=False)
    user = errors.collect(read_source_file, home() / CONFIG_NAME)
    errors.raise_all()
    return [source for source in (project, user) if source is not None]


def read_source_file(path: Path, trusted: bool = True) -> ConfigFile | None:
    """Read one configuration file; None if it does not exist."""
    if not path.exists():
        return None
    try:
        with open(path, "rb") as file:
            return ConfigFile(path, trusted, tomllib.load(file))
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not TOML: {error}") from error


# --- defaults of the command line ------------------------------------------------------------------------------------


def apply(context: typer.Context) -> None:
    """Set the values of the configuration files as the defaults of the command that is about to run."""
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    context.default_map = {str(command): defaults_of(context.command, str(command), sources())}


def defaults_of(root: Any, command: str, files: Sequence[ConfigFile]) -> dict[str, Any]:
    """Return the default of each parameter of a command, by name; for a group, a mapping for each of its commands.

    Typer converts and checks the values as if they had been typed. Raises RequestError with all unknown keys and all
    values that a file may not set.

    Args:
        root: the command line, as typer made it.
        files: in order of precedence.
    """
    problems: list[str] = []
    defaults: dict[str, Any] = {}
    for file in reversed(files):
        common = file.table("defaults")
        problems += [*file.problems(), *file.mistakes("defaults", common, COMMON_KEYS)]
        table = file.table(command) if command in COMMANDS else {}
        defaults = _merge(defaults, _defaults_in(file, root.commands[command], command, table, common, problems))
    if problems:
        raise RequestError(list(dict.fromkeys(problems)))
    return defaults


def _defaults_in(
    file: ConfigFile, command: Any, name: str, table: dict[str, Any], common: dict[str, Any], problems: list[str]
) -> dict[str, Any]:
    """Return the values in a file for the parameters of a command, or for each command of a group.

    Args:
        name: name of the command's table, for messages.
        table: the command's table.
        common: the table `[defaults]`.
        problems: mistakes are added to it.
    """
    subcommands = getattr(command, "commands", {})
    flags = options(command)
    problems += file.mistakes(name, table, (*flags, *subcommands))
    values: dict[str, Any] = {}
    for key, subcommand in subcommands.items():
        subtable = table.get(key, {})
        if isinstance(subtable, dict):
            subvalues = _defaults_in(file, subcommand, f"{name}.{key}", subtable, common, problems)
            if subvalues:
                values[key] = subvalues
        else:
            problems.append(f"{file.path}: {name}.{key}: a table was expected")
    settings = {key: value for key, value in common.items() if key in COMMON_KEYS} | table
    for key, value in settings.items():
        if key not in flags:
            continue
        kind = flags[key].type_descriptor
        entries = value if isinstance(value, list) else [value]
        words = [entry if isinstance(entry, bool) else str(entry) for entry in entries]
        if kind.is_path:  # relative to the file
            words = [str(file.path.parent / Path(str(word)).expanduser()) for word in words]
        if kind.is_list:
            values[flags[key].name] = words
        elif len(words) == 1:
            values[flags[key].name] = words[0]
        elif key in table:  # several judges in `[defaults]` are for the commands that accept several
            problems.append(f"{file.path}: {name}.{key}: expected a single value")
    return values


def options(command: Any) -> dict[str, Any]:
    """Return the options of a command by their name without dashes; empty for a group."""
    if getattr(command, "commands", None):
        return {}
    by_name: dict[str, Any] = {}
    for parameter in command.params:
        if parameter.param_type_name != "option":
            continue
        name = max(parameter.opts, key=len).lstrip("-")
        if name not in _COMMAND_LINE_ONLY_KEYS:
            by_name[name] = parameter
    return by_name


def _merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables of defaults; `overrides` wins, key by key also inside the tables of a group's commands."""
    merged = dict(defaults)
    for key, value in overrides.items():
        default = merged.get(key)
        if isinstance(default, dict) and isinstance(value, dict):
            merged[key] = _merge(default, value)
        else:
            merged[key] = value
    return merged


# --- prices and budgets ----------------------------------------------------------------------------------------------

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
    errors = ErrorCollector()
    prices: dict[str, Price] = {}
    for file in reversed(sources()):  # the first file takes precedence
        errors.problems += file.problems()
        try:
            file_prices = _PRICES.validate_python(file.table("prices"), strict=True)
        except ValidationError as error:
            for detail in error.errors():
                key = ".".join(("prices", *map(str, detail["loc"])))
                errors.problems.append(f"{file.path}: {key}: {detail['msg']}")
        else:
            prices |= {_normalize_spec(name): price for name, price in file_prices.items()}
    errors.raise_all()
    return prices


def price_of(spec: str, prices: Mapping[str, Price]) -> Price | None:
    """Return the price of a generator; None if the files contain none.

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
