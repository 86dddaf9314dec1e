"""The base class of all records, and the mistakes in them."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, ValidationError


class Record(BaseModel):
    """Base class of all records: immutable; an undeclared field is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def mistakes_in(error: ValidationError) -> list[str]:
    """Return the mistakes of a record in words, each with the path of its field, e.g. `steps.0: Field required`."""
    mistakes = []
    for fault in error.errors(include_url=False, include_input=False):
        words = fault["msg"].removeprefix("Value error, ")
        mistakes.append(": ".join(filter(None, (".".join(map(str, fault["loc"])), words))))
    return mistakes
