"""Metrics of samples, and the scoring of a sample with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from turnmark.evaluation.metric_style import DEFAULT_STYLE, MetricStyle, MetricStyles
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.tasks.items import Item

NOTHING_TO_COMPARE = "there is nothing to compare with"
LAST_RANK = 1000
"""Rank of the headline metrics whose order does not matter."""

C = TypeVar("C")
T = TypeVar("T")
C_contra = TypeVar("C_contra", contravariant=True)

Value = float | tuple[float, float] | None
"""A measured value, or a pair of value and weight in the mean, or None if the metric is not applicable."""


@dataclass(frozen=True, kw_only=True)
class Metric(Generic[C_contra]):
    """One metric, or several that one function computes.

    Attributes:
        names: metric names; `scores.jsonl` gets a line for each of them and each sample.
        by: the instrument: a library or a judge's spec.
        measure: function from the context to name -> value; a missing name or None means not applicable.
        without: the reason for a value of None, written to `scores.jsonl`, or a function from the context to it.
        shown: how reports show the metrics: digits, direction, range, rank among the headline metrics.
        concerns: function from an item to whether the metric is for it; other items get no line.
        suits: the same for a sample.
    """

    names: tuple[str, ...]
    by: str
    measure: Callable[[C_contra], Mapping[str, Value]]
    without: str | Callable[[C_contra], str] = NOTHING_TO_COMPARE
    shown: MetricStyles = DEFAULT_STYLE
    concerns: Callable[[Item], bool] = lambda _: True
    suits: Callable[[Sample], bool] = lambda _: True


def metric(
    *,
    by: str,
    name: str = "",
    without: str = NOTHING_TO_COMPARE,
    style: MetricStyle = DEFAULT_STYLE,
    headline: bool = False,
) -> Callable[[Callable[[C], Value]], Metric[C]]:
    """Turn a function from the context to one value into a metric:

        @metric(by="words", headline=True)
        def answer_length(case: Case) -> float:
            return len(case.answer.split())

    Args:
        by: the instrument: a library or a definition.
        name: the metric's name; if empty, the name of the function.
        without: the reason for a value of None.
        style: digits, direction and range.
        headline: whether it is a headline metric; metrics with a rank in `style` come before it.
    """

    def make(function: Callable[[C], Value]) -> Metric[C]:
        metric_name = name or function.__name__
        shown = style
        if headline and style.headline is None:
            shown = style.model_copy(update={"headline": LAST_RANK})
        return Metric(
            names=(metric_name,),
            by=by,
            measure=lambda context: {metric_name: function(context)},
            without=without,
            shown=shown,
        )

    return make


def try_scorer(scorer: Callable[[], T]) -> tuple[T | None, str]:
    """Call a scorer; return its value and "", or None and the text of its exception."""
    try:
        return scorer(), ""
    except Exception as error:  # metrics and rubrics may be third-party code: an exception fails the score, not the run
        return None, f"{type(error).__name__}: {error}"


def measure_sample(metrics: Sequence[Metric[C]], sample: Sample, context: Callable[[], C]) -> list[Score]:
    """Score a sample: one line for each metric. An exception in a metric makes a failed score.

    The scores of a failed sample are failed, with its reason; those of a skipped sample are not applicable.
    """
    scores: list[Score] = []
    prepared: C | None = None
    context_failure = ""
    if sample.status == "done":
        prepared, context_failure = try_scorer(context)
    for metric in metrics:
        values: Mapping[str, Value] | None = None
        failure = context_failure
        if prepared is not None:
            values, failure = try_scorer(partial(metric.measure, prepared))
        values = values or {}
        without = metric.without if isinstance(metric.without, str) else ""
        if prepared is not None and not isinstance(metric.without, str):
            without = metric.without(prepared)
        scores += [_score(sample, name, metric.by, values.get(name), failure, without) for name in metric.names]
    return scores


def _score(sample: Sample, name: str, by: str, value: Value, failure: str, without: str) -> Score:
    about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "metric": name, "by": by}
    if sample.status == "failed":
        return Score(status="failed", reason=sample.reason, **about)
    if sample.status == "skipped":
        return Score(status="not_applicable", reason=sample.reason, **about)
    if failure:
        return Score(status="failed", reason=failure, **about)
    if value is None:
        return Score(status="not_applicable", reason=without, **about)
    number, weight = value if isinstance(value, tuple) else (value, 1.0)
    try:
        return Score(status="scored", value=number, weight=weight, **about)
    except ValueError:  # NaN or infinity
        return Score(status="failed", reason=f"{by} gave {number!r}", **about)
