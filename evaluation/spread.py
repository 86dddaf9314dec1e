"""The samples of a run over the workers of a Ray cluster: `--engine ray` of `eval` and `score`.

The engine (`turnmark.evaluation.engine`) is the same: it hands out, keeps pace, budget and deadlines, and writes. Only
`answer` is another: a call of a worker, which has planned the same request and opened the same benchmark for itself.
The same workers compute scores (`turnmark.evaluation.spread_scores`); they are asked for when the first of them is
needed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from turnmark.assistant.generators.base import ON_RATE_LIMIT, Generator, GeneratorError, make_ready
from turnmark.assistant.generators.cache import Cached, with_cache
from turnmark.assistant.types import Usage
from turnmark.evaluation import answers, generation
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.bounded import Bounded
from turnmark.evaluation.engine import GRACE, Answer, Job, failed
from turnmark.evaluation.judging.mounting import judged
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.requests import GenerationRequest, PredictionsRequest
from turnmark.evaluation.spread_scores import SpreadScores, mark_of_judges, scoring_there, without_models
from turnmark.retrieval.workers import LOCAL, WorkerLost, Workers

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.turns import Parts
    from turnmark.retrieval.types import Retriever

P = TypeVar("P", generation.Plan, answers.Plan)
Request = GenerationRequest | PredictionsRequest

_OF_THE_CALL = {"started", "command", "version"}
"""What manifests of the same samples may differ in."""


@dataclass(frozen=True)
class Reply:
    """What a worker sends back: the sample, done or failed, what its calls used, and the 429s that they met."""

    sample: Sample
    usage: Usage
    complaints: int


@contextmanager
def spread(made: P) -> Iterator[P]:
    """The plan, carried out by workers where its request names another engine than this process; they end with it."""
    if made.request.engine == LOCAL:
        yield made
        return
    pool = _Pool(made)
    try:
        if isinstance(made, generation.Plan):
            yield replace(made, answering=pool.answering, scorers=SpreadScores(pool))
        else:
            yield replace(made, scorers=SpreadScores(pool))
    finally:
        pool.close()


class _Pool:
    """The workers of one run, there from the first time that they are asked for."""

    def __init__(self, made: generation.Plan | answers.Plan) -> None:
        self._made = made
        self._workers: Workers[Any] | None = None

    def opened(self, answering: bool = False) -> Workers[Any]:
        """The workers.

        Args:
            answering: they open what answers as well; which comes before all scoring.

        Raises:
            TurnmarkError: there is no cluster, or the first worker cannot begin.
        """
        if self._workers is None:
            request = self._made.request
            at_once = request.concurrency if isinstance(request, GenerationRequest) else 1
            expected = mark(self._made.manifest) + mark_of_judges(self._made)
            given = (absolute(request), answering)
            workers: Workers[Any] = Workers(request.engine, open_there, given, mark=expected, at_once=at_once)
            self._workers = workers.__enter__()
        return self._workers

    @contextmanager
    def answering(self, _: Benchmark[Any]) -> Iterator[Answer]:
        """What answers, see `generation.Answering`; the workers stay for the scores."""
        assert isinstance(self._made, generation.Plan), "of others, nothing is answered"
        yield Remote(self.opened(answering=True), self._made.limits.deadline)

    def close(self) -> None:
        """End the workers."""
        if self._workers is not None:
            self._workers.close()


class Remote:
    """`Benchmark.answer`, elsewhere.

    Args:
        deadline: seconds for a sample that asks no model; one that does brings its own.
    """

    def __init__(self, workers: Workers[Reply], deadline: float) -> None:
        self._workers, self._deadline = workers, deadline

    def __call__(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`.

        Raises:
            GeneratorError: no worker gave a sample in time, or each that tried died.
        """
        bounded = generator if isinstance(generator, Bounded) else None
        seconds = bounded.left if bounded else self._deadline
        try:
            reply = self._workers.call(("answer", item, bounded.repeat if bounded else 0, seconds), seconds + GRACE)
        except TimeoutError as error:
            raise GeneratorError("timeout", f"no worker gave the sample within {seconds:.0f} s") from error
        except WorkerLost as error:
            raise GeneratorError("unavailable", str(error)) from error
        if bounded:
            bounded.count(reply.usage)
        if reply.complaints and (slow_down := ON_RATE_LIMIT.get()) is not None:
            slow_down()
        return reply.sample


class There:
    """On a worker: what it does of a run, by the first word of a task."""

    def __init__(self, made: generation.Plan | answers.Plan, answering: bool) -> None:
        self._generator: Generator | None = None
        retrievers: dict[str, Retriever] = {}
        if isinstance(made, generation.Plan):
            parts: Parts = generation.parts_of(made)
            retrievers = generation.open_retrievers(made, lambda *_: None) if answering else {}
        else:
            parts = answers.parts_of(made.request.embedder)
        self._benchmark = made.prepared.build(parts, retrievers)
        self._scoring = scoring_there(self._benchmark)
        if answering and isinstance(made, generation.Plan):
            generation.warm(made, self._benchmark, parts)
            if made.generator is not None:
                make_ready(made.generator)
            self._generator = made.generator

    def __call__(self, what: str, *task: Any) -> Any:
        """`answer` an item (its repeat, seconds that it has left), or a task of `scoring_there`."""
        if what == "answer":
            item, repeat, seconds = task
            return answered(self._benchmark, item, repeat, self._generator, seconds)
        return self._scoring[what](*task)


def open_there(request: Request, answering: bool) -> tuple[There, str]:
    """On a worker: the request planned and opened, as `Workers` asks for it.

    Returns:
        What does the tasks, and the mark of what is run.

    Raises:
        RequestError: the request cannot be carried out on this node: the data are not there, say.
    """
    if isinstance(request, GenerationRequest):
        made: generation.Plan | answers.Plan = judged(generation.plan(request))
    else:
        made = judged(answers.plan(request))
    return There(made, answering), mark(made.manifest) + mark_of_judges(made)


def answered(benchmark: Benchmark[Any], item: Item, repeat: int, generator: Generator | None, seconds: float) -> Reply:
    """An item's sample, or the failed one that the engine would make of the same error."""
    complaints: list[None] = []
    before = ON_RATE_LIMIT.set(lambda: complaints.append(None))
    if repeat and isinstance(generator, Cached):
        generator = with_cache(generator, repeat)
    bounded = Bounded.until(generator, seconds) if generator is not None else None
    try:
        sample = benchmark.answer(item, bounded)
    except BaseException as error:
        sample = failed(Job(item, repeat), error)
    finally:
        ON_RATE_LIMIT.reset(before)
    return Reply(sample, bounded.usage if bounded else Usage(), len(complaints))


def absolute(request: Request) -> Request:
    """The request as it is understood in any folder, carried out there, written nowhere, and judged by no model."""
    changed: dict[str, Any] = {name: value.resolve() for name, value in request if isinstance(value, Path)}
    if predictions := getattr(request, "predictions", ()):
        changed["predictions"] = tuple(path.resolve() for path in predictions)
    changed |= {"engine": LOCAL, "out": None, "judge": without_models(request.judge)}
    return request.model_copy(update=changed)


def mark(manifest: RunManifest) -> str:
    """A line for each thing that decides about a sample: data, specs, prompts, versions."""
    fields = manifest.model_dump(mode="json", exclude=_OF_THE_CALL)
    return "\n".join(f"{name} {value}" for name, value in fields.items())
