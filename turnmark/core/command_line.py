"""Commands whose mistakes are all reported at once, in our words and not in a box of the command-line library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from turnmark.core.errors import RequestError, nearest_name, unknown_name

_MISTAKES = "turnmark.mistakes"
"""Key under which the context of a command keeps the mistakes of its command line."""

_FLAGS_OF_NAMES = ("--predictions", "--index")
"""Flags whose values are often typed without the flag."""


def mistakes_of(context: typer.Context) -> list[str]:
    """Return the mistakes that were found while the command line was parsed."""
    return list(context.meta.get(_MISTAKES, ()))


def describe_missing(spelling: str, help_text: str | None) -> str:
    """Describe a missing argument or flag by its help."""
    description = help_text or ""
    return f"{spelling} is missing: {description[:1].lower()}{description[1:]}".removesuffix(": ")


def describe_missing_value(spelling: str) -> str:
    """Describe a flag that ends the command line, or precedes another flag, without its value."""
    return f"{spelling} needs a value"


class CheckedCommand(TyperCommand):
    """A command that reports all mistakes of its command line at once.

    The library would stop at the first one.
    """

    raises_mistakes = True
    """Whether mistakes end the parsing. False: the function of the command reports them together with its own."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line and collect its mistakes."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        mistakes: list[str] = []
        options, words, unclear = _parse_words(self, ctx, args, mistakes)
        for parameter in sorted(self.get_params(ctx), key=lambda parameter: not parameter.is_eager):
            try:
                _, words = parameter.handle_parse_result(ctx, options, words)
            except typer.TyperException as error:
                if getattr(error, "param", None) is None:
                    raise
                if describe_missing_value(_spelling(parameter)) not in mistakes:
                    mistakes.append(_describe_value(parameter, options, error))
        extra = [word for word in words if word not in unclear]
        if extra:
            plural = "s" if len(extra) > 1 else ""
            quoted = " ".join(map(repr, extra))
            mistakes.append(f"unexpected argument{plural} {quoted}; {_advise_on_argument(self, ctx)}")
        if mistakes and self.raises_mistakes:
            raise RequestError(mistakes)
        ctx.meta[_MISTAKES] = mistakes
        ctx.args = []
        return []


class CheckedGroup(TyperGroup):
    """A group of commands that suggests the right name for a misspelt one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the options of the group; without a command, print the help."""
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(2)
        try:
            return super().parse_args(ctx, args)
        except typer.TyperException as error:
            raise RequestError(_describe_option(self, ctx, error)) from error

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command; raise RequestError with the valid names if it is unknown."""
        if args[0] not in self.commands and not ctx.resilient_parsing:
            names = [name for name, command in self.commands.items() if not command.hidden]
            kind = f"command of {ctx.command_path}" if ctx.parent else "command"
            raise RequestError(unknown_name(kind, args[0], names))
        return super().resolve_command(ctx, args)


class CommandGroup(typer.Typer):
    """A group to which commands are added as to a `typer.Typer`; its commands are `CheckedCommand`s by default."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=CheckedGroup, no_args_is_help=True, **settings)

    def command(
        self, name: str | None = None, *, cls: type[TyperCommand] | None = None, **settings: Any
    ) -> Callable[[Any], Any]:
        return super().command(name, cls=cls or CheckedCommand, **settings)


def _parse_words(
    command: Any, ctx: Any, args: Sequence[str], mistakes: list[str]
) -> tuple[dict[str, Any], list[str], set[str]]:
    """Split the words of a command line into the values of options and arguments.

    Returns:
        the values by parameter, the words that are left, and the words that follow an unknown option, which may be its
        value.
    """
    words, unclear = list(args), set[str]()
    while True:
        try:
            values, left, _ = command.make_parser(ctx).parse_args(args=list(words))
        except typer.TyperException as error:
            mistakes.append(_describe_option(command, ctx, error))
            position = _position(words, getattr(error, "option_name", ""))
            if position is None:
                raise RequestError(mistakes) from error
            following = words[position + 1 : position + 2]
            if "=" not in words[position]:
                unclear.update(following)
                options = _options(command, ctx)
                near = options.get(nearest_name(words[position], options))
                if near is not None and not near.is_flag and following and not following[0].startswith("-"):
                    del words[position + 1]  # the value of the misspelt option is not an argument
            del words[position]
        else:
            return values, left, unclear


def _position(words: Sequence[str], option: str) -> int | None:
    """Return where an option stands among the words, or None if it cannot be found."""
    for position, word in enumerate(words):
        if option and (word == option or word.startswith(f"{option}=")):
            return position
    letter = option[1:] if len(option) == 2 else ""
    for position, word in enumerate(words):
        if letter and word.startswith("-") and not word.startswith("--") and letter in word:
            return position
    return None


def _options(command: Any, ctx: Any) -> dict[str, Any]:
    parameters = [parameter for parameter in command.get_params(ctx) if parameter.param_type_name == "option"]
    return {spelling: parameter for parameter in parameters for spelling in parameter.opts}


def _describe_option(command: Any, ctx: Any, error: Any) -> str:
    """Describe an option that is unknown, lacks its value or takes none."""
    option = getattr(error, "option_name", None)
    if option is None:
        return str(error.format_message())
    options = _options(command, ctx)
    if option in options:
        return f"{option} takes no value" if options[option].is_flag else describe_missing_value(option)
    near = nearest_name(option, [spelling for spelling in options if spelling.startswith("--")])
    hint = f"did you mean {near}?" if near else f"see {ctx.command_path} --help"
    return f"unknown option {option} ({hint})"


def _advise_on_argument(command: Any, ctx: Any) -> str:
    """Say where an unexpected argument belongs: to a flag, or to the text before it."""
    takes_text = sum(parameter.param_type_name == "argument" for parameter in command.get_params(ctx)) > 1
    flags = [flag for flag in _FLAGS_OF_NAMES if flag in _options(command, ctx)]
    return f"write {flags[0]} before it" if flags and not takes_text else "put a text that contains spaces in quotes"


def _spelling(parameter: Any) -> str:
    """Return a flag as typed, or the placeholder of an argument."""
    if parameter.param_type_name == "argument":
        return str(parameter.metavar or parameter.name.upper())
    return str(max(parameter.opts, key=len))


def _describe_value(parameter: Any, values: dict[str, Any], error: Any) -> str:
    spelling = _spelling(parameter)
    value = values.get(parameter.name)
    if parameter.required and value in (None, (), []):
        return describe_missing(spelling, parameter.help)
    shown = f" {value}" if isinstance(value, str) else ""
    choices = parameter.type_descriptor.choices
    expected = f"expected {' or '.join(map(str, choices))}" if choices else error.message.removeprefix("Value error, ")
    return f"{spelling}{shown}: {expected}"
