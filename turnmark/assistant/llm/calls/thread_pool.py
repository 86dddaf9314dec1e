"""Run jobs (e.g. samples, judgments, descriptions of pictures) concurrently in threads, and pass on each result.

Worker threads run the jobs; the caller's thread starts them and takes their results. A job that exceeds its patience is
abandoned with its worker, a daemon thread whose later result is dropped. Another worker replaces it, so that a hanging
job does not delay the others.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from turnmark.assistant.llm.calls.protocols import ON_RATE_LIMIT

DEFAULT_CONCURRENCY = 16
"""Default number of concurrent jobs."""
WAIT_SECONDS = 1.0
"""Maximum seconds of waiting for a result before overdue jobs are abandoned."""
BURST_SECONDS = 1.0
"""Seconds after a 429 response in which further ones belong to the same burst."""
PERMANENT_FAILURES = frozenset(("auth",))
"""Kinds of failure that no retry can fix: after several in a row, no more calls are made."""
MAX_PERMANENT_FAILURES = 3
"""Number of permanent failures in a row after which no more calls are made."""

J = TypeVar("J")
R = TypeVar("R")


class OverdueJob(Exception):
    """A job exceeded its patience and was abandoned."""


class AdaptiveConcurrency:
    """The number of concurrent jobs, adapted as in TCP: halved after a 429, and increased by one after a round without.

    Args:
        limit: the maximum number of concurrent jobs.
    """

    def __init__(self, limit: int) -> None:
        self._most = float(limit)
        self._limit = float(limit)
        self._slowed = float("-inf")
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Number of jobs that may run at once, at least 1."""
        return max(1, int(self._limit))

    def slow_down(self) -> None:
        """Halve the limit after a 429 response; several of one burst halve it once."""
        with self._lock:
            time_now = time.monotonic()
            if time_now - self._slowed >= BURST_SECONDS:
                self._slowed = time_now
                self._limit = max(1.0, self._limit / 2)

    def went_well(self) -> None:
        """Raise the limit a little after a job without errors."""
        with self._lock:
            if time.monotonic() - self._slowed >= BURST_SECONDS:
                self._limit = min(self._most, self._limit + 1.0 / max(1.0, self._limit))


class _PoolThread(threading.Thread, Generic[R]):
    """A worker thread, which makes one call after another."""

    def __init__(self, ended: queue.SimpleQueue[tuple[int, R | BaseException]], slow_down: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="worker")
        self.calls: queue.SimpleQueue[tuple[int, Callable[[], R]] | None] = queue.SimpleQueue()
        self._ended, self._slow_down = ended, slow_down

    def run(self) -> None:
        ON_RATE_LIMIT.set(self._slow_down)
        while True:
            task = self.calls.get()
            if task is None:
                return
            ticket, call = task
            try:
                result: R | BaseException = call()
            except BaseException as error:  # even SystemExit: third-party code must not end the command
                result = error
            self._ended.put((ticket, result))


@dataclass
class _RunningJob(Generic[J, R]):
    job: J
    began: float
    worker: _PoolThread[R]


class Scheduler(Generic[J, R]):
    """A pool of threads that run jobs. The thread that calls `run` calls all the functions below.

    Args:
        begin: makes the worker's call for a job, just before it starts.
        take: receives a job and its result, or the exception that it raised, or `OverdueJob`.
        admit: returns whether a job may start next to the running ones. It is asked again when one of these has ended.
        refuse: receives a job that is not admitted although no other job runs; the job is dropped.
        concurrency: number of concurrent jobs; fewer while an endpoint answers 429.
        patience: seconds until a job is abandoned, or None for no limit.
        on_wait: called about every second while jobs run. An exception that it raises ends `run`.
    """

    def __init__(
        self,
        begin: Callable[[J], Callable[[], R]],
        take: Callable[[J, R | BaseException], None],
        admit: Callable[[J, Sequence[J]], bool],
        refuse: Callable[[J], None],
        concurrency: int = DEFAULT_CONCURRENCY,
        patience: float | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> None:
        self._begin, self._take, self._admit, self._refuse = begin, take, admit, refuse
        self._pace = AdaptiveConcurrency(concurrency)
        self._patience, self._on_wait = patience, on_wait
        self._ended: queue.SimpleQueue[tuple[int, R | BaseException]] = queue.SimpleQueue()
        self._running: dict[int, _RunningJob[J, R]] = {}  # in the order in which they began
        self._idle: list[_PoolThread[R]] = []
        self._overdue: set[int] = set()
        self._ticket = 0
        self._next: J | None = None
        self._broken: Exception | None = None

    @property
    def left_behind(self) -> int:
        """Number of abandoned workers that still hang."""
        return len(self._overdue)

    def run(self, jobs: Iterator[J | None]) -> None:
        """Run all jobs.

        Args:
            jobs: the jobs; None means that there is no job yet; the iterator is asked again when a running job has
                ended.
        """
        try:
            self._fill(jobs)
            while self._running:
                self._wait()
                self._fill(jobs)
        except KeyboardInterrupt:
            while not self._ended.empty():  # take the results that have just arrived
                self._end(*self._ended.get())
            raise
        finally:
            for worker in (*self._idle, *(running.worker for running in self._running.values())):
                worker.calls.put(None)
        if self._broken is not None:
            raise self._broken

    def _fill(self, jobs: Iterator[J | None]) -> None:
        """Start as many jobs as the adaptive concurrency and `admit` allow."""
        while self._broken is None and len(self._running) < self._pace.limit:
            try:
                job = self._next if self._next is not None else next(jobs, None)
            except Exception as error:
                self._broken = error
                return
            if job is None:
                return
            admitted = self._admit(job, [running.job for running in self._running.values()])
            self._next = None if admitted or not self._running else job
            if admitted:
                self._start(job)
            elif self._next is None:
                self._refuse(job)
            else:
                return

    def _start(self, job: J) -> None:
        call = self._begin(job)
        if not self._idle:
            worker: _PoolThread[R] = _PoolThread(self._ended, self._pace.slow_down)
            worker.start()
            self._idle.append(worker)
        worker = self._idle.pop()
        self._ticket += 1
        self._running[self._ticket] = _RunningJob(job, time.monotonic(), worker)
        worker.calls.put((self._ticket, call))

    def _wait(self) -> None:
        """Take the next result; if none comes in time, abandon overdue jobs."""
        timeout = None if self._on_wait is None else WAIT_SECONDS
        if self._patience is not None:
            oldest = next(iter(self._running.values())).began
            timeout = max(0.0, min(oldest + self._patience - time.monotonic(), WAIT_SECONDS))
        try:
            ended = self._ended.get(timeout=timeout)
        except queue.Empty:
            if self._on_wait is not None:
                self._on_wait()
            self._abandon_overdue()
        else:
            self._end(*ended)

    def _end(self, ticket: int, result: R | BaseException) -> None:
        running = self._running.pop(ticket, None)
        if running is None:  # the job was abandoned before
            self._overdue.discard(ticket)
            return
        self._idle.append(running.worker)
        if not isinstance(result, BaseException):
            self._pace.went_well()
        self._take(running.job, result)

    def _abandon_overdue(self) -> None:
        time_now = time.monotonic()
        for ticket, running in list(self._running.items()):
            if self._patience is None or time_now - running.began < self._patience:
                break
            del self._running[ticket]
            self._overdue.add(ticket)
            running.worker.calls.put(None)
            self._take(running.job, OverdueJob())
