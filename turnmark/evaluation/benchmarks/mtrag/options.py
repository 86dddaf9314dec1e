"""The options that MTRAG adds to `turnmark eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, ClassVar

import typer
from pydantic import AfterValidator, BeforeValidator

from turnmark.core.flags import split_names
from turnmark.evaluation.tasks.request import TaskOptions
from turnmark.evaluation.tasks.shared_options import AskingProtocol

MAX_CUTOFF = 100
"""Largest rank of `--at`, and the number of passages kept of another system's list."""


def _check_cutoffs(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(name.isdecimal() and 1 <= int(name) <= MAX_CUTOFF for name in names):
        raise ValueError(f"expected numbers from 1 to {MAX_CUTOFF}, separated by commas, e.g. 3,20")
    return names


class SearchOptions(TaskOptions):
    """The options of the tasks `retrieval` and `generation`."""

    query: Annotated[
        str | None, typer.Option(metavar="MODE", help="Query mode, e.g. last-turn; default: assistant")
    ] = None
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Your own queries, one {"_id", "text"[, "variants"]} per line', hidden=True),
    ] = None


class RetrievalOptions(SearchOptions):
    """The options of the task `retrieval`."""

    scored: ClassVar[tuple[str, ...]] = ("at",)

    at: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        AfterValidator(_check_cutoffs),
        typer.Option(
            metavar="K,K",
            help=f"Further cut-offs of the metrics of --task retrieval, up to {MAX_CUTOFF}, e.g. 3,20",
            hidden=True,
        ),
    ] = ()


class MtragOptions(SearchOptions):
    """The options of the generation task."""

    passages: Annotated[Path | None, typer.Option(metavar="RUN|FILE", help="Answer from recorded passages")] = None
    counterfactual: Annotated[
        bool,
        typer.Option(
            "--counterfactual",
            help="With --setting rag, repeat each answerable task with its relevant passages hidden",
            hidden=True,
        ),
    ] = False
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="Like --setting rag, but with the assistant's own replies as earlier turns",
            hidden=True,
        ),
    ] = False
    protocol: AskingProtocol = "turn"


class OptionsOfAllTasks(RetrievalOptions, MtragOptions):
    """The options of the benchmark."""
