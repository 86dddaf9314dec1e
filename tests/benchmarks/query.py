"""How long one query takes through the default retriever over 28,000 passages, and what a batch of them gains.

    TURNMARK_DATA=… python -m tests.benchmarks.query [QUERIES]

Both MTRAG pools make one index, kept under TURNMARK_HOME. What is searched is what the assistant searches for at each
of MTRAG's 388 judged turns, one after the other as their users asked them: what was said before is remembered, and
answers were embedded when they were given, as the chat does while they are read. `all asked at once` embeds an answer
with the question; `nothing remembered` is that where each query comes from a conversation that was never heard of, as
from a loop without a memory; a batch stands beside both.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from tests.benchmarks.pools import both_pools, middle_and_p95, turns
from turnmark.assistant.steps.retrieve.retrieve_sections import conversation_query
from turnmark.corpora.benchmarks.mtrag import MtragTask
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.ranking.conversation_queries import Views
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.types import Query, Retriever

SPECS = {"conversational?rerank=none": 25, "conversational": 300}
"""The retrievers, and the 95th percentile in milliseconds that each is to stay under."""
BATCH = 5
K = 10


def nothing(task: MtragTask) -> None:
    """Done before a query that is timed with all it needs."""


def forget(index: Index) -> None:
    """Forget what was said."""
    index.__dict__["views"] = Views(index.embedder)
    index.views.of([("a context, so that the tokenizer is read", "warm up")])


def hears(retriever: Retriever) -> Callable[[MtragTask], None]:
    """What the chat does when it has answered."""

    def hear(task: MtragTask) -> None:
        for turn in task.history:
            if turn.role == "assistant":
                retriever.note_answer(turn.content)

    return hear


def query_of(retriever: Retriever, task: MtragTask) -> Query:
    """What the turn searches for."""
    return conversation_query(task.history, task.question)


def one_by_one(retriever: Retriever, tasks: Sequence[MtragTask], before: Callable[[MtragTask], None]) -> list[float]:
    """What each of the queries takes, its making included."""
    times = []
    for task in tasks:
        before(task)
        began = time.perf_counter()
        retriever.search([query_of(retriever, task)], K)
        times.append(time.perf_counter() - began)
    return times


def measure(index: Index, spec: str, goal: float, tasks: Sequence[MtragTask]) -> None:
    """Print the table of one retriever."""
    import numpy as np

    retriever = open_retriever(spec, index)
    forget(index)
    one_by_one(retriever, tasks[:8], nothing)
    forget(index)
    alone = one_by_one(retriever, tasks, hears(retriever))
    forget(index)
    used = time.process_time()
    together = one_by_one(retriever, tasks, nothing)
    used = 1000 * (time.process_time() - used) / len(tasks)
    worst = 1000 * float(np.percentile(alone, 95))
    print(f"\n{spec}, {len(tasks)} queries over {index.manifest.passages} passages")
    print(f"  {'one by one':24}{middle_and_p95(alone)}   goal {goal} ms, ratio {goal / worst:.2f}")
    print(f"  {'all asked at once':24}{middle_and_p95(together)}")
    print(f"  {'its processor time':24}mean   {used:7.1f} ms, over all cores: what other work does not change much")
    forget(index)
    began = time.perf_counter()
    retriever.search([query_of(retriever, task) for task in tasks], K)
    batch = time.perf_counter() - began
    cold = one_by_one(retriever, tasks, lambda _: forget(index))
    print(f"  {'nothing remembered':24}{middle_and_p95(cold)}")
    print(f"  {'as query batch':24}{len(tasks) / batch:.1f} queries a second, goal {BATCH} times those of one by one:")
    for name, durations in (("all asked at once", together), ("nothing remembered", cold)):
        print(f"    {name:22}{len(tasks) / sum(durations):.1f} queries a second, ratio {sum(durations) / batch:.2f}")


def main(count: int) -> None:
    """Print the tables."""
    tasks = turns()[:count]
    index = both_pools()
    print(f"embedder: {getattr(index.embedder, 'backend', index.embedder.name)}")
    for spec, goal in SPECS.items():
        measure(index, spec, goal, tasks)
    print(f"\nload of the machine over the last 1, 5 and 15 minutes: {os.getloadavg()}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
