"""The records of a run's files: samples, scores, manifest and summary."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    FiniteFloat,
    field_validator,
    model_validator,
)

from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.types import Usage
from turnmark.core.record import Record
from turnmark.corpora.types import Message
from turnmark.evaluation.metric_style import StyledRecord

SampleStatus = Literal["done", "failed", "skipped"]
ScoreStatus = Literal["scored", "not_applicable", "failed"]


_GivenText = Annotated[
    str | None,
    Field(description="only if a file of passages or answers has it", exclude_if=lambda text: text is None),
]


class ContextRef(Record):
    """A retrieved passage, with its score in its ranking."""

    document_id: str
    score: FiniteFloat
    title: _GivenText = None
    text: _GivenText = None


class SubAnswer(Record):
    """A part of a compound question, and the sentences of the reply that answer it; empty if none do."""

    question: str
    answer: str


class Sample(Record):
    """One line of `predictions.jsonl`: the result of one task, or the reason why it failed or was skipped."""

    id: str
    repeat: int = Field(default=0, description="0-based number of the repeat")
    status: SampleStatus
    reason: str | None = Field(default=None, description="why the sample failed or was skipped")
    kind: str | None = Field(default=None, description="type of the failure, e.g. `timeout` or `bad_reply`")
    domain: str | None = None
    query: str | None = Field(default=None, description="question or search query, or None if it is not known")
    rewrite: str | None = Field(default=None, description="other texts that were searched, one per line")
    variants: Mapping[str, str] = Field(
        default_factory=dict, description="query mode that asks a model -> its wording, which was also searched"
    )
    left_out: Mapping[str, str] = Field(
        default_factory=dict, description="query mode that asks a model -> why its wording is missing"
    )
    contexts: tuple[ContextRef, ...] = Field(default=(), description="best first, in trec_eval's order")
    prediction: str | None = None
    procedure: tuple[dict[str, Any], ...] = ()
    marks: int | None = Field(
        default=None, description="the highest citation mark that the reply may have, or None if it is not known"
    )
    cited: tuple[str, ...] = Field(default=(), description="ids of the sources that the marks name; the first is [1]")
    decision: str | None = None
    hedged: bool = Field(
        default=False, description="whether the reply says that it is unsure and shows the nearest passage"
    )
    confidence: FiniteFloat | None = Field(
        default=None, description="confidence of the decision: how well the evidence covers the question, 0..1"
    )
    sub_answers: tuple[SubAnswer, ...] = Field(default=(), description="parts of the question, in the order asked")
    turn: int | None = Field(default=None, description="0-based turn of a session of revisions")
    operations: tuple[dict[str, Any], ...] = Field(
        default=(), description="edit operations of a revision, or exchanges of a simulated user"
    )
    previous: str | None = Field(default=None, description="the answer before a revision")
    history: tuple[Message, ...] | None = Field(
        default=None, description="conversation before the question in the setting live, or None for the recorded one"
    )
    notes: tuple[str, ...] = Field(default=(), description="notes of the system, e.g. on truncated passages")
    usage: Mapping[str, Usage] = Field(
        default_factory=dict, description="role -> calls, tokens, cost; over all attempts"
    )
    timings: Mapping[str, FiniteFloat] = Field(default_factory=dict, description="phase -> seconds of the last attempt")
    attempts: int = Field(default=1, description="attempts over all calls of the command")
    maker: int = Field(default=0, ge=0, description="index into the manifest's `makers`")

    @property
    def key(self) -> tuple[str, int]:
        """Id and repeat, which identify the sample in a run."""
        return self.id, self.repeat

    @field_validator("procedure")
    @classmethod
    def _steps_have_a_text(cls, steps: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], ...]:
        if not all(isinstance(step.get("step"), str) for step in steps):
            raise ValueError("each step of a procedure needs a text under `step`")
        return steps

    @model_validator(mode="after")
    def _failure_has_a_reason(self) -> Sample:
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed sample needs a reason")
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
        description="weight of the value in the mean: 2 for a true positive in an F1, else 1",
    )
    reason: str | None = None
    by: str = Field(description="instrument: a library, a judge's spec")

    @model_validator(mode="after")
    def _status_fits(self) -> Score:
        if self.status == "scored" and (self.value is None or not math.isfinite(self.value)):
            raise ValueError("a score with the status scored needs a finite value")
        if self.status != "scored" and self.value is not None:
            raise ValueError("only a score with the status scored can have a value")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed score needs a reason")
        return self


class MetricSummary(StyledRecord):
    """A metric over a set of samples. `n` counts only scored samples."""

    omitted: ClassVar = ("repeats", "spread")

    mean: float | None = Field(description="None if nothing was scored")
    ci95: tuple[float, float] | None = Field(description="95% interval over `clusters`, or None if n is 0")
    n: int = Field(description="number of scored samples")
    failed: int = Field(description="number of failed samples")
    not_applicable: int = Field(description="number of samples to which the metric does not apply")
    clusters: int | None = Field(
        default=None, description="number of resampled conversations, questions or contexts; below 6: no interval"
    )
    repeats: tuple[float | None, ...] = Field(default=(), description="with --repeat: the figure of each repeat")
    spread: float | None = Field(default=None, description="standard deviation of the repeats' figures (n - 1)")


Metrics = dict[str, MetricSummary]
Breakdowns = dict[str, dict[str, Metrics]]


class DataUsed(Record):
    """The data of a run."""

    name: str = Field(description="`demo`, or the name of the folder")
    demo: bool
    fingerprint: str = Field(description="SHA-256 over the files that were read")
    tasks: str = Field(
        default="",
        description="the same without files of queries; left out if none were read",
        exclude_if=lambda tasks: not tasks,
    )

    @property
    def tasks_fingerprint(self) -> str:
        """SHA-256 over the files without those of queries, which are the same for every query mode."""
        return self.tasks or self.fingerprint


class CorpusUsed(Record):
    """A searched corpus."""

    passages: int
    sha256: str
    extent: Literal["full", "partial", "other"] = Field(
        description="share of the published corpus; other: no number of passages was published for this domain"
    )


class FolderManifest(Record):
    """The `manifest.json` of a folder.

    A command resumes the folder if all fields agree, except those in `not_identity`.

    Attributes:
        noun: name of the folder's content in messages.
        parent: default parent of such folders, relative to the working directory.
        title_field: field with the prefix of the default folder's name.
        kept: fields that keep the values of the folder's stored manifest when a command resumes the folder.
    """

    noun: ClassVar[str]
    parent: ClassVar[str]
    title_field: ClassVar[str]
    kept: ClassVar[tuple[str, ...]] = ("started",)
    not_identity: ClassVar[frozenset[str]]

    @property
    def title(self) -> str:
        """Prefix of the default folder's name."""
        return str(getattr(self, self.title_field))

    @property
    def identity(self) -> dict[str, Any]:
        """The fields that can change a result."""
        # `fingerprint` covers what `tasks` does, and the manifests of older runs lack it.
        return self.model_dump(mode="json", exclude={**dict.fromkeys(self.not_identity, True), "data": {"tasks"}})

    def resume(self, stored: Self) -> Self:
        """Return this manifest with the fields that the folder's stored manifest determines."""
        return self.model_copy(update={name: getattr(stored, name) for name in self.kept})


class RunManifest(FolderManifest):
    """`manifest.json` of a run.

    Different versions are reported, not refused: after an upgrade a command resumes the same folder. Judges do not
    change answers, so a run may be judged again, also by other judges, in the same folder.
    """

    noun = "run"
    parent = "runs"
    title_field = "benchmark"
    kept = ("started", "indexes")
    not_identity = frozenset(
        {
            *("version", "versions", "makers", "indexes", "judges", "judge_prompts"),
            *("selection", "command", "started", "ended"),
        }
    )

    benchmark: str
    task: str
    setting: str | None = None
    specs: dict[str, str] = Field(description="role -> spec in normal form")
    prompts: dict[str, str] = Field(default_factory=dict, description="prompt -> hash")
    inputs: dict[str, str] = Field(
        default_factory=dict, description="role -> SHA-256 of an input file, or of the reranker's weights"
    )
    data: DataUsed
    domains: tuple[str, ...]
    corpora: dict[str, CorpusUsed] = Field(default_factory=dict)
    limit: int | None = None
    sample: int | None = Field(default=None, description="number of tasks drawn at random, by the seed")
    repeat: int = Field(default=1, description="number of answers to each task")
    counterfactual: bool = False
    only: tuple[str, ...] = ()
    selection: str = Field(default="", description="the part of the data that ran, in words; if empty, all of it")
    seed: int
    version: str = Field(description="version of Turnmark")
    versions: dict[str, str] = Field(default_factory=dict, description="package -> version, and that of Python")
    makers: tuple[dict[str, str], ...] = Field(
        default=(), description="package -> version, for each set of versions that samples were made with"
    )
    assistant: AssistantConfig | None = Field(
        default=None, description="configuration under test, or None for another system's answers or a retriever alone"
    )
    indexes: dict[str, str] = Field(default_factory=dict, description="domain -> fingerprint of the searched index")
    judges: dict[str, str] = Field(
        default_factory=dict, description="judge -> its metrics when the run was last scored"
    )
    judge_prompts: dict[str, str] = Field(default_factory=dict, description="judge prompt -> hash")
    command: str = ""
    started: str
    ended: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """See `FolderManifest.identity`. The key is `passages`, because its hash names the folders of older runs."""
        identity = super().identity
        if identity["assistant"]:
            identity["assistant"]["passages"] = identity["assistant"].pop("top_k")
        return identity

    @property
    def maker(self) -> dict[str, str]:
        """The versions that can change a result, for the samples of this call."""
        recorded_only = ("python", "numpy")
        relevant = {name: version for name, version in self.versions.items() if name not in recorded_only}
        return {"turnmark": self.version, **relevant}

    def resume(self, stored: RunManifest) -> RunManifest:
        """See `FolderManifest.resume`."""
        return super().resume(stored).model_copy(update={"makers": stored.makers or (stored.maker,)})


class PublishedFigures(Record):
    """The published figures of a system over some samples."""

    system: str
    metrics: dict[str, float]
    source: str
    n: int | None = Field(default=None, description="None: the source does not say")
    subset: str = Field(description="description of the samples")
    domains: tuple[str, ...] = Field(default=(), description="empty: all domains, or the benchmark has none")
    setting: str | None = None
    query: str | None = Field(default=None, description="query mode, or None if there is no retrieval")


class PublishedRow(PublishedFigures):
    """A published row, and whether our figures are comparable with it."""

    judge: str | None = Field(default=None, description="description of the judges, or None if there is no judge")
    variant: str | None = Field(default=None, description="description of each metric's instrument")
    note: str | None = None
    model: str | None = Field(default=None, description="the system's model as the paper identifies it")
    comparable: bool
    differs: tuple[str, ...] = Field(
        default=(),
        description="some of: data, average, turns, setting, domains, subset, n, documents, query, prompt, judge, "
        "metric",
    )
    why: str | None = Field(default=None, description="every difference in words, or None if the figure is comparable")
    differs_by_metric: Mapping[str, tuple[str, ...]] = Field(
        default_factory=dict, description="metric -> aspects in which this figure differs; empty if it is comparable"
    )
    slice: str | None = Field(default=None, description="our slice with the same samples: `all`, or `dimension=value`")

    @model_validator(mode="after")
    def _says_why_not(self) -> PublishedRow:
        if self.comparable == bool(self.why):
            raise ValueError("a row is either comparable or says why not")
        return self


class Panel(Record):
    """The judges of one metric, and their agreement."""

    judges: tuple[str, ...]
    rule: Literal["one judge", "median", "majority"]
    alpha: float | None = Field(
        default=None, description="Krippendorff's alpha, or None for a single judge or verdicts that do not vary"
    )
    alpha_ci95: tuple[float, float] | None = Field(
        default=None, description="95% interval over clusters, or None if there are too few of them"
    )
    level: Literal["nominal", "interval"] = Field(description="measurement level of alpha")
    n: int = Field(default=0, description="samples with at least two verdicts")
    means: dict[str, float | None] = Field(default_factory=dict, description="judge -> mean of its values")
    judged: dict[str, int] = Field(
        default_factory=dict, description="judge -> samples with its verdict, including CONVERSATIONAL ones"
    )
    failed: dict[str, int] = Field(default_factory=dict, description="judge -> samples without its verdict")
    answered: dict[str, tuple[str, ...]] = Field(
        default_factory=dict, description="alias of a judge -> the dated snapshots that answered"
    )


class Summary(Record):
    """`summary.json`."""

    benchmark: str
    task: str
    setting: str | None = None
    data: DataUsed
    selection: str = Field(
        default="", description="the part of the data that ran, e.g. `60 of 5,000, drawn with seed 1`; empty: all of it"
    )
    n: int = Field(description="samples, including failed and skipped ones")
    failed: int
    skipped: int = Field(default=0, description="samples that were not tried because the run was stopped")
    metrics: Metrics
    breakdowns: Breakdowns
    published: tuple[PublishedRow, ...]
    usage: dict[str, dict[str, float | None]] = Field(
        default_factory=dict, description="role -> calls, prompt_tokens, completion_tokens, cost (None: no price known)"
    )
    seconds: dict[str, float]
    notes: tuple[str, ...]
    specs: dict[str, str] = Field(default_factory=dict, description="as in the manifest, and the judges")
    judging: dict[str, Panel] = Field(default_factory=dict, description="judged metric -> its judges")
    samples: dict[str, str] = Field(
        default_factory=dict,
        description="`all` or `dimension=value` -> hash of the ids behind the headline, or behind this part of it",
    )
    warnings: tuple[str, ...] = Field(
        default=(), description="notes that a report shows before its figures, e.g. that a judge grades its own answers"
    )
