"""Read the configuration files: the defaults of the command line, and the table of prices.

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from turnmark.assistant.config import AssistantConfig
from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.core.flags import FlagMark, flags_of
from turnmark.core.home import home
from turnmark.core.specs import parse_spec

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"
COMMANDS = (
    *("ask", "chat", "check", "compare", "documents", "eval", "index", "mcp", "report", "score", "search"),
    *("serve", "synth", "tune"),
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
        """Yield a sentence for each key of a table that is not known, or whose value this file may not set."""
        keys = sorted(known)
        for key, value in table.items():
            if key not in keys:
                yield f"{self.path}: {name}.{key}: {unknown_name('key', key, keys)}"
            elif not self.trusted and (reason := _reason_to_refuse(key, value)):
                rule = "a project's file may not: give it as a flag, or in the user's file"
                yield f"{self.path}: {name}.{key}: {reason}; {rule}"


def _reason_to_refuse(key: str, value: Any) -> str:
    """Return why a project's file may not set this value; empty if it may."""
    if key in _ACCESS:
        return "decides who can reach the server"
    texts = [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]
    for text in texts if key in _SPECS else ():
        try:
            spec = parse_spec(re.sub(r"^[a-z]+=", "", text))  # a step
        except RequestError:
            continue  # reported where the spec is opened
        if spec.name in _RUNS_CODE or spec.url or "api_key_env" in spec.options:
            return f"{text[:80]!r} decides what code runs or where keys are sent"
    return ""


def sources() -> list[ConfigFile]:
    """Read the existing configuration files, in order of precedence: the project's, then the user's."""
    errors = ErrorCollector()
    project = errors.collect(read_source_file, Path(PROJECT_NAME).absolute(), trusted=False)
    user = errors.collect(read_source_file, home() / CONFIG_NAME)
    errors.raise_all()
    return [file for file in (project, user) if file is not None]


def read_source_file(path: Path, trusted: bool = True) -> ConfigFile | None:
    """Read one configuration file, or return None if it does not exist."""
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
    named = ((max(each.opts, key=len).lstrip("-"), each) for each in command.params if each.param_type_name == "option")
    return {name: option for name, option in named if name not in _COMMAND_LINE_ONLY_KEYS}


def _merge(defaults: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables of defaults; `overrides` wins, key by key also inside the tables of a group's commands."""
    merged = dict(defaults)
    for key, value in overrides.items():
        default = merged.get(key)
        merged[key] = _merge(default, value) if isinstance(default, dict) and isinstance(value, dict) else value
    return merged
