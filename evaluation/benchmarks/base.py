"""What a benchmark is to the engine: items in, a sample for each, scores for each sample, and what is known of it.

The engine (`turnmark.evaluation.engine`) knows no benchmark, and a benchmark knows nothing of threads, files or
resuming. One pass asks `answer` for every item; another, which may be days later or over a file of somebody else's,
asks `context` and hands it to metrics and judges. Items are streamed, so that memory does not grow with the data.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.types import Message, Problem
from turnmark.evaluation.records import Sample, Score
from turnmark.evaluation.summary import Facts, Ranked

C = TypeVar("C")
T = TypeVar("T")
C_contra = TypeVar("C_contra", contravariant=True)

Value = float | tuple[float, float] | None
"""A measured value, or a value and its weight in the mean; None: there is nothing to measure (not applicable)."""


@dataclass(frozen=True)
class Item:
    """One thing to answer.

    Attributes:
        id: as in `predictions.jsonl`.
        task: the record of the benchmark's loader.
        after: id of the item whose sample this one goes on from; it is answered first.
        earlier: that sample, whatever became of it, when this one is answered.
    """

    id: str
    task: Any
    domain: str | None = None
    after: str | None = None
    earlier: Sample | None = None


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

    @property
    def messages(self) -> list[str]:
        """Everything that was said, up to and including the question."""
        return [*(turn.content for turn in self.history), self.question]


@dataclass(frozen=True)
class Material:
    """What the data hold of an item, for whoever browses its samples.

    Attributes:
        texts: passage id -> title and text, of those that come with the item.
        relevant: ids that the data calls relevant; None: it does not say.
    """

    question: str = ""
    reference: str = ""
    history: tuple[Message, ...] = ()
    texts: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    relevant: frozenset[str] | None = None


@dataclass(frozen=True)
class Metric(Generic[C_contra]):
    """One or several metrics that are measured together.

    Attributes:
        names: exact names, each of which every sample gets a line for in `scores.jsonl`.
        by: what measures: a library, a judge's spec.
        measure: context -> name -> value; a name that is left out, or None, is not applicable.
        without: why a value is None, for the line in `scores.jsonl`.
    """

    names: tuple[str, ...]
    by: str
    measure: Callable[[C_contra], Mapping[str, Value]]
    without: str = "there is nothing to compare with"


class Benchmark(ABC, Generic[C]):
    """A benchmark's task in one setting, with the parts that answer it.

    Attributes:
        metrics: what is measured of every sample.
        embeds: whether answering without a model takes an embedder, which is then loaded beforehand.
        raters: whose ratings the figures are of, where no judge is asked, to set them beside published ones.
    """

    metrics: Sequence[Metric[C]]
    embeds = True
    raters: tuple[str, ...] = ()

    @property
    def asks_as_paper(self) -> bool:
        """Whether what is measured is asked by the very prompts of the paper."""
        return False

    @abstractmethod
    def items(self) -> Iterator[Item | Problem]:
        """Every item in the order of the data, and a Problem for each row that cannot be read. May be asked again."""

    @abstractmethod
    def answer(self, item: Item, generator: Generator | None) -> Sample:
        """The sample for an item, its status `done`. Called from many threads at once.

        Args:
            generator: what calls the language model, its deadline being that of the sample; None: the extractive forms.

        Raises:
            GeneratorError: the language model gave nothing usable.
        """

    @abstractmethod
    def context(self, item: Item, sample: Sample) -> C:
        """What the metrics look at; of a task with judged metrics a `Case`, which judges look at, too."""

    @abstractmethod
    def facts(self, item: Item) -> Facts:
        """Cluster and labels of an item."""

    def material(self, item: Item) -> Material:  # noqa: ARG002
        """What the data hold of an item."""
        return Material()

    def rankings(self, item: Item, sample: Sample) -> Mapping[str, Ranked]:  # noqa: ARG002
        """Name of an AUROC metric -> whether the sample is positive, and its score; empty where it takes no part."""
        return {}

    def target(self, item: Item) -> Mapping[str, Any] | None:  # noqa: ARG002
        """Fields of a sample that answers an item with its reference; None where the data has none."""
        return None


def attempted(scorer: Callable[[], T]) -> tuple[T | None, str]:
    """What a scorer gives, or why it gives nothing. This is the one place that catches what a scorer throws."""
    try:
        return scorer(), ""
    except Exception as error:
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
