"""What is judged and what came of it: a case, the outcome of one judge, and the file that keeps every outcome."""

from __future__ import annotations

import os
from dataclasses import dataclass
from io import FileIO
from pathlib import Path
from typing import IO

from pydantic import Field, FiniteFloat, ValidationError, model_validator

from turnmark.assistant.types import Usage
from turnmark.corpora.types import Message, Record
from turnmark.evaluation.journal import json_line
from turnmark.evaluation.records import ScoreStatus

RAW = 20_000
"""Characters that are kept of what a judge wrote, of its end where it wrote more."""
REASON = 600
"""Characters of a judge's reasons that a score repeats; the rest is in `judgements.jsonl`."""


@dataclass(frozen=True)
class Case:
    """One reply, and what it is judged by.

    Attributes:
        history: the turns before the question.
        answer: the reply without citation marks.
        reference: empty where the data has none.
        passages: the texts that the system was given, best first; None: not all of them are known.
        answerability: the task's label; None where it has none.
        more: further texts that a judge is shown, each with a name.
    """

    question: str
    answer: str
    history: tuple[Message, ...] = ()
    reference: str = ""
    passages: tuple[str, ...] | None = ()
    answerability: str | None = None
    more: tuple[tuple[str, str], ...] = ()


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
    seconds: FiniteFloat = 0.0
    tries: int = Field(default=1, description="times it was asked for; `usage` is that of all of them")


FILE = "judgements.jsonl"


class JudgementFile:
    """The judgements of a run, on file; only where each of them lies is in memory.

    The last line of a key holds. A torn last line is cut off, and a line that is no judgement is passed over: it is
    asked for again.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._places: dict[str, int] = {}
        self._failed: set[str] = set()
        self._used: dict[str, Usage] = {}
        self._end = 0
        self._writing: FileIO | None = None
        self._reading: IO[bytes] | None = None
        if path.is_file():
            self._load()

    def _load(self) -> None:
        with open(self.path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    break
                try:
                    self._note(Judgement.model_validate_json(line), self._end)
                except ValidationError:
                    pass
                self._end += len(line)
        if self._end < self.path.stat().st_size:
            os.truncate(self.path, self._end)

    def _note(self, judgement: Judgement, place: int) -> None:
        self._places[judgement.key] = place
        (self._failed.add if judgement.status == "failed" else self._failed.discard)(judgement.key)
        if judgement.usage.calls:
            self._used[judgement.key] = judgement.usage

    def __len__(self) -> int:
        """How many there are."""
        return len(self._places)

    def used(self) -> Usage:
        """What all of them took, over all tries."""
        return sum(self._used.values(), Usage())

    def settled(self, key: str) -> bool:
        """Whether there is one that did not fail, and need not be asked for again."""
        return key in self._places and key not in self._failed

    def get(self, key: str) -> Judgement | None:
        """The judgement; None where there is none."""
        place = self._places.get(key)
        if place is None:
            return None
        if self._reading is None:
            self._reading = open(self.path, "rb")  # noqa: SIM115
        self._reading.seek(place)
        return Judgement.model_validate_json(self._reading.readline())

    def append(self, judgement: Judgement) -> None:
        """Write one down; it is with the operating system when this returns.

        Raises:
            OSError: it cannot be written, by a full disk for one.
        """
        line = json_line(judgement).encode("utf-8")
        if self._writing is None:
            self._writing = open(self.path, "ab", buffering=0)  # noqa: SIM115
        unwritten = memoryview(line)
        while unwritten:
            unwritten = unwritten[self._writing.write(unwritten) :]
        self._note(judgement, self._end)
        self._end += len(line)

    def close(self) -> None:
        """Close the file, with its content on the disk."""
        if self._writing is not None:
            os.fsync(self._writing.fileno())
            self._writing.close()
        if self._reading is not None:
            self._reading.close()
        self._writing = self._reading = None
