"""The options that KIWI adds to `turnmark eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.tasks.request import TaskOptions
from turnmark.evaluation.tasks.shared_options import AskingProtocol


class KiwiOptions(TaskOptions):
    """The options of KIWI."""

    protocol: AskingProtocol = "turn"
    chain: Annotated[
        bool,
        typer.Option("--chain", help="Start each turn from our previous revision", hidden=True),
    ] = False
