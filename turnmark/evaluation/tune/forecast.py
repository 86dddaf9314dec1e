"""What tuning would try and how long it takes, as measured on a few questions."""

from __future__ import annotations

import math
import time
from itertools import islice

from pydantic import Field

from turnmark.core.record import Record
from turnmark.evaluation.tune.contenders import Contender
from turnmark.evaluation.tune.measuring import measure_questions
from turnmark.evaluation.tune.plan import TunePlan
from turnmark.evaluation.tune.question_sources import locate_questions
from turnmark.evaluation.tune.race import RacePlan, fit_into, plan_race

FORECAST_QUESTIONS = 4
"""Number of questions that are measured for a forecast."""
SECONDS_PER_HIDDEN = 0.03
"""Time to embed a passage whose answer is hidden, on one core."""


class TuneForecast(Record):
    """What tuning would try and how long it takes, which `--dry-run --json` prints."""

    index: str
    questions: int
    configurations: int
    contenders: tuple[Contender, ...] = Field(default=(), description="other builds and rerankers that are compared")
    left_out: str = Field(default="", description="a sentence that says why others are not compared")
    seconds: float


def forecast(plan: TunePlan) -> TuneForecast:
    """Measure a few questions, and return what all of them would take. A model writes no questions for it."""
    seconds, count = forecast_questions(plan)
    race = fit_race(plan, contenders_of(plan), seconds, count)
    return TuneForecast(
        index=plan.index.name,
        questions=count,
        configurations=len(plan.choices),
        contenders=race.contenders,
        left_out=race.left_out,
        seconds=round(seconds + race.seconds, 1),
    )


def forecast_questions(plan: TunePlan) -> tuple[float, int]:
    """Return the seconds that measuring the present index takes, and the number of questions."""
    loading, each = _seconds_per_question(plan)
    made = len(plan.drawn) if plan.request.makes_questions else 0
    count = made or len(plan.own) or plan.request.n
    return loading + each * count + SECONDS_PER_HIDDEN * made, count


def contenders_of(plan: TunePlan) -> RacePlan:
    """Return all contenders. Questions that are made without a model predict people only for weights."""
    if plan.request.makes_questions:
        return RacePlan(contenders=())
    return plan_race(plan.index, plan.retriever, plan.request.minutes is not None)


def fit_race(plan: TunePlan, race: RacePlan, seconds: float, count: int) -> RacePlan:
    """Return a race with its forecast, and without the contenders that do not fit into the time limit.

    Args:
        seconds: forecast of measuring the present index.
        count: number of questions.
    """
    measuring = [
        seconds if one.needs_build else count * _seconds_per_question(plan.of(one))[1] for one in race.contenders
    ]
    limit = math.inf if plan.request.minutes is None else 60 * plan.request.minutes - seconds
    return fit_into(race, plan.index, measuring, limit)


def _seconds_per_question(plan: TunePlan) -> tuple[float, float]:
    """Return the time that loading the models and each question take, as measured on a few questions."""
    located = list(islice(locate_questions(plan.index, plan.own), FORECAST_QUESTIONS))
    sample = located or plan.drawn[:FORECAST_QUESTIONS]
    began = time.perf_counter()
    measure_questions(plan, plan.index, sample[:1])
    loaded = time.perf_counter()
    measure_questions(plan, plan.index, sample)
    return loaded - began, (time.perf_counter() - loaded) / len(sample)
