"""The figures of agreement: means by system, raters among themselves, correlations, verdicts against labels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from turnmark.corpora.errors import RequestError
from turnmark.corpora.types import Record
from turnmark.evaluation.agreement.rows import Answer, Rows, gather
from turnmark.evaluation.agreement.verdicts import RESAMPLES, SEED, Verdicts, bounds_of, clusters_of, verdicts
from turnmark.evaluation.benchmarks.mtrag_data import problem_notes
from turnmark.evaluation.metrics.agreement import annotators_agree
from turnmark.evaluation.records import Panel

if TYPE_CHECKING:
    from turnmark.evaluation.stats import Figure

Subset = Literal["all", "answerable and partial", "answerable"]
Systems = Literal["all", "without the reference"]
REFERENCE = "reference"
"""The system of the reference answers, which are what reference-based metrics compare with."""


class Estimate(Record):
    """A figure and its 95% interval over conversations."""

    value: float
    ci95: tuple[float, float] | None = Field(description="None: of one conversation")


class Means(Record):
    """One system over a subset of its answers."""

    system: str
    subset: Subset
    n: int
    conversations: int
    people: dict[str, Estimate] = Field(description="property -> mean of the raters' medians; FANC: harmonic means")
    raters: dict[str, float] = Field(description="property -> mean over all ratings")
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
    plain: Estimate | None = Field(description="None where one of the two does not vary")
    weighted: Estimate | None = Field(description="each row weighs one over how often its reference score occurs")


class Agreement(Record):
    """What `turnmark agreement` found."""

    sources: tuple[str, ...]
    people: bool = Field(description="whether the reference scores are those of people")
    n: int
    conversations: int
    systems: dict[str, str]
    properties: tuple[str, ...]
    metrics: tuple[str, ...]
    means: tuple[Means, ...]
    annotators: dict[str, Annotators]
    correlations: tuple[Correlated, ...]
    verdicts: tuple[Verdicts, ...]
    judging: dict[str, Panel] = Field(description="metric of a run -> its judges and their alpha")
    notes: tuple[str, ...]


def agreement(paths: Sequence[Path]) -> Agreement:
    """Work out everything that these files and runs allow.

    Raises:
        RequestError: what is wrong with them; or that there is nothing in them that could agree.
    """
    rows = gather(paths)
    answers = rows.answers
    result = Agreement(
        sources=tuple(rows.sources),
        people=rows.people,
        n=len(answers),
        conversations=len({answer.conversation for answer in answers}),
        systems=rows.systems,
        properties=tuple(rows.properties),
        metrics=tuple(rows.metrics),
        means=tuple(_means(rows)),
        annotators=dict(_annotators(rows)),
        correlations=tuple(_correlations(rows)),
        verdicts=tuple(verdicts(rows)),
        judging=rows.panels,
        notes=(*problem_notes(rows.problems), *rows.notes),
    )
    if not (result.annotators or result.correlations or result.verdicts or result.judging):
        raise RequestError(
            "nothing here can agree with anything: name a file with ratings of people or another judge's scores beside "
            "the run, or a run whose tasks are labelled and whose answers are judged"
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


def _means(rows: Rows) -> Iterator[Means]:
    from turnmark.evaluation.stats import intervals

    for subset in _subsets(rows.answers):
        for system in dict.fromkeys(answer.system for answer in rows.answers):
            mine = [answer for answer in rows.answers if answer.system == system and _within(subset)(answer)]
            if not mine:
                continue
            figures = [
                (kind, name, figure)
                for kind, names in (("reference", rows.properties), ("scores", rows.metrics))
                for name in names
                if (figure := _mean(mine, kind, name)) is not None
            ]
            bounds = intervals([figure for _, _, figure in figures], SEED, RESAMPLES)
            estimates = {
                (kind, name): _estimate(figure, bound)
                for (kind, name, figure), bound in zip(figures, bounds, strict=True)
            }
            ratings = {name: [r for answer in mine for r in answer.ratings.get(name, ())] for name in rows.properties}
            yield Means(
                system=system,
                subset=subset,
                n=len(mine),
                conversations=len({answer.conversation for answer in mine}),
                people={name: estimate for (kind, name), estimate in estimates.items() if kind == "reference"},
                raters={name: sum(values) / len(values) for name, values in ratings.items() if values},
                metrics={name: estimate for (kind, name), estimate in estimates.items() if kind == "scores"},
            )


def _estimate(figure: Figure, bound: tuple[float, float]) -> Estimate:
    return Estimate(value=figure.value, ci95=bound if figure.clusters > 1 else None)


def _mean(answers: Sequence[Answer], kind: str, name: str) -> Figure | None:
    import numpy as np

    from turnmark.evaluation.stats import Mean

    pairs = [(answer, values[name]) for answer in answers if name in (values := getattr(answer, kind))]
    if not pairs:
        return None
    return Mean.of(
        np.array([value for _, value in pairs]), clusters_of([answer for answer, _ in pairs]), np.ones(len(pairs))
    )


# --- raters ----------------------------------------------------------------------------------------------------------


def _annotators(rows: Rows) -> Iterator[tuple[str, Annotators]]:
    from turnmark.evaluation.metrics.agreement import krippendorff_alpha
    from turnmark.evaluation.metrics.counted import alpha_figure

    for name in rows.properties:
        raters_answers = [answer for answer in rows.answers if answer.ratings.get(name)]
        rated = [answer.ratings[name] for answer in raters_answers]
        if not rated:
            continue
        point = rows.points.get(name) or _step(rated)
        agreeing = [annotators_agree(ratings, point) for ratings in rated]
        three = [ratings for ratings in rated if len(ratings) == 3]
        if three:
            yield (
                name,
                Annotators(
                    n=len(three),
                    fewer=len(rated) - len(three),
                    point=point,
                    absolute=sum(len(set(ratings)) == 1 for ratings in three) / len(three),
                    two_equal=sum(len(set(ratings)) < 3 for ratings in three) / len(three),
                    agreeing=sum(map(bool, agreeing)) / len(three),
                    alpha=krippendorff_alpha(rated, "interval"),
                    alpha_ci95=bounds_of(alpha_figure(rated, "interval", clusters_of(raters_answers))),
                ),
            )


def _step(rated: Iterable[Sequence[float]]) -> float:
    """The smallest distance of two ratings that were given, where no scale says what a point is."""
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

    from turnmark.evaluation.metrics.agreement import Correlation
    from turnmark.evaluation.stats import intervals

    rows_of_both = [
        answer
        for answer in answers
        if metric in answer.scores and against in answer.reference and _within(subset)(answer)
    ]
    if len(rows_of_both) < 2:
        return
    scores, people = np.array([(answer.scores[metric], answer.reference[against]) for answer in rows_of_both]).T
    figures = [Correlation.of(scores, people, clusters_of(rows_of_both), balanced) for balanced in (False, True)]
    bounds = iter(intervals([figure for figure in figures if figure is not None], SEED, RESAMPLES))
    plain, weighted = (None if answer is None else _estimate(answer, next(bounds)) for answer in figures)
    yield Correlated(
        metric=metric,
        against=against,
        subset=subset,
        systems=systems,
        n=len(rows_of_both),
        conversations=len({answer.conversation for answer in rows_of_both}),
        plain=plain,
        weighted=weighted,
    )
