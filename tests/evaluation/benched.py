"""Benchmarks asked by hand: their items, a sample, its values."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from tests.evaluation.requests import request_of
from tests.servers import Script, ScriptedServer
from turnmark.assistant.config import AssistantConfig
from turnmark.assistant.llm.generators.registry import open_generator
from turnmark.assistant.turn.assistant import Assistant
from turnmark.assistant.turn.components import AssistantParts
from turnmark.corpora.jsonl_rows import Source
from turnmark.evaluation.records import Sample
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import measure_sample
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.embedding.embedders import open_embedder
from turnmark.retrieval.embedding.vector_cache import Embed

T = TypeVar("T", bound=Task)


def minilm(texts: Sequence[str]) -> NDArray[np.float32]:
    return open_embedder("minilm").encode(texts, "passage")


def bags_of_words(texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed each text by its words, for tests in which an embedder is called and what it finds does not matter."""
    vectors = np.full((len(texts), 64), 0.01, dtype=np.float32)
    for vector, text in zip(vectors, texts, strict=True):
        for word in re.findall(r"\w+", text.lower()):
            vector[zlib.crc32(word.encode()) % 64] += 1
    unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


def open_task(
    kind: type[T], source: Source, setting: str | None = None, assistant: Assistant | None = None, **fields: Any
) -> T:
    """A task over a folder, answered by this assistant."""
    request = request_of(**{"benchmark": "own", "data": source.root, "generator": "openai:tiny", **fields})
    return kind(request, setting).using(assistant or assistant_of())


def assistant_of(embed: Embed | None = None, generator: str = "extractive", **fields: Any) -> Assistant:
    """An assistant of this configuration, without a retriever."""
    config = AssistantConfig(generator=generator, **fields)
    return Assistant.from_parts(config, AssistantParts(generator=open_generator(generator), embed=embed))


def items_of(bench: Task) -> list[Item]:
    """The items of the domains that are asked for."""
    items = [item for item in bench.items() if isinstance(item, Item)]
    return [item for item in items if not bench.domains or item.domain in bench.domains]


def only(bench: Task) -> Item:
    (item,) = items_of(bench)
    return item


def values(bench: Task, item: Item, sample: Sample) -> dict[str, float | None]:
    """Metric -> value; none of them may fail."""
    metrics = [metric for metric in bench.metrics if metric.concerns(item)]
    scores = measure_sample(metrics, sample, lambda: bench.context(item, sample))
    assert not [score for score in scores if score.status == "failed"]
    return {score.metric: score.value for score in scores}


def done(item: Item, prediction: str, **more: Any) -> Sample:
    return Sample(id=item.id, status="done", prediction=prediction, **more)


def asked(bench: Task, item: Item, *replies: Script, options: str = "") -> tuple[Sample, list[dict[str, Any]]]:
    """The sample that these replies of a model make, and what the model was sent."""
    with ScriptedServer(*replies) as server:
        return bench.answer(item, open_generator(f"openai:tiny@{server.url}?retries=0{options}")), server.bodies
