"""From scores to means: headline and breakdowns, each mean with its n, its failures and its interval.

`facts.jsonl` keeps which samples belong together, so that a finished run can be compared without its data:

    {"id": "…", "cluster": "…", "labels": {"domain": ["clapnq"], "turn": ["later"]}, "headline": true}
"""

from __future__ import annotations

import hashlib
import statistics
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from turnmark.core.record import Record
from turnmark.evaluation.records import Breakdowns, Metrics, MetricSummary, Score
from turnmark.evaluation.runs.journal import json_line, open_atomic
from turnmark.evaluation.scores.metric_info import MetricStyle, shown_as

if TYPE_CHECKING:
    from turnmark.evaluation.scores.stats import Bools, ClusterFigure, Floats, Ints

Ranked = tuple[bool, float] | list[tuple[bool, float]]
"""Whether a sample is positive, and its score; a list if it brings in others, such as both halves of a pair."""

_SCORED, _FAILED, _NOT_APPLICABLE = 0, 1, 2
_STATUS = {"scored": _SCORED, "failed": _FAILED, "not_applicable": _NOT_APPLICABLE}
_CLUSTERS: Mapping[str, tuple[str, str]] = {
    "kiwi": ("question", "questions"),
    "compound-qa": ("source context", "source contexts"),
    "inscoqa": ("set of documents", "sets of documents"),
}


def name_clusters(benchmark: str, count: int = 2) -> str:
    """What samples of a benchmark are resampled as one, in words."""
    return _CLUSTERS.get(benchmark, ("conversation", "conversations"))[count != 1]


def no_interval(benchmark: str) -> str:
    """What a report says if all samples depend on each other."""
    return f"one {name_clusters(benchmark, 1)}: no interval"


class Facts(Record):
    """What is known of a task, apart from how it was scored."""

    cluster: str = Field(description="what is resampled as one: its conversation, session, source context")
    labels: Mapping[str, tuple[str, ...]] = Field(description="dimension -> values; counted under each of them")
    headline: bool = Field(default=True, description="False: stays out of the headline means")


class _FactsLine(Facts):
    id: str


FACTS = "facts.jsonl"


@contextmanager
def write_facts(run: Path) -> Iterator[Callable[[str, Facts], object]]:
    """Write the facts of one item after the other; the file appears, or is replaced, when all of them are written."""
    with open_atomic(run / FACTS) as file:
        yield lambda name, facts: file.write(json_line(_FactsLine(id=name, **dict(facts))))


def read_facts(run: Path) -> dict[str, Facts] | None:
    """Task id -> facts; None if there is no such file, or it cannot be read."""
    if not (run / FACTS).is_file():
        return None
    try:
        lines = [_FactsLine.model_validate_json(line) for line in (run / FACTS).read_bytes().splitlines()]
    except ValidationError:
        return None
    return {line.id: Facts(cluster=line.cluster, labels=line.labels, headline=line.headline) for line in lines}


class SampleHashes:
    """Which samples a run's figures are over: a hash of their ids, in the order of the data, for each part."""

    def __init__(self) -> None:
        self._digests: dict[str, hashlib._Hash] = {}

    def add(self, name: str, facts: Facts) -> None:
        """Take in a sample of the headline; others are in no figure that runs share."""
        if not facts.headline:
            return
        values = [(dimension, value) for dimension, values in facts.labels.items() for value in values]
        for part in ("all", *(f"{dimension}={value}" for dimension, value in dict.fromkeys(values))):
            self._digests.setdefault(part, hashlib.sha256()).update(f"{name}\0".encode())

    def hashes(self) -> dict[str, str]:
        """`all`, `dimension=value` -> the first 16 digits."""
        return {part: digest.hexdigest()[:16] for part, digest in self._digests.items()}


@dataclass
class _Counts:
    """A metric over some samples, before its interval is known."""

    figure: ClusterFigure | None
    n: int
    failed: int = 0
    not_applicable: int = 0
    repeats: tuple[float | None, ...] = ()


class ScoreTally:
    """Adds up samples, in the order of the data, into headline metrics and breakdowns; some 30 bytes a score.

    The mean of a metric is sum(weight * value) / sum(weight) over its scored lines; `n` counts those lines. Intervals
    resample the clusters that hold one (`turnmark.evaluation.scores.stats`), the repeats of a sample with it.

    A metric that is ranked has as its mean the area under the ROC curve over the samples it ranks, of which `n` is the
    number. If one of the classes is missing there is no area: n is 0, and all of them are not applicable.

    Args:
        seed: of the bootstrap.
        shown: metric -> how it is shown, of those that are not plain fractions.
    """

    def __init__(self, seed: int, shown: Mapping[str, MetricStyle] | None = None) -> None:
        self._seed = seed
        self._shown = shown or {}
        self._names: dict[str, int] = {}
        self._clusters: dict[str, int] = {}
        self._cluster, self._repeat = array("I"), array("I")  # of each sample
        self._ends = array("Q")  # of each sample, among the lines
        self._metric, self._status = array("I"), array("B")  # of each line, as are the next two
        self._values, self._weights = array("d"), array("d")
        self._headline = array("I")
        self._parts: dict[str, dict[str, array[int]]] = {}
        self._rankings: dict[str, list[tuple[int, bool, float]]] = {}  # of a sample: positive or not, its score

    def add(
        self, scores: Sequence[Score], facts: Facts, rankings: Mapping[str, Ranked] | None = None, repeat: int = 0
    ) -> None:
        """Take in everything of one sample (one id and repeat).

        Args:
            rankings: AUROC metric -> whether the sample is positive, and its score: higher means more likely positive,
                no NaN. What is ranked counts in the headline whatever `facts.headline` says.
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
        """The headline, over the samples that belong there.

        Returns:
            Metrics in the order in which they first occur, those that are ranked after the others.
        """
        return self._summarise(self._headline, headline=True)

    def breakdowns(self) -> Breakdowns:
        """Dimension -> value -> metrics; dimensions in the order of the labels, values sorted.

        A value is over its samples of the headline; one that no sample of the headline has (CONVERSATIONAL) over all.
        """
        headline = frozenset(self._headline)
        return {
            dimension: {
                value: self._summarise(array("I", (n for n in part if n in headline)) or part)
                for value, part in sorted(values.items())
            }
            for dimension, values in self._parts.items()
        }

    def _summarise(self, samples: array[int], headline: bool = False) -> Metrics:
        import numpy as np

        from turnmark.evaluation.scores.stats import intervals

        if not samples and not (headline and self._rankings):
            return {}
        indices = np.array(samples, dtype=np.uint32)
        counts = {**dict(self._means(indices)), **dict(self._areas(None if headline else indices))}
        figures = [(name, count.figure) for name, count in counts.items() if count.figure is not None]
        bounds = intervals([figure for _, figure in figures], self._seed)
        # Of one cluster the file has the figure itself, and reports say that there is no interval.
        ci95 = {
            name: bound or (figure.value, figure.value) for (name, figure), bound in zip(figures, bounds, strict=True)
        }
        return {
            name: MetricSummary(
                mean=count.figure.value if count.figure else None,
                ci95=ci95.get(name),
                n=count.n,
                failed=count.failed,
                not_applicable=count.not_applicable,
                clusters=count.figure.clusters if count.figure else None,
                repeats=count.repeats,
                spread=_spread(count.repeats),
                shown=self._how(name, headline),
            )
            for name, count in counts.items()
        }

    def _how(self, name: str, headline: bool) -> MetricStyle:
        """How a metric is shown; only the headline's figures have a rank."""
        shown = shown_as(name, self._shown)
        return shown if headline else shown.model_copy(update={"headline": None})

    def _means(self, samples: Ints) -> Iterator[tuple[str, _Counts]]:
        """Every metric of these samples, as they first occur."""
        import numpy as np

        from turnmark.evaluation.scores.stats import mean_figure

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

        def mean(rows: Bools) -> ClusterFigure | None:
            return mean_figure(values[rows], clusters[rows], weights[rows]) if rows.any() else None

        names = list(self._names)
        present, first = np.unique(codes, return_index=True)
        for code in present[np.argsort(first)].tolist():
            rows = codes == code
            n, failed, not_applicable = np.bincount(statuses[rows], minlength=3).tolist()
            rows &= statuses == _SCORED
            yield names[code], _Counts(mean(rows), n, failed, not_applicable, self._by_repeat(mean, rows, repeats))

    def _areas(self, samples: Ints | None) -> Iterator[tuple[str, _Counts]]:
        """Every ranked metric of these samples, as they first occur; None: of all."""
        import numpy as np

        clusters, repeats = (np.frombuffer(side, dtype=np.uint32) for side in (self._cluster, self._repeat))
        areas: list[tuple[int, str, _Counts]] = []
        for name, ranking in self._rankings.items():
            ranked, positive, scores = map(np.array, zip(*ranking, strict=True))
            chosen = np.ones(len(ranked), dtype=bool) if samples is None else np.isin(ranked, samples)
            if not chosen.any():
                continue

            area = partial(_area_of, positive, scores, clusters[ranked])
            figure, n = area(chosen), int(chosen.sum())
            by_repeat = self._by_repeat(area, chosen, repeats[ranked])
            counts = _Counts(figure, n, repeats=by_repeat) if figure else _Counts(None, 0, not_applicable=n)
            areas.append((int(ranked[chosen][0]), name, counts))
        yield from ((name, counts) for _, name, counts in sorted(areas, key=lambda area: area[0]))

    def _by_repeat(
        self, compute: Callable[[Bools], ClusterFigure | None], rows: Bools, repeats: Ints
    ) -> tuple[float | None, ...]:
        """The figure of each repeat alone; empty if tasks were answered once."""
        count = max(self._repeat) + 1
        figures = [compute(rows & (repeats == repeat)) for repeat in range(count)] if count > 1 else []
        return tuple(figure.value if figure else None for figure in figures)


def _area_of(positive: Bools, scores: Floats, clusters: Ints, rows: Bools) -> ClusterFigure | None:
    from turnmark.evaluation.scores.stats import auroc_figure

    return auroc_figure(positive[rows], scores[rows], clusters[rows]) if rows.any() else None


def _spread(repeats: Sequence[float | None]) -> float | None:
    """The standard deviation of the repeats that have a figure (n - 1); None with fewer than two."""
    values = [value for value in repeats if value is not None]
    return statistics.stdev(values) if len(values) > 1 else None
