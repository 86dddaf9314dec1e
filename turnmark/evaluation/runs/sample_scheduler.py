"""Make the samples of a run, or the attempts of a synthesis, each within a deadline, and write each when it ends.

`turnmark.assistant.llm.calls.thread_pool` runs the jobs; this module decides which may start, limits the calls of each
sample, and appends the sample to the file.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from turnmark.assistant.llm.calls.ledger import Ledger
from turnmark.assistant.llm.calls.protocols import Generator, GeneratorError, traits_of
from turnmark.assistant.llm.calls.thread_pool import (
    DEFAULT_CONCURRENCY,
    MAX_PERMANENT_FAILURES,
    PERMANENT_FAILURES,
    OverdueJob,
    Scheduler,
)
from turnmark.assistant.llm.generators.response_cache import for_repeat
from turnmark.core.console import Progress
from turnmark.core.errors import TurnmarkError
from turnmark.evaluation.calls.cost_estimates import add_usage
from turnmark.evaluation.calls.generator_wrappers import DeadlineGenerator
from turnmark.evaluation.records import Sample
from turnmark.evaluation.storage.journal import SampleJournal, SampleKey
from turnmark.evaluation.tasks.items import Item

DEFAULT_DEADLINE = 300.0
GRACE_SECONDS = 5.0
"""Seconds after the deadline in which a sample may still end with a better message; at most the deadline itself."""
MAX_HANGING_WORKERS = 256
"""Maximum hanging workers, whose threads cannot be stopped; the run stops if there are more."""

AnswerItem = Callable[[Item, Generator | None], Sample]


class SampleStore(Protocol):
    """The folder to which samples are appended: that of a run or of a synthesis."""

    samples: SampleJournal

    def append(self, sample: Sample) -> None:
        """Write a sample to the file."""
        ...


@dataclass(frozen=True)
class SampleJob:
    """A sample to make: an item and the number of its repeat, from 0."""

    item: Item
    repeat: int = 0

    @property
    def key(self) -> SampleKey:
        """The key of the sample; see `Sample.key`."""
        return self.item.id, self.repeat

    @property
    def before(self) -> SampleKey | None:
        """The key of the sample (of the same repeat) that this one continues from, or None if there is none."""
        return (self.item.after, self.repeat) if self.item.after is not None else None


@dataclass(frozen=True)
class Limits:
    """Limits of concurrency, time and failures.

    Attributes:
        concurrency: samples at once.
        deadline: seconds for one sample, all of its calls together.
        max_failures: number of failed samples beyond which the run stops, or None for no limit.
    """

    concurrency: int = DEFAULT_CONCURRENCY
    deadline: float = DEFAULT_DEADLINE
    max_failures: int | None = None


@dataclass
class RunOutcome:
    """How many samples of this call failed, and what ended it.

    Attributes:
        stopped: why not all samples were tried; empty if all were.
        gave_up: whether failures stopped the run, so that the command fails.
    """

    failed: int = 0
    stopped: str = ""
    gave_up: bool = False


class _Engine:
    def __init__(
        self,
        answer: AnswerItem,
        generator: Generator | None,
        store: SampleStore,
        limits: Limits,
        ledger: Ledger,
        progress: Progress,
    ) -> None:
        self.outcome = RunOutcome()
        self._answer, self._generator, self._store = answer, generator, store
        self._limits, self._ledger, self._progress = limits, ledger, progress
        self._started: dict[SampleKey, tuple[float, DeadlineGenerator | None]] = {}
        self._hopeless = 0  # consecutive failures that cannot be repaired, not counting samples that asked no model
        # A sample's deadline runs while it waits for other calls, so no more samples run than the model serves at once.
        most = traits_of(generator).at_once if generator else None
        self.scheduler: Scheduler[SampleJob, Sample] = Scheduler(
            self._begin, self._take, self._admit, self._refuse,
            concurrency=min(limits.concurrency, most or limits.concurrency),
            patience=limits.deadline + min(GRACE_SECONDS, limits.deadline),
        )  # fmt: skip

    def _admit(self, job: SampleJob, running: Sequence[SampleJob]) -> bool:
        hanging = self.scheduler.left_behind
        if hanging > MAX_HANGING_WORKERS:
            self._stop(f"stopped because {hanging} samples exceeded their deadline and are still running")
        if self.outcome.stopped or not self._ledger.affords(len(running)):
            return False
        return all(other.key != job.before for other in running)

    def _begin(self, job: SampleJob) -> Callable[[], Sample]:
        began = time.monotonic()
        item = replace(job.item, repeat=job.repeat)
        if job.before is not None:
            item = replace(item, earlier=self._store.samples.get(job.before))
        generator = self._generator and for_repeat(self._generator, job.repeat)
        bounded = DeadlineGenerator(generator, self._limits.deadline) if generator else None
        self._started[job.key] = began, bounded
        return partial(self._answer, item, bounded)

    def _take(self, job: SampleJob, result: Sample | BaseException) -> None:
        if isinstance(result, OverdueJob):
            limit = f"{self._limits.deadline:g} s"
            result = GeneratorError("timeout", f"no answer within the sample's {limit}; abandoned")
        sample = failed_sample(job, result) if isinstance(result, BaseException) else result
        sample = self._write(job, sample)
        if sample.status == "failed":
            self._count_failure(sample)
        elif sample.usage:
            self._hopeless = 0
        status = [f"{self.outcome.failed} failed"] if self.outcome.failed else []
        self._progress.tell(", ".join([*status, *self._ledger.in_words()]))
        self._progress.advance()

    def _stop(self, reason: str) -> None:
        if not self.outcome.stopped:
            self.outcome.stopped, self.outcome.gave_up = reason, True

    def _count_failure(self, sample: Sample) -> None:
        kind = sample.kind or "error"
        self.outcome.failed += 1
        limit = self._limits.max_failures
        self._hopeless = self._hopeless + 1 if kind in PERMANENT_FAILURES else 0
        if self._hopeless == MAX_PERMANENT_FAILURES:
            self._stop(f"stopped because every further call would fail: {sample.reason}")
        elif limit is not None and self.outcome.failed > limit:
            self._stop(f"stopped after {self.outcome.failed} failures, more than --max-failures {limit}")

    def _write(self, job: SampleJob, sample: Sample) -> Sample:
        """Append a sample with the usage of all its attempts and the time of the last one, and return the written
        sample."""
        began, bounded = self._started.pop(job.key)
        earlier = self._store.samples.get(job.key)
        usage = dict(sample.usage)
        if bounded is not None and sample.status == "failed":
            usage = {"failed": bounded.usage} if bounded.usage.calls else {}
        priced = self._ledger.priced(usage)
        self._ledger.spend(priced)
        fields = {
            "repeat": job.repeat,
            "domain": sample.domain or job.item.domain,
            "usage": add_usage(earlier.usage if earlier else {}, priced),
            "attempts": (earlier.attempts if earlier else 0) + 1,
        }
        total = {"total": round(time.monotonic() - began, 4)}
        complete = sample.model_copy(update={**fields, "timings": {**sample.timings, **total}})
        try:
            self._store.append(complete)
        except ValueError as error:  # a value such as NaN cannot be written; the file gets the reason instead
            complete = failed_sample(job, error).model_copy(update={**fields, "timings": total})
            self._store.append(complete)
        return complete

    def _refuse(self, job: SampleJob) -> None:
        """Record that a sample was skipped; if it failed before, it stays failed."""
        self.outcome.stopped = self.outcome.stopped or self._ledger.exhausted()
        earlier = self._store.samples.get(job.key)
        if earlier is None or earlier.status != "failed":
            self._store.append(Sample(
                id=job.item.id, repeat=job.repeat, status="skipped", reason=self.outcome.stopped,
                domain=job.item.domain, usage=earlier.usage if earlier else {},
                attempts=earlier.attempts if earlier else 0,
            ))  # fmt: skip
        self._progress.advance()


def failed_sample(job: SampleJob, error: BaseException) -> Sample:
    """Make a failed sample with the type and text of an error; other samples are not affected."""
    try:
        message = str(error)
    except Exception:
        message = ""
    kind = type(error).__name__
    if isinstance(error, GeneratorError):
        kind = str(error.kind)
    elif not isinstance(error, TurnmarkError):
        message = f"{kind}: {message}"
    return Sample(id=job.item.id, status="failed", kind=kind, reason=f"{kind}: {message}"[:2000], query=None)


def generate(
    jobs: Iterator[SampleJob | None],
    answer: AnswerItem,
    generator: Generator | None,
    store: SampleStore,
    limits: Limits,
    ledger: Ledger,
    progress: Progress,
) -> RunOutcome:
    """Make the samples of all jobs: done, failed, or skipped if the run was stopped.

    Args:
        jobs: the unfinished jobs in the order of the data; a job that continues from another comes after it. May yield
            None, see `Scheduler.run`.
        answer: makes one sample; called from many threads.
        generator: passed to `answer` with the sample's deadline, or None for the extractive forms.
        ledger: prices, budget and usage so far.
    """
    engine = _Engine(answer, generator, store, limits, ledger, progress)
    engine.scheduler.run(jobs)
    return engine.outcome
