"""Scores by the workers of a run (`turnmark.evaluation.spread`): those that a model computes.

A worker is sent items and their samples, or cases, and sends back what this process would have made of them. It asks
no endpoint: judges that are language models stay in the process that the person started, with their keys and budget.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.judging.judge import METRICS, open_judges
from turnmark.evaluation.judging.judged import JudgedBenchmark, Judging
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.scorers import Question, TimedOutcome, judged, measured_here

if TYPE_CHECKING:
    from turnmark.evaluation import answers, generation
    from turnmark.retrieval.workers import Workers

BLOCK = 16
"""Samples that are measured as one."""
EACH = 2
"""Blocks, or cases, that a worker has at a time: one in work, one at hand."""
T = TypeVar("T")
Pairs = list[tuple[Item, Sample]]


class Pool(Protocol):
    """Workers that may not be there yet."""

    def opened(self) -> Workers[Any]:
        """The workers."""
        ...


class SpreadScores:
    """See `turnmark.evaluation.scorers.Scorers`.

    Metrics go to workers where a model works for one of them; all others take milliseconds a sample.
    """

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    def measured(
        self, benchmark: Benchmark[Any], samples: Iterator[tuple[Item, Sample]]
    ) -> Iterator[tuple[Item, Sample, list[Score]]]:
        """See `Scorers.measured`."""
        if not any(metric.heavy for metric in benchmark.metrics):
            yield from measured_here(benchmark, samples)
            return
        blocks = enumerate(iter(lambda: list(islice(samples, BLOCK)), []))
        first = next(blocks, None)
        if first is None:
            return
        tasks = ((block, ("measure", block[1])) for block in chain((first,), blocks))
        for block, scores in _in_order(self._pool.opened().spread(tasks, tasks_each=EACH)):
            for (item, sample), found in zip(block, scores, strict=True):
                yield item, sample, found

    def judged(self, asked: Iterator[tuple[T, Question]]) -> Iterator[tuple[T, TimedOutcome]]:
        """See `Scorers.judged`."""
        cases = (list(together) for _, together in groupby(asked, key=lambda one: one[1][2]))
        first = next(cases, None)
        if first is None:
            return
        named = (([name for name, _ in case], ("judge", [one for _, one in case])) for case in chain((first,), cases))
        for names, found in self._pool.opened().spread(named, tasks_each=EACH):
            yield from zip(names, found, strict=True)


def _in_order(found: Iterator[tuple[tuple[int, Pairs], T]]) -> Iterator[tuple[Pairs, T]]:
    """Numbered results, as soon as those before them are there."""
    early: dict[int, tuple[Pairs, T]] = {}
    following = 0
    for (number, pairs), result in found:
        early[number] = (pairs, result)
        while following in early:
            yield early.pop(following)
            following += 1


# --- on a worker -----------------------------------------------------------------------------------------------------


def scoring_there(benchmark: Benchmark[Any]) -> Mapping[str, Callable[..., Any]]:
    """What a worker does for the scores of a benchmark, by the first word of a task."""

    def measure(pairs: Pairs) -> list[list[Score]]:
        return [scores for _, _, scores in measured_here(benchmark, iter(pairs))]

    def judge(asked: Sequence[Question]) -> list[TimedOutcome]:
        assert isinstance(benchmark, JudgedBenchmark), "its judges were sent along"
        judging: Judging = benchmark.judging
        measures = {one.name: one for one in judging.rubrics}
        judges = {one.name: one for one in judging.judges}
        return [judged(measures[measure], judges[judge].generator, case) for measure, judge, case in asked]

    return {"measure": measure, "judge": judge}


# --- what is sent ----------------------------------------------------------------------------------------------------


def without_models(specs: Sequence[str]) -> tuple[str, ...]:
    """The specs of those judges that are no language models; panels resolved."""
    from turnmark.corpora.specs import parse_spec

    found = []
    for judge in open_judges(specs):
        if not judge.has_model:
            spec = parse_spec(judge.name)
            chosen = {METRICS: ",".join(sorted(judge.metrics))} if judge.metrics is not None else {}
            found.append(str(replace(spec, options={**spec.options, **chosen})))
    return tuple(found)


def mark_of_judges(made: generation.Plan | answers.Plan) -> str:
    """A line for each metric of judges without a language model, with what they measure by.

    Args:
        made: with its judges (`turnmark.evaluation.judging.mounting.judged`).
    """
    from turnmark.evaluation.benchmarks.turns import Parts

    benchmark = made.prepared.build(Parts(), {}) if made.request.judge else None
    if not isinstance(benchmark, JudgedBenchmark):
        return ""
    judges = [judge for judge in benchmark.judging.judges if not judge.has_model]
    measures = [one for one in benchmark.judging.rubrics if any(judge.grades(one.name) for judge in judges)]
    return "".join(f"\n{one.name} {one.by} {hashlib.sha256(one.extra.encode()).hexdigest()[:16]}" for one in measures)
