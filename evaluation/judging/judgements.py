"""What came of a judgement: the outcome of one judge, and the file that keeps every outcome."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, FiniteFloat, model_validator

from turnmark.assistant.types import Usage
from turnmark.corpora.types import Record
from turnmark.evaluation.journal import Journal
from turnmark.evaluation.records import ScoreStatus

RAW = 20_000
"""Characters that are kept of what a judge wrote, of its end where it wrote more."""
REASON = 600
"""Characters of a judge's reasons that a score repeats; the rest is in `judgements.jsonl`."""


class Outcome(Record):
    """What one judge made of a case.

    `failed`: the instrument failed, never the system; the reason says how, and `raw` holds what the judge wrote.
    """

    status: ScoreStatus
    value: FiniteFloat | None = Field(default=None, description="scored: in the units of the metric")
    label: str | None = Field(default=None, description="scored by a label: which of those on offer")
    reason: str = Field(default="", description="the judge's reasons; not scored: why there is no value")
    kind: str | None = Field(default=None, description="failed: the type of the failure, such as `invalid`, `length`")
    raw: str = Field(default="", description="failed: the last text that the judge wrote")
    parts: tuple[str, ...] = Field(default=(), description="what it was made of: claims with their verdicts, questions")
    notes: tuple[str, ...] = Field(default=(), description="what of the material the judge was not shown")
    weight: float = Field(
        default=1.0, gt=0, description="how much the value counts in a mean, such as parts it is over"
    )
    also: dict[str, FiniteFloat | None] = Field(
        default_factory=dict, description="further metrics of the same call; None: not applicable"
    )
    usage: Usage = Usage()

    @model_validator(mode="after")
    def _status_fits(self) -> Outcome:
        if (self.status == "scored") != (self.value is not None):
            raise ValueError("an outcome has a value where it is scored, and nowhere else")
        if self.status == "failed" and not self.reason:
            raise ValueError("a failed outcome has a reason")
        return self


class Judgement(Outcome):
    """One line of `judgements.jsonl`: what a judge made of a case, found again by `key` when a run is scored anew."""

    key: str = Field(description="SHA-256 of all that can change it: the case, the measure, its prompts, the judge")
    id: str = Field(description="of the first sample that it was made for")
    repeat: int = 0
    measure: str
    judge: str = Field(description="spec in normal form")
    prompts: str = Field(default="", description="of a language model: hash of what it was asked with; empty: unknown")
    models: tuple[str, ...] = Field(default=(), description="that answered, as their endpoint names them")
    seconds: FiniteFloat = 0.0
    tries: int = Field(default=1, description="times it was asked for; `usage` is that of all of them")


FILE = "judgements.jsonl"


def open_judgements(path: Path) -> Journal[str, Judgement]:
    """The judgements of a run, by key; one that failed is asked for again."""
    return Journal(path, Judgement, lambda judgement: judgement.key, lambda judgement: judgement.status != "failed")
