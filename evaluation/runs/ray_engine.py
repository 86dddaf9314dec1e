"""The samples of a run over the workers of a Ray cluster: `--engine ray` of `eval`.

The engine (`turnmark.evaluation.runs.engine`) is the same, with its pace, budget, deadlines and files. Only `answer` is
another: a call of a worker, which has planned the same request and opened the same benchmark. The process that the
user started computes scores and asks judges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from turnmark.assistant.generators.base import ON_RATE_LIMIT, Generator, GeneratorError
from turnmark.assistant.generators.cache import Cached, with_cache
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.runs.engine import GRACE, Answer, SampleJob, failed_sample
from turnmark.evaluation.runs.limits import Bounded
from turnmark.evaluation.runs.planning import Plan, plan
from turnmark.evaluation.runs.request import EvalRequest
from turnmark.evaluation.runs.running import open_retrievers, warm
from turnmark.retrieval.workers import LOCAL, WorkerLost, Workers


@dataclass(frozen=True)
class WorkerReply:
    """What a worker sends back: the sample, done or failed, what its calls used, and the 429s that they met."""

    sample: Sample
    usage: Usage
    complaints: int


def use_workers(plan: Plan) -> Plan:
    """The plan, its samples answered by workers if its request names another engine than this process."""
    return plan if plan.request.engine == LOCAL else replace(plan, answering=partial(_answering, plan))


@contextmanager
def _answering(plan: Plan, _: Task) -> Iterator[Answer]:
    """See `planning.Answering`."""
    request = plan.request
    workers: Workers[WorkerReply] = Workers(
        request.engine, open_on_worker, (portable(request),), mark=_digest(plan.manifest), at_once=request.concurrency
    )
    with workers:
        yield remote_answer(workers, plan.limits.deadline)


def remote_answer(workers: Workers[WorkerReply], deadline: float) -> Answer:
    """`Task.answer` by a worker; `deadline` is for a sample that asks no model, one that does brings its own."""

    def answer(item: Item, generator: Generator | None) -> Sample:
        bounded = generator if isinstance(generator, Bounded) else None
        seconds = bounded.left if bounded else deadline
        try:
            reply = workers.call((item, bounded.repeat if bounded else 0, seconds), seconds + GRACE)
        except TimeoutError as error:
            raise GeneratorError("timeout", f"no worker gave the sample within {seconds:.0f} s") from error
        except WorkerLost as error:
            raise GeneratorError("unavailable", str(error)) from error
        if bounded:
            bounded.count(reply.usage)
        if reply.complaints and (slow_down := ON_RATE_LIMIT.get()) is not None:
            slow_down()
        return reply.sample

    return answer


def open_on_worker(request: EvalRequest) -> tuple[Callable[[Item, int, float], WorkerReply], str]:
    """What answers an item on a worker (its repeat, seconds that it has left), and the digest of what is run."""
    planned = plan(request)
    benchmark = planned.task.using(planned.assistant(), open_retrievers(planned, None))
    warm(planned, benchmark)

    def answer(item: Item, repeat: int, seconds: float) -> WorkerReply:
        return answer_item(benchmark, item, repeat, planned.generator, seconds)

    return answer, _digest(planned.manifest)


def answer_item(benchmark: Task, item: Item, repeat: int, generator: Generator | None, seconds: float) -> WorkerReply:
    """An item's sample, or the failed one that the engine would make of the same error."""
    complaints: list[None] = []
    token = ON_RATE_LIMIT.set(lambda: complaints.append(None))
    if repeat and isinstance(generator, Cached):
        generator = with_cache(generator, repeat)
    bounded = Bounded.until(generator, seconds) if generator is not None else None
    try:
        sample = benchmark.answer(item, bounded)
    except BaseException as error:
        sample = failed_sample(SampleJob(item, repeat), error)
    finally:
        ON_RATE_LIMIT.reset(token)
    return WorkerReply(sample, bounded.usage if bounded else Usage(), len(complaints))


def portable(request: EvalRequest) -> EvalRequest:
    """The request as a worker carries it out in any folder: it writes and judges nothing, and knows no budget."""
    changed: dict[str, Any] = {name: value.resolve() for name, value in request if isinstance(value, Path)}
    return request.model_copy(update=changed | {"engine": LOCAL, "out": None, "judge": (), "budget": None})


def _digest(manifest: RunManifest) -> str:
    """A line for each thing that decides about a sample: data, specs, prompts, versions."""
    fields = manifest.model_dump(mode="json", exclude={"started", "command", "version"})
    return "\n".join(f"{name} {value}" for name, value in fields.items())
