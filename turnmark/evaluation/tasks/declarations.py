"""Declarations of the benchmarks of this package, and access to the tables of benchmarks and syntheses.

The tables are in `turnmark.evaluation.benchmarks`. They name tasks and syntheses by `module:attribute`, so that reading
them imports no task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

TABLES_MODULE = "turnmark.evaluation.benchmarks"


@dataclass(frozen=True)
class JudgePreset:
    """The judges of a paper, which `--judge panel:NAME` opens.

    Attributes:
        first: the model that grades every judged metric, except those in `skipped`.
        others: models that grade only the metrics in `shared`.
        shared: metrics that all models grade.
        skipped: metrics that the first model does not grade.
        bertscore: whether BERTScore is one of the judges.
    """

    first: str
    others: tuple[str, ...] = ()
    shared: frozenset[str] = frozenset()
    skipped: frozenset[str] = frozenset()
    bertscore: bool = False


@dataclass(frozen=True)
class DeclaredBenchmark:
    """A benchmark of this package.

    Attributes:
        name: name on the command line.
        tasks: `module:attribute` of its task or tasks, the default first.
        data: `module:attribute` of the function that finds its data in a folder.
        options: `module:attribute` of the `TaskOptions` of its tasks.
        cluster: unit of the bootstrap, singular and plural.
        main: whether `eval all` runs its default task and setting.
        suite: further runs of the suite `full`: name of the run -> task and setting (None: the default).
        judges: the judges of its paper.
        examples: command lines for the help of `eval` and `score`.
        command: the command that runs it, if that is not `eval`; the help of `eval` does not list it.
    """

    name: str
    tasks: str
    data: str
    options: str
    cluster: tuple[str, str] = ("conversation", "conversations")
    main: bool = False
    suite: Mapping[str, tuple[str | None, str | None]] = field(default_factory=dict)
    judges: JudgePreset | None = None
    examples: tuple[str, ...] = ()
    command: str = "eval"

    def find_data(self, folder: Path | None) -> None:
        """Raise RequestError if the folder does not contain the benchmark's data."""
        locate: Callable[[Path | None], Any] = load(self.data)
        locate(folder)


def load(place: str) -> Any:
    """Return the attribute that `module:attribute` names."""
    module, _, attribute = place.partition(":")
    return getattr(import_module(module), attribute)


@cache
def benchmarks() -> Mapping[str, DeclaredBenchmark]:
    """Return the benchmarks of this package by name."""
    return {benchmark.name: benchmark for benchmark in load(f"{TABLES_MODULE}:BENCHMARKS")}


def evaluated_benchmarks() -> list[str]:
    """Return the names of the benchmarks of this package that `eval` runs."""
    return [name for name, declared in benchmarks().items() if declared.command == "eval"]


def name_clusters(benchmark: str = "", count: int = 2) -> str:
    """Return the word for the benchmark's clusters, singular for a count of 1; empty if the benchmark is unknown."""
    declared = benchmarks().get(benchmark)
    singular, plural = declared.cluster if declared else DeclaredBenchmark.cluster
    return singular if count == 1 else plural


def no_interval(count: int, benchmark: str = "") -> str:
    """Return the note of a report if all samples are in so few clusters that there is no interval and no test."""
    from turnmark.evaluation.scores.cluster_statistics import MIN_CLUSTERS

    number = "one" if count == 1 else str(count)
    return f"{number} {name_clusters(benchmark, count)}: no interval, which takes at least {MIN_CLUSTERS}"
