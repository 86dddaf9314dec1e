"""The benchmarks there are, each with its tasks: ours in a plain table, others by an entry point or a spec.

A package adds a benchmark by an entry point of the group `turnmark.benchmarks`, whose name is that of the benchmark, or
without being installed by `python:package.module:attribute`. Either names a class derived from `Task`
(`turnmark.evaluation.benchmarks.task`), or a tuple of them, as the table does for ours. Nothing is imported before a
benchmark is named.
"""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from turnmark.core.errors import ErrorCollector, RequestError

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.task import Task

GROUP = "turnmark.benchmarks"
RETRIEVAL = "retrieval"
TASKS = ("generation", RETRIEVAL, "revise", "judge", "analyse")
"""The names of our tasks."""
_OURS = "turnmark.evaluation.benchmarks"
BENCHMARKS: Mapping[str, str] = {
    "mtrag": f"{_OURS}.mtrag:TASKS",
    "mtrag-un": f"{_OURS}.mtrag:UN_TASKS",
    "mtrag-s": f"{_OURS}.mtrag:TASKS",
    "inscoqa": f"{_OURS}.inscoqa:InsCoQA",
    "compound-qa": f"{_OURS}.compound_qa:CompoundQA",
    "kiwi": f"{_OURS}.kiwi:TASKS",
}
"""Our benchmarks, each with its task or tasks, the default first."""


def benchmark_names() -> list[str]:
    """The names that `eval` knows without importing anything."""
    return [*BENCHMARKS, *(point.name for point in importlib.metadata.entry_points(group=GROUP)), "all"]


@lru_cache(maxsize=16)
def import_tasks(benchmark: str) -> tuple[type[Task], ...]:
    """The tasks of a benchmark, the default first; none if there is no such benchmark."""
    from turnmark.core.specs import load_python
    from turnmark.evaluation.benchmarks.task import Task

    kind, _, argument = benchmark.partition(":")
    targets = {point.name: point.value for point in importlib.metadata.entry_points(group=GROUP)} | dict(BENCHMARKS)
    target = argument if kind == "python" else targets.get(benchmark)
    if target is None:
        return ()
    named: Any = load_python(target, "benchmark")
    tasks = named if isinstance(named, tuple) else (named,)
    if not tasks or not all(isinstance(task, type) and issubclass(task, Task) for task in tasks):
        raise RequestError(f"benchmark {benchmark!r}: a class derived from Task, or a tuple of them, was expected")
    return tasks


def _known_tasks(benchmark: str) -> tuple[type[Task], ...]:
    try:
        return import_tasks(benchmark)
    except RequestError:  # reported once, when the request is checked
        return ()


def task_names(benchmark: str) -> tuple[str, ...]:
    return tuple(task.name for task in _known_tasks(benchmark))


def find_task(benchmark: str, name: str | None) -> type[Task] | None:
    """A task by its name; None: the benchmark's first. None if there is no such task."""
    return next((task for task in _known_tasks(benchmark) if name is None or task.name == name), None)


def retrieves(benchmark: str, name: str | None) -> bool:
    task = find_task(benchmark, name) if name == RETRIEVAL else None
    return task is not None and task.retrieves


def measures_judges(benchmark: str, name: str | None) -> bool:
    """Whether a task measures judges, so that `--judge` names what is measured."""
    task = find_task(benchmark, name) if name is not None else None
    return task is not None and task.measures_judges


def task_of(benchmark: str, name: str | None) -> str:
    return name or next(iter(task_names(benchmark)), "generation")


def setting_of(benchmark: str, name: str | None, errors: ErrorCollector, task: str | None = None) -> str | None:
    """The setting that is meant; None if there is none, or another was asked for."""
    known_task = find_task(benchmark, task) or find_task(benchmark, None)
    settings = known_task.settings if known_task is not None else ()
    if name is not None and name not in settings:
        has = f"it has: {', '.join(settings)}" if settings else "it has no settings; leave it out"
        errors.add(f"--setting: {benchmark} has no setting {name!r}; {has}")
        return None
    return name or next(iter(settings), None)
