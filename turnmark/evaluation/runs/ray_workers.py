"""`eval --engine ray`: make the samples of a run on the workers of a Ray cluster.

The engine (`turnmark.evaluation.runs.sample_scheduler`) with its concurrency, budget, deadlines and files stays in the
process that the user started, which also scores and asks judges. Only `answer` calls a worker, which has planned the
same request and opened the same benchmark.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT, Generator, GeneratorError
from turnmark.assistant.llm.generators.response_cache import for_repeat
from turnmark.assistant.types import Usage
from turnmark.core.engines import LOCAL
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator
from turnmark.evaluation.records import RunManifest, Sample
from turnmark.evaluation.runs.live_answers import LiveAnswers, load_models, open_assistant, open_retrievers
from turnmark.evaluation.runs.plan import Plan
from turnmark.evaluation.runs.planning import plan_run
from turnmark.evaluation.runs.sample_scheduler import GRACE_SECONDS, AnswerItem, SampleJob, failed_sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.request import EvalRequest
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.services.ray_cluster import WorkerLost, Workers


@dataclass(frozen=True)
class WorkerReply:
    """A worker's reply: the sample (done or failed), its usage, and the number of rate-limit responses (429)."""

    sample: Sample
    usage: Usage
    complaints: int


def use_workers(plan: Plan) -> Plan:
    """Let Ray workers answer the samples of a plan, if its request says so."""
    source = plan.source
    if plan.request.engine == LOCAL or not isinstance(source, LiveAnswers):
        return plan
    opener = partial(_open_ray_answerer, plan, source.limits.deadline)
    return replace(plan, source=replace(source, open_answerer=opener))


@contextmanager
def _open_ray_answerer(plan: Plan, deadline: float, _: Task) -> Iterator[AnswerItem]:
    """See `LiveAnswers.open_answerer`."""
    request = plan.request
    workers: Workers[WorkerReply] = Workers(
        request.engine,
        open_on_worker,
        (make_portable(request),),
        mark=_digest(plan.manifest),
        at_once=request.concurrency,
    )
    with workers:
        yield remote_answer(workers, deadline)


def remote_answer(workers: Workers[WorkerReply], deadline: float) -> AnswerItem:
    """`Task.answer` on a worker.

    Args:
        deadline: seconds for a sample that asks no model; the generator of the others has the deadline.
    """

    def answer(item: Item, generator: Generator | None) -> Sample:
        bounded = generator if isinstance(generator, DeadlineGenerator) else None
        seconds = bounded.left if bounded else deadline
        try:
            reply = workers.call((item, bounded.repeat if bounded else 0, seconds), seconds + GRACE_SECONDS)
        except TimeoutError as error:
            raise GeneratorError("timeout", f"no worker returned the sample within {seconds:.0f} s") from error
        except WorkerLost as error:
            raise GeneratorError("unavailable", str(error)) from error
        if bounded:
            bounded.count(reply.usage)
        slow_down = ON_RATE_LIMIT.get()
        if reply.complaints and slow_down is not None:
            slow_down()
        return reply.sample

    return answer


def open_on_worker(request: EvalRequest) -> tuple[Callable[[Item, int, float], WorkerReply], str]:
    """Open the benchmark on a worker.

    Returns:
        A function that answers an item (arguments: item, repeat, seconds left), and the digest of the run.
    """
    planned = plan_run(request)
    task = planned.task.using(open_assistant(planned), open_retrievers(planned, None))
    load_models(planned, task)

    def answer(item: Item, repeat: int, seconds: float) -> WorkerReply:
        return answer_item(task, item, repeat, planned.generator, seconds)

    return answer, _digest(planned.manifest)


def answer_item(task: Task, item: Item, repeat: int, generator: Generator | None, seconds: float) -> WorkerReply:
    """Answer an item on a worker; an error makes the same failed sample as in the engine."""
    complaints: list[None] = []
    token = ON_RATE_LIMIT.set(lambda: complaints.append(None))
    bounded = DeadlineGenerator(for_repeat(generator, repeat), seconds) if generator is not None else None
    try:
        sample = task.answer(item, bounded)
    except BaseException as error:
        sample = failed_sample(SampleJob(item, repeat), error)
    finally:
        ON_RATE_LIMIT.reset(token)
    return WorkerReply(sample, bounded.usage if bounded else Usage(), len(complaints))


def make_portable(request: EvalRequest) -> EvalRequest:
    """Return the request for a worker: absolute paths, and no output folder, judges or budget."""
    changed: dict[str, Any] = {name: value.resolve() for name, value in request if isinstance(value, Path)}
    return request.model_copy(update=changed | {"engine": LOCAL, "out": None, "judge": (), "budget": None})


def _digest(manifest: RunManifest) -> str:
    """Return the fields of a manifest that a sample depends on (data, specs, prompts, versions …), one per line."""
    fields = manifest.model_dump(mode="json", exclude={"started", "command", "version"})
    return "\n".join(f"{name} {value}" for name, value in fields.items())
