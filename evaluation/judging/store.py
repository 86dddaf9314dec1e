"""`judgements.jsonl`: what judges said, appended as they say it, so that nothing is asked for twice."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict
from io import FileIO
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from turnmark.assistant.types import Usage
from turnmark.evaluation.judging.measures import Measure
from turnmark.evaluation.judging.records import Case, Judgement
from turnmark.evaluation.samples import json_line

FILE = "judgements.jsonl"
_FORM = 1
"""Of what a key means; raised when an older judgement must not be used again."""


def key_of(case: Case, measure: Measure, prompts: Mapping[str, str], judge: str) -> str:
    """SHA-256 over all that can change a judgement.

    Args:
        prompts: name -> hash of those that the measure asks with.
        judge: its spec in normal form.
    """
    shown = {**asdict(case), "history": [[turn.role, turn.content] for turn in case.history]}
    if not case.more:
        del shown["more"]  # keys of cases without are what they were
    whole = [_FORM, measure.name, measure.extra, sorted(prompts.items()), judge, shown]
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode("ascii")).hexdigest()


def asked_with(prompts: Mapping[str, str]) -> str:
    """One hash of several prompts: 16 digits of a SHA-256; empty where there are none.

    Args:
        prompts: name -> hash of those that a measure asks with.
    """
    whole = json.dumps(sorted(prompts.items())).encode("ascii")
    return hashlib.sha256(whole).hexdigest()[:16] if prompts else ""


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
        rest = memoryview(line)
        while rest:
            rest = rest[self._writing.write(rest) :]
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
