"""The options that all kinds of `turnmark synth` share, and how a benchmark's folder declares its synthesis."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import Field

from turnmark.core.flags import AsJson, Request
from turnmark.evaluation.tasks.declarations import TABLES_MODULE, load
from turnmark.evaluation.tasks.shared_options import BudgetOption, Concurrency, MaxFailures, Prompts, SeedOption


class SynthRequest(Request):
    """The options that all kinds of `turnmark synth` share."""

    index: Annotated[
        str | None,
        typer.Option(metavar="NAME", envvar="TURNMARK_INDEX", help="Index with the documents to make data from"),
    ] = None
    n: Annotated[
        int,
        Field(ge=1),
        typer.Option("--n", metavar="N", help="Number of items; a larger number continues the folder"),
    ] = 10
    generator: Annotated[
        str | None,
        typer.Option(metavar="SPEC", envvar="TURNMARK_GENERATOR", help="Model that writes the items; required"),
    ] = None
    judge: str | None = None
    prompts: Prompts = None
    seed: SeedOption = 0
    concurrency: Concurrency = 16
    max_failures: MaxFailures = None
    budget: BudgetOption = None
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder; the same command resumes it")] = None
    review: Annotated[
        tuple[Path, ...],
        typer.Option(
            metavar="FILE",
            help="Remove the items rejected in a file saved by a `report DIR --rate` page; repeatable",
        ),
    ] = ()
    as_json: AsJson = False

    @property
    def options(self) -> dict[str, Any]:
        """The options of one kind of synthesis, without those that are empty."""
        names = [name for name in type(self).model_fields if name not in SynthRequest.model_fields]
        values = {name: getattr(self, name) for name in names if getattr(self, name) != ()}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


@dataclass(frozen=True)
class DeclaredSynthesis:
    """A kind of `turnmark synth`, as a benchmark's folder declares it.

    Attributes:
        name: name of the command.
        synthesis: `module:attribute` of the `Synthesis`.
        request: the options of the command; the docstring is its help.
    """

    name: str
    synthesis: str
    request: type[SynthRequest]


@cache
def syntheses() -> Mapping[str, DeclaredSynthesis]:
    """Return the syntheses of this package by name."""
    return {declared.name: declared for declared in load(f"{TABLES_MODULE}:SYNTHESES")}
