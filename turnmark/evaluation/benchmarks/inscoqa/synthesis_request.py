"""The options of its synthesis, `turnmark synth inscoqa`."""

from __future__ import annotations

from typing import Annotated

import typer

from turnmark.evaluation.synth.request import SynthRequest


class InscoqaSynthRequest(SynthRequest):
    """Make conversations over several instructional documents, with answer and procedure, in the form of InsCoQA."""

    documents: Annotated[int, typer.Option(metavar="N", help="Maximum number of documents per item")] = 6
