"""Passages of a corpus by id, recorded passages of earlier runs, and retrievers over a corpus."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from turnmark.assistant.steps.retrieve.retrieve_sections import join_passages
from turnmark.core.errors import RequestError
from turnmark.core.grouping import group_pairs
from turnmark.corpora.jsonl_rows import json_lines
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.storage.predictions import read_lists, read_runs
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.index.build import corpus_index
from turnmark.retrieval.ranking.fusion import RankAndScore
from turnmark.retrieval.search.retriever_factory import build_settings, open_retriever
from turnmark.retrieval.storage.manifest import BuildSettings, Manifest
from turnmark.retrieval.types import Hit, Query, Retriever, RetrieverWrapper

HIDDEN_SUFFIX = "#hidden"
"""Suffix of the id of a task whose relevant passages are hidden (`--counterfactual`)."""
_SPAN = re.compile(r"(?P<document>.+)-(?P<start>\d+)-(?P<end>\d+)", re.DOTALL)
"""The form of a passage id in an index: the document, and the offsets at which the passage starts and ends."""


class Span(NamedTuple):
    """The place of a passage in its document, as the id of an index's passage states it."""

    document: str
    start: int
    end: int

    def contains(self, other: Span) -> bool:
        """Return whether another span is within this one."""
        return self.document == other.document and self.start <= other.start and other.end <= self.end


def span_of(name: str) -> Span | None:
    """Return the span that a passage's id names, or None if the id has a different form."""
    match = _SPAN.fullmatch(name)
    return Span(match["document"], int(match["start"]), int(match["end"])) if match else None


class CorpusTexts:
    """The passages of a BEIR corpus file by id. The ids are read at the first lookup; the texts stay on disk.

    Large models are shown whole sections. A section that joins several passages of the corpus is assembled from them.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offsets: dict[str, int] | None = None
        self._spans: dict[str, list[Span]] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._index()

    def _index(self) -> dict[str, int]:
        with self._lock:
            if self._offsets is None:
                self._offsets = dict(self._read_offsets())
            return self._offsets

    def get(self, name: str) -> Passage | None:
        """Return the passage with this id, or None if the corpus has no such passage."""
        offset = self._index().get(name)
        if offset is None:
            return self._joined(name)
        with open(self._path, "rb") as file:
            file.seek(offset)
            return _passage(file.readline())

    def _joined(self, name: str) -> Passage | None:
        wanted = span_of(name)
        if wanted is None:
            return None
        spans = [span for span in self._by_document().get(wanted.document, ()) if wanted.contains(span)]
        if not spans or (spans[0].start, spans[-1].end) != wanted[1:]:
            return None
        passages: list[Passage] = []
        for span in spans:
            passage = self.get(f"{span.document}-{span.start}-{span.end}")
            if passage is None:
                return None
            passages.append(passage.model_copy(update=span._asdict()))
        return join_passages(passages)

    def _by_document(self) -> dict[str, list[Span]]:
        names = self._index()
        with self._lock:
            if self._spans is None:
                spans = sorted(filter(None, map(span_of, names)))
                self._spans = group_pairs((span.document, span) for span in spans)
            return self._spans

    def _read_offsets(self) -> Iterator[tuple[str, int]]:
        offset = 0
        with open(self._path, "rb") as file:
            for line in file:
                passage = _passage(line)
                if passage is not None:
                    yield passage.id, offset
                offset += len(line)


def _passage(line: bytes) -> Passage | None:
    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        name, title, text = str(row["_id"]), str(row.get("title") or ""), str(row.get("text") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Passage(id=name, document=name, title=title, text=text, start=0, end=len(text))


MAX_FIRST_PASSAGES = 20


class FirstPassages(Retriever):
    """A retriever that returns the first passages of a corpus for every query, for estimates without a search.

    Their cosines are 1, so that the turn asks the model, as nearly all turns of a real run do.
    """

    name = "first passages"

    def __init__(self, path: Path) -> None:
        rows = (row for _, row in json_lines(path, path.name) if not isinstance(row, Problem))
        self._hits = [
            Hit(passage=Passage(id=str(n), document=str(n), title=str(row.get("title") or ""),
                                text=str(row.get("text") or ""), start=0, end=1),
                score=1 / n, found={"dense": RankAndScore(rank=n, score=1.0)})
            for n, row in enumerate(islice(rows, MAX_FIRST_PASSAGES), 1)
        ]  # fmt: skip

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        return [self._hits[:top_k] for _ in queries]


class SerializedRetriever(RetrieverWrapper):
    """A retriever that threads use one at a time, because its models and databases may not be thread-safe."""

    def __init__(self, retriever: Retriever) -> None:
        super().__init__(retriever)
        self._lock = threading.Lock()

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        with self._lock:
            return super().search(queries, top_k)

    def titles(self) -> list[str]:
        with self._lock:
            return super().titles()

    def neighbors(self, passage: Passage) -> list[Passage]:
        with self._lock:
            return super().neighbors(passage)


class HidingRetriever(RetrieverWrapper):
    """A retriever that hides some passages."""

    def __init__(self, retriever: Retriever, hidden: Iterable[str]) -> None:
        super().__init__(retriever)
        self._hidden = frozenset(hidden)

    def search(self, queries: Sequence[Query], top_k: int) -> list[list[Hit]]:
        lists = super().search(queries, top_k + len(self._hidden))
        return [[hit for hit in hits if hit.passage.id not in self._hidden][:top_k] for hits in lists]

    def neighbors(self, passage: Passage) -> list[Passage]:
        return [neighbor for neighbor in super().neighbors(passage) if neighbor.id not in self._hidden]

    def collection(self) -> Collection | None:
        collection = super().collection()
        return collection and collection.without(self._hidden)


OFFICIAL = "official"
"""Value of `--passages` that selects the setting's file in the clone of the benchmark."""
OFFICIAL_SEARCH = "official: Elser with a rewrite, over the full corpora"
"""The retriever of these files (MTRAG section 6.1)."""


def samples_file(path: Path) -> Path:
    """Return the file with recorded passages: the samples in a run's folder, or the file itself."""
    return path / "predictions.jsonl" if path.is_dir() else path


def read_recorded_passages(path: Path) -> dict[str, tuple[ContextRef, ...]]:
    """Read recorded passages: query id -> passages, best first.

    Args:
        path: a run's folder or samples, official tasks (`RAG.jsonl`, whose order and texts are kept), or a TREC run. It
            is only read, because the run may still be in progress.

    Raises:
        RequestError: the file is missing or contains mistakes.
    """
    flag = f"--passages {str(path)!r}"
    if not path.exists():
        raise RequestError(f"{flag}: no such run folder or TREC run")
    file = samples_file(path)
    if not file.is_file():
        raise RequestError(f"{flag} contains no predictions.jsonl; name a run folder or a TREC run")
    try:
        return read_lists(file, file.name) if file.suffix == ".jsonl" else read_runs([file])
    except RequestError as error:
        raise RequestError([f"{flag}, {problem}" for problem in error.problems]) from None


def is_official(path: Path) -> bool:
    """Return whether the first line of a file is a task in the official form, with its passages."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    row = next((row for _, row in json_lines(path, path.name)), None)
    return isinstance(row, dict) and "task_id" in row and "contexts" in row and "id" not in row


# --- indexes of corpora ----------------------------------------------------------------------------------------------


def open_corpus(corpus: Path, retriever: str, embedder: str) -> tuple[Retriever, str]:
    """Open a retriever over a passage file; return it with the index's fingerprint. A missing index is built."""
    index = corpus_index(corpus, retriever, embedder)
    settings = build_settings(retriever, embedder)
    opened_retriever = open_retriever(retriever, index)
    # Load the models now, so that the first search does not take longer than the others.
    if settings.models():
        opened_retriever.search([Query(text="load the models")], 1)
    return opened_retriever, _fingerprint(index.manifest, settings)


def _fingerprint(manifest: Manifest, settings: BuildSettings) -> str:
    """Return the fingerprint of the searched components only, because BM25 ignores the vectors of an index."""
    unused_models = {name: None for name in manifest.models() if name not in settings.models()}
    return manifest.model_copy(update=unused_models).fingerprint()
