"""What a corpus costs by its size: time to build, disk, memory, and the 95th percentile of a query.

    TURNMARK_DATA=… python -m tests.benchmarks.size [--sizes 5000,10000,20000,40000,80000] [--out FOLDER]

The passages are both MTRAG pools, repeated with changed text. Everything is built and searched at every size, each in a
process of its own, but for the embedding: its speed is measured on a sample, and vectors come from the pools' own
indexes (with noise where a passage is repeated). Results go to `results.jsonl`, one a line; the same command goes on
where it stopped. The report is `report.html`. Linux only: memory is what /proc says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from corpora.home import home
from tests.benchmarks.pools import pool_indexes, store_pools, store_texts, write_corpus
from tests.benchmarks.size_report import as_html, as_text

SIZES = (5_000, 10_000, 20_000, 40_000, 80_000)
DEFAULT = "conversational"
SEARCHED = ("bm25", "dense", "hybrid", "conversational?rerank=none", DEFAULT)
FEWER = ("bm25",)
"""Built alone as well, where they need fewer parts; `dense` and `hybrid` build what the default does without tokens."""


class Results:
    """What was measured, a JSON object a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.found: list[dict[str, Any]] = []
        if path.is_file():
            self.found = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]

    def has(self, what: str, retriever: str, size: int) -> bool:
        """Whether it was measured."""
        return any((one["what"], one["retriever"], one["size"]) == (what, retriever, size) for one in self.found)

    def add(self, what: str, retriever: str, size: int, values: dict[str, Any]) -> None:
        """Note a measurement, with the load of the machine at its end."""
        load = os.getloadavg()[0]
        self.found.append({"what": what, "retriever": retriever, "size": size, "load": load, **values})
        with open(self._path, "a", encoding="utf-8") as out:
            out.write(json.dumps(self.found[-1]) + "\n")


class Bench:
    """Runs what is missing.

    Args:
        folder: where everything is built; indexes are deleted when they were searched.
    """

    def __init__(self, folder: Path, results: Results) -> None:
        self._folder, self._results = folder, results

    def size(self, size: int) -> None:
        """Everything at one size."""
        corpus = self._folder / str(size) / "corpus.jsonl"
        wanted = [("build", DEFAULT), *(("search", one) for one in SEARCHED), *(("build", one) for one in FEWER)]
        if all(self._results.has(what, retriever, size) for what, retriever in wanted):
            return
        write_corpus(corpus, size)
        store_texts(self._folder / "made.db", size, corpus)
        built = corpus.parent / DEFAULT
        shutil.rmtree(built, ignore_errors=True)
        self._child("build", DEFAULT, size, built)
        for retriever in SEARCHED:
            if not self._results.has("search", retriever, size):
                self._child("search", retriever, size, built)
        for retriever in FEWER:
            self._child("build", retriever, size, corpus.parent / retriever)
        shutil.rmtree(corpus.parent)

    def speed(self, size: int) -> None:
        """How fast the model embeds passages, for the default's parts and for vectors alone."""
        corpus = self._folder / str(size) / "corpus.jsonl"
        for retriever in ("hybrid", DEFAULT):
            if not self._results.has("embed", retriever, 0):
                write_corpus(corpus, size)
                self._child("embed", retriever, 0, corpus.parent / "embed")

    def _child(self, what: str, retriever: str, size: int, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        cache = os.environ.get("TURNMARK_CACHE") or str(home() / "cache")
        environment = {**os.environ, "TURNMARK_HOME": str(folder / "home"), "TURNMARK_CACHE": cache}
        command = [sys.executable, "-m", "tests.benchmarks.size_child", what, retriever, str(folder)]
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        values = json.loads(ran.stdout.splitlines()[-1])
        if not self._results.has(what, retriever, size):
            self._results.add(what, retriever, size, values)
        print(f"{what} {retriever} at {size or 'a sample'}: done", file=sys.stderr, flush=True)


def main() -> None:
    """Measure what is missing, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--out", type=Path, default=Path("size-benchmark"))
    asked = parser.parse_args()
    sizes = sorted(int(size) for size in asked.sizes.split(","))
    asked.out.mkdir(parents=True, exist_ok=True)
    results = Results(asked.out / "results.jsonl")
    made = asked.out / "made.db"
    if not made.is_file():
        pool_indexes()
        store_pools(made.with_suffix(".part"))
        made.with_suffix(".part").replace(made)
    bench = Bench(asked.out, results)
    bench.speed(sizes[0])
    for size in sizes:
        bench.size(size)
    sys.stdout.write(as_text(results.found))
    (asked.out / "report.html").write_text(as_html(results.found), encoding="utf-8")


if __name__ == "__main__":
    main()
