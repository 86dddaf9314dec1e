"""Distributes work over the machines of a Ray cluster (`--engine ray`): the models of a build, the samples of a run.

Each worker is a Ray actor that opens models, indexes or data once and then runs one task after the other. The main
process assigns the tasks, and only it writes files. If a worker dies, its tasks are assigned to other workers, and Ray
restarts it on a node with free resources.
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
from pathlib import Path
from typing import Any, Generic, TypeVar

from turnmark.core.engines import check_engine
from turnmark.core.errors import TurnmarkError
from turnmark.core.home import home

TASKS_PER_SLOT = 2
"""Tasks assigned per task that a worker can run at a time: one is running, and one is waiting."""
MAX_LOST_WORKERS = 3
"""Number of workers that may die during one task before the task is considered the cause."""
MAX_RESTARTS = 6
"""Number of times that Ray restarts a worker."""
START_SECONDS = 300.0
"""Time within which the first worker must be ready. Loading a model from a slow disk takes a while."""
CLIENT_PORT = 10001
WORKER_CORES = 4
"""Cores of a worker without a GPU; all cores of its node if there are fewer."""
FORWARDED_VARIABLES = ("TURNMARK_BACKEND", "TURNMARK_PRECISION", "TURNMARK_CACHE", "TURNMARK_DATA", "HF_HUB_OFFLINE")
"""Environment variables that are set for workers. API keys are not included: each node has its own."""
_SHARED_MEMORY_BYTES = 256 << 20

R = TypeVar("R")
T = TypeVar("T")
Opened = tuple[Callable[..., R], str]
"""The function that runs a task, and a fingerprint of its models and data. All workers must have the same one."""


class WorkerLost(TurnmarkError):
    """A task killed every worker that ran it, no worker is left, or the cluster cannot be reached."""


class _WorkerDeath(Exception):
    """The worker of a task has died."""


def connect(engine: str) -> tuple[Any, bool]:
    """Connect to Ray, and return its module and whether this call opened the connection.

    `ray` stands for the cluster of this machine or of RAY_ADDRESS. If there is none, one is started for this work.
    """
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    if engine != "ray" and os.environ.get("RAY_AUTH_TOKEN"):
        # Ray reads this variable when it is imported. Without it, the token is ignored.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    # Workers run at the command's priority. Ray's default is a low priority (nice 15).
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
            # The client server has many threads and forks a process for each client. Occasionally that process dies at
            # its start.
            ray.init(address=address, **quiet)
        except ConnectionError:
            if address != "auto":
                raise
            ray.init(
                address="local", include_dashboard=False, object_store_memory=_SHARED_MEMORY_BYTES,
                _node_ip_address="127.0.0.1", **quiet,
            )  # fmt: skip
    except (OSError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise TurnmarkError(
            f"--engine {engine}: the cluster at {address} cannot be used: {reason}. Check that its head is running "
            "and that the port is its --ray-client-server-port. If it requires a token, set RAY_AUTH_TOKEN."
        ) from error
    return ray, True


def worker_resources(nodes: Iterable[Mapping[str, Any]]) -> list[dict[str, float]]:
    """Return the resources of each worker: one GPU on a node with GPUs, otherwise some cores."""
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    cores = int(min((node.get("CPU", 0) for node in alive if node.get("CPU", 0) >= 1), default=1))
    shape = min(WORKER_CORES, cores)
    shape_list: list[dict[str, float]] = []
    for node in alive:
        if gpus := int(node.get("GPU", 0)):
            shape_list += [{"num_cpus": 1, "num_gpus": 1}] * gpus
        else:
            shape_list += [{"num_cpus": shape}] * (int(node.get("CPU", 0)) // shape)
    return shape_list or [{"num_cpus": 1}]


class _WorkerProcess:
    """The Ray actor of a worker, which opens models, indexes or data on its node."""

    def __init__(
        self,
        opened_by: Callable[..., Opened[Any]],
        arguments: tuple[Any, ...],
        settings: Mapping[str, str],
        folder: str,
    ) -> None:
        os.environ.update(settings)  # before the modules that read them are imported
        with suppress(OSError):  # specs may contain paths relative to this folder
            os.chdir(folder)
        self._failure, self._mark = "", ""
        try:
            self._work, self._mark = opened_by(*arguments)
        except TurnmarkError as error:
            self._failure = str(error)

    def ready(self) -> tuple[str, str]:
        """Return ("", the mark), or (an error message, "")."""
        return self._failure, self._mark

    def do(self, *task: Any) -> tuple[str, Any]:
        """Return ("", the result of a task), or (an error message, None)."""
        try:
            return "", self._work(*task)
        except TurnmarkError as error:
            return str(error), None


@dataclass
class _WorkerActor:
    """An actor, the future of its method `ready`, and its number of tasks."""

    actor: Any
    ready: Any
    tasks: int = 0


class Workers(Generic[R]):
    """A context with workers on all nodes of a cluster.

    Args:
        engine: the value of `--engine`.
        opened_by: called on each worker with `arguments`. It is sent by name and must be a function of a module.
        mark: the fingerprint that every worker must have, or None for the one of the first worker.
        at_once: number of tasks that a worker runs at the same time, each in a thread.
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
        self._ray, self._owns_cluster = connect(self._engine)
        settings = {name: os.environ[name] for name in FORWARDED_VARIABLES if os.environ.get(name)}
        settings |= {name: str(Path(settings[name]).resolve()) for name in ("TURNMARK_DATA",) if name in settings}
        settings["TURNMARK_HOME"] = str(home().resolve())
        try:
            for shape in worker_resources(self._ray.nodes()):
                host = self._ray.remote(_WorkerProcess).options(
                    **shape, max_concurrency=self._at_once, max_restarts=MAX_RESTARTS, scheduling_strategy="SPREAD"
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
            with suppress(Exception):  # the cluster may already be gone
                self._ray.shutdown()
        self._ray = None

    def spread(self, tasks: Iterable[tuple[T, tuple[Any, ...]]]) -> Iterator[tuple[T, R]]:
        """Yield each task's name and result in completion order. Only a few tasks are prefetched.

        Args:
            tasks: for each task, a name for the caller and the arguments.
        """
        waiting: dict[Future[R], T] = {}
        most = TASKS_PER_SLOT * self._at_once * (len(self._ready) + len(self._starting))
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
        for _ in range(MAX_LOST_WORKERS):
            worker = self._least_busy()
            try:
                return self._result(worker, task, None if ends is None else max(0.0, ends - time.monotonic()))
            except _WorkerDeath as error:
                died = error
        raise WorkerLost(f"{MAX_LOST_WORKERS} workers died during one task, the last with {died}")

    @contextmanager
    def _reached(self) -> Iterator[None]:
        """Raise WorkerLost if the connection to the cluster is lost."""
        grpc = sys.modules.get("grpc")
        gone = (ConnectionError, grpc.RpcError) if grpc else (ConnectionError,)
        try:
            yield
        except gone as error:
            raise WorkerLost(
                f"--engine {self._engine}: the cluster can no longer be reached; finished work is kept, and the same "
                "command continues it"
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
                if worker in self._ready:  # otherwise another of its tasks has reported the loss
                    self._ready.remove(worker)
                    self._starting.append(_WorkerActor(worker.actor, worker.actor.ready.remote()))
            raise _WorkerDeath(type(error).__name__) from error
        finally:
            with self._lock:
                worker.tasks -= 1
        if failure:
            raise TurnmarkError(f"a worker failed: {failure}")
        outcome: R = result
        return outcome

    def _welcome(self) -> None:
        """Add the workers that have become ready, and drop those that Ray does not restart."""
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
                    raise TurnmarkError(f"--engine {self._engine}: a worker cannot start: {failure}")
                self._mark = mark if self._mark is None else self._mark
                if mark != self._mark:
                    raise TurnmarkError(
                        f"--engine {self._engine}: a worker differs from this process: "
                        f"{_difference(self._mark, mark)}; "
                        "each node needs the same version of Turnmark and the same packages, models and data"
                    )
                self._ready.append(worker)

    def _least_busy(self) -> _WorkerActor:
        while True:
            self._await_one()
            with self._lock:
                if self._ready:  # another thread may have just lost the last worker
                    worker = min(self._ready, key=lambda candidate: candidate.tasks)
                    worker.tasks += 1
                    return worker

    def _await_one(self) -> None:
        ends = time.monotonic() + START_SECONDS
        self._welcome()
        while not self._ready:
            if not self._starting or time.monotonic() > ends:
                reason = "could be started" if not self._starting else f"was ready within {START_SECONDS:g} s"
                raise WorkerLost(f"--engine {self._engine}: no worker {reason}; finished work is kept")
            time.sleep(0.1)
            self._welcome()


def _difference(first: str, second: str) -> str:
    """Return the lines that are in only one of two marks."""
    first_lines, second_lines = first.splitlines(), second.splitlines()
    only_first = [line for line in first_lines if line not in second_lines]
    only_second = [line for line in second_lines if line not in first_lines]
    return f"{'; '.join(only_first) or 'nothing'} here, {'; '.join(only_second) or 'nothing'} there"
