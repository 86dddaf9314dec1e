"""Names of judges' models: decides whether two specs name the same model, and which dated snapshot answered for it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from turnmark.core.errors import RequestError
from turnmark.core.specs import parse_spec

RAGAS = "ragas"
"""Kind of the judge specs `ragas:JUDGE`, with which the ragas package asks another judge."""


def same_model(judge: str, other_spec: str) -> bool:
    """Return whether two specs name the same model, whatever server runs it."""
    judge = judge.removeprefix(f"{RAGAS}:")
    if judge == other_spec:
        return True
    try:
        first, second = parse_spec(judge), parse_spec(other_spec)
    except RequestError:
        return False
    if not first.argument or not second.argument:
        return False
    if "replay" in (first.name, second.name) or "python" in (first.name, second.name):
        return (first.name, first.argument) == (second.name, second.argument)
    return model_key(judge) == model_key(other_spec)


def short_name(judge: str) -> str:
    """Return a model's name without its server and organization."""
    try:
        name = parse_spec(judge.removeprefix(f"{RAGAS}:")).argument or judge
    except RequestError:
        name = judge
    return name.rpartition("/")[2]


def model_key(judge: str) -> str:
    """Return a model's name reduced to lowercase letters and digits, so that spellings compare equal."""
    return "".join(filter(str.isalnum, short_name(judge).casefold()))


_DATE = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{8}|\d{4})")


def is_snapshot(model: str, judge: str) -> bool:
    """Return whether a model's name is the judge's plus a date, e.g. `gpt-4o-2024-08-06` for the alias `gpt-4o`."""
    alias, name = short_name(judge).casefold(), model.rpartition("/")[2].casefold()
    return name.startswith(alias) and _DATE.fullmatch(name[len(alias) :]) is not None


def with_snapshots(judge: str, answered: Mapping[str, Sequence[str]]) -> str:
    """Return a judge's name with the dated snapshots that answered for it."""
    snapshots = answered.get(judge, ())
    return f"{judge} (answered as {', '.join(snapshots)})" if snapshots else judge
