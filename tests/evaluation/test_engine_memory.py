"""What the engine keeps in memory of a sample: nearly nothing."""

from __future__ import annotations

import json
import sys
import tracemalloc

import pytest

from tests.evaluation.run_records import manifest
from turnmark.corpora.console import NoProgress
from turnmark.evaluation.benchmarks.base import Item, Metric
from turnmark.evaluation.benchmarks.task import Task
from turnmark.evaluation.budget import Ledger
from turnmark.evaluation.engine import Limits, SampleJob, generate
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import open_run
from turnmark.evaluation.scoring import score_run


class Trivial(Task):
    """A benchmark of so many samples, none of which is kept."""

    def __init__(self, size):  # no request: nothing is opened
        self.size = size
        self.metrics = [Metric(("length", "even"), "len", self._measure)]

    def items(self):
        for number in range(self.size):
            yield Item(f"item {number}", number, labels={"part": (str(number % 3),)}, cluster=f"c{number // 7}")

    def answer(self, item, _):
        return Sample(id=item.id, status="done", query=f"question {item.task}?", prediction="word " * 60)

    def context(self, item, sample):
        return sample.prediction or ""

    def _measure(self, text):
        return {"length": float(len(text)), "even": 1.0}


def trivial_run(path, size):
    """Bytes a sample at the most: while answering, while scoring."""
    benchmark = Trivial(size)

    def items():
        return (item for item in benchmark.items() if isinstance(item, Item))

    def peak(work):
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        work()
        return (tracemalloc.get_traced_memory()[1] - before) / size

    with open_run(path, manifest(limit=size)) as run:
        todo = (SampleJob(item) for item in items())
        tracemalloc.start()
        try:
            limits, ledger = Limits(concurrency=16), Ledger()
            answering = peak(lambda: generate(todo, benchmark.answer, None, run, limits, ledger, NoProgress()))
            scoring = peak(lambda: score_run(run, benchmark, items(), progress=NoProgress()))
        finally:
            tracemalloc.stop()
    summary = json.loads((path / "summary.json").read_text())
    assert summary["n"] == summary["metrics"]["even"]["n"] == size
    with open(path / "predictions.jsonl", encoding="utf-8") as file:
        for number, line in enumerate(file):
            assert json.loads(line)["id"] == f"item {number}"
    assert number == size - 1
    return answering, scoring


@pytest.mark.slow
def test_memory_stays_flat_over_100_000_samples(tmp_path):
    answering, scoring = trivial_run(tmp_path / "r", 100_000)
    sys.stderr.write(f"bytes a sample: answering {answering:.0f}, scoring {scoring:.0f}\n")
    assert answering < 400
    assert scoring < 500
