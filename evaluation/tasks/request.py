"""The request of `eval` and `score`: the declaration of their options, and the items that it selects."""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from pydantic import BeforeValidator, Field

from turnmark.assistant.config import DEFAULT_TOKENS, AssistantConfig
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import AsJson, Request, split_names
from turnmark.corpora.task_ids import canonical_id
from turnmark.corpora.types import Problem
from turnmark.evaluation.tasks.options import (
    Budget,
    Concurrency,
    DryRun,
    MaxFailures,
    Prompts,
    Seed,
    Steps,
    Tokens,
    TopK,
)

if TYPE_CHECKING:
    from turnmark.evaluation.tasks.items import Item


def allowed_failures(max_failures: str | None, samples: int) -> int | None:
    """Convert `--max-failures` to a number of samples; None: no limit.

    Args:
        samples: number of samples, of which a percentage is taken.
    """
    if max_failures is None:
        return None
    if max_failures.strip().isdecimal():
        return int(max_failures)
    return int(samples * float(max_failures.strip(" %")) / 100)


def _default_retriever() -> str:
    from turnmark.retrieval.registry import retriever_to_build

    return retriever_to_build()


def command_line() -> str:
    """The command line, for the manifest."""
    return shlex.join(["turnmark", *sys.argv[1:]])


class EvalRequest(Request):
    """The options of `turnmark eval BENCHMARK …` and, with `predictions`, of `turnmark score BENCHMARK …`.

    None, or an empty tuple, stands for the default in the help text. `turnmark.evaluation.commands` resets options that
    a task does not use.
    """

    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK",
            help="mtrag, mtrag-un, mtrag-s, inscoqa, compound-qa, kiwi, all; python:pkg.mod:Class for your own.",
        ),
    ]
    predictions: Annotated[
        tuple[Path, ...],
        typer.Option(
            metavar="FILE",
            help="Official prediction files, an official evaluation (.json, several systems), or a run folder; for "
            "--task retrieval, TREC runs. Repeatable.",
        ),
    ] = ()
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="The benchmark's folder; default: the demo.")] = None
    task: Annotated[str | None, typer.Option(metavar="TASK", help="Such as retrieval, generation, judge.")] = None
    setting: Annotated[str | None, typer.Option(metavar="NAME", help="Such as rag; the docs list them.")] = None
    domains: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(metavar="A,B", help="Domains or capabilities; default: all; for score, those with answers."),
    ] = ()
    generator: Annotated[
        str,
        typer.Option(
            metavar="SPEC", envvar="TURNMARK_GENERATOR", show_envvar=False, help="Model that answers and rewrites."
        ),
    ] = "extractive"
    retriever: Annotated[
        str, typer.Option(metavar="SPEC", help="Retriever, such as bm25; default: conversational.")
    ] = Field(default_factory=_default_retriever)
    embedder: Annotated[
        str, typer.Option(metavar="SPEC", help="Embedding model of retrievers and metrics.", hidden=True)
    ] = "minilm"
    query: Annotated[
        str | None, typer.Option(metavar="MODE", help="Query mode, such as last-turn; default: assistant.")
    ] = None
    queries: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Your own queries, {"_id", "text"[, "variants"]} a line.', hidden=True),
    ] = None
    passages: Annotated[Path | None, typer.Option(metavar="RUN|FILE", help="Answer from recorded passages.")] = None
    counterfactual: Annotated[
        bool,
        typer.Option(
            "--counterfactual",
            help="mtrag*, setting rag: repeat each answerable task with its relevant passages hidden.",
            hidden=True,
        ),
    ] = False
    live: Annotated[
        bool,
        typer.Option(
            "--live",
            help="mtrag*: as --setting rag, but the earlier turns hold the assistant's own replies.",
            hidden=True,
        ),
    ] = False
    references: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN",
            help="compound-qa: a run in the setting dialogue, whose answers to the sub-questions are the references.",
            hidden=True,
        ),
    ] = None
    types: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(metavar="A,B", help="compound-qa: question types; default: all five.", hidden=True),
    ] = ()
    protocol: Annotated[
        Literal["turn", "paper"],
        typer.Option(
            metavar="turn|paper",
            help="mtrag*, kiwi: ask by the assistant's turn or by the paper's prompts (which need a model).",
            hidden=True,
        ),
    ] = "turn"
    chain: Annotated[
        bool,
        typer.Option("--chain", help="kiwi: start each turn from our previous revision.", hidden=True),
    ] = False
    suite: Annotated[
        Literal["smoke", "full"] | None,
        typer.Option(
            metavar="smoke|full", help="all: a few samples of each benchmark, or every task and setting.", hidden=True
        ),
    ] = None
    prompts: Prompts = None
    steps: Steps = ()
    top_k: TopK = None
    tokens: Tokens = DEFAULT_TOKENS
    limit: Annotated[int | None, Field(ge=1), typer.Option(metavar="N", help="Only the first N items.")] = None
    sample: Annotated[int | None, Field(ge=1), typer.Option(metavar="N", help="N random items, by --seed.")] = None
    only: Annotated[
        tuple[str, ...],
        typer.Option(metavar="ID", help="Only this item; repeatable."),
    ] = ()
    judge: Annotated[
        tuple[str, ...], typer.Option(metavar="SPEC", help="Judge that grades the answers; repeatable.")
    ] = ()
    seed: Seed = 0
    repeat: Annotated[int, Field(ge=1), typer.Option(metavar="N", help="Answer each item N times.")] = 1
    concurrency: Concurrency = 16
    deadline: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False),
        typer.Option(metavar="SECONDS", help="Time for one sample; default: 300, for a rewrite 20.", hidden=True),
    ] = None
    max_failures: MaxFailures = None
    budget: Budget = None
    engine: Annotated[
        str,
        typer.Option(metavar="local|ray[://HOST]", help="Answer in this process or on a Ray cluster.", hidden=True),
    ] = "local"
    out: Annotated[Path | None, typer.Option(metavar="RUN", help="Run folder; the same command resumes it.")] = None
    dry_run: DryRun = False
    full: Annotated[bool, typer.Option("--full", help="Also print breakdowns and all tables.")] = False
    as_json: AsJson = False
    answered_only: bool = Field(default=False, description="score: leave out tasks without an answer")
    command: str = Field(default_factory=command_line)

    @property
    def scoring(self) -> bool:
        """Whether existing answers are scored; then corpora are only used to look up passages, and may be missing."""
        return bool(self.predictions)

    @property
    def asks_model(self) -> bool:
        """Whether a language model answers."""
        return not self.scoring and not self.generator.startswith("extractive")

    def config(self) -> AssistantConfig:
        """The configuration of the assistant under test."""
        return AssistantConfig(
            generator=self.generator,
            retriever=self.retriever,
            embedder=self.embedder,
            top_k=self.top_k,
            tokens=self.tokens,
            prompts=self.prompts,
            steps=self.steps,
        )

    def reset(self, names: Iterable[str]) -> EvalRequest:
        """Reset some fields to their defaults."""
        fields = type(self).model_fields
        return self.model_copy(update={name: fields[name].get_default(call_default_factory=True) for name in names})


def select(
    request: EvalRequest, ids: Sequence[str], errors: ErrorCollector, stratum: Callable[[str], str] | None = None
) -> list[str]:
    """Select ids by `--only`, `--sample` and `--limit`, in the order of the data; unknown ids are added to `errors`.

    Args:
        stratum: function from an id to its sampling stratum. Each stratum has the same share of the sample as of all
            ids, to within one. None: there is one stratum.
    """
    known_ids = set(ids)
    only = frozenset(map(canonical_id, request.only))
    for name in request.only:
        if canonical_id(name) not in known_ids:
            errors.add(f"--only {name!r}: no item of the data has this id")
    selected_ids = [name for name in ids if name in only] if only else list(ids)
    if request.sample is not None and request.sample < len(selected_ids):
        selected_ids = _draw(selected_ids, request.sample, request.seed, stratum or (lambda _: ""))
    return selected_ids[: request.limit]


def _draw(ids: Sequence[str], sample: int, seed: int, stratum: Callable[[str], str]) -> list[str]:
    """Draw a stratified random sample of ids, in the order of the data."""
    strata: dict[str, list[int]] = {}
    for position, name in enumerate(ids):
        strata.setdefault(stratum(name), []).append(position)
    shares = {name: sample * len(positions) / len(ids) for name, positions in strata.items()}
    counts = {name: int(share) for name, share in shares.items()}
    rounded_up = sorted(shares, key=lambda name: counts[name] - shares[name])[: sample - sum(counts.values())]
    rng = random.Random(seed)
    drawn: set[int] = set()
    for name, positions in strata.items():
        drawn.update(rng.sample(positions, counts[name] + (name in rounded_up)))
    return [name for position, name in enumerate(ids) if position in drawn]


def selected(items: Iterable[Item | Problem], ids: frozenset[str] | None) -> Iterator[Item]:
    """Yield the items with these ids; None: all items."""
    for item in items:
        if not isinstance(item, Problem) and (ids is None or item.id in ids):
            yield item
