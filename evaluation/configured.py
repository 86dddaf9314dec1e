"""The configuration files as defaults of the command line: flag before environment before project before user.

    [defaults]                # of every command that has the flag
    generator = "openai:gpt-4o-mini"

    [eval]                    # of one command: any flag of it, as its name is after the dashes
    concurrency = 8

`turnmark.assistant.settings` says which files there are, and what a project's file may not say.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from turnmark.assistant.settings import COMMANDS, ConfigFile, sources
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import parse_spec

COMMON = ("index", "generator", "retriever", "embedder", "judge", "concurrency", "budget", "data")
"""Keys of `[defaults]`."""
_NEVER = ("help", "help-all", "version", "json", "token")
_DOORS = ("host", "port", "token")
"""Flags of `serve` that open it to others."""
_SPECS = ("generator", "judge", "retriever", "embedder")
_RUNS_CODE = ("python", "llama-index")


def apply(context: typer.Context) -> None:
    """Make what the files say the defaults of the command that is about to run."""
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    context.default_map = {str(command): defaults_of(context.command, str(command), sources())}


def defaults_of(root: Any, command: str, files: Sequence[ConfigFile]) -> dict[str, Any]:
    """The default of each parameter of a command, by name; of a group, a mapping for each of its commands.

    Args:
        root: the command line, as typer made it.
        files: the first one first.
    """
    problems: list[str] = []
    defaults: dict[str, Any] = {}
    for source in reversed(files):
        problems += source.problems()
        common: dict[str, Any] = {}
        for key, value in source.table("defaults").items():
            if reason := _unknown(key, COMMON) or _refused(source, key, value):
                problems.append(f"{source.path}: defaults.{key}: {reason}")
            else:
                common[key] = value
        table = source.table(command) if command in COMMANDS else {}
        defaults = _merge(defaults, _read(root.commands[command], table, common, source, command, problems))
    if problems:
        raise RequestError(list(dict.fromkeys(problems)))
    return defaults


def _read(
    command: Any,
    table: Mapping[str, Any],
    common: Mapping[str, Any],
    source: ConfigFile,
    name: str,
    problems: list[str],
) -> dict[str, Any]:
    """The values that a file has for the parameters of a command, or for each command of a group.

    Args:
        table: the command's own.
        common: `[defaults]`.
        name: of the table, for messages.
    """
    inner, flags = getattr(command, "commands", {}), options(command)
    problems += [
        f"{source.path}: {name}.{key}: {reason}" for key in table if (reason := _unknown(key, (*flags, *inner)))
    ]
    values: dict[str, Any] = {}
    for key, inner_command in inner.items():
        inner_table = table.get(key, {})
        if isinstance(inner_table, dict):
            values[key] = _read(inner_command, inner_table, common, source, f"{name}.{key}", problems)
        else:
            problems.append(f"{source.path}: {name}.{key}: a table was expected")
    for key, parameter in flags.items():
        field = f"{source.path}: {name if key in table else 'defaults'}.{key}"
        if key in table and (reason := _refused(source, key, table[key])):
            problems.append(f"{field}: {reason}")
        elif key in table or key in common:
            value = table.get(key, common.get(key))
            if isinstance(value, list) and not parameter.type_descriptor.is_list:
                if len(value) != 1 and key not in table:
                    continue  # several judges are for the commands that take several
                value = value[0] if len(value) == 1 else value
            _convert(parameter, value, source.path.parent, field, values, problems)
    return {key: value for key, value in values.items() if value != {}}


def _unknown(key: str, keys: Sequence[str]) -> str:
    return "" if key in keys else f"no such key; there are: {', '.join(sorted(keys))}"


def options(command: Any) -> dict[str, Any]:
    """The options of a command by the name after their dashes; none of a group's."""
    if getattr(command, "commands", None):
        return {}
    listed = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    by_name = {max(parameter.opts, key=len).lstrip("-"): parameter for parameter in listed}
    return {name: parameter for name, parameter in by_name.items() if name not in _NEVER}


def _convert(parameter: Any, value: Any, folder: Path, field: str, values: dict[str, Any], problems: list[str]) -> None:
    """Take a value as a parameter takes it; a path is relative to `folder`, and one value may be given for a list."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError

    kind = parameter.type_descriptor
    if kind.is_list and not isinstance(value, list):
        value = [value]
    try:
        if (kind.annotation is bool) != isinstance(value, bool):
            raise ValueError("true or false was expected" if kind.annotation is bool else "no flag of true or false")
        adapted = TypeAdapter(kind.annotation, config=ConfigDict(coerce_numbers_to_str=True)).validate_python(value)
    except ValidationError as error:
        problems.append(f"{field}: {error.errors()[0]['msg']}")
    except ValueError as error:
        problems.append(f"{field}: {error}")
    else:
        values[parameter.name] = str(folder / adapted.expanduser()) if isinstance(adapted, Path) else adapted


def _refused(source: ConfigFile, key: str, value: Any) -> str:
    """Why a project's file may not give this value; empty if it may."""
    if source.kind != "project":
        return ""
    if key in _DOORS:
        return "says who may ask; a project's file may not: give it as a flag, or in the user's file"
    for text in value if isinstance(value, list) else [value]:
        if key not in _SPECS or not isinstance(text, str):
            continue
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # reported where the spec is opened
        if spec.name in _RUNS_CODE or spec.url or "api_key_env" in spec.options:
            reason = "says what is run or where keys go; a project's file may not"
            return f"{text[:80]!r} {reason}: give it as a flag, or in the user's file"
    return ""


def _merge(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables of defaults; `above` has the last word, also inside the tables of a group's commands."""
    merged = dict(below)
    for key, value in above.items():
        lower = merged.get(key)
        merged[key] = _merge(lower, value) if isinstance(lower, dict) and isinstance(value, dict) else value
    return merged
