"""The options that InsCoQA adds to `turnmark eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.tasks.request import TaskOptions


class InscoqaOptions(TaskOptions):
    """The options of InsCoQA."""

    query: Annotated[
        str | None, typer.Option(metavar="MODE", help="Query mode, e.g. last-turn; default: assistant")
    ] = None
