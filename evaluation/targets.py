"""`--generator reference`: tasks answered with their targets, as the Reference rows of the papers' tables are.

The passages of a setting that searches are those that the assistant without a model finds, so that metrics over
passages have some; the text is the target alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from turnmark.assistant.generators.base import Generator
from turnmark.corpora.errors import ErrorCollector
from turnmark.evaluation.benchmarks.base import Benchmark, Item
from turnmark.evaluation.records import Sample
from turnmark.evaluation.request import EvalRequest

NO_TARGET = "the data has no reference answer"
Answer = Callable[[Item, Generator | None], Sample]


def check_targets(request: EvalRequest, errors: ErrorCollector) -> None:
    """Take down what cannot be answered with targets."""
    if request.generator.partition("?")[0] != "reference":
        return
    if request.benchmark == "kiwi" and request.task in ("judge", "analyse"):
        errors.add(f"--generator reference: the task {request.task} has ratings and labels, and no reference answers")
    for flag, value in {
        "--chain": request.chain,
        "--protocol": request.protocol == "paper",
        "--step": request.steps,
    }.items():
        if value:
            errors.add(f"{flag} is for what answers; --generator reference gives the targets of the data; leave it out")
    if request.engine != "local":
        errors.add(f"--engine {request.engine}: --generator reference asks nobody; leave it out")


def answering_with_targets(benchmark: Benchmark[Any], searched: bool) -> Answer:
    """What gives the target of each item; a task without one is skipped.

    Args:
        searched: the setting searches, so that a sample has the passages that were found.
    """

    def answer(item: Item, generator: Generator | None) -> Sample:  # noqa: ARG001
        began = time.perf_counter()
        fields = benchmark.target(item)
        if fields is None:
            return Sample(id=item.id, status="skipped", reason=NO_TARGET, domain=item.domain)
        contexts = benchmark.answer(item, None).contexts if searched else ()
        return Sample(
            id=item.id, status="done", domain=item.domain, contexts=contexts,
            timings={"answer": round(time.perf_counter() - began, 4)}, **fields,
        )  # fmt: skip

    return answer
