"""KIWI sessions written by tests."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.evaluation.benched import items_of
from turnmark.corpora.rows import Source
from turnmark.evaluation.benchmarks.base import Benchmark, measured

ANSWER = "The lamp was lit in 1868. It burned rape oil."


def turn(**changes: Any) -> dict[str, Any]:
    return {
        "instruction": "Remove the sentence about rape oil.",
        "answer_1": "Lit in 1868.",
        "rating": "good",
    } | changes


def session(*turns: dict[str, Any], **changes: Any) -> dict[str, Any]:
    fields = {"original_question": "What of the lamp?", "model_name": "demo", "initial_answer": ANSWER}
    return fields | {"interaction": list(turns) or [turn()]} | changes


def written(root: Path, *rows: Any, papers: Sequence[str] = ()) -> Source:
    root.mkdir(parents=True, exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in rows]
    (root / "interaction_data_new.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if papers:
        companion = {"question": "What of the  LAMP?", "cited_papers": [], "cited_paragraphs": list(papers)}
        (root / "longform_sciqa.jsonl").write_text(json.dumps(companion) + "\n", encoding="utf-8")
    return Source(root=root, demo=False)


def means(bench: Benchmark[Any]) -> dict[str, float]:
    """The mean of every metric over what the benchmark answers without a model, by the weights of its lines."""
    sums: dict[str, tuple[float, float]] = {}
    for item in items_of(bench):
        sample = bench.answer(item, None)
        for score in measured(bench.metrics, sample, lambda item=item, sample=sample: bench.context(item, sample)):  # type: ignore[misc]
            if score.value is not None:
                total, weight = sums.get(score.metric, (0.0, 0.0))
                sums[score.metric] = total + score.weight * score.value, weight + score.weight
    return {name: total / weight for name, (total, weight) in sums.items()}


def instructions(bodies: Sequence[dict[str, Any]]) -> Iterator[str]:
    """What a scripted server was asked, the last message of each request."""
    return (body["messages"][-1]["content"] for body in bodies)
