"""Measure agreement: means by system, agreement between raters, correlations, and verdicts compared with labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.evaluation.agreement.compared_answers import ComparedAnswer, Rows, gather
from turnmark.evaluation.agreement.verdict_agreement import (
    RESAMPLES,
    SEED,
    Verdicts,
    judge_verdicts,
    number_conversations,
)
from turnmark.evaluation.scores.cluster_statistics import (
    MIN_CLUSTERS,
    ClusterStatistic,
    alpha_statistic,
    correlation_statistic,
    intervals,
    mean_statistic,
)
from turnmark.evaluation.tasks.data_notes import problem_notes
from turnmark.evaluation.tasks.declarations import no_interval

Subset = Literal["all", "answerable and partial", "answerable"]
Systems = Literal["all", "without the reference"]
REFERENCE = "reference"
"""Name of the system whose answers are the references of reference-based metrics."""


class Estimate(Record):
    """A statistic and its 95% interval over conversations."""

    value: float
    ci95: tuple[float, float] | None = Field(description="None: too few conversations")


class SystemMeans(Record):
    """Mean ratings and scores of one system over a subset of its answers."""

    system: str
    subset: Subset
    n: int
    conversations: int
    people: dict[str, Estimate] = Field(description="property -> mean of the raters' medians; FANC: harmonic means")
    metrics: dict[str, Estimate]


class Annotators(Record):
    """Agreement of three raters (MTRAG appendix E)."""

    n: int = Field(description="answers with three ratings")
    fewer: int = Field(description="rated answers with a different number of ratings; left out")
    point: float = Field(description="step of the rating scale")
    absolute: float = Field(description="share of answers with three equal ratings")
    two_equal: float = Field(description="share of answers with at least two equal ratings")
    agreeing: float = Field(description="share with three equal ratings, or two equal and the third one point off")
    alpha: float | None = Field(description="Krippendorff's alpha, interval level, over all ratings")
    alpha_ci95: tuple[float, float] | None = Field(
        description="bootstrap over conversations, or None for a single conversation, or if there is no alpha"
    )


class MetricCorrelation(Record):
    """Spearman's correlation of a metric with the reference scores."""

    metric: str
    against: str
    subset: Subset
    systems: Systems
    n: int
    conversations: int
    plain: Estimate | None = Field(description="None if one of the two does not vary")
    weighted: Estimate | None = Field(description="each row's weight is 1 / frequency of its reference score")


class Agreement(Record):
    """The result of `turnmark agreement`."""

    sources: tuple[str, ...]
    n: int
    conversations: int
    systems: dict[str, str]
    properties: tuple[str, ...]
    metrics: tuple[str, ...]
    means: tuple[SystemMeans, ...]
    annotators: dict[str, Annotators]
    correlations: tuple[MetricCorrelation, ...]
    verdicts: tuple[Verdicts, ...]
    notes: tuple[str, ...]


def measure_agreement(paths: Sequence[Path]) -> Agreement:
    """Compute all measurements that these files and runs allow.

    Raises:
        RequestError: they contain nothing to compare.
    """
    rows = gather(paths)
    answers = rows.answers
    conversations = len({answer.conversation for answer in answers})
    notes = [no_interval(conversations)] if conversations < MIN_CLUSTERS else []
    most = max((len(ratings) for answer in answers for ratings in answer.ratings.values()), default=3)
    if most < 3:
        notes.append(f"agreement of raters needs three ratings per answer; here answers have at most {most}")
    notes += [*problem_notes(rows.problems), *rows.notes]
    result = Agreement(
        sources=tuple(rows.sources),
        n=len(answers),
        conversations=conversations,
        systems=rows.systems,
        properties=tuple(rows.properties),
        metrics=tuple(rows.metrics),
        means=tuple(_means(rows)),
        annotators=dict(_annotators(rows)),
        correlations=tuple(_correlations(rows)),
        verdicts=tuple(judge_verdicts(rows)),
        notes=tuple(notes),
    )
    if not (result.properties or result.correlations or result.verdicts):
        raise RequestError(
            "there is nothing to compare: name a file with ratings of people next to the run, or a run whose tasks are "
            "labeled and whose answers are judged"
        )
    return result


_LABELS: Mapping[Subset, tuple[str, ...]] = {
    "answerable": ("ANSWERABLE",),
    "answerable and partial": ("ANSWERABLE", "PARTIAL"),
}


def _is_in(subset: Subset, answer: ComparedAnswer) -> bool:
    return subset == "all" or answer.answerability in _LABELS[subset]


def _subsets(answers: Iterable[ComparedAnswer]) -> list[Subset]:
    """Return the subsets that are not empty, each only if it differs from the ones before it."""
    names: list[Subset] = ["all", "answerable and partial", "answerable"]
    by_count: dict[int, Subset] = {}
    for name in names:
        count = sum(_is_in(name, answer) for answer in answers)
        if count:
            by_count.setdefault(count, name)
    return list(by_count.values())


# --- means -----------------------------------------------------------------------------------------------------------


def _means(rows: Rows) -> Iterator[SystemMeans]:
    for subset in _subsets(rows.answers):
        for system in dict.fromkeys(answer.system for answer in rows.answers):
            answers = [answer for answer in rows.answers if answer.system == system and _is_in(subset, answer)]
            if not answers:
                continue
            yield SystemMeans(
                system=system,
                subset=subset,
                n=len(answers),
                conversations=len({answer.conversation for answer in answers}),
                people=_estimate_all({name: _mean(answers, "reference", name) for name in rows.properties}),
                metrics=_estimate_all({name: _mean(answers, "scores", name) for name in rows.metrics}),
            )


def _estimate_all(measured: Mapping[str, ClusterStatistic | None]) -> dict[str, Estimate]:
    """Return the statistics with their intervals; names without one are dropped."""
    present = {name: statistic for name, statistic in measured.items() if statistic is not None}
    bounds = intervals(list(present.values()), SEED, RESAMPLES)
    return {name: Estimate(value=present[name].value, ci95=bound) for name, bound in zip(present, bounds, strict=True)}


def _mean(
    answers: Sequence[ComparedAnswer], kind: Literal["reference", "scores"], name: str
) -> ClusterStatistic | None:
    """Return the mean of a reference score or a metric, or None if no answer has it."""
    measured = [answer for answer in answers if name in getattr(answer, kind)]
    if not measured:
        return None
    values = np.array([getattr(answer, kind)[name] for answer in measured])
    return mean_statistic(values, number_conversations(measured), np.ones(len(measured)))


# --- raters ----------------------------------------------------------------------------------------------------------


def _annotators(rows: Rows) -> Iterator[tuple[str, Annotators]]:
    for name in rows.properties:
        answers = [answer for answer in rows.answers if answer.ratings.get(name)]
        rated = [answer.ratings[name] for answer in answers]
        three = [ratings for ratings in rated if len(ratings) == 3]
        if not three:
            continue
        point = rows.points.get(name) or _step(rated)
        statistic = alpha_statistic(rated, "interval", number_conversations(answers))
        alpha = _estimate_all({"alpha": statistic}).get("alpha")
        agreement = Annotators(
            n=len(three),
            fewer=len(rated) - len(three),
            point=point,
            absolute=statistics.mean(len(set(ratings)) == 1 for ratings in three),
            two_equal=statistics.mean(len(set(ratings)) < 3 for ratings in three),
            agreeing=statistics.mean(annotators_agree(ratings, point) for ratings in three),
            alpha=alpha.value if alpha else None,
            alpha_ci95=alpha.ci95 if alpha else None,
        )
        yield name, agreement


def annotators_agree(ratings: Sequence[float], point: float = 1.0) -> bool:
    """Return whether three ratings agree: all three equal, or two equal and the third one point off.

    Source: MTRAG appendix E, "absolute" and "high agreement".
    """
    low, middle, high = sorted(ratings)
    return low == high or (middle in (low, high) and math.isclose(high - low, point, rel_tol=1e-9))


def _step(rated: Iterable[Sequence[float]]) -> float:
    """Return the smallest distance between two ratings, which is the step if the scale is not known."""
    values = sorted({value for ratings in rated for value in ratings})
    return min((high - low for low, high in pairwise(values)), default=1.0)


# --- correlations ----------------------------------------------------------------------------------------------------


def _correlations(rows: Rows) -> Iterator[MetricCorrelation]:
    """Yield correlations: win rates over all systems (Table 7), other properties without the references (figure 4)."""
    with_reference = any(answer.system == REFERENCE for answer in rows.answers)
    without_reference = [answer for answer in rows.answers if answer.system != REFERENCE]
    systems: Systems = "without the reference" if with_reference else "all"
    for name in rows.properties:
        for subset in _subsets(rows.answers):
            if subset == "answerable":
                continue
            for metric in rows.metrics:
                if with_reference and name == "win-rate":
                    yield from _correlate_metric(rows.answers, metric, name, subset, "all")
                yield from _correlate_metric(without_reference, metric, name, subset, systems)


def _correlate_metric(
    answers: Sequence[ComparedAnswer], metric: str, against: str, subset: Subset, systems: Systems
) -> Iterator[MetricCorrelation]:
    paired = [
        answer
        for answer in answers
        if metric in answer.scores and against in answer.reference and _is_in(subset, answer)
    ]
    if len(paired) < 2:
        return
    scores, people = np.array([(answer.scores[metric], answer.reference[against]) for answer in paired]).T
    clusters = number_conversations(paired)
    correlations = {
        "plain": correlation_statistic(scores, people, clusters, balanced=False),
        "weighted": correlation_statistic(scores, people, clusters, balanced=True),
    }
    estimates = _estimate_all(correlations)
    yield MetricCorrelation(
        metric=metric,
        against=against,
        subset=subset,
        systems=systems,
        n=len(paired),
        conversations=len({answer.conversation for answer in paired}),
        plain=estimates.get("plain"),
        weighted=estimates.get("weighted"),
    )
