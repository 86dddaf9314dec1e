"""The options that Compound-QA adds to `turnmark eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import BeforeValidator

from turnmark.core.flags import split_names
from turnmark.evaluation.tasks.request import TaskOptions


class CompoundOptions(TaskOptions):
    """The options of Compound-QA."""

    scored: ClassVar[tuple[str, ...]] = ("references",)

    references: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="Run in the setting dialogue; its answers to the sub-questions become the references",
            hidden=True,
        ),
    ] = None
    types: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(metavar="A,B", help="Question types; default: all five", hidden=True),
    ] = ()
