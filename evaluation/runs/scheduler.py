"""Runs jobs in threads, many at once, and hands over each result as it ends: samples, judgements, synthesis.

Workers run the jobs; one thread, the caller's, starts them and takes their results. A worker that outlasts its job's
patience is left behind (a daemon whose later result is dropped) and another replaces it, so that nothing that hangs
holds up the rest.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from turnmark.assistant.generators.base import ON_RATE_LIMIT

CONCURRENCY = 16
SETTLE = 1.0
"""Seconds in which further 429s belong to the same burst."""
HOPELESS = frozenset(("auth",))
"""Failures that, met by one call after the other, every further call would meet as well."""
IN_A_ROW = 3
"""Such failures in a row after which no more calls are made."""

J = TypeVar("J")
R = TypeVar("R")


class Overdue(Exception):
    """A job outlasted its patience and was left behind."""


class AdaptiveConcurrency:
    """Additive increase, multiplicative decrease, as in TCP: halved at a 429, one more after a round without.

    Args:
        limit: jobs at once while nobody complains.
    """

    def __init__(self, limit: int) -> None:
        self._most = float(limit)
        self._limit = float(limit)
        self._slowed = float("-inf")
        self._lock = threading.Lock()

    @property
    def limit(self) -> int:
        """Jobs that may run at once, 1 at least."""
        return max(1, int(self._limit))

    def slow_down(self) -> None:
        """An endpoint answered 429. Those of one burst halve the limit once."""
        with self._lock:
            time_now = time.monotonic()
            if time_now - self._slowed >= SETTLE:
                self._slowed = time_now
                self._limit = max(1.0, self._limit / 2)

    def went_well(self) -> None:
        """A job ended without a complaint since the last slowing down."""
        with self._lock:
            if time.monotonic() - self._slowed >= SETTLE:
                self._limit = min(self._most, self._limit + 1.0 / max(1.0, self._limit))


class _Worker(threading.Thread, Generic[R]):
    """Makes one call after another."""

    def __init__(self, ended: queue.SimpleQueue[tuple[int, R | BaseException]], slow_down: Callable[[], None]) -> None:
        super().__init__(daemon=True, name="worker")
        self.calls: queue.SimpleQueue[tuple[int, Callable[[], R]] | None] = queue.SimpleQueue()
        self._ended, self._slow_down = ended, slow_down

    def run(self) -> None:
        ON_RATE_LIMIT.set(self._slow_down)
        while (task := self.calls.get()) is not None:
            ticket, call = task
            try:
                result: R | BaseException = call()
            except BaseException as error:  # also a SystemExit: nobody's generator ends the command
                result = error
            self._ended.put((ticket, result))


@dataclass
class _Running(Generic[J, R]):
    job: J
    began: float
    worker: _Worker[R]


class Scheduler(Generic[J, R]):
    """Runs jobs.

    All arguments are called by the thread that calls `run`.

    Args:
        begin: makes of a job, just before it starts, the call for a worker.
        take: receives a job and its result, or the exception that it raised, or `Overdue`.
        admit: whether a job may start next to those that run; asked again whenever one of them has ended.
        refuse: receives a job that is not admitted though nothing else runs; it is left out.
        concurrency: jobs at once; fewer while an endpoint answers 429.
        patience: seconds until a job is left behind; None: never.
    """

    def __init__(
        self,
        begin: Callable[[J], Callable[[], R]],
        take: Callable[[J, R | BaseException], None],
        admit: Callable[[J, Sequence[J]], bool],
        refuse: Callable[[J], None],
        concurrency: int = CONCURRENCY,
        patience: float | None = None,
    ) -> None:
        self._begin, self._take, self._admit, self._refuse = begin, take, admit, refuse
        self._pace = AdaptiveConcurrency(concurrency)
        self._patience = patience
        self._ended: queue.SimpleQueue[tuple[int, R | BaseException]] = queue.SimpleQueue()
        self._running: dict[int, _Running[J, R]] = {}  # in the order in which they began
        self._idle: list[_Worker[R]] = []
        self._overdue: set[int] = set()
        self._ticket = 0
        self._next: J | None = None
        self._broken: Exception | None = None

    @property
    def left_behind(self) -> int:
        """Workers that still hang."""
        return len(self._overdue)

    def run(self, jobs: Iterator[J | None]) -> None:
        """Run all jobs.

        Args:
            jobs: one may be None, which means none for now: the next is asked for when one of those that run has ended.
        """
        try:
            self._fill(jobs)
            while self._running:
                self._wait()
                self._fill(jobs)
        except KeyboardInterrupt:
            while not self._ended.empty():  # what had ended just then
                self._end(*self._ended.get())
            raise
        finally:
            for worker in (*self._idle, *(running.worker for running in self._running.values())):
                worker.calls.put(None)
        if self._broken is not None:
            raise self._broken

    def _fill(self, jobs: Iterator[J | None]) -> None:
        """Start as many jobs as pace and `admit` allow."""
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
            worker: _Worker[R] = _Worker(self._ended, self._pace.slow_down)
            worker.start()
            self._idle.append(worker)
        worker = self._idle.pop()
        self._ticket += 1
        self._running[self._ticket] = _Running(job, time.monotonic(), worker)
        worker.calls.put((self._ticket, call))

    def _wait(self) -> None:
        """Take the next result; if none comes, give up the jobs whose time is over."""
        timeout = None
        if self._patience is not None:
            oldest = next(iter(self._running.values())).began
            timeout = max(0.0, min(oldest + self._patience - time.monotonic(), 1.0))
        try:
            ended = self._ended.get(timeout=timeout)
        except queue.Empty:
            self._give_up_overdue()
        else:
            self._end(*ended)

    def _end(self, ticket: int, result: R | BaseException) -> None:
        running = self._running.pop(ticket, None)
        if running is None:  # given up before
            self._overdue.discard(ticket)
            return
        self._idle.append(running.worker)
        if not isinstance(result, BaseException):
            self._pace.went_well()
        self._take(running.job, result)

    def _give_up_overdue(self) -> None:
        time_now = time.monotonic()
        for ticket, running in list(self._running.items()):
            if self._patience is None or time_now - running.began < self._patience:
                break
            del self._running[ticket]
            self._overdue.add(ticket)
            running.worker.calls.put(None)
            self._take(running.job, Overdue())
