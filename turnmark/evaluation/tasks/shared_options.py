"""Options that several commands of the evaluation share."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from pydantic import BeforeValidator, Field

MAX_CONCURRENCY = 1000
"""Upper limit of `--concurrency`; each concurrent sample has a thread."""
_PERCENTAGE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")


def _check_max_failures(text: Any) -> Any:
    if isinstance(text, str) and not text.strip().isdecimal():
        share = _PERCENTAGE.fullmatch(text.strip())
        if share is None or float(share[1]) > 100:
            raise ValueError("expected a number from 0, or a percentage such as 5%")
    return text


BudgetOption = Annotated[str | None, typer.Option(metavar="N", help="Budget: tokens (200k) or money ($5)")]
Concurrency = Annotated[
    int, Field(ge=1, le=MAX_CONCURRENCY), typer.Option(metavar="N", help="Number of samples at once, e.g. 4")
]
MaxFailures = Annotated[
    str | None,
    BeforeValidator(_check_max_failures),
    typer.Option(metavar="N|P%", help="Stop a run after more failed samples than this, e.g. 10 or 5%", hidden=True),
]
Prompts = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Folder with your own prompts as NAME.txt, e.g. prompts")
]
SeedOption = Annotated[int, Field(ge=0), typer.Option(metavar="S", help="Random seed, e.g. 1", hidden=True)]
AskingProtocol = Annotated[
    Literal["turn", "paper"],
    typer.Option(
        metavar="turn|paper",
        help="Ask with the assistant's turn, or with the paper's prompts (needs a model)",
        hidden=True,
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Estimate calls and tokens without answering anything")]
