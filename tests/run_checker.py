"""Checks a run folder, or what `ask --json` prints, against the project's contract for files.

    python -m tests.run_checker RUN
    turnmark ask QUESTION --index NAME --json | python -m tests.run_checker --ask

Prints every deviation, and exits with 1 if there is any. It imports nothing of the project, so that a mistake in the
project's records cannot hide itself.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, FiniteFloat, ValidationError, model_validator

Decision = Literal["answer", "partial", "unknown", "clarify", "converse"]


class Manifest(BaseModel):
    seed: int


class Sample(BaseModel):
    id: str
    repeat: int
    status: Literal["done", "failed", "skipped"]
    reason: str | None = None
    decision: Decision | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if self.status == "failed" and not self.reason:
            raise ValueError("failed without a reason")
        return self


class Score(BaseModel):
    id: str
    repeat: int
    metric: str
    status: Literal["scored", "not_applicable", "failed"]
    value: FiniteFloat | None
    reason: str | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.status == "scored") != (self.value is not None):
            raise ValueError("what is scored has a number, and nothing else has")
        if self.status == "failed" and not self.reason:
            raise ValueError("failed without a reason")
        return self


class Metric(BaseModel):
    mean: FiniteFloat | None
    ci95: tuple[FiniteFloat, FiniteFloat] | None
    n: int
    failed: int
    not_applicable: int

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if (self.mean is None) != (self.n == 0):
            raise ValueError("a mean of the scored samples, and null of none")
        if self.n and (self.ci95 is None or self.ci95[0] > self.ci95[1]):
            raise ValueError("ci95 is no interval")
        return self


class Published(BaseModel):
    system: str
    metrics: dict[str, Any]
    source: str
    comparable: bool
    why: str | None = None

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not self.comparable and not self.why:
            raise ValueError("not comparable, without a why")
        return self


class Summary(BaseModel):
    benchmark: str
    task: str
    n: int
    failed: int
    metrics: dict[str, Metric]
    breakdowns: dict[str, dict[str, dict[str, Metric]]]
    published: list[Published]
    usage: dict[str, Any]
    seconds: dict[str, float]
    notes: list[str]


class Citation(BaseModel):
    n: int
    id: str
    document: str
    text: str
    score: FiniteFloat


class Step(BaseModel):
    step: str
    citations: list[int]


class Reply(BaseModel):
    question: str
    answer: str
    procedure: list[Step]
    citations: list[Citation]
    decision: Decision
    sub_questions: list[Any]
    checks: dict[str, Any]
    generator: str
    usage: dict[str, Any]
    timings: dict[str, Any]

    @model_validator(mode="after")
    def _checked(self) -> Self:
        if not {n for step in self.procedure for n in step.citations} <= {citation.n for citation in self.citations}:
            raise ValueError("a step cites what is not among the citations")
        return self


def _deviations(kind: type[BaseModel], text: bytes | str, location: str) -> Iterator[str]:
    try:
        kind.model_validate_json(text, strict=True)
    except ValidationError as error:
        for row in error.errors():
            yield f"{' '.join([location, *map(str, row['loc'])])}: {row['msg'].removeprefix('Value error, ')}"


def problems_of_run(folder: Path) -> list[str]:
    """Return how the four files of a run deviate from the contract, and the summary's counts from the samples."""
    problems: list[str] = []
    for name, kind in (("manifest.json", Manifest), ("predictions.jsonl", Sample), ("scores.jsonl", Score),
                       ("summary.json", Summary)):  # fmt: skip
        if not (folder / name).is_file():
            problems.append(f"{name}: missing")
            continue
        content = (folder / name).read_bytes()
        lines = content.split(b"\n")[:-1] if name.endswith(".jsonl") else [content]
        for number, line in enumerate(lines, 1):
            problems += _deviations(kind, line, f"{name}:{number}" if len(lines) > 1 else name)
    if not problems:
        lines = (folder / "predictions.jsonl").read_bytes().split(b"\n")[:-1]
        last = {(row.id, row.repeat): row.status for row in map(Sample.model_validate_json, lines)}
        summary = Summary.model_validate_json((folder / "summary.json").read_bytes())
        if (summary.n, summary.failed) != (len(last), [*last.values()].count("failed")):
            problems.append("summary.json: n and failed are not those of predictions.jsonl")
    return problems


def problems_of_reply(text: str) -> list[str]:
    """Return how the output of `ask --json` deviates from the contract."""
    return list(_deviations(Reply, text, "ask"))


def main(words: list[str]) -> int:
    """Run the command, and return 0 if nothing deviates."""
    problems = problems_of_reply(sys.stdin.read()) if words == ["--ask"] else problems_of_run(Path(words[0]))
    print("\n".join(problems) or "holds")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
