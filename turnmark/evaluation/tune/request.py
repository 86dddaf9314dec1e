"""The request of `turnmark tune`.

    OUT/questions-KEY.jsonl   the questions, made once
    OUT/written/              the run in which a model wrote them, if one did
    OUT/gains.jsonl           the gain of every configuration, a line for each question
    OUT/race-KEY.json         the other builds and rerankers that are compared
    OUT/builds/               these builds, which are removed once the result is written
    OUT/result.json           the result

With `--try`, replies of the assistant are compared instead (`turnmark.evaluation.tune.tries.run`).

The same command continues with what is there, and gives the same result.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from pydantic import Field

from turnmark.assistant.config import EXTRACTIVE_SPEC
from turnmark.core.flags import AsJson, Request
from turnmark.evaluation.tasks.shared_options import BudgetOption, Concurrency, SeedOption


class TuneRequest(Request):
    """The options of `turnmark tune`."""

    index: Annotated[
        str,
        typer.Argument(metavar="[INDEX]", envvar="TURNMARK_INDEX", help="Index to tune; default: the only index"),
    ] = ""
    questions: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Own questions, in the format of check, e.g. mine.csv")
    ] = None
    generator: Annotated[
        str, typer.Option(metavar="SPEC", help="Model that writes questions or, with --try, answers; extractive: none")
    ] = EXTRACTIVE_SPEC
    tries: Annotated[
        tuple[str, ...],
        typer.Option(
            "--try",
            metavar="KEY=VALUE",
            help="Setting whose replies to your own questions are compared, e.g. top_k=10; repeatable",
        ),
    ] = ()
    n: Annotated[
        int, Field(ge=1), typer.Option("--n", metavar="N", help="Number of questions to make", hidden=True)
    ] = 300
    budget: BudgetOption = None
    minutes: Annotated[
        float | None,
        Field(gt=0),
        typer.Option(metavar="N", help="Time limit; fewer questions and builds are made for it"),
    ] = None
    concurrency: Concurrency = 16
    seed: SeedOption = 0
    out: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder; the same command resumes it")] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Forecast what is tried and how long it takes")] = False
    undo: Annotated[bool, typer.Option("--undo", help="Remove the tuned configuration")] = False
    as_json: AsJson = False

    @property
    def asks_model(self) -> bool:
        """Whether a language model writes the questions."""
        return self.questions is None and self.generator.partition("?")[0] != EXTRACTIVE_SPEC

    @property
    def makes_questions(self) -> bool:
        """Whether the questions are made without a model. They predict people only for two weights."""
        return self.questions is None and not self.asks_model
