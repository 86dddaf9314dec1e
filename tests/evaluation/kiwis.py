"""KIWI sessions written by tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.evaluation.benched import assistant_of, items_of, open_task
from turnmark.corpora.jsonl_rows import Source
from turnmark.evaluation.benchmarks.kiwi.analysis import KiwiAnalyse
from turnmark.evaluation.benchmarks.kiwi.revision import Kiwi
from turnmark.evaluation.tasks.items import Item
from turnmark.evaluation.tasks.metric import measure_sample
from turnmark.evaluation.tasks.task import Task
from turnmark.retrieval.embedding.vector_cache import Embed

ANSWER = "The lamp was lit in 1868. It burned rape oil."


def turn(**changes: Any) -> dict[str, Any]:
    return {
        "instruction": "Remove the sentence about rape oil.", "answer_1": "Lit in 1868.", "rating": "good",
    } | changes  # fmt: skip


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


def four_turns(tmp_path: Path) -> KiwiAnalyse:
    """Two sessions of three turns and one: two good, one bad and edited, one neutral and not edited."""
    rows = [
        session(
            turn(answer_1="The lamp was lit in 1868.", instruction_type="stylistic", fine_type="Remove"),
            turn(instruction="Who paid for it?", answer_1="Nobody knows.",
                 answer_2="The lamp was lit in 1868. The crown paid.", rating="bad",
                 comment="It also removed the rest.", instruction_type="information-seeking",
                 retrieved_passages=[{"title": "", "text": "The crown paid for it."}], error_type="unrequested change"),
            turn(instruction="Shorten it.", answer_1="Lit.", rating="neutral", instruction_type="stylistic",
                 fine_type="Reorganize", comment="Too short, two words would do."),
            model_name="GPT-4",
        ),
        session(turn(instruction="Who built it?", answer_1=f"{ANSWER} Ellis built it."), model_name="tiny"),
    ]  # fmt: skip
    return open_task(KiwiAnalyse, written(tmp_path, *rows))


def means(bench: Task) -> dict[str, float]:
    """The mean of every metric over what the benchmark answers without a model, by the weights of its lines."""
    sums: dict[str, tuple[float, float]] = {}
    for item in items_of(bench):
        sample = bench.answer(item, None)
        for score in measure_sample(
            bench.metrics,
            sample,
            lambda item=item, sample=sample: bench.context(item, sample),  # type: ignore[misc]
        ):
            if score.value is not None:
                total, weight = sums.get(score.metric, (0.0, 0.0))
                sums[score.metric] = total + score.weight * score.value, weight + score.weight
    return {name: total / weight for name, (total, weight) in sums.items()}


def revising(root: Path, *rows: Any, papers: Sequence[str] = (), embed: Embed | None = None) -> tuple[Kiwi, list[Item]]:
    """KIWI's revisions over these sessions, and the turns."""
    bench = open_task(Kiwi, written(root, *rows, papers=papers), assistant=assistant_of(embed))
    return bench, items_of(bench)
