"""The command line: its commands and their parameters, and whether it would run a list of words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import typer

from turnmark.app import app
from turnmark.core.command_line import mistakes_of
from turnmark.core.errors import RequestError

NO_FLAGS = frozenset({"--help", "--install-completion", "--show-completion"})
"""Flags that every typer application has."""


class Incomplete(ValueError):
    """The words begin a command but are not a complete one."""


@cache
def root() -> Any:
    """Return the command `turnmark`."""
    return typer.main.get_command(app)


def commands() -> dict[str, Any]:
    """Return each command that runs by its name, e.g. `index build`."""
    return dict(_walk(root(), ()))


def _walk(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield " ".join(names), command
    for name, inner_command in (inner or {}).items():
        yield from _walk(inner_command, (*names, name))


def flags(command: Any) -> set[str]:
    """Return the flags of a command: the long name of each, and the name that turns it off."""
    options = [option for option in command.params if option.param_type_name == "option"]
    spellings = [(*option.opts, *option.secondary_opts) for option in options]
    return {name for names in spellings for name in names if name.startswith("--") or len(names) == 1} - NO_FLAGS


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Return every parameter of `turnmark WORDS`; raise `Incomplete` or another ValueError if it would not run.

    The options of typer itself, such as `--help`, are accepted everywhere.
    """
    command, arguments = root(), [word for word in words if word not in NO_FLAGS]
    if words and not arguments:
        return {}
    try:
        context = command.make_context("turnmark", arguments)
        while getattr(command, "commands", None):
            name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, arguments, parent=context)
    except typer.Exit as error:  # a group without a command prints its help
        raise Incomplete(" ".join(words)) from error
    except RequestError as error:
        mistakes = list(error.problems)
    else:
        mistakes = mistakes_of(context)
    if mistakes:
        # A flag without its value is only a mention of the flag.
        incomplete = all(" is missing" in mistake or mistake.endswith("needs a value") for mistake in mistakes)
        raise (Incomplete if incomplete else ValueError)("; ".join(mistakes))
    values: dict[str, Any] = context.params
    return values
