"""The configuration files as defaults of the command line: flag before environment before project before user.

    [defaults]                # of every command that has the flag
    generator = "openai:gpt-4o-mini"

    [eval]                    # of one command: any flag of it, as its name stands after the dashes
    concurrency = 8

`turnmark.assistant.settings` says which files there are, and what a project's file may not say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from turnmark.assistant.settings import COMMANDS, Source, sources
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import parse_spec

COMMON = ("index", "generator", "retriever", "embedder", "judge", "concurrency", "budget", "data")
"""Keys of `[defaults]`."""
VARIABLES = {name: f"TURNMARK_{name.upper()}" for name in COMMON if name != "data"}
"""The environment's names for them. `$TURNMARK_DATA` is something else: the parent of what `--data` names."""
ENDPOINTS = {"openai": "OPENAI_BASE_URL"}
"""Keys of `[endpoints]`, and the variables that they replace."""

_NEVER = ("help", "version", "json", "token")
_DOORS = ("host", "port", "token", "allow-host")
"""Flags of `serve` that open it to others."""
_SPECS = ("generator", "judge", "retriever", "embedder")
_RUNS_CODE = ("python", "llama-index")
_OF_RETRIEVAL = (
    "data", "domains", "retriever", "embedder", "query", "queries", "limit", "sample", "only", "seed", "out",
)  # fmt: skip


def apply(context: typer.Context) -> None:
    """Make what the files and the environment say the defaults of the command that is about to run.

    Raises:
        RequestError: every mistake in the files, each with its file and field.
    """
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    defaults, lent = defaults_of(context.command, str(command), sources())
    if command in ("eval", "score") and _retrieves(sys.argv):
        retrieval_flags = {*_OF_RETRIEVAL, "generator"} - ({"embedder"} if command == "score" else set())
        defaults = {name: value for name, value in defaults.items() if name in retrieval_flags}
    # Handed on as the environment would: whoever asks whether it was named for this run alone is told right.
    if "generator" in defaults:
        lent[VARIABLES["generator"]] = str(defaults.pop("generator"))
    for name, value in lent.items():
        if not os.environ.get(name):
            os.environ[name] = value
            context.call_on_close(lambda name=name: os.environ.pop(name, None))
    context.default_map = {str(command): defaults}


def _retrieves(words: list[str]) -> bool:
    """Whether a retrieval is asked for, which takes nothing that is for the calls of a model."""
    return any(
        word == "--task=retrieval" or (word == "--task" and words[at : at + 1] == ["retrieval"])
        for at, word in enumerate(words, 1)
    )


def defaults_of(root: Any, command: str, files: Sequence[Source]) -> tuple[dict[str, Any], dict[str, str]]:
    """The default of each parameter of a command, by name (of a group, a mapping for each of its commands), and the
    variables of the environment that the files give.

    Args:
        root: the command line, as typer made it.
        files: the first one first.

    Raises:
        RequestError: every mistake in the files, also in the tables of other commands, and in the environment.
    """
    problems: list[str] = []
    defaults: dict[str, Any] = {}
    variables: dict[str, str] = {}
    for source in reversed(files):
        problems += source.problems()
        common = _known(source, "defaults", COMMON, problems)
        defaults = _merged(defaults, _shared(root.commands[command], common, source, problems))
        for name in COMMANDS:
            values = _values(root.commands[name], source.table(name), source, (name,), problems)
            defaults = _merged(defaults, values) if name == command else defaults
        for key, value in _known(source, "endpoints", tuple(ENDPOINTS), problems).items():
            if not isinstance(value, str):
                problems.append(f"{source.path}: endpoints.{key}: a URL was expected")
            elif "@" in value:
                problems.append(f"{source.path}: endpoints.{key}: no user or password; the key is in the environment")
            else:
                variables[ENDPOINTS[key]] = value
    # That of the generator is read where its flag is.
    named = {key: os.environ.get(name, "").strip() for key, name in VARIABLES.items() if key != "generator"}
    defaults = _merged(
        defaults, _shared(root.commands[command], {key: text for key, text in named.items() if text}, None, problems)
    )
    if problems:
        raise RequestError(list(dict.fromkeys(problems)))
    return defaults, variables


def _known(source: Source, name: str, keys: Sequence[str], problems: list[str]) -> dict[str, Any]:
    """What a table says under these keys; any other key, and what a project's file may not say, is a problem."""
    known: dict[str, Any] = {}
    for key, value in source.table(name).items():
        reason = _unknown(key, keys) if key not in keys else _refused(source, key, value)
        if reason:
            problems.append(f"{source.path}: {name}.{key}: {reason}")
        else:
            known[key] = value
    return known


def _unknown(key: str, keys: Iterable[str]) -> str:
    return f"no such key; there are: {', '.join(sorted(keys))}" if key not in keys else ""


def _values(
    command: Any, table: Mapping[str, Any], source: Source, names: tuple[str, ...], problems: list[str]
) -> dict[str, Any]:
    """A command's table as values of its parameters."""
    flags, inner = options(command), getattr(command, "commands", {})
    values: dict[str, Any] = {}
    for key, value in table.items():
        field = f"{source.path}: {'.'.join((*names, key))}"
        if key in inner and isinstance(value, dict):
            values[key] = _values(inner[key], value, source, (*names, key), problems)
        elif key in inner:
            problems.append(f"{field}: a table was expected")
        elif reason := _unknown(key, [*flags, *inner]) or _refused(source, key, value):
            problems.append(f"{field}: {reason}")
        else:
            _convert(flags[key], value, source.path.parent, field, values, problems)
    return values


def _shared(command: Any, table: Mapping[str, Any], source: Source | None, problems: list[str]) -> dict[str, Any]:
    """`[defaults]` of a file, or of the environment, for one command or for each of a group."""
    if inner := getattr(command, "commands", None):
        by_command = {name: _shared(one, table, source, problems) for name, one in inner.items()}
        return {name: defaults for name, defaults in by_command.items() if defaults}
    values: dict[str, Any] = {}
    for key, parameter in options(command).items():
        if key not in table:
            continue
        value, takes_several = table[key], parameter.type_descriptor.is_list
        if source is None and takes_several:
            value = value.split()
        elif isinstance(value, list) and not takes_several:
            if len(value) != 1:
                continue  # several judges are for the commands that take several
            value = value[0]
        field = f"{source.path}: defaults.{key}" if source else VARIABLES[key]
        _convert(parameter, value, source.path.parent if source else Path(), field, values, problems)
    return values


def options(command: Any) -> dict[str, Any]:
    """The options of a command by the name after their dashes; none of a group's."""
    if getattr(command, "commands", None):
        return {}
    listed = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    by_name = {max(parameter.opts, key=len).lstrip("-"): parameter for parameter in listed}
    return {name: parameter for name, parameter in by_name.items() if name not in _NEVER}


def _convert(parameter: Any, value: Any, folder: Path, field: str, values: dict[str, Any], problems: list[str]) -> None:
    """Take a value as a parameter takes it; a path is one from `folder`, and one value may be given for a list."""
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
        path = isinstance(adapted, Path)
        values[parameter.name] = str(folder / adapted.expanduser()) if path else getattr(adapted, "value", adapted)


def _refused(source: Source, key: str, value: Any) -> str:
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


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables of defaults; `above` has the last word, also inside the tables of a group's commands."""
    merged = dict(below)
    for key, value in above.items():
        mine = merged.get(key)
        merged[key] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged
