"""What `--engine ray` costs beside the local engine, on one node: `python -m tests.benchmarks.scaling_ray [PASSAGES]`.

    pip install 'turnwise[ray]'
    TURNWISE_DATA=… python -m tests.benchmarks.scaling_ray

The same blocks of passages (ClapNQ's, where TURNWISE_DATA has them, else the demo's, as often as it takes) are embedded
by the bundled MiniLM in this process and by the workers of a cluster that is started here, with the same cores. The
two take turns; the best of the rounds counts. Beside it: what one call of a worker costs that does nothing, as each
sample of `eval` makes one.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, cycle, islice
from pathlib import Path

import numpy as np

from corpora.readers import read_source
from corpora.types import Document
from retrieval.build import BLOCK, Made
from retrieval.makers import Models, Window, coders_there
from retrieval.registry import build_settings
from retrieval.workers import Workers
from tests.conftest import DEMO

PASSAGES, ROUNDS = 1024, 3
CALLS, AT_ONCE = 2000, 16
CORPUS = Path("mt-rag-benchmark") / "corpora" / "passage_level" / "clapnq.jsonl"


def nothing() -> tuple[Callable[[str], str], str]:
    """A worker that gives back what it is given."""
    return lambda text: text, "nothing"


def texts(count: int, window: Window) -> list[str]:
    """The first passages, as they are embedded."""
    data = Path(os.environ.get("TURNWISE_DATA") or "nowhere") / CORPUS
    source = data if data.is_file() else DEMO / "documents"
    documents: Iterable[Document] = (item for item in read_source(source) if isinstance(item, Document))
    cut = [passage.indexed_text for document in islice(documents, count) for passage in window.cut(document)]
    return list(islice(cycle(cut), count))


def vectors(made: Iterable[tuple[int, Made]]) -> np.ndarray:
    """All vectors in the order of their blocks."""
    blocks = [one["chroma"] for _, one in sorted(made, key=lambda pair: pair[0])]
    return np.stack([np.frombuffer(vector, dtype=np.float32) for vector in chain.from_iterable(blocks)])


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else PASSAGES
    settings = build_settings("dense")
    models = Models.open(settings)
    [coder] = models.coders()
    given = texts(count, Window.of(models.all()))
    blocks = [given[start : start + BLOCK] for start in range(0, count, BLOCK)]
    coder.encode(given[:8])
    here, there = float("inf"), float("inf")
    began = time.perf_counter()
    with Workers("ray", coders_there, (settings,), mark=models.mark()) as workers:
        start = time.perf_counter() - began
        for _round in range(ROUNDS):
            began = time.perf_counter()
            ours = vectors((number, coder.encode(block)) for number, block in enumerate(blocks))
            here = min(here, time.perf_counter() - began)
            began = time.perf_counter()
            theirs = vectors(workers.spread((number, (0, block)) for number, block in enumerate(blocks)))
            there = min(there, time.perf_counter() - began)
        many = workers.count
    print(f"{count} passages in blocks of {BLOCK}, {os.cpu_count()} cores, {many} workers; best of {ROUNDS}")
    print(f"cluster and models ready after {start:.1f} s")
    print(f"local {here:.2f} s ({count / here:.0f}/s), ray {there:.2f} s ({count / there:.0f}/s), x{there / here:.3f}")
    print(f"lowest cosine between the two: {float((ours * theirs).sum(axis=1).min()):.6f}")
    with Workers("ray", nothing, at_once=AT_ONCE) as idle, ThreadPoolExecutor(AT_ONCE) as pool:
        text = "x" * 4000
        idle.call((text,), 60.0)
        began = time.perf_counter()
        for _reply in pool.map(lambda _: idle.call((text,), 60.0), range(CALLS)):
            pass
        each = 1000 * (time.perf_counter() - began) / CALLS
    print(f"a call of 4,000 characters that does nothing, {AT_ONCE} at once: {each:.2f} ms")


if __name__ == "__main__":
    main()
