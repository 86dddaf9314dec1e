"""The benchmarks there are, each with its tasks: ours in a plain table, others by an entry point or a spec.

A package adds a benchmark by an entry point of the group `turnmark.benchmarks`, whose name is that of the benchmark, or
without being installed by `python:package.module:factory`. Either names a function that gives a `Task`
(`turnmark.evaluation.benchmarks.task`), or several. Nothing is imported before a task is run.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Protocol

from turnmark.corpora.errors import ErrorCollector, RequestError

if TYPE_CHECKING:
    from turnmark.evaluation.benchmarks.prepared import Prepared

GROUP = "turnmark.benchmarks"
RETRIEVAL = "retrieval"


class AnyTask(Protocol):
    """What the runner asks of a task, wherever it comes from."""

    @property
    def name(self) -> str:
        """Of `--task`."""
        ...

    @property
    def settings(self) -> tuple[str, ...]:
        """Of `--setting`, the default first."""
        ...

    @property
    def prepare(self) -> Callable[[Any, str | None, ErrorCollector, bool], Prepared | None]:
        """Finds and checks the data of a request; see `turnmark.evaluation.benchmarks.prepared.prepare`."""
        ...


@dataclass(frozen=True)
class BuiltIn:
    """A task of ours.

    Attributes:
        target: `module:function` below `turnmark.evaluation.benchmarks` that prepares it.
        unnamed: a setting that manifests leave out.
        measures_judges: a judge is not its instrument but what is measured.
    """

    name: str
    settings: tuple[str, ...] = ()
    target: str = ""
    unnamed: str | None = None
    measures_judges: bool = False

    @property
    def prepare(self) -> Callable[[Any, str | None, ErrorCollector, bool], Prepared | None]:
        """See `AnyTask.prepare`."""
        module, _, function = self.target.partition(":")
        prepare_data: Callable[[Any, str | None, ErrorCollector, bool], Prepared | None] = getattr(
            importlib.import_module(f"turnmark.evaluation.benchmarks.{module}"), function
        )
        return prepare_data


_MTRAG = (
    BuiltIn("generation", ("reference", "reference+rag", "rag"), "mtrag_prepared:prepare_mtrag"),
    BuiltIn(RETRIEVAL),
)
_JUDGE_SETTINGS = ("zero-shot", "few-shot", "zero-shot+by-question", "few-shot+by-question")
BENCHMARKS: Mapping[str, tuple[BuiltIn, ...]] = {
    "mtrag": _MTRAG,
    "mtrag-un": _MTRAG,
    "mtrag-s": _MTRAG,
    "inscoqa": (BuiltIn("generation", ("documents", "prompt", "rag"), "prepared:prepare_inscoqa"),),
    "compound-qa": (
        BuiltIn(
            "generation",
            ("decompose", "vanilla", "cot", "few-shot", "dialogue", "positions"),
            "prepared:prepare_compound",
            unnamed="decompose",  # as before there were others, so that such runs stay comparable
        ),
    ),
    "kiwi": (
        BuiltIn("revise", (), "prepared:prepare_kiwi"),
        BuiltIn("judge", _JUDGE_SETTINGS, "prepared:prepare_kiwi", measures_judges=True),
        BuiltIn("analyse", (), "prepared:prepare_kiwi", measures_judges=True),
    ),
}
"""Our benchmarks, each with its tasks, the default first."""


def names() -> list[str]:
    """The names that `eval` knows without importing anything."""
    return [*BENCHMARKS, *(point.name for point in importlib.metadata.entry_points(group=GROUP)), "all"]


def tasks(benchmark: str) -> tuple[AnyTask, ...]:
    """The tasks of a benchmark, the default first; none where there is no such benchmark."""
    if benchmark in BENCHMARKS:
        return BENCHMARKS[benchmark]
    try:
        return load_tasks(benchmark)
    except RequestError:  # told once, by `refusals`
        return ()


@lru_cache(maxsize=8)
def load_tasks(benchmark: str) -> tuple[AnyTask, ...]:
    """The tasks of a benchmark that is not ours; none where there is no such one.

    Raises:
        RequestError: it cannot be imported, or gives no task.
    """
    from turnmark.corpora.specs import load_python
    from turnmark.evaluation.benchmarks.task import Task

    kind, _, argument = benchmark.partition(":")
    point = next(
        (candidate for candidate in importlib.metadata.entry_points(group=GROUP) if candidate.name == benchmark), None
    )
    if point is not None:
        factory = load_python(point.value, "benchmark")
    elif kind == "python":
        factory = load_python(argument, "benchmark")
    else:
        return ()
    result = factory()
    found_tasks = (result,) if isinstance(result, Task) else tuple(result)
    if not found_tasks or not all(isinstance(task, Task) for task in found_tasks):
        raise RequestError(f"benchmark {benchmark!r}: a Task, or several, were expected from {factory!r}")
    return found_tasks


def task_names(benchmark: str) -> tuple[str, ...]:
    """Names of the tasks of a benchmark, the default first."""
    return tuple(task.name for task in tasks(benchmark))


def find_task(benchmark: str, name: str | None) -> AnyTask | None:
    """A task by its name; None: the benchmark's first. None where there is no such one."""
    return next((task for task in tasks(benchmark) if name is None or task.name == name), None)


def measures_judges(benchmark: str, name: str | None) -> bool:
    """Whether a task measures judges, so that `--judge` names what is measured."""
    return name is not None and bool(getattr(find_task(benchmark, name), "measures_judges", False))


def task_of(benchmark: str, name: str | None) -> str:
    """The name of the task that is meant."""
    return name or next(iter(task_names(benchmark)), "generation")


def setting_of(benchmark: str, name: str | None, errors: ErrorCollector, task: str | None = None) -> str | None:
    """The setting that is meant; None where it is the unnamed one, there is none, or another was asked for."""
    known_task = find_task(benchmark, task) or find_task(benchmark, None)
    settings = known_task.settings if known_task is not None else ()
    if name is not None and name not in settings:
        has = f"it has: {', '.join(settings)}" if settings else "it has no settings; leave it out"
        errors.add(f"--setting: {benchmark} has no setting {name!r}; {has}")
        return None
    setting = name or (settings[0] if settings else None)
    return None if setting == getattr(known_task, "unnamed", None) else setting


def prepare(request: Any, setting: str | None, errors: ErrorCollector, scoring: bool = False) -> Prepared | None:
    """Find and check the data of a request.

    Args:
        request: an `EvalRequest`.
        scoring: answers are there already: corpora are wanted only to look passages up, and may be missing.

    Returns:
        None where something was wrong, which is then taken down.
    """
    # A task that there is not has been said; whatever else is wrong is looked for with the first.
    task = find_task(request.benchmark, request.task) or find_task(request.benchmark, None)
    return task.prepare(request, setting, errors, scoring) if task is not None else None
