"""The texts of passages by id, from a corpus file; the passages that an earlier run found; what searches a corpus."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from turnmark.core.errors import RequestError
from turnmark.corpora.rows import json_lines
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.records import ContextRef
from turnmark.evaluation.runs.predictions import read_lists, read_runs
from turnmark.retrieval.types import Found, Hit, Query, Retriever, RetrieverWrapper

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index
    from turnmark.retrieval.manifest import BuildSettings

HIDDEN = "#hidden"
"""Ends the id of a task whose relevant passages are hidden (`--counterfactual`)."""


class CorpusTexts:
    """Looks passages up in a BEIR corpus file. Its ids are read once, when one is asked for; texts stay on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._offsets: dict[str, int] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._index()

    def _index(self) -> dict[str, int]:
        with self._lock:
            if self._offsets is None:
                self._offsets = dict(self._read())
            return self._offsets

    def get(self, name: str) -> Passage | None:
        """The passage with this id; None if the corpus has none."""
        offset = self._index().get(name)
        if offset is None:
            return None
        with open(self._path, "rb") as file:
            file.seek(offset)
            return _passage(file.readline())

    def _read(self) -> Iterator[tuple[str, int]]:
        offset = 0
        with open(self._path, "rb") as file:
            for line in file:
                if passage := _passage(line):
                    yield passage.id, offset
                offset += len(line)


def _passage(line: bytes) -> Passage | None:
    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        name, title, text = str(row["_id"]), str(row.get("title") or ""), str(row.get("text") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Passage(id=name, document=name, title=title, text=text, start=0, end=len(text))


class FirstPassages:
    """Gives the first passages of a corpus for every query: to estimate what prompts will hold, before any search.

    They claim to be as near to it as can be, so that a model is asked: few turns of a real run end before that.
    """

    name = "first passages"

    def __init__(self, path: Path, limit: int = 20) -> None:
        rows = (row for _, row in json_lines(path, path.name) if not isinstance(row, Problem))
        self._hits = [
            Hit(passage=Passage(id=str(n), document=str(n), title=str(row.get("title") or ""),
                                text=str(row.get("text") or ""), start=0, end=1),
                score=1 / n, found={"dense": Found(rank=n, score=1.0)})
            for n, row in enumerate(islice(rows, limit), 1)
        ]  # fmt: skip

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        return [self._hits[:k] for _ in queries]


class OneAtATime(RetrieverWrapper):
    """A retriever that many threads use: they take turns, since models and databases behind it need not be safe."""

    def __init__(self, retriever: Retriever) -> None:
        super().__init__(retriever)
        self._lock = threading.Lock()

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        with self._lock:
            return super().search(queries, k)

    def titles(self) -> list[str]:
        with self._lock:
            return super().titles()

    def neighbours(self, passage: Passage) -> list[Passage]:
        with self._lock:
            return super().neighbours(passage)


class Without(RetrieverWrapper):
    """A retriever over an index in which some passages are hidden."""

    def __init__(self, retriever: Retriever, hidden: Iterable[str]) -> None:
        super().__init__(retriever)
        self._hidden = frozenset(hidden)

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        lists = super().search(queries, k + len(self._hidden))
        return [[hit for hit in hits if hit.passage.id not in self._hidden][:k] for hits in lists]

    def neighbours(self, passage: Passage) -> list[Passage]:
        return [neighbour for neighbour in super().neighbours(passage) if neighbour.id not in self._hidden]


OFFICIAL = "official"
"""The value of `--passages` that means the clone's own file of the setting."""
OFFICIAL_SEARCH = "official: Elser with a rewrite, over the full corpora"
"""What found the passages of these files (MTRAG section 6.1)."""


def samples_file(path: Path) -> Path:
    """The file that a recorded retrieval is read from: the samples of a run's folder, or the file itself."""
    return path / "predictions.jsonl" if path.is_dir() else path


def recorded(path: Path) -> dict[str, tuple[ContextRef, ...]]:
    """What a recorded retrieval found, by query, best first: a run's folder or its samples, official tasks, a TREC run.

    Official tasks (`RAG.jsonl`) keep their order and their texts. Nothing is written: a run may be going on.
    """
    flag = f"--passages {str(path)!r}"
    if not path.exists():
        raise RequestError(f"{flag}: no such run folder or TREC run")
    file = samples_file(path)
    if not file.is_file():
        raise RequestError(f"{flag} holds no predictions.jsonl; name a run folder, or a TREC run")
    try:
        return read_lists(file, file.name) if file.suffix == ".jsonl" else read_runs([file])
    except RequestError as error:
        raise RequestError([f"{flag}, {problem}" for problem in error.problems]) from None


def is_official(path: Path) -> bool:
    """Whether a file's first line is a task in the official form, with the passages that are to be shown."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    row = next((row for _, row in json_lines(path, path.name)), None)
    return isinstance(row, dict) and "task_id" in row and "contexts" in row and "id" not in row


# --- indexes of corpora ----------------------------------------------------------------------------------------------


def open_corpus(corpus: Path, retriever: str, embedder: str) -> tuple[Retriever, str]:
    """The retriever over a passage file, whose index is built once and then kept; and that index's fingerprint."""
    from turnmark.retrieval.build import corpus_index
    from turnmark.retrieval.registry import build_settings, open_retriever

    index = corpus_index(corpus, retriever, embedder)
    settings = build_settings(retriever, embedder)
    opened = open_retriever(retriever, index)
    # Loading models takes longer than a search, and is not part of one.
    if settings.models():
        opened.search([Query(text="load the models")], 1)
    return opened, _fingerprint(index, settings)


def _fingerprint(index: Index, settings: BuildSettings) -> str:
    """The fingerprint of what is searched: an index with vectors serves BM25 too, and then its vectors do not count."""
    unused = {name: None for name in index.manifest.models() if name not in settings.models()}
    return type(index)(index.folder, index.manifest.model_copy(update=unused)).fingerprint
