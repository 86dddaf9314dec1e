"""The samples of a run over the workers of a Ray cluster: `eval … --engine ray`.

The engine (`evaluation.engine`) is the same: it hands out, keeps pace, budget and deadlines, and writes. Only `answer`
is another: a call of a worker, which has planned the same request and opened the same benchmark for itself. Scores are
made here, in the second pass, as they are for every run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assistant.generators.base import ON_RATE_LIMIT, Generator, GeneratorError, make_ready
from assistant.generators.cache import Cached, with_cache
from assistant.types import Usage
from evaluation.benchmarks.base import Benchmark, Item
from evaluation.bounded import Bounded
from evaluation.engine import GRACE, Answer, Job, failed
from evaluation.generation import Plan, open_retrievers, parts_of, plan, warm
from evaluation.records import RunManifest, Sample
from evaluation.requests import GenerationRequest
from retrieval.workers import LOCAL, WorkerLost, Workers

if TYPE_CHECKING:
    from retrieval.types import Retriever

_OF_THE_CALL = {"started", "command", "version"}
"""What manifests of the same samples may differ in."""


@dataclass(frozen=True)
class Reply:
    """What a worker sends back: the sample, done or failed, what its calls used, and the 429s that they met."""

    sample: Sample
    usage: Usage
    complaints: int


def spread(made: Plan) -> Plan:
    """The plan, answered by workers where its request names another engine than this process."""
    if made.request.engine == LOCAL:
        return made

    @contextmanager
    def answering(_: Benchmark[Any]) -> Iterator[Answer]:
        given = (absolute(made.request),)
        at_once = made.request.concurrency
        with Workers(made.request.engine, open_there, given, mark=mark(made.manifest), at_once=at_once) as workers:
            yield Remote(workers, made.limits.deadline)

    return replace(made, answering=answering)


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
            reply = self._workers.call((item, bounded.repeat if bounded else 0, seconds), seconds + GRACE)
        except TimeoutError as error:
            raise GeneratorError("timeout", f"no worker gave the sample within {seconds:.0f} s") from error
        except WorkerLost as error:
            raise GeneratorError("unavailable", str(error)) from error
        if bounded:
            bounded.count(reply.usage)
        if reply.complaints and (slow_down := ON_RATE_LIMIT.get()) is not None:
            slow_down()
        return reply.sample


def open_there(request: GenerationRequest) -> tuple[Callable[[Item, int, float], Reply], str]:
    """On a worker: the request planned and opened, as `Workers` asks for it.

    Returns:
        What answers an item (its repeat, seconds that it has left), and the mark of what is run.

    Raises:
        RequestError: the request cannot be carried out on this node: the data are not there, say.
    """
    made = plan(request)
    retrievers: dict[str, Retriever] = open_retrievers(made, lambda *_: None)
    parts = parts_of(made)
    benchmark = made.prepared.build(parts, retrievers)
    warm(made, benchmark, parts)
    if made.generator is not None:
        make_ready(made.generator)

    def answer(item: Item, repeat: int, seconds: float) -> Reply:
        return answered(benchmark, item, repeat, made.generator, seconds)

    return answer, mark(made.manifest)


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


def absolute(request: GenerationRequest) -> GenerationRequest:
    """The request as it is understood in any folder, answered there and written nowhere."""
    paths = {name: value.resolve() for name, value in request if isinstance(value, Path)}
    return request.model_copy(update={**paths, "engine": LOCAL, "out": None})


def mark(manifest: RunManifest) -> str:
    """A line for each thing that decides about a sample: data, specs, prompts, versions."""
    fields = manifest.model_dump(mode="json", exclude=_OF_THE_CALL)
    return "\n".join(f"{name} {value}" for name, value in fields.items())
