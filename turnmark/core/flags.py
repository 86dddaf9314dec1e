"""Commands whose options are the fields of a record; rare options, which only `--help-all` shows."""

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
    """What a command line asks for: a field with a `typer.Option` or `typer.Argument` is one of its parameters."""

    typed: frozenset[str] = Field(
        default=frozenset(), description="fields given for this run alone, and not by a file or the environment"
    )


R = TypeVar("R", bound=Request)


def build_request(kind: type[R], values: Mapping[str, Any], errors: ErrorCollector) -> R:
    """A request from the values of its fields; for a wrong one its default is taken, so that all others are checked."""
    values = {name: value for name, value in values.items() if value is not None}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        wrong = {str(row["loc"][0]): row for row in error.errors(include_url=False)}
    for name, row in wrong.items():
        reason = row["msg"].removeprefix("Value error, ").removeprefix("Input ")
        shown = "" if isinstance(values[name], list | tuple) else f" {values[name]}"
        errors.add(f"{flag_of(kind, name)}{shown}: {reason}")
    return kind.model_validate({name: value for name, value in values.items() if name not in wrong})


def flag_of(kind: type[Request], name: str) -> str:
    """The flag that sets a field."""
    info = _parameter_info(kind, name)
    return next(iter(getattr(info, "param_decls", None) or ()), f"--{name.replace('_', '-')}")


def command_from(
    kind: type[R], run: Callable[[R, ErrorCollector], None], only: Collection[str] = ()
) -> Callable[..., None]:
    """A command whose parameters are the fields of a request, or `only` some of them."""
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
    """A field as typer takes it: of a tuple, a list; one without a fixed default may be None.

    Numbers and choices are text to typer, which would refuse a wrong one before the rest is looked at.
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
    """`a,b` as a name each; for fields that take names separated by commas."""
    if not isinstance(words, list):
        return words
    names = tuple(dict.fromkeys(name.strip() for word in words for name in word.split(",") if name.strip()))
    if not names:
        raise ValueError("is empty; write names, separated by commas")
    return names
