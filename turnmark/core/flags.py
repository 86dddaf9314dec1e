"""Makes commands whose options are the fields of a record; rare options are shown by `--help-all` only."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from inspect import Parameter, Signature
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

import typer
from pydantic import Field, ValidationError
from pydantic_core import PydanticUndefined
from typer.models import ParameterInfo

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
    bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="show the rare options too")
]
AsJson = Annotated[bool, typer.Option("--json", help="one JSON object on standard output")]


class Request(Record):
    """The options of a command; a field with a `typer.Option` or `typer.Argument` becomes one of its parameters."""

    typed: frozenset[str] = Field(
        default=frozenset(), description="fields given on the command line, not by a file or the environment"
    )


R = TypeVar("R", bound=Request)


def build_request(kind: type[R], values: Mapping[str, Any], errors: ErrorCollector) -> R:
    """Build a request from the values of its fields. A wrong value is added to `errors` and replaced by its default, so
    that all values are checked.
    """
    values = {name: value for name, value in values.items() if value is not None}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        faults = {str(fault["loc"][0]): fault for fault in error.errors(include_url=False)}
    for name, fault in faults.items():
        reason = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
        shown_value = "" if isinstance(values[name], list | tuple) else f" {values[name]}"
        errors.add(f"{flag_of(kind, name)}{shown_value}: {reason}")
    return kind.model_validate({name: value for name, value in values.items() if name not in faults})


def flag_of(kind: type[Request], name: str) -> str:
    """Return the flag that sets a field."""
    info = _parameter_info(kind, name)
    return next(iter(getattr(info, "param_decls", None) or ()), f"--{name.replace('_', '-')}")


def command_from(
    kind: type[R], run: Callable[[R, ErrorCollector], None], only: Collection[str] = ()
) -> Callable[..., None]:
    """Return a command whose parameters are the fields of a request.

    Args:
        run: called with the request and the mistakes found so far; its docstring becomes the command's help.
        only: the fields that the command has; empty: all.
    """
    names = [name for name in kind.model_fields if _parameter_info(kind, name) and (not only or name in only)]

    def command(context: typer.Context, help_all: bool = False, **values: Any) -> None:  # noqa: ARG001
        sources = {name: context.get_parameter_source(name) for name in names}
        typed = frozenset(name for name, source in sources.items() if source and source.name == "COMMANDLINE")
        errors = ErrorCollector()
        run(build_request(kind, {**values, "typed": typed}, errors), errors)

    parameters = [
        Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context),
        *(_parameter(kind, name) for name in names),
    ]
    if any(getattr(_parameter_info(kind, name), "hidden", False) for name in names):
        parameters.append(Parameter("help_all", Parameter.KEYWORD_ONLY, annotation=HelpAll, default=False))
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    command.__doc__ = run.__doc__
    return command


def _parameter_info(kind: type[Request], name: str) -> ParameterInfo | None:
    return next((extra for extra in kind.model_fields[name].metadata if isinstance(extra, ParameterInfo)), None)


def _parameter(kind: type[Request], name: str) -> Parameter:
    """Return a field as a parameter for typer: a tuple becomes a list, and a field without a fixed default may be None.

    Numbers and choices are passed as text: typer would stop at the first wrong one, and we report all at once.
    """
    field = kind.model_fields[name]
    annotation: Any = field.annotation
    default = Parameter.empty if field.is_required() else field.default
    if get_origin(annotation) is tuple:
        annotation = list[get_args(annotation)[0]]  # type: ignore[misc]
    elif annotation is not bool and Path not in (annotation, *get_args(annotation)):
        annotation = str if default is not None else str | None
        default = default if default in (None, Parameter.empty, PydanticUndefined) else str(default)
    if default in ((), PydanticUndefined):
        annotation, default = annotation | None, None
    return Parameter(
        name, Parameter.KEYWORD_ONLY, annotation=Annotated[annotation, _parameter_info(kind, name)], default=default
    )


def split_names(words: Any) -> Any:
    """Split each word at its commas and return the distinct names; for fields that hold names separated by commas."""
    if not isinstance(words, list):
        return words
    names = tuple(dict.fromkeys(name.strip() for word in words for name in word.split(",") if name.strip()))
    if not names:
        raise ValueError("is empty; write names, separated by commas")
    return names
