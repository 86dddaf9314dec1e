"""Spreads work over the machines of a Ray cluster (`--engine ray`): the models of a build, the samples of a run.

Each worker is a Ray actor that opens models, indexes or data once, and then runs one task after the other. The main
process hands out the tasks, and only it writes files. The tasks of a worker that dies go to other workers; Ray starts
the worker again where a node has room.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from turnmark.core.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.core.home import home

LOCAL = "local"
AHEAD = 2
"""Tasks assigned for each that a worker runs at a time: one running, one waiting."""
TRIES = 3
"""Number of workers that may die over one task, before the task is taken for the cause."""
RESTARTS = 6
START = 300.0
"""Seconds in which the first worker must be ready; loading a model from a slow disk takes a while."""
CLIENT_PORT = 10001
CPUS = 4
"""Cores of a worker without a GPU, or all of its node where that has fewer."""
SETTINGS = ("TURNMARK_BACKEND", "TURNMARK_PRECISION", "TURNMARK_CACHE", "TURNMARK_DATA", "HF_HUB_OFFLINE")
"""Environment variables that workers get. Keys are not sent: each node has its own."""
_ENGINE = re.compile(r"ray(://[A-Za-z0-9._\-]+(:[0-9]{1,5})?|://\[[0-9A-Fa-f:]+\](:[0-9]{1,5})?)?")
_SHARED_MEMORY = 256 << 20

R = TypeVar("R")
T = TypeVar("T")
Opened = tuple[Callable[..., R], str]
"""The function that runs a task, and a mark of its models and data; workers with another mark are not used."""


class WorkerLost(TurnmarkError):
    """A task ended every worker that ran it, or no worker is left, or the cluster is gone."""


class _Dead(Exception):
    """The worker that a task was given to has died."""


def check_engine(engine: str) -> None:
    """Check `--engine` without connecting to a cluster."""
    if engine == LOCAL:
        return
    if not _ENGINE.fullmatch(engine):
        raise RequestError(f"--engine {engine!r}: local, ray, or ray://HOST[:PORT] was expected")
    if find_spec("ray") is None:
        raise MissingExtra(f"--engine {engine}", "ray")


def connected(engine: str) -> tuple[Any, bool]:
    """Connect to Ray, and return its module and whether we opened the connection.

    `ray` is the cluster of this machine (or of RAY_ADDRESS); without one, one is started for as long as the work takes.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if engine != "ray" and os.environ.get("RAY_AUTH_TOKEN"):
        os.environ.setdefault(
            "RAY_AUTH_MODE", "token"
        )  # Ray, which reads it when imported, would not take the token up
    # Workers run at the command's priority; Ray's default is a low one (nice 15).
    os.environ.setdefault("RAY_worker_niceness", "0")
    import ray

    if ray.is_initialized():
        return ray, False
    quiet: dict[str, Any] = {"logging_level": "ERROR", "log_to_driver": False}
    address = os.environ.get("RAY_ADDRESS") or "auto"
    if engine != "ray":
        address = engine if re.search(r":[0-9]+$", engine) else f"{engine}:{CLIENT_PORT}"
    try:
        try:
            ray.init(address=address, **quiet)
        except ConnectionAbortedError:
            # A client server forks a process for each client out of one with many threads; now and then that one dies
            # before it has begun.
            ray.init(address=address, **quiet)
        except ConnectionError:
            if address != "auto":
                raise
            ray.init(
                address="local", include_dashboard=False, object_store_memory=_SHARED_MEMORY,
                _node_ip_address="127.0.0.1", **quiet,
            )  # fmt: skip
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise TurnmarkError(
            f"--engine {engine}: a cluster at {address} cannot be used: {reason}. Does its head run, is that its "
            "--ray-client-server-port, and if it asks for a token, is that in RAY_AUTH_TOKEN?"
        ) from error
    return ray, True


def shapes(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Return the resources of each worker: a GPU on a node that has some, else some cores."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cores = int(min((node.get("CPU", 0) for node in alive if node.get("CPU", 0) >= 1), default=1))
    shape = min(CPUS, cores)
    shape_list: list[dict[str, float]] = []
    for node in alive:
        if gpus := int(node.get("GPU", 0)):
            shape_list += [{"num_cpus": 1, "num_gpus": 1}] * gpus
        else:
            shape_list += [{"num_cpus": shape}] * (int(node.get("CPU", 0)) // shape)
    return shape_list or [{"num_cpus": 1}]


class _Host:
    """The Ray actor of a worker; opens models, indexes or data on its node."""

    def __init__(
        self,
        opened_by: Callable[..., Opened[Any]],
        arguments: tuple[Any, ...],
        settings: Mapping[str, str],
        folder: str,
    ) -> None:
        os.environ.update(settings)  # before anything is imported that reads them
        with suppress(OSError):  # specs may name files as they are seen from there
            os.chdir(folder)
        self._failure, self._mark = "", ""
        try:
            self._work, self._mark = opened_by(*arguments)
        except TurnmarkError as error:
            self._failure = str(error)

    def ready(self) -> tuple[str, str]:
        """Return ("", the mark), or (what is wrong with this node, "")."""
        return self._failure, self._mark

    def do(self, *task: Any) -> tuple[str, Any]:
        """Return ("", the result of a task), or (what went wrong, None)."""
        try:
            return "", self._work(*task)
        except TurnmarkError as error:
            return str(error), None


@dataclass
class _WorkerActor:
    """An actor, the future that says whether it is ready, and its number of tasks."""

    actor: Any
    ready: Any
    tasks: int = 0


class Workers(Generic[R]):
    """Workers on all nodes of a cluster, as a context manager.

    Args:
        engine: the value of `--engine`.
        opened_by: called on each worker with `arguments`; a module's function, since it is sent by name.
        mark: the mark that every worker must have; None: the first worker's.
        at_once: tasks that a worker runs at the same time, each in a thread.
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
        self._engine, self._opened_by, self._arguments = engine, opened_by, arguments
        self._mark, self._at_once = mark, at_once
        self._ready: list[_WorkerActor] = []
        self._starting: list[_WorkerActor] = []
        self._owns_cluster = False
        self._lock = threading.Lock()
        self._ray: Any = None

    def __enter__(self) -> Workers[R]:
        self._ray, self._owns_cluster = connected(self._engine)
        settings = {name: os.environ[name] for name in SETTINGS if os.environ.get(name)}
        settings |= {name: str(Path(settings[name]).resolve()) for name in ("TURNMARK_DATA",) if name in settings}
        settings["TURNMARK_HOME"] = str(home().resolve())
        try:
            for shape in shapes(self._ray.nodes()):
                host = self._ray.remote(_Host).options(
                    **shape, max_concurrency=self._at_once, max_restarts=RESTARTS, scheduling_strategy="SPREAD"
                )
                actor = host.remote(self._opened_by, self._arguments, settings, str(Path.cwd()))
                self._starting.append(_WorkerActor(actor, actor.ready.remote()))
            self._await_one()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop the workers, and the cluster if it was started for them."""
        if self._ray is None:
            return
        for worker in (*self._ready, *self._starting):
            with suppress(Exception):
                self._ray.kill(worker.actor)
        self._ready, self._starting = [], []
        if self._owns_cluster:
            with suppress(Exception):  # a cluster that is gone is left, too
                self._ray.shutdown()
        self._ray = None

    def spread(self, tasks: Iterable[tuple[T, tuple[Any, ...]]]) -> Iterator[tuple[T, R]]:
        """Yield each task's name and result as it finishes, in no order; few tasks are drawn ahead.

        Args:
            tasks: a name for the caller, and the arguments.
        """
        waiting: dict[Future[R], T] = {}
        most = AHEAD * self._at_once * (len(self._ready) + len(self._starting))
        with ThreadPoolExecutor(most) as pool:
            try:
                for name, task in tasks:
                    waiting[pool.submit(self.call, task)] = name
                    if len(waiting) >= most:
                        yield from self._ended(waiting)
                while waiting:
                    yield from self._ended(waiting)
            finally:
                for future in waiting:
                    future.cancel()

    def _ended(self, waiting: dict[Future[R], T]) -> Iterator[tuple[T, R]]:
        ended, _ = wait(waiting, return_when=FIRST_COMPLETED)
        for future in ended:
            yield waiting.pop(future), future.result()

    def call(self, task: tuple[Any, ...], seconds: float | None = None) -> R:
        """Run one task and return its result, from any thread; TimeoutError after `seconds`."""
        ends = None if seconds is None else time.monotonic() + seconds
        for _ in range(TRIES):
            worker = self._least_busy()
            try:
                return self._result(worker, task, None if ends is None else max(0.0, ends - time.monotonic()))
            except _Dead as error:
                died = error
        raise WorkerLost(f"{TRIES} workers died over one task, the last with {died}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Turn the loss of the cluster into WorkerLost."""
        grpc = sys.modules.get("grpc")
        gone = (ConnectionError, grpc.RpcError) if grpc else (ConnectionError,)
        try:
            yield
        except gone as error:
            raise WorkerLost(
                f"--engine {self._engine}: the cluster cannot be reached any more; what is done is kept, and the same "
                "command goes on"
            ) from error

    def _result(self, worker: _WorkerActor, task: tuple[Any, ...], seconds: float | None) -> R:
        exceptions = self._ray.exceptions
        try:
            with self._reached():
                failure, result = self._ray.get(worker.actor.do.remote(*task), timeout=seconds)
        except exceptions.GetTimeoutError as error:
            raise TimeoutError from error
        except exceptions.RayTaskError as error:
            raise TurnmarkError(f"a worker failed: {type(error.cause).__name__}: {error.cause}") from error
        except exceptions.RayError as error:
            with self._lock, self._reached():
                if worker in self._ready:  # else another of its tasks has reported it
                    self._ready.remove(worker)
                    self._starting.append(_WorkerActor(worker.actor, worker.actor.ready.remote()))
            raise _Dead(type(error).__name__) from error
        finally:
            with self._lock:
                worker.tasks -= 1
        if failure:
            raise TurnmarkError(f"a worker failed: {failure}")
        outcome: R = result
        return outcome

    def _welcome(self) -> None:
        """Add workers that have become ready; drop those that Ray does not start again."""
        with self._lock, self._reached():
            references = [worker.ready for worker in self._starting]
            ready = self._ray.wait(references, num_returns=len(references), timeout=0)[0] if references else []
            for worker in [worker for worker in self._starting if worker.ready in ready]:
                self._starting.remove(worker)
                try:
                    failure, mark = self._ray.get(worker.ready)
                except self._ray.exceptions.ActorUnavailableError:
                    self._starting.append(_WorkerActor(worker.actor, worker.actor.ready.remote()))
                    continue
                except self._ray.exceptions.RayError:
                    continue
                if failure:
                    raise TurnmarkError(f"--engine {self._engine}: a worker cannot begin: {failure}")
                self._mark = mark if self._mark is None else self._mark
                if mark != self._mark:
                    raise TurnmarkError(
                        f"--engine {self._engine}: a worker works with something else than this process: "
                        f"{_difference(self._mark, mark)}; each node needs the same Turnmark, packages, models and data"
                    )
                self._ready.append(worker)

    def _least_busy(self) -> _WorkerActor:
        while True:
            self._await_one()
            with self._lock:
                if self._ready:  # another thread may just have lost the last one
                    worker = min(self._ready, key=lambda candidate: candidate.tasks)
                    worker.tasks += 1
                    return worker

    def _await_one(self) -> None:
        ends = time.monotonic() + START
        self._welcome()
        while not self._ready:
            if not self._starting or time.monotonic() > ends:
                reason = "none could be started" if not self._starting else f"none was ready within {START:g} s"
                raise WorkerLost(f"--engine {self._engine}: no worker: {reason}; what is done is kept")
            time.sleep(0.1)
            self._welcome()


def _difference(first: str, second: str) -> str:
    """Return the lines that only one of two marks has."""
    first_lines, second_lines = first.splitlines(), second.splitlines()
    only_first = [line for line in first_lines if line not in second_lines]
    only_second = [line for line in second_lines if line not in first_lines]
    return f"{'; '.join(only_first) or 'nothing'} here, {'; '.join(only_second) or 'nothing'} there"
