"""The configuration files: where they are, which comes first, and where in them a name stands.

A value is taken from the first of these that has it:

    1. the flag
    2. the environment
    3. `turnmark.toml` in the working folder: the project's
    4. `config.toml` in `$TURNMARK_HOME` (the platform's data folder without it): the user's

The project's file may have come with somebody else's files. So it is looked for in the working folder alone, where one
sees it, and it may not say what is run or where keys and texts go: no server's command, no address, no code.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal

from turnmark.corpora.errors import RequestError
from turnmark.corpora.home import home

CONFIG_NAME = "config.toml"
PROJECT_NAME = "turnmark.toml"

COMMANDS = ("ask", "chat", "compare", "eval", "index", "report", "score", "search", "serve", "synth")
"""Commands that may have a table of their own."""
TABLES = ("defaults", "endpoints", "prices", "cache", "vllm", "tracing", *COMMANDS)
USER_ONLY = ("endpoints", "vllm", "tracing")
"""Tables that name what is run, or where keys and texts are sent."""

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
    files: list[Source] = []
    problems: list[str] = []
    places: tuple[tuple[Literal["project", "user"], Path], ...] = (
        ("project", Path(PROJECT_NAME).absolute()),
        ("user", home() / CONFIG_NAME),
    )
    for kind, path in places:
        try:
            source = read_source_file(path, kind)
        except RequestError as error:
            problems += error.problems
            continue
        if source is not None:
            files.append(source)
    if problems:
        raise RequestError(problems)
    return files


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
    at: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        head = _HEAD.fullmatch(line)
        key = None if head else _KEY.match(line)
        if head:
            at = _dotted(head["name"])
            full = at
        elif key:
            full = (*at, *_dotted(key["name"]))
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
