"""One measurement of `size`, in a process of its own, so that its memory is its own: what it finds goes out as JSON.

python -m tests.benchmarks.size_child build|search|embed RETRIEVER FOLDER
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from assistant.steps.retrieve import conversation_query
from corpora.readers import read_source
from corpora.types import Document
from retrieval.build import build_index
from retrieval.index import open_index
from retrieval.registry import build_settings, open_retriever
from retrieval.types import Query
from retrieval.views import Views
from tests.benchmarks.pools import StoredEmbedder, stored_embedder, turns

NAME = "size"
SAMPLE = 512
"""Passages that the model's own speed is measured on."""
EVERY = 4
"""Of the conversations every fourth is held, all its turns in their order."""


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
        "hnsw": sum(file.stat().st_size for file in files.rglob("data_level0.bin")),
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

    def encode_tokens(self, texts: Sequence[str], role: Any) -> Any:
        """See `TokenEmbedder.encode_tokens`."""
        return self.encode_both(texts, role)[1:]

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


if __name__ == "__main__":
    _, _what, _retriever, _folder = sys.argv
    _work = {"build": build, "search": search, "embed": embed}[_what]
    sys.stdout.write(json.dumps(_work(_retriever, Path(_folder))) + "\n")
