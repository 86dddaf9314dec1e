"""The options that MTRAG adds to `turnmark eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from turnmark.evaluation.tasks.request import TaskOptions
from turnmark.evaluation.tasks.shared_options import AskingProtocol


class RetrievalOptions(TaskOptions):
    """The options of the task `retrieval`."""

    query: Annotated[
        str | None, typer.Option(metavar="MODE", help="Query mode, e.g. last-turn; default: assistant")
    ] = None
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Your own queries, one {"_id", "text"[, "variants"]} per line', hidden=True),
    ] = None


class MtragOptions(RetrievalOptions):
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
