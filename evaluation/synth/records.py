"""What a synthesis leaves behind: items that were kept, what was rejected and why, and what it was made with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from turnmark.corpora.console import valid_text
from turnmark.corpora.home import write_atomic
from turnmark.corpora.types import Record

RAW = 20_000
"""Characters that are kept of what a model wrote where it was rejected, of its end where it wrote more."""


class SynthItem(Record):
    """One line of `items.jsonl`: something that passed every filter."""

    id: str
    seed: str = Field(description="id of the attempt that it came of, as in `attempts.jsonl`")
    domain: str = Field(default="", description="by which the data sheet counts")
    key: str = Field(description="its text in short: two items whose keys mean the same are duplicates")
    content: dict[str, Any] = Field(description="the item itself, as its benchmark has it; see docs/data.md")
    notes: tuple[str, ...] = Field(default=(), description="what was cut or skipped on the way")


class Reject(Record):
    """One line of `rejects.jsonl`: something that did not pass, with what the model wrote."""

    seed: str
    stage: str = Field(description="which filter: as the data sheet counts them")
    reason: str
    raw: str = Field(default="", description="what the model wrote, its last 20,000 characters")
    about: dict[str, Any] = Field(default_factory=dict, description="what else is known: the question, the document")


class Corpus(Record):
    """Which documents it was made from."""

    name: str
    fingerprint: str = Field(description="SHA-256 that changes with every passage and model of the index, or of a file")
    source: str = Field(default="", description="name of the folder or file that the index was built from")
    documents: int
    passages: int = 0


class Manifest(Record):
    """`manifest.json`. Fields outside `NOT_IDENTITY` can change an item; a folder is resumed where they all agree."""

    kind: str
    specs: dict[str, str] = Field(description="role -> spec in normal form")
    prompts: dict[str, str] = Field(description="prompt -> hash")
    corpus: Corpus
    options: dict[str, Any] = Field(default_factory=dict, description="of the kind: types, capability, thresholds")
    seed: int
    wanted: int | None = Field(description="items asked for by the last call; more may be asked for later")
    version: str = Field(description="of Turnmark")
    versions: dict[str, str] = Field(default_factory=dict)
    command: str = ""
    started: str
    ended: str | None = None


# How many are wanted moves no folder: the attempts come in one order, and to ask for more goes on where it stopped.
NOT_IDENTITY = frozenset({"wanted", "version", "versions", "command", "started", "ended"})


class Report(Record):
    """What `--json` prints of a synthesis, and what its data sheet is written from."""

    kind: str
    out: str
    wanted: int | None
    kept: int
    rejected: int = Field(description="lines of rejects.jsonl; an attempt may leave several, and an item beside them")
    attempts: int
    failed: int = Field(description="attempts that gave nothing because a call failed; the same command tries again")
    filters: dict[str, dict[str, int]] = Field(description="stage -> reason -> how many were rejected")
    usage: Mapping[str, Mapping[str, float | None]] = Field(default_factory=dict)
    seconds: float
    files: tuple[str, ...] = Field(description="in the layout of the benchmark, under `out`")
    notes: tuple[str, ...]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, all of them or none."""
    lines = (valid_text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in rows)
    write_atomic(path, "".join(lines))
