"""What benchmarks, metrics and judges share: an item to answer, a reply as it is scored, a metric, the scores."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from turnmark.corpora.types import Message
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.scores.metric_info import PLAIN, How
from turnmark.evaluation.scores.summary import Facts

C = TypeVar("C")
T = TypeVar("T")
C_contra = TypeVar("C_contra", contravariant=True)

Value = float | tuple[float, float] | None
"""A measured value, or a value and its weight in the mean; None: there is nothing to measure (not applicable)."""


@dataclass(frozen=True)
class Item:
    """One thing to answer, with what the data say of it.

    Attributes:
        id: as in `predictions.jsonl`.
        task: the record of the benchmark's loader, or whatever else the task's own methods need.
        after: id of the item whose sample this one goes on from; it is answered first.
        earlier: that sample, whatever became of it, when this one is answered.
        history: the turns before the question.
        reference: as people read it; empty where the data have none.
        passages: id -> title and text of what comes with the item.
        relevant: ids that the data call relevant; None: they do not say.
        labels: dimension of a breakdown -> values; the item counts under each of them.
        cluster: what is resampled as one, such as its conversation; empty: the item alone.
        headline: False: it stays out of the headline means.
    """

    id: str
    task: Any = None
    domain: str | None = None
    after: str | None = None
    earlier: Sample | None = None
    question: str = ""
    history: tuple[Message, ...] = ()
    reference: str = ""
    passages: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    relevant: frozenset[str] | None = None
    labels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cluster: str = ""
    headline: bool = True

    @property
    def facts(self) -> Facts:
        """Cluster and labels, for the summary; without labels, the domain."""
        labels = self.labels or ({"domain": (self.domain,)} if self.domain else {})
        return Facts(cluster=self.cluster or self.id, labels=labels, headline=self.headline)


@dataclass(frozen=True)
class Case:
    """One reply, and what it is scored by: metrics measure it, and judges are shown it.

    Attributes:
        answer: the reply without citation marks, unless instructions are about these.
        history: the turns before the question.
        reference: empty where the data has none.
        passages: the texts that the system was given, best first; None: not all of them are known.
        answerability: the task's label; None where it has none.
        more: further texts that judges are shown, each with a name.
        raw: the reply as it was written.
        decision: of the system; None where it records none.
        hedged: the reply says that it is not sure of any of its evidence.
    """

    passages_judged: ClassVar[bool] = True
    """Whether judges are shown the passages."""

    question: str
    answer: str
    history: tuple[Message, ...] = ()
    reference: str = ""
    passages: tuple[str, ...] | None = ()
    answerability: str | None = None
    more: tuple[tuple[str, str], ...] = ()
    raw: str = ""
    decision: str | None = None
    hedged: bool = False

    @property
    def messages(self) -> list[str]:
        """Everything that was said, up to and including the question."""
        return [*(turn.content for turn in self.history), self.question]


@dataclass(frozen=True)
class Metric(Generic[C_contra]):
    """One or several metrics that are measured together.

    Attributes:
        names: exact names, each of which every sample gets a line for in `scores.jsonl`.
        by: what measures: a library, a judge's spec.
        measure: context -> name -> value; a name that is left out, or None, is not applicable.
        without: why a value is None, for the line in `scores.jsonl`.
        shown: how reports show them: digits, direction, range, rank among the headline metrics.
    """

    names: tuple[str, ...]
    by: str
    measure: Callable[[C_contra], Mapping[str, Value]]
    without: str = "there is nothing to compare with"
    shown: How = PLAIN


def attempted(scorer: Callable[[], T]) -> tuple[T | None, str]:
    """What a scorer gives, or why it gives nothing."""
    try:
        return scorer(), ""
    except Exception as error:  # metrics and rubrics may be anybody's: one that breaks fails its score, not the run
        return None, f"{type(error).__name__}: {error}"


def measured(metrics: Sequence[Metric[C]], sample: Sample, context: Callable[[], C]) -> list[Score]:
    """A line for every metric; what a metric throws is a failed score.

    A failed sample's scores are failed with its reason; those of a skipped one are not applicable.
    """
    scores: list[Score] = []
    prepared, broken = attempted(context) if sample.status == "done" else (None, "")
    for metric in metrics:
        values: Mapping[str, Value] | None = None
        failure = broken
        if prepared is not None:
            values, failure = attempted(partial(metric.measure, prepared))
        scores += [_score(sample, name, metric, (values or {}).get(name), failure) for name in metric.names]
    return scores


def _score(sample: Sample, name: str, metric: Metric[C], value: Value, failure: str) -> Score:
    about: dict[str, Any] = {"id": sample.id, "repeat": sample.repeat, "metric": name, "by": metric.by}
    if sample.status == "failed":
        return Score(status="failed", reason=sample.reason, **about)
    if sample.status == "skipped":
        return Score(status="not_applicable", reason=sample.reason, **about)
    if failure:
        return Score(status="failed", reason=failure, **about)
    if value is None:
        return Score(status="not_applicable", reason=metric.without, **about)
    number, weight = value if isinstance(value, tuple) else (value, 1.0)
    try:
        return Score(status="scored", value=number, weight=weight, **about)
    except ValueError:  # NaN or infinity: an instrument that gives no number has failed
        return Score(status="failed", reason=f"{metric.by} gave {number!r}", **about)
