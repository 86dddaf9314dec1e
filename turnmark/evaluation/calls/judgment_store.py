"""The judgments of a run, in `judgements.jsonl`. A judgment is reused when the run is scored again."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, FiniteFloat

from turnmark.evaluation.storage.journal import Journal
from turnmark.evaluation.tasks.rubric import Outcome

JUDGMENTS_FILE = "judgements.jsonl"


class StoredJudgment(Outcome):
    """One line of `judgements.jsonl`: a judge's outcome for a case, reused by `key` when a run is scored again."""

    key: str = Field(description="SHA-256 of everything that can change it: case, rubric, prompts, judge")
    id: str = Field(description="id of the first sample that it was made for")
    repeat: int = 0
    measure: str
    judge: str = Field(description="spec in normal form")
    prompts: str = Field(default="", description="hash of the prompts of a language model; empty if it is unknown")
    models: tuple[str, ...] = Field(default=(), description="models that answered, as their endpoint names them")
    seconds: FiniteFloat = 0.0
    tries: int = Field(default=1, description="number of tries; `usage` is the sum over them")


def open_judgments(path: Path) -> Journal[str, StoredJudgment]:
    """Open the judgments of a run, by key; failed ones are not final and may be asked for again."""
    return Journal(path, StoredJudgment, lambda judgment: judgment.key, lambda judgment: judgment.status != "failed")
