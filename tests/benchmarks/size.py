"""What a corpus costs by its size: time to build, disk, memory, and the 95th percentile of a query.

    TURNMARK_DATA=… python -m tests.benchmarks.size [--sizes 5000,10000,20000,40000,80000] [--out FOLDER]

The passages are both MTRAG pools, repeated with changed text. Everything is built and searched at every size, each in a
process of its own, but for the embedding: its speed is measured on a sample, and vectors come from the pools' own
indexes (with noise where a passage is repeated). Results go to `results.jsonl`, one a line; the same command goes on
where it stopped, and prints a table. Linux only: memory is what /proc says.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.pools import (
    StoredEmbedder,
    pool_indexes,
    store_pools,
    store_texts,
    stored_embedder,
    turns,
    write_corpus,
)
from turnmark.assistant.steps.retrieve import conversation_query
from turnmark.corpora.home import home
from turnmark.corpora.readers import read_source
from turnmark.corpora.types import Document
from turnmark.retrieval.build import build_index
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import build_settings, open_retriever
from turnmark.retrieval.types import Query
from turnmark.retrieval.views import Views

SIZES = (5_000, 10_000, 20_000, 40_000, 80_000)
DEFAULT = "conversational"
SEARCHED = ("bm25", "dense", "hybrid", "conversational?rerank=none", DEFAULT)
FEWER = ("bm25",)
"""Built alone as well, where they need fewer parts; `dense` and `hybrid` build what the default does without tokens."""
NAME = "size"
SAMPLE = 512
"""Passages that the model's own speed is measured on."""
EVERY = 4
"""Of the conversations every fourth is searched, all its turns in their order."""
MIB = 2**20


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
        command = [sys.executable, "-m", "tests.benchmarks.size", "--child", what, retriever, str(folder)]
        ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
        values = json.loads(ran.stdout.splitlines()[-1])
        if not self._results.has(what, retriever, size):
            self._results.add(what, retriever, size, values)
        print(f"{what} {retriever} at {size or 'a sample'}: done", file=sys.stderr, flush=True)


def memory() -> dict[str, int]:
    """This process's memory now, in bytes: all of it, what mapped files have of it, what is its own, and the most there
    was of all since `restart`.

    Not from `getrusage`: its maximum begins with the memory of the process that started this one.
    """
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    values = {name: rest.split() for name, _, rest in (line.partition(":") for line in lines)}
    wanted = {"all": "VmRSS", "files": "RssFile", "own": "RssAnon", "most": "VmHWM"}
    return {to: int(values[name][0]) * 1024 for to, name in wanted.items()}


def restart() -> None:
    """Begin to look for the most memory anew."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def disk(folder: Path) -> dict[str, int]:
    """Bytes under each entry of a folder."""
    return {
        entry.name: sum(file.stat().st_size for file in ([entry] if entry.is_file() else entry.rglob("*")))
        for entry in sorted(folder.iterdir())
    }


class Phases:
    """A progress that notes, phase by phase, time, memory, and what is on the disk when the phase begins.

    Memory of its own, mapped files left out, is looked at every few milliseconds: the system keeps no maximum of it.
    """

    def __init__(self, files: Path) -> None:
        self.found: list[dict[str, Any]] = []
        self._files = files
        self._now: tuple[str, float, dict[str, int], int] | None = None
        self._own = 0
        threading.Thread(target=self._look, daemon=True).start()

    def _look(self) -> None:
        while True:
            self._own = max(self._own, memory()["own"])
            time.sleep(0.02)

    def start(self, what: str, total: int | None) -> None:
        """See `Progress.start`."""
        self.end()
        restart()
        held = sum(disk(self._files).values()) if self._files.is_dir() else 0
        self._own = 0
        self._now = (what, time.perf_counter(), memory(), held)

    def end(self) -> None:
        """The last phase is over."""
        if self._now:
            what, began, before, held = self._now
            taken = time.perf_counter() - began
            most = {"most": memory()["most"], "most_own": max(self._own, memory()["own"])}
            start = {"before": before["all"], "before_own": before["own"], "disk_before": held}
            self.found.append({"phase": what, "seconds": taken, **start, **most})
        self._now = None

    def advance(self, n: int = 1) -> None:
        """See `Progress.advance`."""

    def tell(self, text: str) -> None:
        """See `Progress.tell`."""


def first_texts(corpus: Path) -> list[str]:
    """The texts of the first passages."""
    documents = (item for item in read_source(corpus) if isinstance(item, Document))
    return [document.text for document, _ in zip(documents, range(SAMPLE), strict=False)]


def build(retriever: str, folder: Path) -> dict[str, Any]:
    """Build the index with vectors that are looked up, after the model embedded a block, so that it is in memory."""
    corpus, made = folder.parent / "corpus.jsonl", folder.parent.parent / "made.db"
    settings = build_settings(retriever)
    if settings.embedder:
        # As the build asks it, whole blocks: what the model keeps for itself is there before the first phase.
        embedder, some = StoredEmbedder(made), first_texts(corpus)[:256]
        work = embedder.real_both if settings.tokens else embedder.real_vectors
        work(some)
    base = memory()
    files = folder / "home" / "indexes" / NAME / "g0001"
    phases = Phases(files)
    with stored_embedder(made):
        report = build_index(corpus, NAME, retriever=retriever, progress=phases)
    phases.end()
    return {
        "passages": report.passages,
        "base": base["own"],
        "phases": phases.found,
        "most": max(phase["most"] for phase in phases.found),
        "most_own": max(phase["most_own"] for phase in phases.found),
        "disk": disk(files),
    }


def embed(retriever: str, folder: Path) -> dict[str, Any]:
    """How many passages a second the model embeds, as the retriever's build needs them."""
    embedder, texts = StoredEmbedder(folder.parent.parent / "made.db"), first_texts(folder.parent / "corpus.jsonl")
    work = embedder.real_both if build_settings(retriever).tokens else embedder.real_vectors
    work(texts[:64])
    began = time.perf_counter()
    for at in range(0, len(texts), 256):
        work(texts[at : at + 256])
    return {"per_second": len(texts) / (time.perf_counter() - began), "sample": len(texts)}


class Remembering:
    """An embedder that remembers all it embedded, so that a second pass over the same queries costs no model."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self._known: dict[tuple[str, str, str], Any] = {}
        self.name, self.dimension = real.name, real.dimension
        self.max_tokens, self.fingerprint = real.max_tokens, real.fingerprint
        self.tokenizer = real.tokenizer

    def encode(self, texts: Sequence[str], role: Any) -> Any:
        """See `Embedder.encode`."""
        return np.stack(self._get("encode", texts, role, lambda new: list(self._real.encode(new, role))))

    def encode_both(self, texts: Sequence[str], role: Any) -> Any:
        """See `TokenEmbedder.encode_both`."""
        made = self._get(
            "both", texts, role, lambda new: list(zip(*self._real.encode_both(new, role), strict=True))
        )  # fmt: skip
        return np.stack([one[0] for one in made]), [one[1] for one in made], [one[2] for one in made]

    def _get(self, what: str, texts: Sequence[str], role: str, make: Any) -> list[Any]:
        new = [text for text in dict.fromkeys(texts) if (what, role, text) not in self._known]
        for text, made in zip(new, make(new) if new else [], strict=True):
            self._known[what, role, text] = made
        return [self._known[what, role, text] for text in texts]


def search(retriever: str, folder: Path) -> dict[str, Any]:
    """How long queries take one by one, with the model and without it, and what memory that needs."""
    held = set(list(dict.fromkeys(task.conversation for task in turns()))[::EVERY])
    tasks = [task for task in turns() if task.conversation in held]
    queries = [conversation_query(task.history, task.question) for task in tasks]
    base = memory()
    index = open_index(NAME)
    if build_settings(retriever).embedder:
        index.__dict__["embedder"] = Remembering(index.embedder)
    found = open_retriever(retriever, index)
    found.search([Query(text="warm up")], 10)
    opened = memory()
    first, _ = _pass(found, queries, index)
    second, processor = _pass(found, queries, index)
    return {
        "passages": index.manifest.passages,
        "queries": len(queries),
        "texts": sum(len(query.texts()) for query in queries) / len(queries),
        "base": base["all"],
        "opened": opened["all"],
        "used": memory(),
        "median": float(np.median(first)),
        "p95": float(np.percentile(first, 95)),
        "median_without_model": float(np.median(second)),
        "p95_without_model": float(np.percentile(second, 95)),
        "processor_p95_without_model": float(np.percentile(processor, 95)),
    }


def _pass(found: Any, queries: Sequence[Query], index: Any) -> tuple[list[float], list[float]]:
    """Wall and processor seconds of each query; what was said is forgotten before."""
    if "embedder" in index.__dict__:
        index.__dict__["views"] = Views(index.embedder)
        index.views.of([("", "warm up")])
    taken, processor = [], []
    for query in queries:
        began, used = time.perf_counter(), time.process_time()
        found.search([query], 10)
        taken.append(time.perf_counter() - began)
        processor.append(time.process_time() - used)
    return taken, processor


def table(records: Sequence[dict[str, Any]]) -> str:
    """Every build phase and every search, a line each."""
    lines = []
    for one in sorted(records, key=lambda one: (one["size"], one["what"])):
        name = f"{one['size']:>7,} {one['what']:6} {one['retriever']:27}"
        if one["what"] == "embed":
            lines.append(f"{name} {one['per_second']:.1f} passages a second")
        elif one["what"] == "search":
            used = f"{one['used']['all'] / MIB:.0f} MiB ({one['used']['files'] / MIB:.0f} mapped)"
            times = [one[key] * 1000 for key in ("p95", "p95_without_model", "processor_p95_without_model")]
            lines.append(f"{name} p95 {' / '.join(f'{ms:.1f}' for ms in times)} ms; {used}")
        else:
            phases = ", ".join(f"{phase['phase']} {phase['seconds']:.1f} s" for phase in one["phases"])
            disk = sum(one["disk"].values()) / MIB
            lines.append(f"{name} {phases}; disk {disk:.1f} MiB; memory {one['most'] / MIB:.0f} MiB")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure what is missing, and print everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", default=",".join(map(str, SIZES)))
    parser.add_argument("--out", type=Path, default=Path("size-benchmark"))
    parser.add_argument("--child", nargs=3, metavar=("WHAT", "RETRIEVER", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        what, retriever, folder = options.child
        work = {"build": build, "search": search, "embed": embed}[what]
        sys.stdout.write(json.dumps(work(retriever, Path(folder))) + "\n")
        return
    sizes = sorted(int(size) for size in options.sizes.split(","))
    options.out.mkdir(parents=True, exist_ok=True)
    results = Results(options.out / "results.jsonl")
    made = options.out / "made.db"
    if not made.is_file():
        pool_indexes()
        store_pools(made.with_suffix(".part"))
        made.with_suffix(".part").replace(made)
    bench = Bench(options.out, results)
    bench.speed(sizes[0])
    for size in sizes:
        bench.size(size)
    sys.stdout.write(table(results.found))


if __name__ == "__main__":
    main()
