"""The request of `eval` and `score`: the declaration of their options, and the items that it selects."""

from __future__ import annotations

import random
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

import typer
from pydantic import BeforeValidator, Field

from turnmark.assistant.config import EXTRACTIVE_SPEC, AssistantConfig
from turnmark.core.errors import ErrorCollector
from turnmark.core.flags import AsJson, FlattenMark, Request, split_names
from turnmark.core.grouping import group_pairs
from turnmark.core.record import Record
from turnmark.corpora.benchmarks.task_ids import canonical_id
from turnmark.corpora.types import Problem
from turnmark.evaluation.tasks.declarations import evaluated_benchmarks
from turnmark.evaluation.tasks.shared_options import (
    BudgetOption,
    Concurrency,
    DryRun,
    MaxFailures,
    SeedOption,
)

if TYPE_CHECKING:
    from turnmark.evaluation.tasks.items import Item


DEFAULT_EMBEDDER = "minilm"


def allowed_failures(max_failures: str | None, samples: int) -> int | None:
    """Convert `--max-failures` to a number of samples, or return None for no limit.

    Args:
        samples: number of samples that a percentage refers to.
    """
    if max_failures is None:
        return None
    if max_failures.strip().isdecimal():
        return int(max_failures)
    return int(samples * float(max_failures.strip(" %")) / 100)


def command_line() -> str:
    """Return the command line, for the manifest."""
    return shlex.join(["turnmark", *sys.argv[1:]])


class TaskOptions(Record):
    """The options of a benchmark's tasks. The folder of a benchmark declares a subclass, whose fields with a
    `typer.Option` become flags of `turnmark eval`.
    """

    scored: ClassVar[tuple[str, ...]] = ()
    """Names of the options that `turnmark score` has too."""


class EvalRequest(Request):
    """The options of `turnmark eval BENCHMARK …` and, with `predictions`, of `turnmark score BENCHMARK …`.

    None, or an empty tuple, means the default in the help text. `turnmark.evaluation.runs.request_options` adds the
    options of the benchmarks, and resets options that a task does not use.
    """

    benchmark: Annotated[
        str,
        typer.Argument(
            metavar="BENCHMARK",
            help=f"{', '.join(evaluated_benchmarks())}, all; or your own, e.g. python:pkg.mod:Class",
        ),
    ]
    predictions: Annotated[
        tuple[Path, ...],
        typer.Option(
            metavar="FILE",
            help="Official predictions, an official evaluation of several systems (.json), a run folder or, for "
            "--task retrieval, a TREC run, e.g. answers.jsonl; repeatable",
        ),
    ] = ()
    data: Annotated[Path | None, typer.Option(metavar="DIR", help="Benchmark's folder; default: the demo")] = None
    task: Annotated[str | None, typer.Option(metavar="TASK", help="Task, e.g. retrieval")] = None
    setting: Annotated[str | None, typer.Option(metavar="NAME", help="Setting, e.g. rag")] = None
    domains: Annotated[
        tuple[str, ...],
        BeforeValidator(split_names),
        typer.Option(
            metavar="A,B", help="Domains or capabilities, e.g. fiqa,govt; default: all, in score those with answers"
        ),
    ] = ()
    assistant: Annotated[AssistantConfig, FlattenMark(without=("index", "where"))] = Field(
        default=AssistantConfig(), description="the configuration under test"
    )
    options: TaskOptions = Field(default=TaskOptions(), description="options of the benchmark")
    suite: Annotated[
        Literal["smoke", "full"] | None,
        typer.Option(
            metavar="smoke|full",
            help="Runs of all: a few samples per benchmark, or every task and setting",
            hidden=True,
        ),
    ] = None
    limit: Annotated[int | None, Field(ge=1), typer.Option(metavar="N", help="Only the first N items, e.g. 20")] = None
    sample: Annotated[int | None, Field(ge=1), typer.Option(metavar="N", help="Only N random items, e.g. 50")] = None
    only: Annotated[
        tuple[str, ...],
        typer.Option(metavar="ID", help="Only the item with this id; repeatable"),
    ] = ()
    judge: Annotated[
        tuple[str, ...],
        typer.Option(metavar="SPEC", help="Judge of the answers, e.g. openai:gpt-4o-mini@URL; repeatable"),
    ] = ()
    seed: SeedOption = 0
    repeat: Annotated[int, Field(ge=1), typer.Option(metavar="N", help="Number of answers per item, e.g. 3")] = 1
    concurrency: Concurrency = 16
    deadline: Annotated[
        float | None,
        Field(gt=0, allow_inf_nan=False),
        typer.Option(metavar="SECONDS", help="Time limit of a sample; default: 300, for a rewrite 20", hidden=True),
    ] = None
    max_failures: MaxFailures = None
    budget: BudgetOption = None
    engine: Annotated[
        str,
        typer.Option(
            metavar="local|ray[://HOST]", help="Where to answer: in this process or on a Ray cluster", hidden=True
        ),
    ] = "local"
    out: Annotated[
        Path | None, typer.Option(metavar="RUN", help="Run folder, e.g. runs/a; the same command resumes it")
    ] = None
    dry_run: DryRun = False
    full: Annotated[bool, typer.Option("--full", help="Also print breakdowns and all tables")] = False
    as_json: AsJson = False
    answered_only: bool = Field(default=False, description="whether `score` leaves out tasks without an answer")
    command: str = Field(default_factory=command_line)

    @property
    def scoring(self) -> bool:
        """Whether existing answers are scored. Corpora then only serve to look up passages, and may be missing."""
        return bool(self.predictions)

    @property
    def asks_model(self) -> bool:
        """Whether a language model answers."""
        return not self.scoring and not self.assistant.generator.startswith(EXTRACTIVE_SPEC)

    @property
    def retriever(self) -> str:
        """The retriever under test."""
        from turnmark.retrieval.search.retriever_factory import retriever_to_build

        return self.assistant.retriever or retriever_to_build()

    @property
    def embedder(self) -> str:
        """The embedding model of retrievers and metrics."""
        return self.assistant.embedder or DEFAULT_EMBEDDER

    def config(self) -> AssistantConfig:
        """Return the configuration under test, with the default retriever and embedder by name."""
        return self.assistant.model_copy(update={"retriever": self.retriever, "embedder": self.embedder})

    def with_generator(self, generator: str) -> Self:
        """Return the request with another generator."""
        return self.model_copy(update={"assistant": self.assistant.model_copy(update={"generator": generator})})

    def reset(self, names: Iterable[str]) -> Self:
        """Reset some options to their defaults, including options of the assistant and of the benchmark."""
        changed: dict[str, Any] = {}
        for name in names:
            for record in ("assistant", "options"):
                value = changed.get(record, getattr(self, record))
                if name in type(value).model_fields:
                    changed[record] = value.model_copy(update={name: _default(type(value), name)})
            if name in type(self).model_fields:
                changed[name] = _default(type(self), name)
        return self.model_copy(update=changed)


def _default(kind: type[Record], name: str) -> Any:
    return kind.model_fields[name].get_default(call_default_factory=True)


def select(
    request: EvalRequest,
    ids: Sequence[str],
    errors: ErrorCollector,
    stratum: Callable[[str], str] | None = None,
    unit: Callable[[str], str] = lambda name: name,
) -> list[str]:
    """Select ids by `--only`, `--sample` and `--limit`, in the order of the data; unknown ids are added to `errors`.

    Args:
        stratum: function from a unit to its sampling stratum. Each stratum has the same share of the sample as of all
            units, to within one. If it is None, there is one stratum.
        unit: function from an id to the unit that `--sample` and `--limit` count, all of whose ids are selected
            together; by default the id itself.
    """
    known_ids = set(ids)
    only = frozenset(map(canonical_id, request.only))
    for name in request.only:
        if canonical_id(name) not in known_ids:
            errors.add(f"--only {name!r}: no item of the data has this id")
    selected_ids = [name for name in ids if name in only] if only else list(ids)
    units = list(dict.fromkeys(map(unit, selected_ids)))
    if request.sample is not None and request.sample < len(units):
        units = _draw(units, request.sample, request.seed, stratum or (lambda _: ""))
    if request.limit is not None:
        units = units[: request.limit]
    chosen = set(units)
    return [name for name in selected_ids if unit(name) in chosen]


def describe_selection(request: EvalRequest, chosen: int, available: int) -> str:
    """Describe the part of the data that `select` returned, e.g. `60 of 5,000, drawn with seed 1`; empty for all of it.

    Args:
        chosen: number of selected ids.
        available: number of ids that were selected from.
    """
    if chosen >= available:
        return ""
    named = f"{len(set(map(canonical_id, request.only))):,} named ones of {available:,}"
    pool = named if request.only else f"{available:,}"
    if request.sample is not None:
        drawn = f"{min(request.sample, available):,} of {pool}, drawn with seed {request.seed}"
        if request.limit is None or request.limit >= request.sample:
            return drawn
        return f"the first {chosen:,} of {drawn}"
    if request.limit is not None and request.limit <= chosen:
        return f"the first {chosen:,} of {pool}"
    return named if request.only else f"the {chosen:,} of {available:,} that were answered"


def _draw(ids: Sequence[str], sample: int, seed: int, stratum: Callable[[str], str]) -> list[str]:
    """Draw a stratified random sample of ids, in the order of the data."""
    strata = group_pairs((stratum(name), position) for position, name in enumerate(ids))
    shares = {name: sample * len(positions) / len(ids) for name, positions in strata.items()}
    counts = {name: int(share) for name, share in shares.items()}
    rounded_up = sorted(shares, key=lambda name: counts[name] - shares[name])[: sample - sum(counts.values())]
    rng = random.Random(seed)
    samples = (rng.sample(found, counts[name] + (name in rounded_up)) for name, found in strata.items())
    drawn = set(chain.from_iterable(samples))
    return [name for position, name in enumerate(ids) if position in drawn]


def select_items(items: Iterable[Item | Problem], ids: frozenset[str] | None) -> Iterator[Item]:
    """Yield the items with these ids, or None for all items."""
    for item in items:
        if not isinstance(item, Problem) and (ids is None or item.id in ids):
            yield item
