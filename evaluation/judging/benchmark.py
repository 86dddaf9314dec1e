"""A benchmark whose samples are judged as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.types import Problem
from turnmark.evaluation.benchmarks.base import Benchmark, Item, Metric
from turnmark.evaluation.judging.judged import Judging
from turnmark.evaluation.records import Sample
from turnmark.evaluation.summary import Facts, Ranked


class Judged:
    """A benchmark as it is, with judges; see `turnmark.evaluation.benchmarks.base.Benchmark`."""

    def __init__(self, benchmark: Benchmark[Any], judging: Judging) -> None:
        self._benchmark, self.judging = benchmark, judging

    @property
    def metrics(self) -> Sequence[Metric[Any]]:
        """See `Benchmark.metrics`: those without a judge."""
        return self._benchmark.metrics

    def items(self) -> Iterator[Item | Problem]:
        """See `Benchmark.items`."""
        return self._benchmark.items()

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """See `Benchmark.answer`."""
        return self._benchmark.answer(item, generator)

    def context(self, item: Item, sample: Sample) -> Any:
        """See `Benchmark.context`."""
        return self._benchmark.context(item, sample)

    def facts(self, item: Item) -> Facts:
        """See `Benchmark.facts`."""
        return self._benchmark.facts(item)

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:
        """See `Benchmark.rankings`."""
        return self._benchmark.rankings(item, sample)
