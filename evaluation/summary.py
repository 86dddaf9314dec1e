"""From scores to means: headline and breakdowns, each mean with its n, its failures and its interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from pydantic import Field

from corpora.types import Record
from evaluation.records import Breakdowns, Metrics, MetricSummary, Score
from evaluation.stats import mean_interval


class Facts(Record):
    """What is known of a task, apart from how it was scored."""

    cluster: str = Field(description="what is resampled as one: its conversation, session, source context")
    labels: Mapping[str, tuple[str, ...]] = Field(description="dimension -> values; counted under each of them")
    headline: bool = Field(default=True, description="False: stays out of the headline means")


def summarise(scores: Iterable[Score], facts: Mapping[str, Facts], seed: int) -> tuple[Metrics, Breakdowns]:
    """Headline metrics and every breakdown.

    Args:
        facts: task id -> facts, for every id among the scores.
        seed: of the bootstrap.

    Returns:
        Metrics in the order in which they first occur; dimensions in the order of the labels, their values sorted.
    """
    headline: list[Score] = []
    parts: dict[str, dict[str, list[Score]]] = defaultdict(lambda: defaultdict(list))
    for score in scores:
        about = facts[score.id]
        if about.headline:
            headline.append(score)
        for dimension, values in about.labels.items():
            for value in values:
                parts[dimension][value].append(score)
    breakdowns = {
        dimension: {value: _metrics(part, facts, seed) for value, part in sorted(values.items())}
        for dimension, values in parts.items()
    }
    return _metrics(headline, facts, seed), breakdowns


def _metrics(scores: Sequence[Score], facts: Mapping[str, Facts], seed: int) -> Metrics:
    by_metric: dict[str, list[Score]] = defaultdict(list)
    for score in scores:
        by_metric[score.metric].append(score)
    return {name: _one(group, facts, seed) for name, group in by_metric.items()}


def _one(scores: Sequence[Score], facts: Mapping[str, Facts], seed: int) -> MetricSummary:
    good = [score for score in scores if score.value is not None]
    mean, interval = None, None
    if good:
        values = [score.value for score in good if score.value is not None]
        mean, low, high = mean_interval(values, [facts[score.id].cluster for score in good], seed)
        interval = (low, high)
    return MetricSummary(
        mean=mean,
        ci95=interval,
        n=len(good),
        failed=sum(score.status == "failed" for score in scores),
        not_applicable=sum(score.status == "not_applicable" for score in scores),
    )
