"""Makes commands whose options are the fields of a record; rare options are shown by `--help-all` only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from typer.models import ArgumentInfo, ParameterInfo

from turnmark.core.command_line import CheckedCommand, describe_missing, describe_missing_value, mistakes_of
from turnmark.core.errors import ErrorCollector
from turnmark.core.record import Record


def _show_all(context: typer.Context, wants_all: bool) -> None:
    """Print the help with the rare options, and exit."""
    if wants_all and not context.resilient_parsing:
        for parameter in context.command.params:
            parameter.hidden = False  # type: ignore[attr-defined]
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show the rare options too")
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON object on standard output")]


class FlagMark(Enum):
    """The properties of a field that the command line and the configuration files need besides its `typer.Option`."""

    REPEATABLE = "The flag may be given several times. The validator of the field receives a list."
    REQUIRED = "The flag must be given. Without it, its default stands in, so that everything else is checked."
    SPEC = "A project's configuration file may not set it to something that runs code, or that names a server or a key."


@dataclass(frozen=True)
class FlattenMark:
    """Refines a field of a request that is a record, whose own fields become flags of the command.

    Attributes:
        without: fields of the record that the command does not have.
        required: fields of the record that must be given.
    """

    without: tuple[str, ...] = ()
    required: tuple[str, ...] = ()


class Request(Record):
    """The options of a command. A field with a `typer.Option` or `typer.Argument` becomes one of its parameters. So do
    the fields of a field that is a record, unless the request has a field of the same name.
    """

    typed: frozenset[str] = Field(
        default=frozenset(), description="fields given on the command line, not by a file or the environment"
    )


@dataclass(frozen=True)
class Flag:
    """A parameter of a command, and the field that declares it.

    Attributes:
        record: field of the request that is the record with this field; "": the request itself.
        default: default of the field in this request.
        required: whether it must be given.
    """

    name: str
    info: ParameterInfo
    field: FieldInfo
    record: str
    default: Any
    required: bool

    @property
    def spelling(self) -> str:
        """The flag as typed, or the placeholder of an argument."""
        if isinstance(self.info, ArgumentInfo):
            return self.info.metavar or self.name.upper()
        # Typer's first positional argument is called `default`, although in an annotation it is a flag.
        declared = [word for word in (self.info.default, *(self.info.param_decls or ())) if isinstance(word, str)]
        return max(declared, key=len, default=f"--{self.name.replace('_', '-')}")

    @property
    def key(self) -> str:
        """The name of the flag in a configuration file."""
        return self.spelling.lstrip("-")

    def has(self, mark: FlagMark) -> bool:
        """Return whether the field is declared with a mark."""
        return mark in self.field.metadata


@cache
def flags_of(kind: type[Record]) -> dict[str, Flag]:
    """Return the flags that a record declares, by the name of their field, those of its records included."""
    flags: dict[str, Flag] = {}
    for name, field in kind.model_fields.items():
        default = field.get_default(call_default_factory=False)
        if isinstance(field.annotation, type) and issubclass(field.annotation, Record):
            default = field.annotation() if default in (None, PydanticUndefined) else default
            refined = next((extra for extra in field.metadata if isinstance(extra, FlattenMark)), FlattenMark())
            for inner, flag in flags_of(field.annotation).items():
                if inner not in refined.without and inner not in kind.model_fields:
                    required = flag.required or inner in refined.required
                    flags[inner] = replace(flag, record=name, default=getattr(default, inner), required=required)
        elif info := next((extra for extra in field.metadata if isinstance(extra, ParameterInfo)), None):
            required = field.is_required() or FlagMark.REQUIRED in field.metadata
            flags[name] = Flag(name, info, field, "", default, required)
    return flags


def flag_of(kind: type[Record], name: str) -> str:
    """Return the flag that sets a field."""
    flag = flags_of(kind).get(name)
    return flag.spelling if flag else f"--{name.replace('_', '-')}"


R = TypeVar("R", bound=Request)


def build_request(kind: type[R], values: Mapping[str, Any], errors: ErrorCollector) -> R:
    """Build a request from the values of its fields. A wrong value is added to `errors` and replaced by its default, so
    that all values are checked. A missing value is added too; one that has no default ends the request.

    Args:
        values: fields of the request, and fields of its records. A record may be given too; fields next to it replace
            its own.
    """
    flags = flags_of(kind)
    values = {name: value for name, value in values.items() if value is not None}
    absent = [flag for name, flag in flags.items() if flag.required and values.get(name, ()) in ("", (), [])]
    for flag in absent:
        missing = describe_missing(flag.spelling, flag.info.help)
        if not {missing, describe_missing_value(flag.spelling)} & {*errors.problems}:
            errors.add(missing)
    try:
        return kind.model_validate(_nest(kind, values))
    except ValidationError as error:
        problems = _problems(kind, values, error)
    errors.problems += problems.values()
    if any(flag.field.is_required() and not flag.record for flag in absent):
        errors.raise_all()
    return kind.model_validate(_nest(kind, {name: value for name, value in values.items() if name not in problems}))


def _nest(kind: type[Record], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as fields of the request, with the fields of its records nested."""
    flags = flags_of(kind)
    nested = {name: value for name, value in values.items() if name not in flags or not flags[name].record}
    for name, flag in flags.items():
        if flag.record and name in values:
            record = nested.setdefault(flag.record, kind.model_fields[flag.record].get_default())
            fields = dict(record) if record not in (None, PydanticUndefined) else {}
            nested[flag.record] = {**fields, name: values[name]}
    return nested


def _problems(kind: type[Record], values: Mapping[str, Any], error: ValidationError) -> dict[str, str]:
    """Return what is wrong with each value, by the name of its field; without the missing ones."""
    problems = {}
    for name, reason in reasons(error, {flag.record for flag in flags_of(kind).values()}).items():
        if name in values:
            shown_value = "" if isinstance(values[name], list | tuple) else f" {values[name]}"
            problems[name] = f"{flag_of(kind, name)}{shown_value}: {reason}"
    return problems


_EXPECTED_VALUE_TEXTS = {
    "int_parsing": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_parsing": "expected a number",
    "greater_than": "expected more than {gt}",
    "greater_than_equal": "expected at least {ge}",
    "less_than_equal": "expected at most {le}",
    "literal_error": "expected {expected}",
}
"""Kind of a mistake, as pydantic names it -> our message."""


def reasons(error: ValidationError, records: Collection[str] = ()) -> dict[str, str]:
    """Return what is wrong with each field.

    Args:
        records: fields that are records; for these, the inner field is named.
    """
    found = {}
    for fault in error.errors(include_url=False):
        place = [str(key) for key in fault["loc"]]
        name = place[1] if len(place) > 1 and place[0] in records else place[0]
        expected = _EXPECTED_VALUE_TEXTS.get(fault["type"])
        message = expected.format(**fault.get("ctx", {})) if expected else fault["msg"].removeprefix("Value error, ")
        found[name] = message.removeprefix("Input ")
    return found


class RequestCommand(CheckedCommand):
    """A command made by `command_from`, whose request reports the mistakes of the command line with its own."""

    raises_mistakes = False


def command_from(
    kind: type[R], run: Callable[[R, ErrorCollector], None], only: Collection[str] = ()
) -> Callable[..., None]:
    """Return a command whose parameters are the fields of a request; mount it with `cls=RequestCommand`.

    Args:
        run: called with the request and the mistakes found so far; its docstring becomes the command's help.
        only: the fields that the command has; if empty, all.
    """
    flags = [flag for flag in flags_of(kind).values() if not only or flag.name in only]

    def command(context: typer.Context, help_all: bool = False, **values: Any) -> None:  # noqa: ARG001
        sources = {flag.name: context.get_parameter_source(flag.name) for flag in flags}
        typed = frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")
        errors = ErrorCollector()
        errors.problems += mistakes_of(context)
        run(build_request(kind, {**values, "typed": typed}, errors), errors)

    parameters = [Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context), *map(_parameter, flags)]
    if any(getattr(flag.info, "hidden", False) for flag in flags):
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, annotation=HelpAll, default=False))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = run.__doc__
    return command


def _parameter(flag: Flag) -> Parameter:
    """Return a flag as a parameter for typer: a tuple becomes a list, and a field without a fixed default may be None.

    Numbers and choices are passed as text: typer would stop at the first wrong one, and we report all at once.
    """
    annotation: Any = flag.field.annotation
    default = flag.default
    if flag.has(FlagMark.REPEATABLE) and default == "":
        annotation, default = list[str], ()
    elif get_origin(annotation) is tuple:
        annotation = list[get_args(annotation)[0]]  # type: ignore[misc]
    elif annotation is not bool and Path not in (annotation, *get_args(annotation)):
        annotation = str if default is not None else str | None
        default = default if default in (None, PydanticUndefined) else str(default)
    if default in ((), PydanticUndefined, ""):
        annotation, default = annotation | None, None
    return Parameter(
        flag.name, Parameter.KEYWORD_ONLY, annotation=Annotated[annotation, flag.info],
        default=Parameter.empty if flag.required else default,
    )  # fmt: skip


def split_names(words: Any) -> Any:
    """Split each word at its commas and return the distinct names; for fields that contain names separated by
    commas."""
    if not isinstance(words, list):
        return words
    names = tuple(dict.fromkeys(name.strip() for word in words for name in word.split(",") if name.strip()))
    if not names:
        raise ValueError("is empty; write names, separated by commas")
    return names
