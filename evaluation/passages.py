"""The texts of passages by id, from a corpus file; and the passages that an earlier run found."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

from corpora.errors import RequestError
from corpora.rows import json_lines
from corpora.types import Passage, Problem
from evaluation.records import ContextRef
from evaluation.samples import SampleFile
from evaluation.trec import read_runs
from retrieval.types import Hit, Query, Retriever


class CorpusTexts:
    """Looks passages up in a BEIR corpus file. Its ids are read once, when the first is asked for; texts stay on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[str, int] | None = None

    def get(self, name: str) -> Passage | None:
        """The passage with this id; None where the corpus has none."""
        with self._lock:
            if self._places is None:
                self._places = dict(self._read())
            place = self._places.get(name)
        if place is None:
            return None
        with open(self._path, "rb") as file:
            file.seek(place)
            return _passage(file.readline())

    def _read(self) -> Iterator[tuple[str, int]]:
        place = 0
        with open(self._path, "rb") as file:
            for line in file:
                if passage := _passage(line):
                    yield passage.id, place
                place += len(line)


def _passage(line: bytes) -> Passage | None:
    import json

    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf"))
        name, title, text = str(row["_id"]), str(row.get("title") or ""), str(row.get("text") or "")
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    return Passage(id=name, document=name, title=title, text=text, start=0, end=len(text))


class FirstPassages:
    """Gives the first passages of a corpus for every query: to estimate what prompts will hold, before any search."""

    name = "first passages"

    def __init__(self, path: Path, most: int = 20) -> None:
        rows = (row for _, row in json_lines(path, path.name) if not isinstance(row, Problem))
        self._hits = [
            Hit(passage=Passage(id=str(n), document=str(n), title=str(row.get("title") or ""),
                                text=str(row.get("text") or ""), start=0, end=1), score=1 / n)
            for n, row in enumerate(islice(rows, most), 1)
        ]  # fmt: skip

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`."""
        return [self._hits[:k] for _ in queries]


class OneAtATime:
    """A retriever that many threads use: they take turns, since models and databases behind it need not be safe."""

    def __init__(self, retriever: Retriever) -> None:
        self.name = retriever.name
        self._retriever, self._lock = retriever, threading.Lock()

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`."""
        with self._lock:
            return self._retriever.search(queries, k)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """The passages of the same document, where the retriever tells them."""
        found = getattr(self._retriever, "neighbours", None)
        with self._lock:
            return list(found(passage)) if found else []


class Without:
    """A retriever over an index in which some passages are hidden."""

    def __init__(self, retriever: Retriever, hidden: Iterable[str]) -> None:
        self.name = retriever.name
        self._retriever, self._hidden = retriever, frozenset(hidden)

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `retrieval.types.Retriever.search`."""
        found = self._retriever.search(queries, k + len(self._hidden))
        return [[hit for hit in hits if hit.passage.id not in self._hidden][:k] for hits in found]


def recorded(path: Path) -> dict[str, tuple[ContextRef, ...]]:
    """What a recorded retrieval found, by query, best first: a run folder, or a TREC run.

    Raises:
        RequestError: it is neither, or a line of it is wrong.
    """
    if not path.exists():
        raise RequestError(f"--passages {str(path)!r}: no such run folder or TREC run")
    if path.is_file():
        return dict(_named("--passages", path))
    if not (path / "predictions.jsonl").is_file():
        raise RequestError(f"--passages {str(path)!r} holds no predictions.jsonl; name a run folder, or a TREC run")
    samples = SampleFile(path / "predictions.jsonl")
    try:
        found = {}
        for name, repeat in samples.keys():
            sample = samples.get((name, repeat))
            if sample is not None and sample.status == "done" and repeat == 0:
                found[name] = sample.contexts
        return found
    finally:
        samples.close()


def _named(flag: str, path: Path) -> Mapping[str, tuple[ContextRef, ...]]:
    try:
        return read_runs([path]).lists
    except RequestError as error:
        raise RequestError([problem.replace("--predictions", flag) for problem in error.problems]) from None
