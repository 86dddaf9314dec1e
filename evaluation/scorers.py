"""Who computes scores: this process or, where `--engine` names a cluster, its workers
(`turnmark.evaluation.spread`).
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turnmark.assistant.generators.base import Generator
from turnmark.evaluation.benchmarks.base import Benchmark, Case, Item, attempted, measured
from turnmark.evaluation.judging.judgements import Outcome
from turnmark.evaluation.records import Sample, Score

if TYPE_CHECKING:
    from turnmark.evaluation.judging.rubrics import Rubric

T = TypeVar("T")
Question = tuple[str, str, Case]
"""Name of a measure, name of a judge without a language model, what it judges."""
TimedOutcome = tuple[Outcome, float]
"""What a judge says, and the seconds that it took."""


class Scorers(Protocol):
    """Who computes the scores of samples elsewhere; each value is that of `measured_here`, or of `judged_here`."""

    def measured(
        self, benchmark: Benchmark[Any], samples: Iterator[tuple[Item, Sample]]
    ) -> Iterator[tuple[Item, Sample, list[Score]]]:
        """The metrics of each sample, in the order of the samples.

        Raises:
            TurnmarkError: there is no cluster, or it went.
        """
        ...

    def judged(self, cases: Iterator[tuple[T, Question]]) -> Iterator[tuple[T, TimedOutcome]]:
        """What judges without a language model say, in no order.

        Args:
            cases: a name for the caller, and what is asked; what is asked about one case comes together.

        Raises:
            TurnmarkError: there is no cluster, or it went.
        """
        ...


def measured_here(
    benchmark: Benchmark[Any], samples: Iterator[tuple[Item, Sample]]
) -> Iterator[tuple[Item, Sample, list[Score]]]:
    """See `Scorers.measured`."""
    for item, sample in samples:
        yield item, sample, measured(benchmark.metrics, sample, partial(benchmark.context, item, sample))


def judged_here(rubric: Rubric, judge: Generator, case: Case, prompts: Path | None = None) -> TimedOutcome:
    """What a judge says of a case. What it brings about fails its verdict, and nothing else."""
    began = time.perf_counter()
    outcome, failure = attempted(partial(rubric.ask, judge, case, prompts))
    return outcome or Outcome(status="failed", kind="error", reason=failure), time.perf_counter() - began
