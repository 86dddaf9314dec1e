"""A benchmark of somebody else's, as it would lie in a package of theirs."""

from __future__ import annotations

import json
from collections.abc import Iterator

from turnmark.assistant.llm.calls.protocols import Generator
from turnmark.core.errors import RequestError
from turnmark.evaluation.records import Sample
from turnmark.evaluation.scores.published_results import Instrument, PublishedFact
from turnmark.evaluation.tasks.items import Case, Item
from turnmark.evaluation.tasks.metric import metric
from turnmark.evaluation.tasks.standard_metrics import REFERENCE_METRICS
from turnmark.evaluation.tasks.task import Task

WORDS = {"bell": "The bell was cast in 1858.", "tower": "The tower is 96 metres tall.", "clock": "It strikes."}


@metric(by="capitals")
def shouts(case: Case) -> float:
    return float(case.answer.isupper())


class Toy(Task):
    settings = ("turn", "parrot")
    metrics = (*REFERENCE_METRICS, shouts)
    published = (
        PublishedFact(system="a parrot", benchmark="toy", task="generation", setting="parrot", subset="all", n=3,
             metrics={"rouge_l.word": 1.0}, instruments={"rouge_l.word": Instrument(by="rouge")}, source="none"),
    )  # fmt: skip

    def items(self) -> Iterator[Item]:
        rows, data = WORDS, self.request.data
        if data is not None:
            try:
                rows = json.loads(data.read_text(encoding="utf-8"))
            except (OSError, ValueError) as error:
                raise RequestError(f"--data {data.name}: {error}") from error
        for number, (word, text) in enumerate(rows.items(), 1):
            length = "short" if len(text) < 20 else "long"
            yield Item(
                f"toy/{number}", question=f"What is said of the {word}?", reference=text, domain="words",
                passages={word: ("", text), "other": ("", "Something else altogether.")},
                labels={"length": (length,)}, cluster=length,
            )  # fmt: skip

    def answer(self, item: Item, generator: Generator | None) -> Sample:
        if self.setting == "parrot":
            return Sample(id=item.id, status="done", domain=item.domain, prediction=item.reference)
        return super().answer(item, None)
