"""`Rubric`: a question to a judge about a reply. `Outcome`: the judge's answer to it, with the usage of its calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from pydantic import Field, FiniteFloat, model_validator

from turnmark.assistant.llm.calls.protocols import (
    CallOptions,
    Completion,
    Generator,
    GeneratorError,
    GeneratorWrapper,
)
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.evaluation.metric_style import DEFAULT_STYLE, MetricStyles
from turnmark.evaluation.records import ScoreStatus
from turnmark.evaluation.scores.cluster_statistics import Level
from turnmark.evaluation.tasks.items import Case


class Outcome(Record):
    """The outcome of one judge for a case.

    `failed` means that the instrument failed, not the system under test; `raw` contains the judge's text.
    """

    status: ScoreStatus
    value: FiniteFloat | None = Field(default=None, description="scored: in the units of the metric")
    label: str | None = Field(default=None, description="scored by a label: the label that the judge chose")
    reason: str = Field(default="", description="the judge's reasons; if not scored, why there is no value")
    kind: str | None = Field(default=None, description="failed: type of the failure, e.g. `invalid` or `length`")
    raw: str = Field(default="", description="failed: the last text that the judge wrote")
    parts: tuple[str, ...] = Field(default=(), description="details of the value: claims with verdicts, questions")
    notes: tuple[str, ...] = Field(default=(), description="material that was cut because the prompt was too long")
    weight: float = Field(default=1.0, gt=0, description="weight of the value in a mean, such as its number of parts")
    also: dict[str, FiniteFloat | None] = Field(
        default_factory=dict, description="further metrics of the same call; None for one that is not applicable"
    )
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _status_fits(self) -> Outcome:
        if (self.status == "scored") != (self.value is not None):
            raise ValueError("an outcome has a value if and only if it is scored")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed outcome has a reason")
        return self


class Choices(Protocol):
    """The labels or the scale that a judge chooses from."""

    @property
    def name(self) -> str:
        """Name of the line with the verdict, e.g. `Rating`."""
        ...

    @property
    def example(self) -> str:
        """One of the choices, for estimates of the length of a reply."""
        ...

    def in_words(self) -> str:
        """Return the choices as words, such as `yes, partial or no`."""
        ...


class JudgeFailure(Exception):
    """A judge gave no usable reply; the outcome says why."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.reason)
        self.outcome = outcome


class CallRecorder(GeneratorWrapper):
    """A judge's generator that records the usage of its calls, and the models that answered.

    The models have the names that the endpoint reports.
    """

    def __init__(self, generator: Generator) -> None:
        super().__init__(generator)
        self.models: dict[str, None] = {}
        self._spent: list[Usage] = []

    @property
    def usage(self) -> Usage:
        """Usage of all calls, including those that failed."""
        return sum(self._spent, Usage())

    def _around(self, call: partial[Completion], options: CallOptions) -> Completion:
        try:
            reply = call(**options)
        except GeneratorError as error:
            self._spent.append(error.usage)
            raise
        self._spent.append(reply.usage)
        self.models[reply.model] = None
        return reply

    def over(self, generator: Generator) -> CallRecorder:
        """Wrap another generator with the same record."""
        other = CallRecorder(generator)
        other.models, other._spent = self.models, self._spent
        return other


GradeCase = Callable[[Generator, Case, Path | None], Outcome]


@dataclass(frozen=True)
class Rubric:
    """One metric that judges grade.

    Attributes:
        name: the metric's name.
        by: a description of the instrument, for the comparison with published figures.
        prompts: names of its prompts.
        grade: function from generator, case and the folder with the user's prompts to the outcome, without its usage.
            It may raise `JudgeFailure`.
        without: function from the case to the reason why the rubric does not apply, or None if it applies.
        level: level of measurement, for the agreement of judges.
        values: label -> value, if judges choose a label; several judges then decide by majority instead of the median.
        extra: everything else that can change an outcome, such as the embedder; part of the judgment's key.
        also: names of further metrics from the same call (`Outcome.also`).
        offers: the labels or scale of its verdict, or None if it asks for no verdict.
        shown: how reports show the metric and the further ones.
    """

    name: str
    by: str
    prompts: tuple[str, ...]
    grade: GradeCase
    without: Callable[[Case], str | None] = lambda _: None
    level: Level = "interval"
    values: Mapping[str, float] | None = None
    extra: str = ""
    also: tuple[str, ...] = ()
    offers: Choices | None = None
    shown: MetricStyles = DEFAULT_STYLE

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all its metrics."""
        return (self.name, *self.also)

    def ask(self, generator: Generator, case: Case, prompts: Path | None) -> Outcome:
        """Ask a judge about a case."""
        recorder = generator if isinstance(generator, CallRecorder) else CallRecorder(generator)
        try:
            outcome = self.grade(recorder, case, prompts)
        except JudgeFailure as failure:
            outcome = failure.outcome
        return outcome.model_copy(update={"usage": recorder.usage})
