"""A benchmark of somebody else's, as it would lie in a package of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from turnmark.corpora.errors import RequestError
from turnmark.evaluation.benchmarks.base import Case, Metric, Value
from turnmark.evaluation.benchmarks.measures import REFERENCE_METRICS
from turnmark.evaluation.benchmarks.task import Row, Task, by_turn
from turnmark.evaluation.benchmarks.turns import Parts
from turnmark.evaluation.published import Fact, Instrument
from turnmark.evaluation.records import Sample

WORDS = (("bell", "The bell was cast in 1858."), ("tower", "The tower is 96 metres tall."), ("clock", "It strikes."))


def load(data: Path | None) -> Iterator[Row]:
    rows = dict(WORDS)
    if data is not None:
        try:
            rows = json.loads(data.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise RequestError(f"--data {data.name}: {error}") from error
    for number, (word, text) in enumerate(rows.items(), 1):
        yield Row(
            id=f"toy/{number}", question=f"What is said of the {word}?", reference=text,
            passages=(text, "Something else altogether."), domain="words",
            labels={"length": ("short" if len(text) < 20 else "long",)},
        )  # fmt: skip


def solve(row: Row, generator: object, parts: Parts) -> Sample:
    if parts.setting == "parrot":
        return Sample(id=row.id, status="done", domain=row.domain, prediction=row.reference)
    return by_turn(row, None, parts)


def shouts(context: Case) -> Mapping[str, Value]:
    return {"shouts": float(context.answer.isupper())}


def benchmark() -> Task:
    return Task(
        name="generation",
        settings=("turn", "parrot"),
        load=load,
        solve=solve,
        scorers=(*REFERENCE_METRICS, Metric(("shouts",), "capitals", shouts)),
        cluster=lambda row: row.labels["length"][0],
        published=(
            Fact(system="a parrot", benchmark="toy", task="generation", setting="parrot", subset="all", n=3,
                 metrics={"rouge_l.word": 1.0}, instruments={"rouge_l.word": Instrument(by="rouge")}, source="none"),
        ),
    )  # fmt: skip
