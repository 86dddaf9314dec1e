"""From scores to means: headline and breakdowns, each mean with its n, its failures and its interval.

A `Tally` is told of one sample after the other and keeps numbers in arrays, no records: some 30 bytes a score.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.evaluation.records import Breakdowns, Metrics, MetricSummary, Score

if TYPE_CHECKING:
    from turnmark.evaluation.stats import Figure, Ints

Ranked = tuple[bool, float] | list[tuple[bool, float]]
"""Whether a sample is positive, and its score; a list where it brings in others, such as both halves of a pair."""

_SCORED, _FAILED, _NOT_APPLICABLE = 0, 1, 2
_STATUS = {"scored": _SCORED, "failed": _FAILED, "not_applicable": _NOT_APPLICABLE}


_CLUSTERS: Mapping[str, tuple[str, str]] = {
    "kiwi": ("question", "questions"),
    "compound-qa": ("source context", "source contexts"),
    "inscoqa": ("set of documents", "sets of documents"),
}


def clusters_of(benchmark: str, count: int = 2) -> str:
    """What samples of a benchmark are resampled as one, in words."""
    return _CLUSTERS.get(benchmark, ("conversation", "conversations"))[count != 1]


class Facts(Record):
    """What is known of a task, apart from how it was scored."""

    cluster: str = Field(description="what is resampled as one: its conversation, session, source context")
    labels: Mapping[str, tuple[str, ...]] = Field(description="dimension -> values; counted under each of them")
    headline: bool = Field(default=True, description="False: stays out of the headline means")


@dataclass
class _Ranking:
    """Samples that one AUROC metric ranks, in the order of the data."""

    samples: array[int] = field(default_factory=lambda: array("I"))
    positive: array[int] = field(default_factory=lambda: array("B"))
    scores: array[float] = field(default_factory=lambda: array("d"))


class Tally:
    """Adds up samples, in the order of the data, into headline metrics and breakdowns.

    The mean of a metric is sum(weight * value) / sum(weight) over its scored lines; `n` counts those lines. Intervals
    resample the clusters that hold one (`turnmark.evaluation.stats`), taken in the order in which they first occur.

    A metric that is ranked has as its mean the area under the ROC curve over the samples it ranks, of which `n` is the
    number. Where one of the classes is missing there is no area: n is 0, and all of them are not applicable.
    """

    def __init__(self, seed: int) -> None:
        """An empty tally.

        Args:
            seed: of the bootstrap.
        """
        self._seed = seed
        self._names: dict[str, int] = {}
        self._clusters: dict[str, int] = {}
        self._cluster = array("I")  # of each sample
        self._ends = array("Q")  # of each sample, among the lines
        self._metric, self._status = array("I"), array("B")  # of each line, as are the next two
        self._values, self._weights = array("d"), array("d")
        self._headline = array("I")
        self._parts: dict[str, dict[str, array[int]]] = {}
        self._rankings: dict[str, _Ranking] = {}

    def add(self, scores: Sequence[Score], facts: Facts, rankings: Mapping[str, Ranked] | None = None) -> None:
        """Take in everything of one sample (one id and repeat).

        Args:
            rankings: AUROC metric -> whether the sample is positive, and its score: higher means more likely positive.
                What is ranked counts in the headline whatever `facts.headline` says.

        Raises:
            ValueError: a ranking's score is NaN, or a metric has both values and rankings; nothing was taken in.
        """
        placed = {name: places if isinstance(places, list) else [places] for name, places in (rankings or {}).items()}
        self._check(scores, placed)
        if not scores and not placed:
            return
        sample = len(self._cluster)
        self._cluster.append(self._clusters.setdefault(facts.cluster, len(self._clusters)))
        for score in scores:
            self._metric.append(self._names.setdefault(score.metric, len(self._names)))
            self._status.append(_STATUS[score.status])
            self._values.append(0.0 if score.value is None else score.value)
            self._weights.append(score.weight)
        self._ends.append(len(self._metric))
        for name, places in placed.items():
            ranking = self._rankings.setdefault(name, _Ranking())
            for positive, place in places:
                ranking.samples.append(sample)
                ranking.positive.append(positive)
                ranking.scores.append(place)
        if facts.headline:
            self._headline.append(sample)
        for dimension, values in facts.labels.items():
            for value in dict.fromkeys(values):
                self._parts.setdefault(dimension, {}).setdefault(value, array("I")).append(sample)

    def metrics(self) -> Metrics:
        """The headline, over the samples that belong there.

        Returns:
            Metrics in the order in which they first occur, those that are ranked after the others.
        """
        return self._summary(self._headline, headline=True)

    def breakdowns(self) -> Breakdowns:
        """Dimension -> value -> metrics; dimensions in the order of the labels, values sorted.

        A value is over its samples of the headline; one that no sample of the headline has (CONVERSATIONAL) over all.
        """
        headline = frozenset(self._headline)
        return {
            dimension: {
                value: self._summary(array("I", (n for n in part if n in headline)) or part)
                for value, part in sorted(values.items())
            }
            for dimension, values in self._parts.items()
        }

    def _check(self, scores: Sequence[Score], rankings: Mapping[str, list[tuple[bool, float]]]) -> None:
        for name, places in rankings.items():
            if any(math.isnan(value) for _, value in places):
                raise ValueError(f"{name}: a sample is ranked by NaN")
        measured = {score.metric for score in scores}
        ambiguous = [name for name in rankings if name in self._names or name in measured]
        ambiguous += [name for name in measured if name in self._rankings]
        if ambiguous:
            raise ValueError(f"{', '.join(sorted(ambiguous))}: a metric has either values or rankings")

    def _summary(self, samples: array[int], headline: bool = False) -> Metrics:
        import numpy as np

        from turnmark.evaluation.stats import intervals

        if not samples and not (headline and self._rankings):
            return {}
        indices = np.array(samples, dtype=np.uint32)
        figures_by_name: dict[str, tuple[Figure | None, int, int, int]] = {}
        for name, figure, *counts in (*self._means(indices), *self._areas(None if headline else indices)):
            figures_by_name[name] = (figure, counts[0], counts[1], counts[2])
        figures = [figure for figure, *_ in figures_by_name.values() if figure is not None]
        bounds = iter(intervals(figures, self._seed))
        return {
            name: MetricSummary(
                mean=None if figure is None else figure.value,
                ci95=None if figure is None else next(bounds),
                n=n,
                failed=failed,
                not_applicable=not_applicable,
                clusters=None if figure is None else figure.clusters,
            )
            for name, (figure, n, failed, not_applicable) in figures_by_name.items()
        }

    def _means(self, samples: Ints) -> Iterator[tuple[str, Figure | None, int, int, int]]:
        """Name, mean, scored, failed and not applicable lines of every metric of these samples, as they first occur."""
        import numpy as np

        from turnmark.evaluation.stats import Mean

        if not self._metric:
            return
        ends = np.frombuffer(self._ends, dtype=np.uint64).astype(np.int64)
        lengths = np.diff(ends, prepend=0)[samples]
        lines = np.arange(lengths.sum()) + np.repeat(ends[samples] - np.cumsum(lengths), lengths)
        clusters = np.repeat(np.frombuffer(self._cluster, dtype=np.uint32)[samples], lengths)
        codes = np.frombuffer(self._metric, dtype=np.uint32)[lines]
        statuses = np.frombuffer(self._status, dtype=np.uint8)[lines]
        values, weights = np.frombuffer(self._values), np.frombuffer(self._weights)
        names = list(self._names)
        present, first = np.unique(codes, return_index=True)
        for code in present[np.argsort(first)].tolist():
            rows = codes == code
            _, failed, not_applicable = np.bincount(statuses[rows], minlength=3).tolist()
            rows &= statuses == _SCORED
            at = lines[rows]
            mean = Mean.of(values[at], clusters[rows], weights[at]) if len(at) else None
            yield names[code], mean, len(at), failed, not_applicable

    def _areas(self, samples: Ints | None) -> Iterator[tuple[str, Figure | None, int, int, int]]:
        """The same of every ranked metric of these samples; None: of all."""
        import numpy as np

        from turnmark.evaluation.stats import Auroc

        ranked_metrics: list[tuple[int, str, Ints]] = []
        for name, ranking in self._rankings.items():
            ranked = np.frombuffer(ranking.samples, dtype=np.uint32)
            rows = np.arange(len(ranked)) if samples is None else np.flatnonzero(np.isin(ranked, samples))
            if len(rows):
                ranked_metrics.append((ranking.samples[rows[0]], name, rows))
        clusters = np.frombuffer(self._cluster, dtype=np.uint32)
        for _, name, at in sorted(ranked_metrics, key=lambda entry: entry[0]):
            ranking = self._rankings[name]
            positive = np.frombuffer(ranking.positive, dtype=np.uint8)[at].astype(bool)
            ranked = np.frombuffer(ranking.samples, dtype=np.uint32)[at]
            area = Auroc.of(positive, np.frombuffer(ranking.scores)[at], clusters[ranked])
            if area is None:
                yield name, None, 0, 0, len(at)
            else:
                yield name, area, len(at), 0, 0
