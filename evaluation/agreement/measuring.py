"""The figures of agreement: means by system, raters among themselves, correlations, verdicts against labels."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import Field

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.evaluation.agreement.rows import Answer, Rows, gather
from turnmark.evaluation.agreement.verdicts import RESAMPLES, SEED, Verdicts, judge_verdicts, number_conversations
from turnmark.evaluation.benchmarks.mtrag_data import problem_notes
from turnmark.evaluation.scores.stats import ClusterFigure, alpha_figure, correlation_figure, intervals, mean_figure
from turnmark.evaluation.scores.summary import no_interval

Subset = Literal["all", "answerable and partial", "answerable"]
Systems = Literal["all", "without the reference"]
REFERENCE = "reference"
"""The system of the reference answers, which are what reference-based metrics compare with."""


class Estimate(Record):
    """A figure and its 95% interval over conversations."""

    value: float
    ci95: tuple[float, float] | None = Field(description="None: of one conversation")


class SystemMeans(Record):
    """One system over a subset of its answers."""

    system: str
    subset: Subset
    n: int
    conversations: int
    people: dict[str, Estimate] = Field(description="property -> mean of the raters' medians; FANC: harmonic means")
    metrics: dict[str, Estimate]


class Annotators(Record):
    """How far three raters agree (MTRAG appendix E)."""

    n: int = Field(description="answers with three ratings")
    fewer: int = Field(description="rated answers with another number of ratings; left out")
    point: float = Field(description="the step of the scale")
    absolute: float = Field(description="share on which all three are equal")
    two_equal: float = Field(description="share on which two at least are equal")
    agreeing: float = Field(description="share on which they are, or two are and the third is one point off")
    alpha: float | None = Field(description="Krippendorff's, interval; over all ratings")
    alpha_ci95: tuple[float, float] | None = Field(description="bootstrap over conversations; None: of one, no alpha")


class Correlated(Record):
    """A metric against the reference scores: Spearman."""

    metric: str
    against: str
    subset: Subset
    systems: Systems
    n: int
    conversations: int
    plain: Estimate | None = Field(description="None if one of the two does not vary")
    weighted: Estimate | None = Field(description="each row weighs one over how often its reference score occurs")


class Agreement(Record):
    """What `turnmark agreement` prints."""

    sources: tuple[str, ...]
    people: bool = Field(description="whether the reference scores are those of people")
    n: int
    conversations: int
    systems: dict[str, str]
    properties: tuple[str, ...]
    metrics: tuple[str, ...]
    means: tuple[SystemMeans, ...]
    annotators: dict[str, Annotators]
    correlations: tuple[Correlated, ...]
    verdicts: tuple[Verdicts, ...]
    notes: tuple[str, ...]


def measure_agreement(paths: Sequence[Path]) -> Agreement:
    """Work out everything that these files and runs allow."""
    rows = gather(paths)
    answers = rows.answers
    conversations = len({answer.conversation for answer in answers})
    one = [no_interval("mtrag")] if conversations == 1 else []
    result = Agreement(
        sources=tuple(rows.sources),
        people=rows.people,
        n=len(answers),
        conversations=conversations,
        systems=rows.systems,
        properties=tuple(rows.properties),
        metrics=tuple(rows.metrics),
        means=tuple(_means(rows)),
        annotators=dict(_annotators(rows)),
        correlations=tuple(_correlations(rows)),
        verdicts=tuple(judge_verdicts(rows)),
        notes=(*one, *_few_raters(rows), *problem_notes(rows.problems), *rows.notes),
    )
    if not (result.properties or result.correlations or result.verdicts):
        raise RequestError(
            "nothing here can agree with anything: name a file with ratings of people or another judge's scores next "
            "to the run, or a run whose tasks are labelled and whose answers are judged"
        )
    return result


def _within(subset: Subset) -> Callable[[Answer], bool]:
    labels = {"answerable": ("ANSWERABLE",), "answerable and partial": ("ANSWERABLE", "PARTIAL")}.get(subset)
    return lambda answer: labels is None or answer.answerability in labels


def _subsets(answers: Iterable[Answer]) -> list[Subset]:
    """Those that are not the same as one before."""
    names: list[Subset] = ["all", "answerable and partial", "answerable"]
    counts = {name: sum(map(_within(name), answers)) for name in names}
    return [
        name for index, name in enumerate(names) if counts[name] and counts[name] not in list(counts.values())[:index]
    ]


# --- means -----------------------------------------------------------------------------------------------------------


def _means(rows: Rows) -> Iterator[SystemMeans]:
    for subset in _subsets(rows.answers):
        for system in dict.fromkeys(answer.system for answer in rows.answers):
            mine = [answer for answer in rows.answers if answer.system == system and _within(subset)(answer)]
            if not mine:
                continue
            yield SystemMeans(
                system=system,
                subset=subset,
                n=len(mine),
                conversations=len({answer.conversation for answer in mine}),
                people=_estimate_all({name: _mean(mine, "reference", name) for name in rows.properties}),
                metrics=_estimate_all({name: _mean(mine, "scores", name) for name in rows.metrics}),
            )


def _estimate_all(figures: Mapping[str, ClusterFigure | None]) -> dict[str, Estimate]:
    known = {name: figure for name, figure in figures.items() if figure is not None}
    bounds = intervals(list(known.values()), SEED, RESAMPLES)
    return {name: Estimate(value=known[name].value, ci95=bound) for name, bound in zip(known, bounds, strict=True)}


def _mean(answers: Sequence[Answer], kind: str, name: str) -> ClusterFigure | None:
    import numpy as np

    rated = [answer for answer in answers if name in getattr(answer, kind)]
    if not rated:
        return None
    values = np.array([getattr(answer, kind)[name] for answer in rated])
    return mean_figure(values, number_conversations(rated), np.ones(len(rated)))


# --- raters ----------------------------------------------------------------------------------------------------------


def _few_raters(rows: Rows) -> Iterator[str]:
    most = max((len(ratings) for answer in rows.answers for ratings in answer.ratings.values()), default=3)
    if most < 3:
        yield f"agreement of raters needs three ratings of an answer; here it has at most {most}"


def _annotators(rows: Rows) -> Iterator[tuple[str, Annotators]]:
    for name in rows.properties:
        answers = [answer for answer in rows.answers if answer.ratings.get(name)]
        rated = [answer.ratings[name] for answer in answers]
        three = [ratings for ratings in rated if len(ratings) == 3]
        if not three:
            continue
        point = rows.points.get(name) or _step(rated)
        alpha = _estimate_all({"alpha": alpha_figure(rated, "interval", number_conversations(answers))}).get("alpha")
        agreed = Annotators(
            n=len(three),
            fewer=len(rated) - len(three),
            point=point,
            absolute=statistics.mean(len(set(ratings)) == 1 for ratings in three),
            two_equal=statistics.mean(len(set(ratings)) < 3 for ratings in three),
            agreeing=statistics.mean(annotators_agree(ratings, point) for ratings in three),
            alpha=alpha.value if alpha else None,
            alpha_ci95=alpha.ci95 if alpha else None,
        )
        yield name, agreed


def annotators_agree(ratings: Sequence[float], point: float = 1.0) -> bool:
    """Whether three ratings agree: all three equal, or two equal and the third one point off.

    Source: MTRAG appendix E, "absolute" and "high agreement".
    """
    low, middle, high = sorted(ratings)
    return low == high or (middle in (low, high) and math.isclose(high - low, point, rel_tol=1e-9))


def _step(rated: Iterable[Sequence[float]]) -> float:
    """The smallest distance of two ratings that were given, if no scale says what a point is."""
    values = sorted({value for ratings in rated for value in ratings})
    return min((high - low for low, high in pairwise(values)), default=1.0)


# --- correlations ----------------------------------------------------------------------------------------------------


def _correlations(rows: Rows) -> Iterator[Correlated]:
    """Win rates as in Table 7, over all systems; the other properties as in figure 4, without the references."""
    with_reference = any(answer.system == REFERENCE for answer in rows.answers)
    without_reference = [answer for answer in rows.answers if answer.system != REFERENCE]
    systems: Systems = "without the reference" if with_reference else "all"
    for name in rows.properties:
        for subset in _subsets(rows.answers):
            if subset == "answerable":
                continue
            for metric in rows.metrics:
                if with_reference and name == "win-rate":
                    yield from _correlated(rows.answers, metric, name, subset, "all")
                yield from _correlated(without_reference, metric, name, subset, systems)


def _correlated(
    answers: Sequence[Answer], metric: str, against: str, subset: Subset, systems: Systems
) -> Iterator[Correlated]:
    import numpy as np

    both = [
        answer
        for answer in answers
        if metric in answer.scores and against in answer.reference and _within(subset)(answer)
    ]
    if len(both) < 2:
        return
    scores, people = np.array([(answer.scores[metric], answer.reference[against]) for answer in both]).T
    clusters = number_conversations(both)
    sides = {"plain": False, "weighted": True}
    estimates = _estimate_all({name: correlation_figure(scores, people, clusters, on) for name, on in sides.items()})
    yield Correlated(
        metric=metric,
        against=against,
        subset=subset,
        systems=systems,
        n=len(both),
        conversations=len({answer.conversation for answer in both}),
        **{name: estimates.get(name) for name in sides},
    )
