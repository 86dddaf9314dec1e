"""Find the tasks of a benchmark, which is in this package, in an entry point of another package, or named by a spec.

A package registers a benchmark by an entry point of the group `turnmark.benchmarks` with the benchmark's name. A module
that is not installed is named by the spec `python:package.module:attribute`. Both point to a class derived from `Task`
(`turnmark.evaluation.tasks.task`), or to a tuple of such classes. A benchmark is imported only when it is named.
"""

from __future__ import annotations

import importlib.metadata
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from turnmark.core.errors import ErrorCollector, RequestError, unknown_name
from turnmark.evaluation.tasks.declarations import benchmarks, evaluated_benchmarks

if TYPE_CHECKING:
    from turnmark.evaluation.tasks.task import Task

ENTRY_POINT_GROUP = "turnmark.benchmarks"
RETRIEVAL = "retrieval"


def benchmark_names() -> list[str]:
    """Return the names that `eval` accepts: our benchmarks, those of entry points, and `all`. Imports no benchmark."""
    return [
        *evaluated_benchmarks(),
        *(point.name for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)),
        "all",
    ]


@lru_cache(maxsize=16)
def import_tasks(benchmark: str) -> tuple[type[Task], ...]:
    """Return the tasks of a benchmark, the default first; empty if there is no such benchmark.

    Raises:
        RequestError: the benchmark's module cannot be imported, or does not contain tasks.
    """
    from turnmark.core.specs import load_python
    from turnmark.evaluation.tasks.task import Task

    kind, _, argument = benchmark.partition(":")
    targets = {point.name: point.value for point in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)}
    targets.update({name: declared.tasks for name, declared in benchmarks().items()})
    target = argument if kind == "python" else targets.get(benchmark)
    if target is None:
        return ()
    attribute: Any = load_python(target, "benchmark")
    tasks = attribute if isinstance(attribute, tuple) else (attribute,)
    if not tasks or not all(isinstance(task, type) and issubclass(task, Task) for task in tasks):
        raise RequestError(f"benchmark {benchmark!r}: expected a class derived from Task, or a tuple of such classes")
    return tasks


def _known_tasks(benchmark: str) -> tuple[type[Task], ...]:
    try:
        return import_tasks(benchmark)
    except RequestError:  # reported when the request is checked
        return ()


def task_names(benchmark: str) -> tuple[str, ...]:
    return tuple(task.name for task in _known_tasks(benchmark))


def all_task_names() -> tuple[str, ...]:
    """Return the names of the tasks of all benchmarks of this package."""
    return tuple(dict.fromkeys(name for benchmark in benchmarks() for name in task_names(benchmark)))


def find_task(benchmark: str, name: str | None) -> type[Task] | None:
    """Find a task by its name; without a name, the benchmark's default task. None if there is no such task."""
    return next((task for task in _known_tasks(benchmark) if name is None or task.name == name), None)


def measures_judges(benchmark: str, name: str | None) -> bool:
    """Return whether a task measures a judge, so that `--judge` names the system under test."""
    task = find_task(benchmark, name) if name is not None else None
    return task is not None and task.measures_judges


def task_of(benchmark: str, name: str | None) -> str:
    """Return the task's name, or the benchmark's default task."""
    return name or next(iter(task_names(benchmark)), "generation")


def setting_of(benchmark: str, name: str | None, errors: ErrorCollector, task: str | None = None) -> str | None:
    """Return the setting's name, the default setting, or None without settings. Add an unknown name to `errors`."""
    known_task = find_task(benchmark, task) or find_task(benchmark, None)
    settings = known_task.settings if known_task is not None else ()
    if name is not None and name not in settings:
        unknown = unknown_name(f"setting of {benchmark}", name, settings)
        errors.add(f"--setting: {unknown if settings else f'{benchmark} has no settings; leave it out'}")
        return None
    return name or next(iter(settings), None)
