"""Read the configuration file: the defaults of the command line, and the table of prices.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it)

The file may not contain a key.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from turnmark.assistant.config import AssistantConfig
from turnmark.core.errors import RequestError, unknown_name
from turnmark.core.flags import flags_of
from turnmark.core.home import home

CONFIG_NAME = "config.toml"
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


@dataclass(frozen=True)
class ConfigFile:
    """The content of the configuration file; empty if there is none."""

    path: Path
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

    def unknown_keys(self, name: str, table: Iterable[str], known: Iterable[str]) -> list[str]:
        """Return a sentence for each key of a table that is not known."""
        keys = sorted(known)
        return [f"{self.path}: {name}.{key}: {unknown_name('key', key, keys)}" for key in table if key not in keys]


def read_config() -> ConfigFile:
    """Read the configuration file of the home."""
    return read_config_file(home() / CONFIG_NAME)


def read_config_file(path: Path) -> ConfigFile:
    """Read a configuration file, which need not exist."""
    if not path.exists():
        return ConfigFile(path, {})
    try:
        with open(path, "rb") as file:
            return ConfigFile(path, tomllib.load(file))
    except OSError as error:
        raise RequestError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not TOML: {error}") from error


# --- defaults of the command line ------------------------------------------------------------------------------------


def apply(context: typer.Context) -> None:
    """Set the values of the configuration file as the defaults of the command that is about to run."""
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    context.default_map = {str(command): defaults_of(context.command, str(command), read_config())}


def defaults_of(root: Any, command: str, file: ConfigFile) -> dict[str, Any]:
    """Return the default of each parameter of a command, by name; for a group, a mapping for each of its commands.

    Typer converts and checks the values as if they had been typed. Raises RequestError with all unknown keys.

    Args:
        root: the command line, as typer made it.
    """
    common = file.table("defaults")
    problems = [*file.problems(), *file.unknown_keys("defaults", common, COMMON_KEYS)]
    table = file.table(command) if command in COMMANDS else {}
    defaults = _defaults_in(file, root.commands[command], command, table, common, problems)
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
    problems += file.unknown_keys(name, table, (*flags, *subcommands))
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
