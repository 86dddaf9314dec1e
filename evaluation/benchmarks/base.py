"""Types that benchmarks, metrics and judges share: `Item` (to answer), `Case` (a reply to score) and `Metric`."""

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
"""A measured value, or a pair of value and weight in the mean. None: the metric is not applicable."""


@dataclass(frozen=True)
class Item:
    """One question to answer, with its labels in the data.

    Attributes:
        id: the id in `predictions.jsonl`.
        task: the record that the benchmark's loader read, or any object that the methods of `Task` need.
        after: id of the item that must be answered before this one, because this one continues from its sample.
        earlier: the sample of `after`, whatever its status; set when this item is answered.
        history: the turns before the question.
        reference: the reference answer as plain text; empty if the data have none.
        passages: passage or document id -> title and text, for those that the data attach to the item.
        relevant: ids of the relevant passages; None: the data have no relevance labels for the item.
        labels: dimension of a breakdown -> values; the item counts under each value.
        cluster: the bootstrap cluster, such as the conversation; empty: the item is its own cluster.
        headline: whether the item counts in the headline means.
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
        """Cluster and labels, for the summary; an item without labels has its domain as the only one."""
        labels = self.labels
        if not labels and self.domain:
            labels = {"domain": (self.domain,)}
        return Facts(cluster=self.cluster or self.id, labels=labels, headline=self.headline)


@dataclass(frozen=True)
class Case:
    """One reply with everything that metrics measure it by and judges are shown.

    Attributes:
        answer: the reply without citation marks; with them where instructions may be about the marks.
        history: the turns before the question.
        reference: the reference answer; empty if the data have none.
        passages: the texts that the system was given, best first; None: some of them are unknown.
        answerability: the task's answerability label; None: it has no label.
        more: further texts for judges, as pairs of name and text.
        raw: the reply as the system wrote it.
        decision: the system's decision (answer, partial, unknown, clarify); None: not recorded.
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
        """The texts of all turns up to and including the question."""
        return [*(turn.content for turn in self.history), self.question]


@dataclass(frozen=True)
class Metric(Generic[C_contra]):
    """One metric, or several that one function computes.

    Attributes:
        names: metric names; `scores.jsonl` gets a line for each of them and each sample.
        by: the instrument: a library or a judge's spec.
        measure: function from the context to name -> value; a missing name or None means not applicable.
        without: the reason for a value of None, written to `scores.jsonl`.
        shown: how reports show the metrics: digits, direction, range, rank among the headline metrics.
    """

    names: tuple[str, ...]
    by: str
    measure: Callable[[C_contra], Mapping[str, Value]]
    without: str = "there is nothing to compare with"
    shown: How = PLAIN


def attempted(scorer: Callable[[], T]) -> tuple[T | None, str]:
    """Call a scorer; return its value and "", or None and the text of the exception that it raised."""
    try:
        return scorer(), ""
    except Exception as error:  # metrics and rubrics may be third-party code: an exception fails the score, not the run
        return None, f"{type(error).__name__}: {error}"


def measured(metrics: Sequence[Metric[C]], sample: Sample, context: Callable[[], C]) -> list[Score]:
    """Score a sample: one line for each metric. An exception in a metric makes a failed score.

    The scores of a failed sample are failed, with its reason; those of a skipped sample are not applicable.
    """
    scores: list[Score] = []
    prepared: C | None = None
    context_failure = ""
    if sample.status == "done":
        prepared, context_failure = attempted(context)
    for metric in metrics:
        values: Mapping[str, Value] | None = None
        failure = context_failure
        if prepared is not None:
            values, failure = attempted(partial(metric.measure, prepared))
        values = values or {}
        scores += [_score(sample, name, metric, values.get(name), failure) for name in metric.names]
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
    except ValueError:  # NaN or infinity
        return Score(status="failed", reason=f"{metric.by} gave {number!r}", **about)
