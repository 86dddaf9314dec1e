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
        help="A model that judges the answers, named as a generator; several: median or majority. panel:mtrag@URL and "
        "panel:inscoqa@URL are the papers'; embedded and bertscore[:MODEL] are no language models.",
        show_default=False,
    ),
]


def judges_of(benchmark: str, task: str | None, specs: Sequence[str] | None, problems: list[str]) -> tuple[str, ...]:
    """The specs of `--judge`; what is wrong with them is taken down."""
    if not specs:
        return ()
    from turnmark.evaluation.benchmarks.registry import task_names
    from turnmark.evaluation.judging.mounting import judge_problems

    problems += judge_problems(benchmark, [task] if task else task_names(benchmark)[:1], specs)
    return tuple(specs)
