"""What is asked for on the command line: a record, which items take part, what is wrong with its flags."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.assistant.forms import Reader, forms_for
from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.budget import check_judges_budget, open_ledger
from turnmark.retrieval.registry import retriever_to_build
from turnmark.retrieval.workers import check_engine

if TYPE_CHECKING:
    from turnmark.assistant.generators.base import Generator


class EvalRequest(Record):
    """`turnmark eval BENCHMARK …` or, with `predictions`, `turnmark score BENCHMARK …`.

    Which fields a task takes is checked where it is prepared.
    """

    benchmark: str
    task: str | None = Field(default=None, description="None: the benchmark's first")
    setting: str | None = Field(
        default=None, description="None: the task's first; score: what the file says, if it does"
    )
    data: Path | None = None
    domains: tuple[str, ...] = Field(
        default=(), description="empty: all; score: those in which the file answers a task"
    )
    predictions: tuple[Path, ...] = Field(default=(), description="score: answers, or TREC runs")
    answered_only: bool = Field(
        default=False, description="score: tasks without an answer are left out, and do not fail"
    )
    generator: str = "extractive"
    retriever: str = Field(default_factory=retriever_to_build)
    embedder: str = "minilm"
    query: str | None = Field(default=None, description="query mode; None: `assistant`, unless `queries` is given")
    queries: Path | None = Field(default=None, description="a file of recorded queries instead of a mode")
    passages: Path | None = Field(
        default=None, description="a run, a TREC run or official tasks to answer from; `official`"
    )
    counterfactual: bool = False
    protocol: str = Field(default="turn", description="`paper`: the prompts of MTRAG or KIWI, and no turn")
    types: tuple[str, ...] = Field(default=(), description="compound-qa: question types; empty: all that are there")
    chain: bool = Field(default=False, description="kiwi: a turn starts from our own answer to the one before")
    references: Path | None = Field(default=None, description="compound-qa: a run that answers the sub-questions")
    prompts: Path | None = Field(default=None, description="folder with prompts of one's own")
    steps: tuple[str, ...] = Field(default=(), description="STEP=FORM, where a step takes another form than by default")
    judge: tuple[str, ...] = Field(default=(), description="specs of judges")
    limit: int | None = None
    sample: int | None = None
    only: tuple[str, ...] = ()
    seed: int = 0
    repeat: int = 1
    concurrency: int = 16
    deadline: float | None = Field(default=None, description="seconds for one sample, or for all wordings of a query")
    max_failures: str | None = Field(default=None, description="a number, or a share such as 5%")
    budget: str | None = Field(default=None, description="tokens, or money")
    engine: str = Field(default="local", description="takes effect by `turnmark.evaluation.spread.spread`")
    out: Path | None = None
    command: str = ""

    @property
    def scoring(self) -> bool:
        """Whether answers are there already: corpora are wanted only to look passages up, and may be missing."""
        return bool(self.predictions)

    @property
    def asks_model(self) -> bool:
        """Whether a language model is to answer."""
        return not self.scoring and not self.generator.startswith("extractive")


def select(
    request: EvalRequest, ids: Sequence[str], errors: ErrorCollector, stratum: Callable[[str], str] | None = None
) -> list[str]:
    """The ids that a request asks for, in the order of the data; names that there are not join `errors`.

    Args:
        stratum: of an id; a sample has of each its share of all ids, to within one. None: all are alike.
    """
    known_ids = set(ids)
    only = frozenset(map(canonical_id, request.only))
    for name in request.only:
        if canonical_id(name) not in known_ids:
            errors.add(f"--only {name!r}: no item of the data has this id")
    ids_taken = [name for name in ids if name in only] if only else list(ids)
    if request.sample is not None and 0 < request.sample < len(ids_taken):
        ids_taken = _drawn(ids_taken, request.sample, request.seed, stratum or (lambda _: ""))
    return ids_taken if request.limit is None or request.limit < 1 else ids_taken[: request.limit]


def _drawn(ids: Sequence[str], sample: int, seed: int, stratum: Callable[[str], str]) -> list[str]:
    places: dict[str, list[int]] = {}
    for place, name in enumerate(ids):
        places.setdefault(stratum(name), []).append(place)
    shares = {name: sample * len(stratum_places) / len(ids) for name, stratum_places in places.items()}
    counts = {name: int(share) for name, share in shares.items()}
    rounded_up = sorted(shares, key=lambda name: counts[name] - shares[name])[: sample - sum(counts.values())]
    rng = random.Random(seed)
    places_drawn: set[int] = set()
    for name, stratum_places in places.items():
        places_drawn.update(rng.sample(stratum_places, counts[name] + (name in rounded_up)))
    return [name for place, name in enumerate(ids) if place in places_drawn]


def selected(items: Iterable[Item | Problem], ids: frozenset[str] | None) -> Iterator[Item]:
    """The items that take part; None: all of them."""
    for item in items:
        if isinstance(item, Item) and (ids is None or item.id in ids):
            yield item


MOST_AT_ONCE = 1000
"""Samples at once, each of which has a thread."""
_SHARE = re.compile(r"([0-9]{1,3}(?:\.[0-9]+)?)\s*%")


@dataclass(frozen=True)
class Checked:
    """Flags that were checked by themselves: the generator, the hashes of its prompts, specs in normal form."""

    generator: Generator | None = None
    prompts: Mapping[str, str] = field(default_factory=dict)
    retriever: str = ""
    embedder: str = ""


def check_flags(request: EvalRequest, errors: ErrorCollector) -> Checked:
    """Take down what is wrong with the flags by themselves, whatever the benchmark."""
    if request.seed < 0:
        errors.add(f"--seed {request.seed}: a number from 0 was expected")
    errors.collect(check_engine, request.engine)
    if request.scoring:
        return Checked()
    generator, prompts = generator_of(request, errors)
    for flag, value in (("--limit", request.limit), ("--sample", request.sample)):
        if value is not None and value < 1:
            errors.add(f"{flag} {value}: a number from 1 was expected")
    retriever, embedder = errors.collect(retriever_specs, request.retriever, request.embedder) or ("", "")
    reader: Reader = "none" if request.generator.startswith("extractive") else "large"
    errors.collect(forms_for, reader, request.steps)
    if request.repeat < 1:
        errors.add(f"--repeat {request.repeat}: a number from 1 was expected")
    check_calls(request, errors)
    failures(request, 1, errors)
    _check_targets(request, errors)
    return Checked(generator, prompts, retriever, embedder)


def _check_targets(request: EvalRequest, errors: ErrorCollector) -> None:
    """Take down what cannot be answered with the references of the data (`--generator reference`)."""
    if request.generator.partition("?")[0] != "reference":
        return
    if request.benchmark == "kiwi" and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, and no reference answers")
    for flag, value in {
        "--chain": request.chain,
        "--protocol": request.protocol == "paper",
        "--step": request.steps,
    }.items():
        if value:
            errors.add(f"{flag} is for what answers; --generator reference gives the targets of the data; leave it out")
    if request.engine != "local":
        errors.add(f"--engine {request.engine}: --generator reference asks nobody; leave it out")


def generator_of(request: EvalRequest, errors: ErrorCollector) -> tuple[Generator | None, dict[str, str]]:
    """The generator, and the hashes of the prompts that it would be asked with."""
    from turnmark.assistant.generators import open_generator
    from turnmark.evaluation.prompts import own_prompts

    prompts = errors.collect(own_prompts, request.prompts) or {}
    generator = errors.collect(open_generator, request.generator)
    return generator, prompts if generator is not None else {}


def check_calls(request: EvalRequest, errors: ErrorCollector) -> None:
    """Take down what is wrong with how a model is to be asked: how much at once, how long, for how much."""
    if not 1 <= request.concurrency <= MOST_AT_ONCE:
        errors.add(f"--concurrency {request.concurrency}: a number from 1 to {MOST_AT_ONCE} was expected")
    if request.deadline is not None and not 0 < request.deadline < float("inf"):
        errors.add(f"--deadline {request.deadline:g}: seconds above 0 were expected")
    if request.budget is None:
        return
    free = bool(request.judge) and request.generator.startswith("extractive")
    if free or errors.collect(open_ledger, request.generator, request.budget) is not None:
        check_budget(request.budget, request.judge, errors)


def check_budget(budget: str, judges: Sequence[str], errors: ErrorCollector) -> None:
    """Take down what is wrong with a budget that judges spend from."""
    from turnmark.assistant.settings import load_prices, parse_budget
    from turnmark.evaluation.judging.judge import open_judges

    limit, prices = errors.collect(parse_budget, budget), errors.collect(load_prices)
    with suppress(RequestError):  # told where the judges are checked
        models = [judge.name for judge in open_judges(judges) if judge.has_model]
        if limit is not None and prices is not None:
            errors.collect(check_judges_budget, limit, models, prices)


def failures(request: EvalRequest, samples: int, errors: ErrorCollector) -> int | None:
    """`--max-failures` as a number of samples."""
    text = request.max_failures
    if text is None:
        return None
    if text.strip().isdecimal():
        return int(text)
    share = _SHARE.fullmatch(text.strip())
    if share is None or float(share[1]) > 100:
        errors.add(f"--max-failures {text!r}: a number from 0, or a share such as 5%, was expected")
        return None
    return int(samples * float(share[1]) / 100)


def retriever_specs(retriever: str, embedder: str) -> tuple[str, str]:
    """Both specs in normal form; no embedder where none takes part.

    Raises:
        RequestError: unknown names or options.
    """
    from turnmark.retrieval.embed import EMBEDDERS
    from turnmark.retrieval.registry import RETRIEVERS, build_settings

    errors = ErrorCollector()
    settings = errors.collect(build_settings, retriever, embedder)
    errors.collect(EMBEDDERS.check, embedder)
    errors.raise_all()
    assert settings is not None, "errors.raise_all() raised otherwise"
    return str(RETRIEVERS.check(retriever)), settings.embedder
