"""What `--engine ray` costs beside the local engine, on one node.

    pip install 'turnmark[ray]'
    TURNMARK_DATA=… python -m tests.benchmarks.scaling_ray [passages [N] | calls | scores [N]]

The same blocks of passages (ClapNQ's, where TURNMARK_DATA has them, else the demo's, as often as it takes) are embedded
by the bundled MiniLM in this process and by the workers of a cluster that is started here, with the same cores. The
two take turns; the best of the rounds counts. Beside it: what one call of a worker costs that does nothing, as each
sample of `eval` makes one; and the scores of MTRAG's reference answers, by the embedded judge and by metrics without a
model, here and by the workers, who take turns over other samples each time, as both remember what they have embedded.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, cycle, islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from corpora.readers import read_source
from corpora.types import Document
from evaluation import answers, generation
from evaluation.benchmarks.base import Benchmark, Item
from evaluation.benchmarks.turns import Parts
from evaluation.judging.embedded import NAME
from evaluation.judging.juries import jury_of
from evaluation.judging.mounting import judged as with_judges
from evaluation.records import Sample
from evaluation.requests import GenerationRequest, PredictionsRequest
from evaluation.scorers import Asked
from evaluation.spread import There, absolute, mark, open_there
from evaluation.spread_scores import Pairs, SpreadScores, mark_of_judges
from retrieval.build import BLOCK, Made
from retrieval.makers import Models, Window, coders_there
from retrieval.registry import build_settings
from retrieval.workers import Workers
from tests.conftest import DEMO

PASSAGES, ROUNDS = 1024, 3
SAMPLES, TURNS = 6, 11
CALLS, AT_ONCE = 2000, 16
CORPUS = Path("mt-rag-benchmark") / "corpora" / "passage_level" / "clapnq.jsonl"


def nothing() -> tuple[Callable[[str], str], str]:
    """A worker that gives back what it is given."""
    return lambda text: text, "nothing"


def texts(count: int, window: Window) -> list[str]:
    """The first passages, as they are embedded."""
    data = Path(os.environ.get("TURNMARK_DATA") or "nowhere") / CORPUS
    source = data if data.is_file() else DEMO / "documents"
    documents: Iterable[Document] = (item for item in read_source(source) if isinstance(item, Document))
    cut = [passage.indexed_text for document in islice(documents, count) for passage in window.cut(document)]
    return list(islice(cycle(cut), count))


def vectors(made: Iterable[tuple[int, Made]]) -> np.ndarray:
    """All vectors in the order of their blocks."""
    blocks = [one["chroma"] for _, one in sorted(made, key=lambda pair: pair[0])]
    return np.stack([np.frombuffer(vector, dtype=np.float32) for vector in chain.from_iterable(blocks)])


def embedding(count: int) -> None:
    """Passages through the model, here and there."""
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


def calling() -> None:
    """Calls of a worker that does nothing."""
    with Workers("ray", nothing, at_once=AT_ONCE) as idle, ThreadPoolExecutor(AT_ONCE) as pool:
        text = "x" * 4000
        idle.call((text,), 60.0)
        began = time.perf_counter()
        for _reply in pool.map(lambda _: idle.call((text,), 60.0), range(CALLS)):
            pass
        each = 1000 * (time.perf_counter() - began) / CALLS
    print(f"a call of 4,000 characters that does nothing, {AT_ONCE} at once: {each:.2f} ms")


@dataclass(frozen=True)
class Ready:
    """See `evaluation.spread_scores.Pool`."""

    workers: Workers[Any]

    def opened(self) -> Workers[Any]:
        """They are."""
        return self.workers


def references(benchmark: Benchmark[Any], count: int) -> list[tuple[Item, Sample]]:
    """The first items that have a reference answer, which is what a system answered."""
    made = []
    for item in benchmark.items():
        task = getattr(item.task, "task", item.task) if isinstance(item, Item) else None
        if task is not None and getattr(task, "reference", ""):
            made.append((item, Sample(id=item.id, status="done", prediction=task.reference)))
    return made[:count]


def asked(plan: answers.Plan, benchmark: Benchmark[Any], part: Pairs) -> list[Asked]:
    """What the embedded judge is asked of samples."""
    jury = jury_of(plan.manifest.benchmark, plan.manifest.task, plan.manifest.setting, plan.request.embedder)
    assert jury is not None, "MTRAG has one"
    measures = [one for one in jury.measures if one.name.endswith(f"[{NAME}]")]
    cases = [jury.case(item, sample, benchmark.context(item, sample)) for item, sample in part]
    return [(one.name, NAME, case) for case in cases for one in measures if not one.without(case)]


def scoring(name: str, folder: str, judges: tuple[str, ...], count: int) -> None:
    """Scores of so many reference answers, here and there: by judges where some are named, else the metrics."""
    path = Path(os.environ.get("TURNMARK_DATA") or "nowhere") / folder
    with TemporaryDirectory() as scratch:
        file = Path(scratch) / "predictions.jsonl"
        request = PredictionsRequest(
            benchmark=name, data=path if path.is_dir() else None, predictions=(file,), judge=judges
        )
        wanted = GenerationRequest(benchmark=name, data=request.data)
        found = references(generation.plan(wanted).prepared.build(Parts(), {}), TURNS * count)
        file.write_text("".join(f"{sample.model_dump_json()}\n" for _, sample in found), encoding="utf-8")
        plan = with_judges(answers.plan(request))
        benchmark = plan.prepared.build(answers.parts_of(request.embedder), {})
        here = There(plan, answering=False)
        expected = mark(plan.manifest) + mark_of_judges(plan)
        began = time.perf_counter()
        with Workers("ray", open_there, (absolute(request), False), mark=expected) as workers:
            start = time.perf_counter() - began
            spread, turns, done, same = SpreadScores(Ready(workers)), list[tuple[float, float]](), 0, True
            for first in range(0, len(found), count):
                part = found[first : first + count]
                jobs = asked(plan, benchmark, part) if judges else []
                began = time.perf_counter()
                ours = [one for one, _ in here("judge", jobs)] if judges else here("measure", part)
                middle = time.perf_counter()
                theirs = (
                    [one for _, (one, _) in sorted(spread.judged(enumerate(jobs)), key=lambda pair: pair[0])]
                    if judges
                    else [scores for _, _, scores in spread.measured(benchmark, iter(part))]
                )
                same &= ours == theirs
                if first:  # the first ones load the models
                    turns.append((middle - began, time.perf_counter() - middle))
                    done += len(jobs) or len(part)
    what = "judgements" if judges else "samples measured"
    print(
        f"{name}: {done} {what}, {os.cpu_count()} cores; ready after {start:.1f} s; the same: {'yes' if same else 'NO'}"
    )
    ours_s, theirs_s = (sum(seconds) for seconds in zip(*turns, strict=True))
    ratio = median(there / here for here, there in turns)
    print(f"local {ours_s:.2f} s, ray {theirs_s:.2f} s, median of {len(turns)} turns x{ratio:.3f}")


def main() -> None:
    """Measure and print."""
    what, number = (*sys.argv[1:], "all", "")[:2] if len(sys.argv) < 2 else (*sys.argv[1:], "")[:2]
    if what in ("passages", "all"):
        embedding(int(number or PASSAGES))
    if what in ("calls", "all"):
        calling()
    if what in ("scores", "all"):
        scoring("mtrag", "mt-rag-benchmark", ("embedded",), int(number or SAMPLES))
        scoring("compound-qa", "compound-qa", (), int(number or SAMPLES))


if __name__ == "__main__":
    main()
