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
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

import typer

from turnmark.assistant.settings import Source, kind_of, short, sources, table_problems, unknown
from turnmark.corpora.errors import RequestError
from turnmark.corpora.specs import parse_spec

COMMON = ("index", "generator", "retriever", "embedder", "judge", "concurrency", "budget", "data")
"""Keys of `[defaults]`."""
VARIABLES = {name: f"TURNMARK_{name.upper()}" for name in COMMON if name != "data"}
"""The environment's names for them. `$TURNMARK_DATA` is something else: the parent of what `--data` names."""
ENDPOINTS = {"openai": "OPENAI_BASE_URL"}
"""Keys of `[endpoints]`, and the variables that they stand in for."""

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
        RequestError: every mistake in the files, each with its file and line.
    """
    command = context.invoked_subcommand
    if command in (None, "doctor") or context.resilient_parsing or "--help" in sys.argv:
        return
    tables = Tables(context.command)
    defaults = tables.of(str(command))
    if command in ("eval", "score") and _retrieves(sys.argv):
        retrieval_flags = {*_OF_RETRIEVAL, "generator"} - ({"embedder"} if command == "score" else set())
        defaults = {name: value for name, value in defaults.items() if name in retrieval_flags}
    lent = dict(tables.endpoints)
    # Handed on as the environment would: whoever asks whether it was named for this run alone is told right.
    if "generator" in defaults:
        lent[VARIABLES["generator"]] = str(defaults.pop("generator"))
    _lend(context, lent)
    context.default_map = {str(command): defaults}


def _retrieves(words: list[str]) -> bool:
    """Whether a retrieval is asked for, which takes nothing that is for the calls of a model."""
    return any(
        word == "--task=retrieval" or (word == "--task" and words[at : at + 1] == ["retrieval"])
        for at, word in enumerate(words, 1)
    )


def _lend(context: typer.Context, variables: Mapping[str, str]) -> None:
    """Set variables that are not set, until the command has ended."""
    for name, value in variables.items():
        if not os.environ.get(name):
            os.environ[name] = value
            context.call_on_close(lambda name=name: os.environ.pop(name, None))


class Tables:
    """What all files say, checked against the commands there are.

    Args:
        root: the whole command line, as typer made it.
        files: the files, the first one first; None: those there are.

    Attributes:
        endpoints: variables of the environment, with the URLs that the files give them.

    Raises:
        RequestError: every mistake in them.
    """

    def __init__(self, root: Any, files: list[Source] | None = None) -> None:
        self._root, self._problems = root, list[str]()
        self._layers: list[_Layer] = []
        self.endpoints: dict[str, str] = {}
        for source in reversed(sources() if files is None else files):
            self._read(source)
        if self._problems:
            raise RequestError(list(dict.fromkeys(self._problems)))

    def of(self, command: str) -> dict[str, Any]:
        """Default of each parameter of a command, by name; of a group, a mapping for each of its commands.

        Raises:
            RequestError: a value of the environment, or of `[defaults]`, is not one that the flag takes.
        """
        target, defaults = self._root.commands[command], dict[str, Any]()
        for layer in self._layers:
            source = layer.source

            def place(key: str, source: Source = source) -> str:
                return f"{source.at('defaults', key)}defaults.{key}"

            defaults = _merged(defaults, self._defaults(target, layer.common, source.path.parent, place))
            defaults = _merged(defaults, layer.own.get(command, {}))
        # That of the generator is read where its flag is.
        named = {key: os.environ.get(name, "").strip() for key, name in VARIABLES.items() if key != "generator"}
        said = {key: text for key, text in named.items() if text}
        defaults = _merged(defaults, self._defaults(target, said, Path(), VARIABLES.__getitem__, texts=True))
        if self._problems:
            raise RequestError(self._problems)
        return defaults

    def _read(self, source: Source) -> None:
        layer = _Layer(source)
        self._layers.append(layer)
        problems = list(table_problems(source))
        self._problems += problems
        for name, table in source.content.items():
            if not isinstance(table, dict) or source.at(name) in "".join(problems):
                continue
            if name == "defaults":
                self._read_common(layer, table)
            elif name == "endpoints":
                self._read_endpoints(source, table)
            elif name in self._root.commands:
                layer.own[name] = self._values(source, self._root.commands[name], table, (name,))

    def _read_common(self, layer: _Layer, table: Mapping[str, Any]) -> None:
        source = layer.source
        for key, value in table.items():
            if key not in COMMON:
                self._add(source, ("defaults", key), next(unknown((key,), COMMON, "key of [defaults]")))
            elif problem := _refused(source, key, value):
                self._add(source, ("defaults", key), problem)
            else:
                layer.common[key] = value

    def _read_endpoints(self, source: Source, table: Mapping[str, Any]) -> None:
        for key, value in table.items():
            if key not in ENDPOINTS:
                self._add(source, ("endpoints", key), next(unknown((key,), tuple(ENDPOINTS), "endpoint")))
            elif not isinstance(value, str):
                self._add(source, ("endpoints", key), f"a URL was expected, not {kind_of(value)}")
            elif any("@" in url.partition("://")[2].partition("/")[0] for url in value.split("|")):
                self._add(source, ("endpoints", key), "no user or password in the URL; the key is in the environment")
            else:
                self.endpoints[ENDPOINTS[key]] = value

    def _add(self, source: Source, names: tuple[str, ...], problem: str) -> None:
        place = source.at(*names)
        self._problems.append(f"{place}{'.'.join(names)}: {problem}")

    def _values(self, source: Source, command: Any, table: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
        """A command's table as values of its parameters; mistakes are taken down."""
        flags = options(command)
        inner = getattr(command, "commands", {})
        values: dict[str, Any] = {}
        for key, value in table.items():
            place = (*names, key)
            if key in inner and isinstance(value, dict):
                values[key] = self._values(source, inner[key], value, place)
            elif key in inner:
                self._add(source, place, f"a table [{'.'.join(place)}] was expected, not {kind_of(value)}")
            elif key not in flags:
                role = f"flag of {' '.join(names)}" if flags else f"command of {' '.join(names)}"
                self._add(source, place, next(unknown((key,), tuple(sorted({*flags, *inner})), role)))
            elif problem := _refused(source, key, value):
                self._add(source, place, problem)
            else:
                try:
                    values[flags[key].name] = converted(flags[key], value, source.path.parent)
                except ValueError as error:
                    self._add(source, place, str(error))
        return values

    def _defaults(
        self, command: Any, common: Mapping[str, Any], folder: Path, place: Callable[[str], str], texts: bool = False
    ) -> dict[str, Any]:
        """`[defaults]` of a file, or what the environment says, for one command or for each of a group.

        Args:
            place: of a key, as a mistake names it.
            texts: all values are texts, as in the environment.
        """
        if inner := getattr(command, "commands", None):
            by_command = {name: self._defaults(one, common, folder, place, texts) for name, one in inner.items()}
            return {name: defaults for name, defaults in by_command.items() if defaults}
        values: dict[str, Any] = {}
        for key, parameter in options(command).items():
            if key not in common:
                continue
            value, takes_several = common[key], parameter.type_descriptor.is_list
            if texts and takes_several:
                value = value.split()
            elif isinstance(value, list) and not takes_several:
                if len(value) != 1:
                    continue  # several judges are for the commands that take several
                value = value[0]
            try:
                values[parameter.name] = converted(parameter, value, folder, texts)
            except ValueError as error:
                self._problems.append(f"{place(key)}: {error}")
        return values


@dataclass
class _Layer:
    """What one file says: `[defaults]` by key, and each command's table by its parameters' names."""

    source: Source
    common: dict[str, Any] = field(default_factory=dict)
    own: dict[str, dict[str, Any]] = field(default_factory=dict)


def options(command: Any) -> dict[str, Any]:
    """The options of a command by the name after their dashes; none of a group's."""
    if getattr(command, "commands", None):
        return {}
    by_name = {}
    for parameter in command.params:
        if parameter.param_type_name == "option":
            name = max(parameter.opts, key=len).lstrip("-")
            if name not in _NEVER:
                by_name[name] = parameter
    return by_name


def converted(parameter: Any, value: Any, folder: Path, texts: bool = False) -> Any:
    """A value of a file as a parameter takes it; a path is one from the file's `folder`.

    Args:
        texts: numbers may be written as texts, as in the environment.

    Raises:
        ValueError: it is not of the parameter's kind.
    """
    kind = parameter.type_descriptor
    if not kind.is_list:
        value = _one(kind.annotation, kind.is_path, value, folder, texts)
    else:
        inner = get_args(kind.annotation)[0]
        values = value if isinstance(value, list) else [value]
        value = [_one(inner, kind.is_path, item, folder, texts) for item in values]
    try:
        parameter.get_runtime_param().coerce(value, param=parameter, ctx=None)
    except Exception as error:  # the library's own class for it is not a public name
        message = str(getattr(error, "message", ""))
        raise ValueError(message or f"{short(value)} is not what the flag takes") from error
    return value


def _one(kind: Any, is_path: bool, value: Any, folder: Path, texts: bool) -> Any:
    """A single value, checked for its kind alone."""
    if kind is bool:
        if not isinstance(value, bool):
            raise ValueError(f"true or false was expected, not {kind_of(value)}")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind in (int, float):
        if not number and not (texts and isinstance(value, str)):
            raise ValueError(f"a number was expected, not {kind_of(value)}")
        return value
    if number:  # a budget of 200000, failures of 5
        return str(value)
    if not isinstance(value, str):
        raise ValueError(f"a text was expected, not {kind_of(value)}")
    return str(folder / Path(value).expanduser()) if is_path else value


def _refused(source: Source, key: str, value: Any) -> str:
    """Why a project's file may not give this value; empty where it may."""
    if source.kind != "project":
        return ""
    if key in _DOORS:
        return "says who may ask; a project's file may not: give it as a flag, or in the user's file"
    if key not in _SPECS:
        return ""
    for text in _texts(value):
        try:
            spec = parse_spec(text)
        except RequestError:
            continue  # told where the spec is opened
        if spec.name in _RUNS_CODE or spec.url or "api_key_env" in spec.options:
            reason = "says what is run or where keys go; a project's file may not"
            return f"{short(text)} {reason}: give it as a flag, or in the user's file"
    return ""


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        yield from (item for item in value if isinstance(item, str))


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Two tables of defaults; `above` has the last word, also inside the tables of a group's commands."""
    merged = dict(below)
    for key, value in above.items():
        mine = merged.get(key)
        merged[key] = _merged(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged
