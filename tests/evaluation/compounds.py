"""Compound questions in a folder, and a benchmark over them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.evaluation.benched import assistant_of, items_of, minilm, open_task
from turnmark.corpora.jsonl_rows import Source
from turnmark.evaluation.benchmarks.compound_qa.generation import CompoundQA
from turnmark.evaluation.tasks.items import Item

CONTEXT = (
    "The lamp was lit in 1868. At first the lamp burned rape oil. The horn sounded until 2005. Goats graze on the hill."
)

QUESTION = "When was the lamp lit? What did the lamp burn?"


def row(**changes: Any) -> dict[str, Any]:
    sample = {"ID": "x_1", "context": CONTEXT, "com_question": QUESTION, "com_reference": "In 1868. Rape oil."}
    return {key: value for key, value in (sample | changes).items() if value is not None}


def written(root: Path, *rows: Any, capability: str = "Understanding", kind: str = "Factual_Statement") -> Source:
    path = root / "data" / capability / f"{capability}_{kind}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in rows]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return Source(root=root, demo=False)


def bench_of(
    root: Path, *rows: Any, setting: str | None = None, embed: bool = True, **more: Any
) -> tuple[CompoundQA, list[Item]]:
    """A benchmark over these rows, and its items."""
    assistant = assistant_of(minilm if embed else None)
    references = more.pop("references", None)
    bench = open_task(CompoundQA, written(root, *rows), setting, assistant, **more)
    bench.references = references or {}
    return bench, items_of(bench)
