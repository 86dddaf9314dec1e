"""Work spread over the machines of a Ray cluster: `--engine ray`, for the models of a build and the samples of a run.

Each worker is a Ray actor that opens what it works with (models, indexes, data) once and is then given one task after
the other. The process that the person started keeps everything that must be done once: it hands out, and it
alone writes. A worker that dies takes nothing along but the tasks that it had, and these are given to others.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.corpora.home import home
from turnmark.retrieval.cluster import connected, lost_connection, shapes

LOCAL = "local"
AHEAD = 2
"""Tasks that a worker has, for each that it does at a time: one in work, one at hand."""
TRIES = 3
"""Workers that a task may outlive its own death in, before it is taken for what kills them."""
START = 300.0
"""Seconds in which the first worker must be there; loading a model from a slow disk takes a while."""
SETTINGS = ("TURNMARK_BACKEND", "TURNMARK_PRECISION", "TURNMARK_CACHE", "TURNMARK_DATA", "HF_HUB_OFFLINE")
"""Of the environment, what workers get. No keys: each node has its own."""
_ENGINE = re.compile(r"ray(://[A-Za-z0-9._\-]+(:[0-9]{1,5})?|://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?)?")

R = TypeVar("R")
T = TypeVar("T")
Opened = tuple[Callable[..., R], str]
"""What a worker does with a task, and a mark of what it works with: workers whose mark is another are not used."""


class WorkerLost(TurnmarkError):
    """A task ended every worker that it was given to, or no worker is left."""


class ClusterLost(WorkerLost):
    """The cluster itself cannot be reached any more."""


def check_engine(engine: str) -> None:
    """Look at `--engine` without reaching for a cluster."""
    if engine == LOCAL:
        return
    if not _ENGINE.fullmatch(engine):
        raise RequestError(f"--engine {engine!r}: local, ray, or ray://HOST[:PORT] was expected")
    if find_spec("ray") is None:
        raise MissingExtra(f"--engine {engine}", "ray")


@dataclass
class _Worker:
    """An actor, and how many tasks it has."""

    actor: Any
    ready: Any
    tasks: int = 0


class _Host:
    """The actor: what it works with, opened where it runs."""

    def __init__(
        self,
        opened_by: Callable[..., Opened[Any]],
        arguments: tuple[Any, ...],
        environment: Mapping[str, str],
        folder: str,
    ) -> None:
        self._opened_by, self._given, self._told, self._folder = opened_by, arguments, environment, folder
        self._work: Callable[..., Any] | None = None

    def open(self) -> tuple[str, str]:
        """("", the mark), or what is wrong with this node and an empty mark."""
        # Before anything is imported that reads them.
        for name, value in self._told.items():
            os.environ[name] = value
        with suppress(OSError):  # specs may name files as they are seen from there
            os.chdir(self._folder)
        try:
            self._work, mark = self._opened_by(*self._given)
        except TurnmarkError as error:
            return str(error), ""
        return "", mark

    def do(self, *task: Any) -> tuple[str, Any]:
        """("", what came of it), or what went wrong."""
        assert self._work is not None, "`open` was called first"
        try:
            return "", self._work(*task)
        except TurnmarkError as error:
            return str(error), None


class Workers(Generic[R]):
    """Workers on all nodes of a cluster, as a context.

    Args:
        engine: as `--engine` has it. `ray` is the cluster of this machine (or of RAY_ADDRESS); without one,
            one is started for as long as the work takes.
        opened_by: called on each worker with `arguments`; a function of a module, as it is sent by its name.
        mark: what every worker's must be; None: that of the first.
        at_once: tasks that a worker does at the same time, each in a thread.
    """

    def __init__(
        self,
        engine: str,
        opened_by: Callable[..., Opened[R]],
        arguments: tuple[Any, ...] = (),
        *,
        mark: str | None = None,
        at_once: int = 1,
    ) -> None:
        check_engine(engine)
        self._engine, self._opened_by, self._given = engine, opened_by, arguments
        self._mark, self._at_once = mark, at_once
        self._there: list[_Worker] = []
        self._coming: list[_Worker] = []
        self._starts = 0
        self._mine = False
        self._lock = threading.Lock()
        self._ray: Any = None

    def __enter__(self) -> Workers[R]:
        self._ray, self._mine = connected(self._engine)
        try:
            for shape in shapes(self._ray.nodes()):
                self._start(shape)
            self._most_starts = 3 * self._starts + TRIES
            self._await_one()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the workers, and the cluster if it was started for them."""
        if self._ray is None:
            return
        for worker in (*self._there, *self._coming):
            with suppress(Exception):
                self._ray.kill(worker.actor)
        self._there, self._coming = [], []
        if self._mine:
            with suppress(Exception):  # a cluster that is gone is left, too
                self._ray.shutdown()
        self._ray = None

    @property
    def count(self) -> int:
        """Workers that are ready."""
        with self._lock:
            return len(self._there)

    def spread(self, tasks: Iterable[tuple[T, tuple[Any, ...]]]) -> Iterator[tuple[T, R]]:
        """Each task's result as it comes, in no order; few tasks are drawn before they can be given to a worker.

        Args:
            tasks: a name for the caller, and the arguments.
        """
        queue, retries = iter(tasks), list[tuple[T, tuple[Any, ...], int]]()
        waiting: dict[Any, tuple[T, tuple[Any, ...], int, _Worker]] = {}
        while True:
            self._welcome()
            while len(waiting) < AHEAD * self._at_once * max(1, self.count):
                if retries:
                    name, task, tries = retries.pop()
                elif (next_task := next(queue, None)) is not None:
                    (name, task), tries = next_task, 0
                else:
                    break
                worker = self._least_busy()
                waiting[self._given_to(worker, task)] = (name, task, tries, worker)
            if not waiting:
                return
            with self._reached():
                ended, _ = self._ray.wait(list(waiting), num_returns=1, timeout=1.0)
            for reference in ended:
                name, task, tries, worker = waiting.pop(reference)
                try:
                    result = self._result(reference, worker, None)
                except ClusterLost:
                    raise
                except WorkerLost:
                    if tries + 1 == TRIES:
                        raise
                    retries.append((name, task, tries + 1))
                else:
                    yield name, result

    def call(self, task: tuple[Any, ...], seconds: float) -> R:
        """The result of one task, from any thread.

        Raises:
            TimeoutError: it took longer than `seconds`.
            WorkerLost: see there.
            TurnmarkError: the task failed.
        """
        ends = time.monotonic() + seconds
        for tries in range(1, TRIES + 1):
            self._welcome()
            worker = self._least_busy()
            try:
                return self._result(self._given_to(worker, task), worker, max(0.0, ends - time.monotonic()))
            except ClusterLost:
                raise
            except WorkerLost:
                if tries == TRIES:
                    raise
        raise AssertionError("the last try returns or raises")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """A cluster that is gone, in words."""
        try:
            yield
        except lost_connection() as error:
            raise ClusterLost(
                f"--engine {self._engine}: the cluster cannot be reached any more; what is done is kept, and the same "
                "command goes on"
            ) from error

    def _given_to(self, worker: _Worker, task: tuple[Any, ...]) -> Any:
        with self._reached():
            return worker.actor.do.remote(*task)

    def _result(self, reference: Any, worker: _Worker, seconds: float | None) -> R:
        try:
            with self._reached():
                failure, result = self._ray.get(reference, timeout=seconds)
        except self._ray.exceptions.GetTimeoutError as error:
            raise TimeoutError from error
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause
            raise TurnmarkError(f"a worker failed: {type(cause).__name__}: {cause}") from error
        except self._ray.exceptions.RayError as error:
            self._lose(worker)
            raise WorkerLost(f"{TRIES} workers died over one task, the last with {type(error).__name__}") from error
        finally:
            with self._lock:
                worker.tasks -= 1
        if failure:
            raise TurnmarkError(f"a worker failed: {failure}")
        outcome: R = result
        return outcome

    def _start(self, shape: Mapping[str, float]) -> None:
        self._starts += 1
        environment = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
        environment["TURNMARK_HOME"] = str(home().resolve())
        if "TURNMARK_DATA" in environment:
            environment["TURNMARK_DATA"] = str(Path(environment["TURNMARK_DATA"]).resolve())
        actor = (
            self._ray.remote(_Host)
            .options(**shape, max_concurrency=self._at_once, max_restarts=0, scheduling_strategy="SPREAD")
            .remote(self._opened_by, self._given, environment, str(Path.cwd()))
        )
        self._coming.append(_Worker(actor, actor.open.remote()))

    def _lose(self, worker: _Worker) -> None:
        """One fewer; another is asked for, which comes where a node has room for it."""
        with self._lock, self._reached():
            if worker not in self._there:  # another of its tasks has reported it
                return
            self._there.remove(worker)
            if self._starts < self._most_starts:
                self._start(shapes(self._ray.nodes())[0])

    def _welcome(self, seconds: float = 0.0) -> None:
        """Take in those that have become ready."""
        with self._lock, self._reached():
            if not self._coming:
                return
            ready, _ = self._ray.wait(
                [worker.ready for worker in self._coming], num_returns=len(self._coming) if not seconds else 1,
                timeout=seconds,
            )  # fmt: skip
            for worker in [worker for worker in self._coming if worker.ready in ready]:
                self._coming.remove(worker)
                try:
                    failure, mark = self._ray.get(worker.ready)
                except self._ray.exceptions.RayError:
                    continue
                if failure:
                    raise TurnmarkError(f"--engine {self._engine}: a worker cannot begin: {failure}")
                if self._mark is None:
                    self._mark = mark
                if mark != self._mark:
                    raise TurnmarkError(
                        f"--engine {self._engine}: a worker works with something else than this process: "
                        f"{_difference(self._mark, mark)}; each node needs the same Turnmark, packages, models and data"
                    )
                self._there.append(worker)

    def _least_busy(self) -> _Worker:
        if not self.count:
            self._await_one()
        with self._lock:
            if not self._there:
                raise WorkerLost("no worker is left; what is done is kept, and the same command goes on")
            worker = min(self._there, key=lambda candidate: candidate.tasks)
            worker.tasks += 1
            return worker

    def _await_one(self) -> None:
        ends = time.monotonic() + START
        while not self.count:
            if not self._coming or time.monotonic() > ends:
                reason = "none could be started" if not self._coming else f"none was ready within {START:g} s"
                raise WorkerLost(f"--engine {self._engine}: no worker: {reason}; what is done is kept")
            self._welcome(seconds=0.5)


def _difference(first: str, second: str) -> str:
    """The lines of two marks that are not in both."""
    first_lines, second_lines = first.splitlines(), second.splitlines()
    only_first = [line for line in first_lines if line not in second_lines]
    only_second = [line for line in second_lines if line not in first_lines]
    return f"{'; '.join(only_first) or 'nothing'} here, {'; '.join(only_second) or 'nothing'} there"
