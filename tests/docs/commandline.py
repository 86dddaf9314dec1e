"""The command line itself: its commands, what they take, and whether words are such that it would run them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import typer

from turnmark.app import app

NO_FLAGS = frozenset({"--help", "--install-completion", "--show-completion"})
"""Of every typer application."""


class Incomplete(ValueError):
    """Words that a command could begin with, but no command yet."""


@cache
def root() -> Any:
    """`turnmark`, as typer makes it."""
    return typer.main.get_command(app)


def commands() -> dict[str, Any]:
    """`index build` -> the command, for each that runs."""
    return dict(_walk(root(), ()))


def _walk(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, Any]]:
    inner = getattr(command, "commands", None)
    if not inner:
        yield " ".join(names), command
    for name, inner_command in (inner or {}).items():
        yield from _walk(inner_command, (*names, name))


def flags(command: Any) -> set[str]:
    """The flags of a command, the longer name of each, and the one that turns it off."""
    options = [option for option in command.params if option.param_type_name == "option"]
    spellings = [(*option.opts, *option.secondary_opts) for option in options]
    return {name for names in spellings for name in names if name.startswith("--") or len(names) == 1} - NO_FLAGS


def parsed(words: Sequence[str]) -> dict[str, Any]:
    """Every parameter of what `turnmark WORDS` would run; `Incomplete` or another ValueError if it would not.

    What typer does by itself (`--help`, completion) is taken for granted.
    """
    from typer._click.exceptions import ClickException, MissingParameter, NoArgsIsHelpError

    command, arguments = root(), [word for word in words if word not in NO_FLAGS]
    if words and not arguments:
        return {}
    try:
        context = command.make_context("turnmark", arguments)
        while getattr(command, "commands", None):
            name, command, arguments = command.resolve_command(context, [*context._protected_args, *context.args])
            context = command.make_context(name, arguments, parent=context)
    except (MissingParameter, NoArgsIsHelpError) as error:
        raise Incomplete(error.format_message()) from error
    except ClickException as error:
        # A flag that is named without its value is a mention of it.
        if error.format_message().endswith("requires an argument."):
            raise Incomplete(error.format_message()) from error
        raise ValueError(error.format_message()) from error
    values: dict[str, Any] = context.params
    return values
