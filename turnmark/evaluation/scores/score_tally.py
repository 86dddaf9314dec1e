"""Aggregate scores into the headline metrics and breakdowns, each mean with its n, failures and interval.

`facts.jsonl` has the cluster and labels of each sample, so that a finished run can be compared without its data:

    {"id": "…", "cluster": "…", "labels": {"domain": ["clapnq"], "turn": ["later"]}, "headline": true}
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import stdev

import numpy as np
from pydantic import Field, ValidationError

from turnmark.core.record import Record
from turnmark.evaluation.metric_style import LEAD_MARGIN_SUFFIX, MetricStyle, find_style
from turnmark.evaluation.records import Breakdowns, Metrics, MetricSummary, Score
from turnmark.evaluation.scores.cluster_statistics import (
    Bools,
    ClusterStatistic,
    Floats,
    Ints,
    auroc_statistic,
    intervals,
    mean_statistic,
)
from turnmark.evaluation.scores.derived_figures import derive
from turnmark.evaluation.storage.journal import json_line, open_atomic

RankedOutcome = tuple[bool, float] | list[tuple[bool, float]]
"""Whether a sample is positive, and its score; a list for several pairs, such as both halves of a comparison."""

_SCORED, _FAILED, _NOT_APPLICABLE = 0, 1, 2
_STATUS = {"scored": _SCORED, "failed": _FAILED, "not_applicable": _NOT_APPLICABLE}


class Facts(Record):
    """The cluster and the labels of a task."""

    cluster: str = Field(description="unit of the bootstrap: conversation, session, source context")
    labels: Mapping[str, tuple[str, ...]] = Field(description="dimension -> values; the task counts under each value")
    headline: bool = Field(default=True, description="False: not counted in the headline means")


class _FactsLine(Facts):
    id: str


FACTS_FILE = "facts.jsonl"


@contextmanager
def write_facts(run: Path) -> Iterator[Callable[[str, Facts], object]]:
    """Yield a function that writes the facts of an item; the file is replaced atomically at the end."""
    with open_atomic(run / FACTS_FILE) as file:
        yield lambda name, facts: file.write(json_line(_FactsLine(id=name, **dict(facts))))


def read_facts(run: Path) -> dict[str, Facts] | None:
    """Return task id -> facts, or None if the file is missing or cannot be read."""
    if not (run / FACTS_FILE).is_file():
        return None
    try:
        lines = [_FactsLine.model_validate_json(line) for line in (run / FACTS_FILE).read_bytes().splitlines()]
    except ValidationError:
        return None
    return {line.id: Facts(cluster=line.cluster, labels=line.labels, headline=line.headline) for line in lines}


class SampleHashes:
    """Hashes of the sample ids behind a run's figures, in the order of the data: one for all and for each part."""

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}

    def add(self, name: str, facts: Facts) -> None:
        """Add a sample of the headline. Others are ignored, because runs do not share statistics over them."""
        if not facts.headline:
            return
        parts = ["all"]
        for dimension, values in facts.labels.items():
            parts += [f"{dimension}={value}" for value in dict.fromkeys(values)]
        for part in parts:
            self._digests.setdefault(part, hashlib.sha256()).update(f"{name}\0".encode())

    def hashes(self) -> dict[str, str]:
        """Return `all` or `dimension=value` -> the first 16 digits of the hash."""
        return {part: digest.hexdigest()[:16] for part, digest in self._digests.items()}


@dataclass
class _Counts:
    """A metric over some samples, without its interval."""

    statistic: ClusterStatistic | None
    n: int
    failed: int = 0
    not_applicable: int = 0
    repeats: tuple[float | None, ...] = ()


class ScoreTally:
    """Samples, in the order of the data, aggregated to headline metrics and breakdowns; about 30 bytes per score.

    The mean of a metric is sum(weight * value) / sum(weight) over its scored lines; `n` counts these lines. Intervals
    resample the clusters with scored lines (`turnmark.evaluation.scores.cluster_statistics`), including the repeats of
    a sample.

    The mean of a ranked metric is the area under the ROC curve over its samples, whose number is `n`. If one of the two
    classes is missing, n is 0 and all samples are not applicable.

    Args:
        seed: random seed of the bootstrap.
        shown: metric -> display style, for metrics that are not plain fractions.
    """

    def __init__(self, seed: int, shown: Mapping[str, MetricStyle] | None = None) -> None:
        self._seed = seed
        self._shown = shown or {}
        self._names: dict[str, int] = {}
        self._clusters: dict[str, int] = {}
        # For each sample: cluster, repeat, and the end of its lines.
        self._cluster, self._repeat = array("I"), array("I")
        self._ends = array("Q")
        # For each line.
        self._metric, self._status = array("I"), array("B")
        self._values, self._weights = array("d"), array("d")
        # Samples in the headline, and in each part: dimension -> value -> samples.
        self._headline = array("I")
        self._parts: dict[str, dict[str, array[int]]] = {}
        # Ranked metric -> (sample, positive or not, score).
        self._rankings: dict[str, list[tuple[int, bool, float]]] = {}

    def add(
        self,
        scores: Sequence[Score],
        facts: Facts,
        rankings: Mapping[str, RankedOutcome] | None = None,
        repeat: int = 0,
    ) -> None:
        """Add all scores of one sample (one id and repeat).

        Args:
            rankings: AUROC metric -> whether the sample is positive, and its score: higher means more likely positive,
                no NaN. Rankings count in the headline even if `facts.headline` is False.
        """
        if not scores and not rankings:
            return
        sample = len(self._cluster)
        self._cluster.append(self._clusters.setdefault(facts.cluster, len(self._clusters)))
        self._repeat.append(repeat)
        for score in scores:
            self._metric.append(self._names.setdefault(score.metric, len(self._names)))
            self._status.append(_STATUS[score.status])
            self._values.append(0.0 if score.value is None else score.value)
            self._weights.append(score.weight)
        self._ends.append(len(self._metric))
        for name, pairs in (rankings or {}).items():
            for positive, value in pairs if isinstance(pairs, list) else [pairs]:
                self._rankings.setdefault(name, []).append((sample, positive, value))
        if facts.headline:
            self._headline.append(sample)
        for dimension, values in facts.labels.items():
            for label in dict.fromkeys(values):
                self._parts.setdefault(dimension, {}).setdefault(label, array("I")).append(sample)

    def metrics(self) -> Metrics:
        """Return the metrics over the samples of the headline, in order of first use, ranked metrics last."""
        return self._summarize(self._headline, headline=True)

    def breakdowns(self) -> Breakdowns:
        """Return dimension -> value -> metrics; dimensions in the order of the labels, values sorted.

        A value is over its samples in the headline or, if it has none there (CONVERSATIONAL), over all of them.
        """
        headline = frozenset(self._headline)
        breakdowns: Breakdowns = {}
        for dimension, values in self._parts.items():
            breakdowns[dimension] = {}
            for value, samples in sorted(values.items()):
                in_headline = array("I", filter(headline.__contains__, samples))
                breakdowns[dimension][value] = self._summarize(in_headline or samples)
        return breakdowns

    def _summarize(self, samples: array[int], headline: bool = False) -> Metrics:
        if not samples and not (headline and self._rankings):
            return {}
        indices = np.array(samples, dtype=np.uint32)
        counts = {**dict(self._means(indices)), **dict(self._areas(None if headline else indices))}
        statistics = {name: count.statistic for name, count in counts.items() if count.statistic is not None}
        bounds = intervals(list(statistics.values()), self._seed)
        # With too few clusters both bounds are the statistic itself, and reports say that there is no interval.
        of_statistics = zip(statistics.items(), bounds, strict=True)
        ci95 = {name: bound or (statistic.value, statistic.value) for (name, statistic), bound in of_statistics}
        metrics = {
            name: MetricSummary(
                mean=count.statistic.value if count.statistic else None,
                ci95=ci95.get(name),
                n=count.n,
                failed=count.failed,
                not_applicable=count.not_applicable,
                clusters=count.statistic.clusters if count.statistic else None,
                repeats=count.repeats,
                spread=_spread(count.repeats),
                shown=self._style(name, headline),
            )
            for name, count in counts.items()
        }
        for name, (value, n) in derive(metrics, partial(self._pairs, indices)).items():
            metrics[name] = MetricSummary(
                mean=value, ci95=(value, value), n=n, failed=0, not_applicable=0, clusters=0,
                shown=self._style(name, headline),
            )  # fmt: skip
        return metrics

    def _pairs(self, samples: Ints, first: str, second: str) -> tuple[Floats, Floats]:
        """Return the values of two metrics over the samples that have both."""
        codes, pairs = (self._names[first], self._names[second]), list[tuple[float, float]]()
        for sample in samples.tolist():
            lines = range(self._ends[sample - 1] if sample else 0, self._ends[sample])
            values = {self._metric[line]: self._values[line] for line in lines if self._status[line] == _SCORED}
            if values.keys() >= set(codes):
                pairs.append((values[codes[0]], values[codes[1]]))
        both = np.array(pairs, dtype=float).reshape(-1, 2)
        return both[:, 0], both[:, 1]

    def _style(self, name: str, headline: bool) -> MetricStyle:
        """Return the display style of a metric, which has a rank only in the headline."""
        shown = find_style(name, self._shown)
        return shown if headline else shown.model_copy(update={"headline": None})

    def _means(self, samples: Ints) -> Iterator[tuple[str, _Counts]]:
        """Yield every metric of these samples, in order of first use."""
        if not self._metric:
            return
        ends = np.frombuffer(self._ends, dtype=np.uint64).astype(np.int64)
        lengths = np.diff(ends, prepend=0)[samples]
        lines = np.arange(lengths.sum()) + np.repeat(ends[samples] - np.cumsum(lengths), lengths)
        clusters = np.repeat(np.frombuffer(self._cluster, dtype=np.uint32)[samples], lengths)
        repeats = np.repeat(np.frombuffer(self._repeat, dtype=np.uint32)[samples], lengths)
        codes = np.frombuffer(self._metric, dtype=np.uint32)[lines]
        statuses = np.frombuffer(self._status, dtype=np.uint8)[lines]
        values, weights = np.frombuffer(self._values)[lines], np.frombuffer(self._weights)[lines]

        def mean(rows: Bools, share: bool) -> ClusterStatistic | None:
            return mean_statistic(values[rows], clusters[rows], weights[rows], share) if rows.any() else None

        names = list(self._names)
        present, first = np.unique(codes, return_index=True)
        for code in present[np.argsort(first)].tolist():
            rows = codes == code
            n, failed, not_applicable = np.bincount(statuses[rows], minlength=3).tolist()
            rows &= statuses == _SCORED
            share = find_style(names[code], self._shown).fraction and not names[code].endswith(LEAD_MARGIN_SUFFIX)
            mean_of = partial(mean, share=share)
            by_repeat = self._by_repeat(mean_of, rows, repeats)
            yield names[code], _Counts(mean_of(rows), n, failed, not_applicable, by_repeat)

    def _areas(self, samples: Ints | None) -> Iterator[tuple[str, _Counts]]:
        """Yield every ranked metric of these samples (None: of all), in order of first use."""
        clusters = np.frombuffer(self._cluster, dtype=np.uint32)
        repeats = np.frombuffer(self._repeat, dtype=np.uint32)
        areas: list[tuple[int, str, _Counts]] = []
        for name, ranking in self._rankings.items():
            ranked, positive, scores = map(np.array, zip(*ranking, strict=True))
            chosen = np.ones(len(ranked), dtype=bool) if samples is None else np.isin(ranked, samples)
            if not chosen.any():
                continue

            area = partial(_area_of, positive, scores, clusters[ranked])
            statistic, n = area(chosen), int(chosen.sum())
            by_repeat = self._by_repeat(area, chosen, repeats[ranked])
            counts = _Counts(statistic, n, repeats=by_repeat) if statistic else _Counts(None, 0, not_applicable=n)
            areas.append((int(ranked[chosen][0]), name, counts))
        areas.sort(key=lambda area: area[0])
        for _, name, counts in areas:
            yield name, counts

    def _by_repeat(
        self, compute: Callable[[Bools], ClusterStatistic | None], rows: Bools, repeats: Ints
    ) -> tuple[float | None, ...]:
        """Return the statistic of each repeat; empty if tasks were answered once."""
        count = max(self._repeat) + 1
        if count == 1:
            return ()
        statistics = [compute(rows & (repeats == repeat)) for repeat in range(count)]
        return tuple(statistic.value if statistic else None for statistic in statistics)


def _area_of(positive: Bools, scores: Floats, clusters: Ints, rows: Bools) -> ClusterStatistic | None:
    return auroc_statistic(positive[rows], scores[rows], clusters[rows]) if rows.any() else None


def _spread(repeats: Sequence[float | None]) -> float | None:
    """Return the standard deviation (n - 1) of the repeats with a statistic, or None if there are fewer than two."""
    values = [value for value in repeats if value is not None]
    return stdev(values) if len(values) > 1 else None
