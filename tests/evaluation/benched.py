"""Benchmarks asked by hand: their items, a sample, its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.servers import Script, ScriptedServer
from turnmark.assistant.generators import open_generator
from turnmark.evaluation.benchmarks.base import Benchmark, Item, measured
from turnmark.evaluation.records import Sample
from turnmark.retrieval.embed import open_embedder


def minilm(texts: Sequence[str]) -> NDArray[np.float32]:
    return open_embedder("minilm").encode(texts, "passage")


def items_of(bench: Benchmark[Any]) -> list[Item]:
    return [item for item in bench.items() if isinstance(item, Item)]


def only(bench: Benchmark[Any]) -> Item:
    (item,) = items_of(bench)
    return item


def values(bench: Benchmark[Any], item: Item, sample: Sample) -> dict[str, float | None]:
    """Metric -> value; none of them may fail."""
    scores = measured(bench.metrics, sample, lambda: bench.context(item, sample))
    assert not [score for score in scores if score.status == "failed"]
    return {score.metric: score.value for score in scores}


def done(item: Item, prediction: str, **more: Any) -> Sample:
    return Sample(id=item.id, status="done", prediction=prediction, **more)


def asked(
    bench: Benchmark[Any], item: Item, *replies: Script, options: str = ""
) -> tuple[Sample, list[dict[str, Any]]]:
    """The sample that these replies of a model make, and what the model was sent."""
    with ScriptedServer(*replies) as server:
        return bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0{options}")), server.bodies
