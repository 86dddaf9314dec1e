"""What InsCoQA's embedded judge is worth, on the demo split.

    python -m tests.benchmarks.steps

First `judge_score[embedded]` of replies whose worth is known. Then how well `task_completion[embedded]` finds the steps
that were found by hand, by the threshold of its matching.

Over tests/evaluation/data/inscoqa_steps.json: procedures written by hand for the demo split, half of them to choose
the threshold on. `wrong`: reference steps taken for covered that are not; `missed`: the other way round; `unrelated`:
the completion rate, mean and greatest, of the reference procedures of all other questions, where 0 would be right.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from corpora import inscoqa
from corpora.text import sentences
from evaluation.judging.embedded import NoModel
from evaluation.judging.inscoqa_embedded import embedded_inseval
from evaluation.judging.records import Case
from evaluation.metrics.steps import LEAST, likeness, matched

LABELS = Path(__file__).parents[1] / "evaluation/data/inscoqa_steps.json"
PARTS = ("chosen on", "held out")


def counts(rows: Sequence[tuple[Any, set[int], int]], least: float) -> tuple[int, int, int, int]:
    """Reference steps judged rightly, all, wrong and missed.

    Args:
        rows: likeness, the reference steps that were found by hand, and how many there are.
    """
    right = of = wrong = missed = 0
    for alike, covers, wanted in rows:
        found = set(matched(alike, least))
        of += wanted
        wrong += len(found - covers)
        missed += len(covers - found)
        right += wanted - len(found ^ covers)
    return right, of, wrong, missed


def ratings(tasks: Sequence[inscoqa.Task], embed: Any) -> dict[str, list[float]]:
    """Reply -> the judge scores of all tasks."""
    rating, _ = embedded_inseval(embed, "minilm")

    def rated(task: inscoqa.Task, reply: str) -> float:
        case = Case(question=task.question, answer=reply, reference=task.answer)
        return rating.ask(NoModel(), case, None).value or 0.0

    def half(text: str) -> str:
        found = sentences(text)
        return text[: found[(len(found) - 1) // 2][1]]

    return {
        "the reference": [rated(one, one.answer) for one in tasks],
        "its first half": [rated(one, half(one.answer)) for one in tasks],
        "all documents": [rated(one, " ".join(document.text for document in one.documents)) for one in tasks],
        "another reference": [rated(one, other.answer) for one in tasks for other in tasks if one is not other],
        "I don't know.": [rated(one, "I don't know.") for one in tasks],
    }


def main() -> None:
    """Print a line for each kind of reply, and one for each threshold."""
    from retrieval.embed import open_embedder

    model = open_embedder("minilm")

    def embed(texts: Sequence[str]) -> Any:
        return model.encode(list(texts), "passage")

    tasks = inscoqa.load_tasks(inscoqa.DEMO_ROOT).data
    for reply, values in ratings(list(tasks.values()), embed).items():
        print(f"{reply:20} mean {np.mean(values):5.2f}, {min(values):5.2f} to {max(values):5.2f}")
    vectors = {name: embed(task.procedure) for name, task in tasks.items()}
    labelled: dict[str, list[tuple[Any, set[int], int]]] = {part: [] for part in PARTS}
    for one in json.loads(LABELS.read_text(encoding="utf-8"))["procedures"]:
        wanted = tasks[one["id"]].procedure
        alike = likeness(wanted, one["steps"], vectors[one["id"]] @ embed(one["steps"]).T)
        labelled[one["part"]].append((alike, set(map(int, one["covers"])), len(wanted)))
    unrelated = [
        likeness(tasks[name].procedure, tasks[other].procedure, vectors[name] @ vectors[other].T)
        for name in tasks
        for other in tasks
        if name != other
    ]
    print(
        "threshold   " + "   ".join(f"{part}: right, wrong, missed" for part in PARTS) + "   unrelated: mean, greatest"
    )
    for least in sorted({*(n / 40 for n in range(6, 21)), LEAST}):
        cells = []
        for part in PARTS:
            right, of, wrong, missed = counts(labelled[part], least)
            cells.append(f"{right}/{of} {right / of:.3f} {wrong:2} {missed:2}")
        shares = [len(matched(alike, least)) / len(alike) for alike in unrelated]
        mark = "*" if least == LEAST else " "
        print(f"{least:.3f} {mark}     {'              '.join(cells)}          {np.mean(shares):.3f} {max(shares):.3f}")


if __name__ == "__main__":
    main()
