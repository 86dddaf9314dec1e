"""What judges are asked of each benchmark: a table of modules, one a benchmark, each loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from turnmark.evaluation.benchmarks.base import Item
from turnmark.evaluation.judging.records import Case
from turnmark.evaluation.records import Sample

if TYPE_CHECKING:
    from turnmark.evaluation.judging.measures import Measure

CaseOf = Callable[[Item, Sample, Any], Case]
"""Item, a sample of it that is done, what the metrics look at -> what is judged."""
MODULES: Mapping[str, str] = {
    "mtrag": "of_mtrag",
    "mtrag-un": "of_mtrag",
    "mtrag-s": "of_mtrag",
    "inscoqa": "of_inscoqa",
    "compound-qa": "of_compound_qa",
    "kiwi": "of_kiwi",
}
"""Benchmark -> the module of this package that says what its replies are judged by."""


@dataclass(frozen=True)
class Jury:
    """What judges are asked of the replies of one task of a benchmark.

    Attributes:
        measures: those whose names end in `[embedded]` are for the embedded judge, the others for language models.
        case: how a sample becomes what is judged.
    """

    measures: Sequence[Measure]
    case: CaseOf


def names_of(benchmark: str, task: str) -> tuple[str, ...]:
    """The judged metrics of a task, nothing heavy being loaded; empty where it has none."""
    if benchmark not in MODULES:
        return ()
    found: tuple[str, ...] = _module(benchmark).names(benchmark, task)
    return found


def jury_of(benchmark: str, task: str, setting: str | None, embedder: str) -> Jury | None:
    """What judges are asked of a task; None where it has nothing to judge.

    Args:
        embedder: spec of the run's embedder, for measures that compare texts.
    """
    if benchmark not in MODULES:
        return None
    made: Jury | None = _module(benchmark).jury(benchmark, task, setting, embedder)
    return made


def _module(benchmark: str) -> Any:
    return import_module(f"turnmark.evaluation.judging.{MODULES[benchmark]}")
