"""Answering the samples of a run: many at once, each with a deadline, each on file as soon as it ends.

Workers answer; one thread, the caller's, hands out samples and writes them down. A worker that outlasts its sample's
deadline is left behind (it is a daemon and what it brings later is not read) and another takes its place, so that
nothing that hangs holds up the run.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain

from turnmark.assistant.generators.base import ON_RATE_LIMIT, Generator, GeneratorError, traits_of
from turnmark.assistant.generators.cache import Cached, with_cache
from turnmark.corpora.console import Progress
from turnmark.corpora.errors import TurnmarkError
from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.budget import Ledger, added
from turnmark.evaluation.limits import AdaptiveConcurrency, Bounded
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import RunFolder

CONCURRENCY = 16
DEADLINE = 300.0
GRACE = 5.0
"""Seconds after its deadline (at most as many as it had) in which a sample may still end, with a better message."""
MOST_LEFT_BEHIND = 256
"""Workers that may hang at a time, each a thread that cannot be ended; beyond that, no more samples are tried."""
HOPELESS = frozenset(("auth",))
"""Failures that, met by one sample after the other, every further call would meet as well."""
IN_A_ROW = 3

Answer = Callable[[Item, Generator | None], Sample]


@dataclass(frozen=True)
class Job:
    """A sample to make: an item, and which time it is answered (from 0)."""

    item: Item
    repeat: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """As `Sample.key`."""
        return self.item.id, self.repeat

    @property
    def before(self) -> tuple[str, int] | None:
        """The key of the sample that this one goes on from, if any: of the same repeat."""
        return (self.item.after, self.repeat) if self.item.after is not None else None


@dataclass(frozen=True)
class Limits:
    """When to stop, and how much at once.

    Attributes:
        concurrency: samples at once.
        deadline: seconds for one sample, all of its calls together.
        max_failures: failed samples of this call, beyond which no more are tried; None: no limit.
    """

    concurrency: int = CONCURRENCY
    deadline: float = DEADLINE
    max_failures: int | None = None


@dataclass
class Outcome:
    """What became of the samples of this call.

    Attributes:
        stopped: why not all were tried; empty where they were.
        gave_up: it was stopped by failures, which makes the command fail.
        failures: type of failure -> how many.
    """

    done: int = 0
    failed: int = 0
    skipped: int = 0
    stopped: str = ""
    gave_up: bool = False
    failures: Counter[str] = field(default_factory=Counter)


@dataclass
class _Running:
    job: Job
    began: float
    bounded: Bounded | None
    worker: _Worker


class _Worker(threading.Thread):
    """Answers one job after another."""

    def __init__(self, engine: _Engine) -> None:
        super().__init__(daemon=True, name="sample")
        self.jobs: queue.SimpleQueue[tuple[int, Job, Bounded | None] | None] = queue.SimpleQueue()
        self._engine = engine

    def run(self) -> None:
        """Answer until told to end."""
        ON_RATE_LIMIT.set(self._engine.pace.slow_down)
        while (task := self.jobs.get()) is not None:
            ticket, job, bounded = task
            try:
                result: Sample | BaseException = self._engine.answer(job.item, bounded)
            except BaseException as error:  # also a SystemExit: nobody's generator ends the command
                result = error
            self._engine.results.put((ticket, result))


class _Engine:
    def __init__(self, answer: Answer, generator: Generator | None, run: RunFolder, limits: Limits, ledger: Ledger):
        self.answer, self.generator, self.run, self.limits, self.ledger = answer, generator, run, limits, ledger
        # A sample that waits for others' calls would spend its own time on them.
        most = traits_of(generator).at_once if generator else None
        self.pace = AdaptiveConcurrency(min(limits.concurrency, most or limits.concurrency))
        self.results: queue.SimpleQueue[tuple[int, Sample | BaseException]] = queue.SimpleQueue()
        self.outcome = Outcome()
        self._patience = limits.deadline + min(GRACE, limits.deadline)
        self._running: dict[int, _Running] = {}  # in the order in which they began
        self._left_behind: set[int] = set()
        self._idle: list[_Worker] = []
        self._ticket = 0
        self._next: Job | None = None
        self._broken: Exception | None = None
        self._hopeless = 0  # such failures in a row, samples that asked no model aside

    def work(self, jobs: Iterator[Job], progress: Progress) -> Outcome:
        """Answer every job, or stop early; then those that are left are written down as skipped."""
        try:
            self._fill(jobs)
            while self._running:
                self._wait(progress)
                self._fill(jobs)
        except KeyboardInterrupt:
            while not self.results.empty():  # what had ended just then
                self._end(*self.results.get(), progress)
            raise
        finally:
            for worker in (*self._idle, *(running.worker for running in self._running.values())):
                worker.jobs.put(None)
        if self._broken is not None:
            raise self._broken
        if self.outcome.stopped:
            for job in chain([self._next] if self._next else [], jobs):
                self._skip(job)
                progress.advance()
        return self.outcome

    def _fill(self, jobs: Iterator[Job]) -> None:
        """Start as many jobs as pace and budget allow."""
        while not self._broken and not self.outcome.stopped and len(self._running) < self.pace.limit:
            try:
                self._next = self._next or next(jobs, None)
            except Exception as error:  # raised once those that are running have been written down
                self._broken = error
            if self._next is None:
                return
            if not self.ledger.affords(len(self._running)):
                if not self._running:
                    self.outcome.stopped = self.ledger.exhausted()
                return
            if any(running.job.key == self._next.before for running in self._running.values()):
                return  # the sample that it goes on from is not there yet
            job, self._next = self._next, None
            self._start(job)

    def _start(self, job: Job) -> None:
        if job.before is not None:
            job = replace(job, item=replace(job.item, earlier=self.run.samples.get(job.before)))
        worker = self._idle.pop() if self._idle else self._hired()
        began = time.monotonic()
        seconds = self.limits.deadline
        generator = self.generator
        if job.repeat and isinstance(generator, Cached):
            generator = with_cache(generator, job.repeat)  # each repeat has replies of its own
        bounded = Bounded(generator, began + seconds, seconds) if generator else None
        self._ticket += 1
        self._running[self._ticket] = _Running(job, began, bounded, worker)
        worker.jobs.put((self._ticket, job, bounded))

    def _hired(self) -> _Worker:
        worker = _Worker(self)
        worker.start()
        return worker

    def _wait(self, progress: Progress) -> None:
        """Take in the next sample that ends; where none has, give up those whose time is over."""
        oldest = next(iter(self._running.values())).began
        seconds = oldest + self._patience - time.monotonic()
        try:
            ended = self.results.get(timeout=max(0.0, min(seconds, 1.0)))
        except queue.Empty:
            self._give_up_overdue(progress)
        else:
            self._end(*ended, progress)

    def _end(self, ticket: int, result: Sample | BaseException, progress: Progress) -> None:
        running = self._running.pop(ticket, None)
        if running is None:  # given up before
            self._left_behind.discard(ticket)
            return
        self._idle.append(running.worker)
        self._take(running, result, progress)

    def _give_up_overdue(self, progress: Progress) -> None:
        time_now = time.monotonic()
        for ticket, running in list(self._running.items()):
            if time_now - running.began < self._patience:
                break
            del self._running[ticket]
            self._left_behind.add(ticket)
            running.worker.jobs.put(None)
            late = GeneratorError("timeout", f"no answer within the sample's {self.limits.deadline:g} s; given up")
            self._take(running, late, progress)
        if len(self._left_behind) > MOST_LEFT_BEHIND and not self.outcome.stopped:
            hanging = f"{len(self._left_behind)} samples outlasted their deadline and still run"
            self.outcome.stopped, self.outcome.gave_up = f"stopped, as {hanging}", True

    def _take(self, running: _Running, result: Sample | BaseException, progress: Progress) -> None:
        sample = failed(running.job, result) if isinstance(result, BaseException) else result
        sample = self._put(running, sample)
        if sample.status == "failed":
            self._count_failure(sample)
        else:
            self.outcome.done += 1
            self.pace.went_well()
            self._hopeless = 0 if sample.usage else self._hopeless
        status = [f"{self.outcome.failed} failed"] if self.outcome.failed else []
        progress.tell(", ".join([*status, *self.ledger.in_words()]))
        progress.advance()

    def _count_failure(self, sample: Sample) -> None:
        kind = sample.kind or "error"
        self.outcome.failed += 1
        self.outcome.failures[kind] += 1
        limit = self.limits.max_failures
        self._hopeless = self._hopeless + 1 if kind in HOPELESS else 0
        if self._hopeless == IN_A_ROW and not self.outcome.stopped:
            self.outcome.stopped = f"stopped, as every further call would fail: {sample.reason}"
            self.outcome.gave_up = True
        elif limit is not None and self.outcome.failed > limit and not self.outcome.stopped:
            self.outcome.stopped = f"stopped after {self.outcome.failed} failures, more than --max-failures {limit}"
            self.outcome.gave_up = True

    def _put(self, running: _Running, sample: Sample) -> Sample:
        """Write a sample down as it is returned: with what all of its tries cost and how long the last one took."""
        job, bounded = running.job, running.bounded
        earlier = self.run.samples.get(job.key)
        used = dict(sample.usage)
        if bounded is not None and sample.status == "failed":
            used = {"failed": bounded.usage} if bounded.usage.calls else {}
        priced = self.ledger.priced(used)
        self.ledger.spend(priced)
        fields = {
            "repeat": job.repeat,
            "domain": sample.domain or job.item.domain,
            "usage": added(earlier.usage if earlier else {}, priced),
            "attempts": (earlier.attempts if earlier else 0) + 1,
        }
        total = {"total": round(time.monotonic() - running.began, 4)}
        complete = sample.model_copy(update={**fields, "timings": {**sample.timings, **total}})
        try:
            self.run.append(complete)
        except ValueError as error:  # a number that is none, say: then the file holds why there is no sample
            complete = failed(job, error).model_copy(update={**fields, "timings": total})
            self.run.append(complete)
        return complete

    def _skip(self, job: Job) -> None:
        """Write down that a sample was not tried; one that failed before stays failed."""
        self.outcome.skipped += 1
        earlier = self.run.samples.get(job.key)
        if earlier is not None and earlier.status == "failed":
            return
        self.run.append(Sample(
            id=job.item.id, repeat=job.repeat, status="skipped", reason=self.outcome.stopped, domain=job.item.domain,
            usage=earlier.usage if earlier else {}, attempts=earlier.attempts if earlier else 0,
        ))  # fmt: skip


def failed(job: Job, error: BaseException) -> Sample:
    """A sample that failed, with its typed reason. Every error ends here: one sample's is no other's."""
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
    jobs: Iterator[Job],
    answer: Answer,
    generator: Generator | None,
    run: RunFolder,
    limits: Limits,
    ledger: Ledger,
    progress: Progress,
) -> Outcome:
    """Make the samples of all jobs.

    Args:
        jobs: those that are not finished yet, in the data's order; one that goes on from another comes after it.
        answer: makes one sample; called from many threads.
        generator: handed to `answer`, bounded; None: the extractive forms.
        run: where samples are appended.
        ledger: prices, the budget and what has been spent.

    Returns:
        What became of them. All are on file: done, failed, or skipped where the work was stopped.

    Raises:
        OSError: a sample could not be written; those before it are on file.
        Exception: what `jobs` raised, once the samples that were running are on file.
    """
    return _Engine(answer, generator, run, limits, ledger).work(jobs, progress)
