"""The request of `turnmark check`, and its folder.

    OUT/manifest.json        the index and the numbers that the questions depend on; another request is refused
    OUT/questions/           questions written by a model, in MTRAG's layout (a folder of `synth mtrag`)
    OUT/sentences-HASH.json  sentences left out of their passages, and where a retriever found them
    OUT/answers-HASH/        a run over the questions, one for each configuration of the assistant

With `--questions FILE` there is no manifest, and `OUT/answers-HASH/` is a run over the questions of the file.

Another configuration of the assistant gets a separate run over the same questions.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import Field

from turnmark.assistant.config import EXTRACTIVE_SPEC, AssistantConfig, ConfigOfAll
from turnmark.core.flags import AsJson, Request
from turnmark.corpora.types import Passage
from turnmark.evaluation.records import FolderManifest
from turnmark.evaluation.tasks.request import command_line
from turnmark.evaluation.tasks.shared_options import BudgetOption, Concurrency, MaxFailures

if TYPE_CHECKING:
    from turnmark.retrieval.search.opened_index import StoredIndex

MAX_FOUND_RANK = 3
"""Largest rank at which the right section counts as found; the best models of MTRAG saw three passages."""


class CheckRequest(Request):
    """The options of `turnmark check`."""

    named: Annotated[
        str, typer.Argument(metavar="[INDEX]", help="Index to check; default: --index, or the only index")
    ] = ""
    assistant: ConfigOfAll = AssistantConfig()
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Own questions, e.g. mine.csv"),
    ] = None
    users: Annotated[int | None, Field(ge=1), typer.Option(metavar="N", help="Number of simulated users")] = None
    user_model: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Model that words their messages; default: rules", hidden=True)
    ] = None
    repeat: Annotated[
        int, Field(ge=1), typer.Option(metavar="K", help="Conversations per simulated user", hidden=True)
    ] = 1
    draft_questions: Annotated[
        int | None,
        Field(ge=1),
        typer.Option(metavar="N", help="Draft N questions"),
    ] = None
    answers: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Replies of another system to score", hidden=True),
    ] = None
    fail_under: Annotated[
        tuple[str, ...],
        typer.Option(metavar="FIGURE=SHARE", help="Fail below, e.g. facts=.8; repeatable"),
    ] = ()
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="Results as JUnit XML", hidden=True)] = None
    judge: Annotated[str, typer.Option(metavar="SPEC", help="Judge of the answers")] = "embedded"
    n: Annotated[int, Field(ge=1), typer.Option("--n", metavar="N", help="Number of questions")] = 30
    seed: Annotated[int, Field(ge=0), typer.Option(metavar="S", help="Random seed of the questions", hidden=True)] = 0
    concurrency: Concurrency = 16
    max_failures: MaxFailures = None
    budget: BudgetOption = None
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder; the same command resumes it"),
    ] = None
    as_json: AsJson = False

    @property
    def index(self) -> str:
        """The index to check."""
        return self.assistant.index

    @property
    def asks_model(self) -> bool:
        """Whether a language model writes questions and answers them."""
        return self.assistant.generator.partition("?")[0] != EXTRACTIVE_SPEC


class CheckManifest(FolderManifest):
    """`manifest.json` of a check: what its questions depend on. The runs record who answers them."""

    noun = "check"
    parent = "checks"
    title_field = "index"
    kept = ("command", "started")
    not_identity = frozenset({"command", "started"})

    index: str
    fingerprint: str = Field(description="SHA-256 that changes with every passage and model of the index")
    n: int = Field(description="questions asked for; a small index gives fewer")
    seed: int
    command: str = ""
    started: str = ""


def check_manifest(request: CheckRequest, index: StoredIndex, started: str) -> CheckManifest:
    """Return the manifest of a request."""
    content = index.manifest.fingerprint().encode("utf-8", "surrogatepass")
    return CheckManifest(
        index=index.manifest.name,
        fingerprint=hashlib.sha256(content).hexdigest(),
        n=request.n,
        seed=request.seed,
        command=command_line(),
        started=started,
    )


def place(passage: Passage) -> str:
    """Describe the place of a passage: the headings above it or, without headings, its document."""
    return passage.heading or passage.document
