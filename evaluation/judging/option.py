"""`--judge`, as `eval` and `score` have it. Nothing is imported here that `--help` would have to load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

Judges = Annotated[
    list[str] | None,
    typer.Option(
        "--judge",
        metavar="SPEC",
        help="A model that judges the answers, named as a generator; several: median or majority. panel:mtrag@URL is "
        "the paper's four.",
        show_default=False,
    ),
]


def judges_of(benchmark: str, given: Sequence[str] | None, problems: list[str]) -> tuple[str, ...]:
    """The specs of `--judge`; what is wrong with them is taken down."""
    if not given:
        return ()
    from evaluation.judging.mounting import judge_problems

    problems += judge_problems(benchmark, given)
    return tuple(given)
