"""What a run leaves behind: samples, scores, the manifest, the summary; with the fields of the contract."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    FiniteFloat,
    SerializerFunctionWrapHandler,
    field_validator,
    model_serializer,
    model_validator,
)

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.corpora.types import Message
from turnmark.evaluation.scores.metric_info import Figured

SampleStatus = Literal["done", "failed", "skipped"]
ScoreStatus = Literal["scored", "not_applicable", "failed"]


class ContextRef(Record):
    """A passage that was found, and its score in the list it was found in."""

    document_id: str
    score: FiniteFloat
    title: str | None = Field(default=None, description="as `text`")
    text: str | None = Field(
        default=None, description="only where a file of passages or answers gave it; else in the data"
    )

    @model_serializer(mode="wrap")
    def _without_what_is_not_there(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}


class SubAnswer(Record):
    """One part of a compound question, and what the reply says to it; empty where it says nothing."""

    question: str
    answer: str


class Sample(Record):
    """One line of `predictions.jsonl`: what the system did for one task, or why it did nothing."""

    id: str
    repeat: int = Field(default=0, description="0-based; a task is answered several times with --repeat")
    status: SampleStatus
    reason: str | None = Field(default=None, description="failed or skipped: why, in words")
    kind: str | None = Field(default=None, description="failed: the type of the reason, such as `timeout`, `bad_reply`")
    domain: str | None = None
    query: str | None = Field(default=None, description="the question, or what was searched for; None: not known")
    rewrite: str | None = Field(default=None, description="what was searched in addition to the query, a line each")
    variants: Mapping[str, str] = Field(
        default_factory=dict, description="query modes that ask a model: name -> wording searched in addition"
    )
    left_out: Mapping[str, str] = Field(
        default_factory=dict, description="query modes that ask a model: name of a wording -> why it did not come"
    )
    contexts: tuple[ContextRef, ...] = Field(default=(), description="best first, in trec_eval's order")
    prediction: str | None = None
    procedure: tuple[dict[str, Any], ...] = ()
    marks: int | None = Field(
        default=None, description="the highest citation mark that the system was to write; None: it was to write none"
    )
    decision: str | None = None
    hedged: bool = Field(
        default=False, description="the reply says that it is not sure of any of its evidence, and shows the nearest"
    )
    confidence: FiniteFloat | None = Field(
        default=None, description="of the decision: how well the evidence covers it, 0..1"
    )
    sub_answers: tuple[SubAnswer, ...] = Field(default=(), description="Compound-QA: the parts, in the order asked")
    turn: int | None = Field(default=None, description="KIWI: 0-based turn of the session")
    operations: tuple[dict[str, Any], ...] = Field(default=(), description="KIWI: what was done to the answer")
    previous: str | None = Field(default=None, description="KIWI: the answer before the turn")
    history: tuple[Message, ...] | None = Field(
        default=None, description="setting live: the conversation before the question; None: the recorded one"
    )
    notes: tuple[str, ...] = Field(default=(), description="what the system reports about its answer: what was cut")
    usage: Mapping[str, Usage] = Field(
        default_factory=dict, description="role -> calls, tokens, cost; over all attempts"
    )
    timings: Mapping[str, FiniteFloat] = Field(
        default_factory=dict, description="phase -> seconds, of the last attempt"
    )
    attempts: int = Field(default=1, description="attempts over all calls of the command")
    maker: int = Field(default=0, ge=0, description="which of the manifest's `makers` made it")

    @property
    def key(self) -> tuple[str, int]:
        """What identifies the sample in a run."""
        return self.id, self.repeat

    @field_validator("procedure")
    @classmethod
    def _steps_have_a_text(cls, steps: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if not all(isinstance(step.get("step"), str) for step in steps):
            raise ValueError("a step of a procedure has a text under `step`")
        return steps

    @model_validator(mode="after")
    def _failure_has_a_reason(self) -> Sample:
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed sample has a reason")
        return self


class Score(Record):
    """One line of `scores.jsonl`. A failure is never a number, and a number is never NaN."""

    id: str
    repeat: int = 0
    metric: str
    status: ScoreStatus
    value: float | None = None
    weight: float = Field(
        default=1.0,
        gt=0,
        description="how much the value counts in the mean: a true positive counts twice in an F1, all else once",
    )
    reason: str | None = None
    by: str = Field(description="what measured: a library, a judge's spec")

    @model_validator(mode="after")
    def _status_fits(self) -> Score:
        if self.status == "scored" and (self.value is None or not math.isfinite(self.value)):
            raise ValueError("a score that is scored has a finite value")
        if self.status != "scored" and self.value is not None:
            raise ValueError("only a score that is scored has a value")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed score has a reason")
        return self


class MetricSummary(Figured):
    """A metric over a set of samples. `n` counts the scored ones only."""

    omitted: ClassVar = ("repeats", "spread")

    mean: float | None = Field(description="None where nothing was scored")
    ci95: tuple[float, float] | None = Field(description="seeded bootstrap over `clusters`; None where n is 0")
    n: int
    failed: int
    not_applicable: int
    clusters: int | None = Field(
        default=None, description="conversations, questions or contexts that are resampled; of 1 there is no interval"
    )
    repeats: tuple[float | None, ...] = Field(default=(), description="with --repeat: the figure of each repeat alone")
    spread: float | None = Field(default=None, description="standard deviation of the repeats' figures (n - 1)")


Metrics = dict[str, MetricSummary]
Breakdowns = dict[str, dict[str, Metrics]]


class DataUsed(Record):
    """Which data a run was made on."""

    name: str = Field(description="`demo`, or the name of the folder")
    demo: bool
    fingerprint: str = Field(description="SHA-256 over the files that were read")


class CorpusUsed(Record):
    """Which passages were searched."""

    passages: int
    sha256: str
    extent: Literal["full", "partial", "other"] = Field(
        description="against the published number of passages; other: nothing is published about this domain"
    )


class FolderManifest(Record):
    """`manifest.json` of a folder that is resumed if all its fields outside `not_identity` agree.

    Attributes:
        noun: what the folder holds, in messages.
        parent: where such folders lie by default, under the working directory.
    """

    noun: ClassVar[str]
    parent: ClassVar[str]
    not_identity: ClassVar[frozenset[str]]

    @property
    def title(self) -> str:
        """The beginning of the default folder's name."""
        raise NotImplementedError

    @property
    def identity(self) -> dict[str, Any]:
        """What can change a result."""
        return self.model_dump(mode="json", exclude=set(self.not_identity))

    def resume(self, stored: Self) -> Self:
        """This manifest with what stays from `stored`, which is in the folder already."""
        raise NotImplementedError


class RunManifest(FolderManifest):
    """`manifest.json` of a run.

    Versions that differ are reported and never refused: an upgrade does not move the folder of a command. Judges change
    no answer: a run is judged again, by others too, in its own folder.
    """

    noun = "run"
    parent = "runs"
    not_identity = frozenset(
        {"version", "versions", "makers", "indexes", "judges", "judge_prompts", "command", "started", "ended"}
    )

    benchmark: str
    task: str
    setting: str | None = None
    specs: dict[str, str] = Field(description="role -> spec in normal form")
    prompts: dict[str, str] = Field(default_factory=dict, description="prompt -> hash")
    inputs: dict[str, str] = Field(
        default_factory=dict, description="role -> SHA-256 of a file handed in, or of the reranker's weights"
    )
    data: DataUsed
    domains: tuple[str, ...]
    corpora: dict[str, CorpusUsed] = Field(default_factory=dict)
    limit: int | None = None
    sample: int | None = Field(default=None, description="tasks drawn at random, by the seed")
    repeat: int = Field(default=1, description="times each task is answered")
    counterfactual: bool = False
    only: tuple[str, ...] = ()
    seed: int
    version: str = Field(description="of Turnmark")
    versions: dict[str, str] = Field(default_factory=dict, description="of what else took part")
    makers: tuple[dict[str, str], ...] = Field(
        default=(), description="package -> version, for each set of versions that samples were made with"
    )
    assistant: AssistantConfig | None = Field(
        default=None, description="what was measured; None: answers that were written already, or a bare search"
    )
    indexes: dict[str, str] = Field(default_factory=dict, description="domain -> fingerprint of the index searched")
    judges: dict[str, str] = Field(
        default_factory=dict, description="judge -> the metrics it was asked for when the run was last scored"
    )
    judge_prompts: dict[str, str] = Field(default_factory=dict, description="prompt of the judges -> hash")
    command: str = ""
    started: str
    ended: str | None = None

    @property
    def title(self) -> str:
        """See `FolderManifest.title`."""
        return self.benchmark

    @property
    def maker(self) -> dict[str, str]:
        """The versions that samples of this call are made with: those that can change a result."""
        recorded_only = ("python", "numpy")
        relevant = {name: version for name, version in self.versions.items() if name not in recorded_only}
        return {"turnmark": self.version, **relevant}

    def resume(self, stored: RunManifest) -> RunManifest:
        """See `FolderManifest.resume`."""
        makers = stored.makers or (stored.maker,)
        return self.model_copy(update={"started": stored.started, "indexes": stored.indexes, "makers": makers})


class PublishedRow(Record):
    """A published figure to compare ours with, and whether the two may be compared."""

    system: str
    metrics: dict[str, float]
    source: str
    n: int | None = Field(default=None, description="None: the source does not say")
    subset: str = Field(description="in words: which samples")
    domains: tuple[str, ...] = Field(default=(), description="empty: all, or the benchmark has none")
    setting: str | None = None
    query: str | None = Field(default=None, description="query mode it was made with; None: nothing was searched")
    judge: str | None = Field(default=None, description="in words: which judges; None: none takes part")
    variant: str | None = Field(default=None, description="in words: what measured each metric")
    note: str | None = None
    model: str | None = Field(default=None, description="the system's model as the paper identifies it")
    comparable: bool
    differs: tuple[str, ...] = Field(
        default=(),
        description="of: data, average, turns, setting, domains, subset, n, documents, query, prompt, judge, metric",
    )
    why: str | None = Field(default=None, description="where not comparable: every difference, in words")
    differs_by_metric: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="metric -> in what this figure alone differs; empty: it is comparable"
    )
    slice: str | None = Field(default=None, description="our slice to compare it with: `all`, or `dimension=value`")

    @model_validator(mode="after")
    def _says_why_not(self) -> PublishedRow:
        if self.comparable == bool(self.why):
            raise ValueError("a row is comparable, or says why not")
        return self

    def differs_in(self, metric: str) -> tuple[str, ...]:
        """In what the figure of one metric differs from ours; empty where the two may be compared."""
        return self.differs_by_metric.get(metric, self.differs)


class Panel(Record):
    """The judges of one metric, and how they agree."""

    judges: tuple[str, ...]
    rule: Literal["one judge", "median", "majority"]
    alpha: float | None = Field(default=None, description="Krippendorff's; None: one judge, or nothing that varies")
    alpha_ci95: tuple[float, float] | None = Field(default=None, description="bootstrap over clusters; None: of one")
    level: Literal["nominal", "interval"] = Field(description="of the values that alpha is over")
    n: int = Field(default=0, description="samples with two verdicts or more")
    means: dict[str, float | None] = Field(default_factory=dict, description="judge -> mean of its own values")
    judged: dict[str, int] = Field(
        default_factory=dict, description="judge -> samples with a verdict of it, CONVERSATIONAL ones too"
    )
    failed: dict[str, int] = Field(default_factory=dict, description="judge -> samples without a verdict of it")
    answered: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="judge that is an alias -> the dated snapshots that answered"
    )


class Summary(Record):
    """`summary.json`."""

    benchmark: str
    task: str
    setting: str | None = None
    data: DataUsed
    n: int = Field(description="samples, whatever became of them")
    failed: int
    skipped: int = Field(default=0, description="not tried, because the run was stopped: budget, failures")
    metrics: Metrics
    breakdowns: Breakdowns
    published: tuple[PublishedRow, ...]
    usage: dict[str, dict[str, float | None]] = Field(
        default_factory=dict, description="role -> calls, prompt_tokens, completion_tokens, cost (None: no price known)"
    )
    seconds: dict[str, float]
    notes: tuple[str, ...]
    specs: dict[str, str] = Field(default_factory=dict, description="as in the manifest; and the judges")
    judging: dict[str, Panel] = Field(default_factory=dict, description="judged metric -> who judged it")
    samples: dict[str, str] = Field(
        default_factory=dict,
        description="`all`, `dimension=value` -> hash of the ids in the headline, or in that part of it",
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="of the notes, those that a report says before its figures: a judge that grades itself"
    )
