"""The options of `turnmark synth mtrag`."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.synth.request import SynthRequest


class MtragSynthRequest(SynthRequest):
    """Make conversations in the form of MTRAG-S, of up to eight turns each."""

    turns: Annotated[int, typer.Option(metavar="N", help="Maximum number of turns per conversation, up to 8")] = 8
