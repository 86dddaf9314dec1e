"""What the embedded understand step gets right on MTRAG's human turns.

    TURNMARK_DATA=… python -m tests.benchmarks.understand

Courtesies against the label CONVERSATIONAL of MTRAG and MTRAG-UN; standalone or not against the 200 labelled later
turns of MTRAG; and how many messages are split into parts. Beside each stands what the commoner label would get.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Literal

from assistant.steps.decompose import understand_parts
from assistant.steps.understand import understand
from corpora import mtrag
from corpora.mtrag import Task
from evaluation.benchmarks.mtrag_data import standalone_labels
from tests.benchmarks.pools import root


def table(name: str, pairs: Sequence[tuple[bool, bool]]) -> str:
    """Precision, recall and accuracy of some (label, prediction), and the accuracy of the commoner label."""
    count = Counter(pairs)
    hit, wrong, missed = count[True, True], count[False, True], count[True, False]
    right = (hit + count[False, False]) / len(pairs)
    common = max(sum(label for label, _ in pairs), sum(not label for label, _ in pairs)) / len(pairs)
    precision = f"{hit / (hit + wrong):.3f}" if hit + wrong else "-"
    recall = f"{hit / (hit + missed):.3f}" if hit + missed else "-"
    return (
        f"{name:42} n {len(pairs):4}  precision {precision}  recall {recall}  accuracy {right:.3f}  always {common:.3f}"
    )


def tasks_of(benchmark: Literal["mtrag", "mtrag-un"]) -> list[Task]:
    """The tasks of a benchmark in the order of the data."""
    return list(mtrag.load_tasks(root(), benchmark).data.values())


def pairs_of(
    tasks: Sequence[Task], label: Callable[[Task], bool], guess: Callable[[Task], bool]
) -> list[tuple[bool, bool]]:
    """(label, prediction) of some tasks."""
    return [(label(task), guess(task)) for task in tasks]


def main() -> None:
    """Print the tables."""
    for benchmark in ("mtrag", "mtrag-un"):
        tasks = tasks_of(benchmark)
        found = pairs_of(
            tasks,
            lambda task: task.answerability == "CONVERSATIONAL",
            lambda task: understand(task.history, task.question).kind == "conversational",
        )
        print(table(f"{benchmark}: a courtesy", found))
        began = time.perf_counter()
        parts = Counter(len(understand_parts(task.history, task.question).sub_questions) for task in tasks)
        took = 1000 * (time.perf_counter() - began) / len(tasks)
        spread = ", ".join(f"{count} in {number}" for number, count in sorted(parts.items()))
        print(f"{benchmark + ': parts':42} n {len(tasks):4}  {spread}; {took:.2f} ms a message")
    tasks = [task for task in tasks_of("mtrag") if task.id in standalone_labels()]
    found = pairs_of(
        tasks,
        lambda task: not standalone_labels()[task.id],
        lambda task: not understand(task.history, task.question).standalone,
    )
    print(table("mtrag: not standalone", found))


if __name__ == "__main__":
    main()
