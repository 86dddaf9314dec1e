"""The samples and scores of a run over the workers of a Ray cluster: `--engine ray` of `eval` and `score`.

The engine (`turnmark.evaluation.engine`) is the same: it hands out, keeps pace, budget and deadlines, and writes. Only
`answer` is another: a call of a worker, which has planned the same request and opened the same benchmark for itself.
The same workers compute the scores that a model works for; they are asked for when the first of them is needed. A
worker asks no endpoint for a verdict: judges that are language models stay in the process that the person started.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain, groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turnmark.assistant.generators.base import ON_RATE_LIMIT, Generator, GeneratorError, make_ready
from turnmark.assistant.generators.cache import Cached, with_cache
from turnmark.assistant.types import Usage
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.engine import GRACE, Answer, Job, failed
from turnmark.evaluation.judging.judge import METRICS, open_judges
from turnmark.evaluation.judging.judged import Judging
from turnmark.evaluation.judging.mounting import open_judging
from turnmark.evaluation.limits import Bounded
from turnmark.evaluation.planning import Plan, plan
from turnmark.evaluation.records import RunManifest, Sample, Score
from turnmark.evaluation.request import EvalRequest
from turnmark.evaluation.running import open_retrievers, warm
from turnmark.evaluation.scorers import Question, TimedOutcome, judged_here, measured_here
from turnmark.retrieval.workers import LOCAL, WorkerLost, Workers

if TYPE_CHECKING:
    from turnmark.retrieval.workers import Workers

BLOCK = 16
"""Samples that are measured as one."""
EACH = 2
"""Blocks, or cases, that a worker has at a time: one in work, one at hand."""
T = TypeVar("T")
Pairs = list[tuple[Item, Sample]]


class Pool(Protocol):
    """Workers that may not be there yet."""

    def opened(self) -> Workers[Any]:
        """The workers."""
        ...


class SpreadScores:
    """See `turnmark.evaluation.scorers.Scorers`.

    Metrics go to workers where a model works for one of them; all others take milliseconds a sample.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def measured(
        self, benchmark: Benchmark[Any], samples: Iterator[tuple[Item, Sample]]
    ) -> Iterator[tuple[Item, Sample, list[Score]]]:
        """See `Scorers.measured`."""
        if not any(metric.heavy for metric in benchmark.metrics):
            yield from measured_here(benchmark, samples)
            return
        blocks = enumerate(iter(lambda: list(islice(samples, BLOCK)), []))
        first = next(blocks, None)
        if first is None:
            return
        tasks = ((block, ("measure", block[1])) for block in chain((first,), blocks))
        for block, scores in _in_order(self._pool.opened().spread(tasks, tasks_each=EACH)):
            for (item, sample), sample_scores in zip(block, scores, strict=True):
                yield item, sample, sample_scores

    def judged(self, tasks: Iterator[tuple[T, Question]]) -> Iterator[tuple[T, TimedOutcome]]:
        """See `Scorers.judged`."""
        cases = (list(group) for _, group in groupby(tasks, key=lambda task: task[1][2]))
        first = next(cases, None)
        if first is None:
            return
        named_tasks = (
            ([name for name, _ in case], ("judge", [task for _, task in case])) for case in chain((first,), cases)
        )
        for names, outcomes in self._pool.opened().spread(named_tasks, tasks_each=EACH):
            yield from zip(names, outcomes, strict=True)


def _in_order(results: Iterator[tuple[tuple[int, Pairs], T]]) -> Iterator[tuple[Pairs, T]]:
    """Numbered results, as soon as those before them are there."""
    early: dict[int, tuple[Pairs, T]] = {}
    following = 0
    for (number, pairs), result in results:
        early[number] = (pairs, result)
        while following in early:
            yield early.pop(following)
            following += 1


# --- on a worker -----------------------------------------------------------------------------------------------------


def scoring_there(benchmark: Benchmark[Any], judging: Judging | None) -> Mapping[str, Callable[..., Any]]:
    """What a worker does for the scores of a benchmark, by the first word of a task."""

    def measure(pairs: Pairs) -> list[list[Score]]:
        return [scores for _, _, scores in measured_here(benchmark, iter(pairs))]

    def judge(tasks: Sequence[Question]) -> list[TimedOutcome]:
        assert judging is not None, "its judges were sent along"
        measures = {named_part.name: named_part for named_part in judging.rubrics}
        judges = {named_part.name: named_part for named_part in judging.judges}
        return [judged_here(measures[measure], judges[judge].generator, case) for measure, judge, case in tasks]

    return {"measure": measure, "judge": judge}


# --- what is sent ----------------------------------------------------------------------------------------------------


def without_models(specs: Sequence[str]) -> tuple[str, ...]:
    """The specs of those judges that are no language models; panels resolved."""
    from turnmark.corpora.specs import parse_spec

    specs_left = []
    for judge in open_judges(specs):
        if not judge.has_model:
            spec = parse_spec(judge.name)
            metric_options = {METRICS: ",".join(sorted(judge.metrics))} if judge.metrics is not None else {}
            specs_left.append(str(replace(spec, options={**spec.options, **metric_options})))
    return tuple(specs_left)


def mark_of_judges(plan: Plan) -> str:
    """A line for each metric of judges without a language model, with what they measure by."""
    judging, _ = open_judging(plan)
    if judging is None:
        return ""
    judges = [judge for judge in judging.judges if not judge.has_model]
    measures = [rubric for rubric in judging.rubrics if any(judge.grades(rubric.name) for judge in judges)]
    return "".join(
        f"\n{rubric.name} {rubric.by} {hashlib.sha256(rubric.extra.encode()).hexdigest()[:16]}" for rubric in measures
    )


_OF_THE_CALL = {"started", "command", "version"}
"""What manifests of the same samples may differ in."""


@dataclass(frozen=True)
class Reply:
    """What a worker sends back: the sample, done or failed, what its calls used, and the 429s that they met."""

    sample: Sample
    usage: Usage
    complaints: int


@contextmanager
def spread(plan: Plan) -> Iterator[Plan]:
    """The plan, carried out by workers where its request names another engine than this process; they end with it."""
    if plan.request.engine == LOCAL:
        yield plan
        return
    pool = _Pool(plan)
    try:
        answering = pool.answering if plan.answers is None else None
        yield replace(plan, answering=answering, scorers=SpreadScores(pool))
    finally:
        pool.close()


class _Pool:
    """The workers of one run, there from the first time that they are asked for."""

    def __init__(self, plan: Plan) -> None:
        self._made = plan
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
            at_once = 1 if request.scoring else request.concurrency
            expected = mark(self._made.manifest) + mark_of_judges(self._made)
            arguments = (absolute(request), answering)
            workers: Workers[Any] = Workers(request.engine, open_there, arguments, mark=expected, at_once=at_once)
            self._workers = workers.__enter__()
        return self._workers

    @contextmanager
    def answering(self, _: Benchmark[Any]) -> Iterator[Answer]:
        """What answers, see `planning.Answering`; the workers stay for the scores."""
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

    def __init__(self, plan: Plan, answering: bool) -> None:
        self._generator = plan.generator if answering else None
        parts = plan.parts()
        self._benchmark = plan.prepared.build(parts, open_retrievers(plan, None) if answering else {})
        self._scoring = scoring_there(self._benchmark, open_judging(plan)[0])
        if answering:
            warm(plan, self._benchmark, parts)
        if self._generator is not None:
            make_ready(self._generator)

    def __call__(self, kind: str, *task: Any) -> Any:
        """`answer` an item (its repeat, seconds that it has left), or a task of `scoring_there`."""
        if kind == "answer":
            item, repeat, seconds = task
            return answered(self._benchmark, item, repeat, self._generator, seconds)
        return self._scoring[kind](*task)


def open_there(request: EvalRequest, answering: bool) -> tuple[There, str]:
    """On a worker: the request planned and opened, as `Workers` asks for it.

    Returns:
        What does the tasks, and the mark of what is run.

    Raises:
        RequestError: the request cannot be carried out on this node: the data are not there, say.
    """
    planned = plan(request)
    return There(planned, answering), mark(planned.manifest) + mark_of_judges(planned)


def answered(benchmark: Benchmark[Any], item: Item, repeat: int, generator: Generator | None, seconds: float) -> Reply:
    """An item's sample, or the failed one that the engine would make of the same error."""
    complaints: list[None] = []
    token = ON_RATE_LIMIT.set(lambda: complaints.append(None))
    if repeat and isinstance(generator, Cached):
        generator = with_cache(generator, repeat)
    bounded = Bounded.until(generator, seconds) if generator is not None else None
    try:
        sample = benchmark.answer(item, bounded)
    except BaseException as error:
        sample = failed(Job(item, repeat), error)
    finally:
        ON_RATE_LIMIT.reset(token)
    return Reply(sample, bounded.usage if bounded else Usage(), len(complaints))


def absolute(request: EvalRequest) -> EvalRequest:
    """The request as it is understood in any folder, carried out there, written nowhere, and judged by no model."""
    changed: dict[str, Any] = {name: value.resolve() for name, value in request if isinstance(value, Path)}
    changed["predictions"] = tuple(path.resolve() for path in request.predictions)
    changed |= {"engine": LOCAL, "out": None, "judge": without_models(request.judge)}
    return request.model_copy(update=changed)


def mark(manifest: RunManifest) -> str:
    """A line for each thing that decides about a sample: data, specs, prompts, versions."""
    fields = manifest.model_dump(mode="json", exclude=_OF_THE_CALL)
    return "\n".join(f"{name} {value}" for name, value in fields.items())
