"""The texts of passages by id, from a corpus file; and the passages that an earlier run found."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from corpora.errors import RequestError
from corpora.rows import json_lines
from corpora.types import Passage, Problem
from evaluation.predictions import ends_a_line
from evaluation.records import ContextRef, Sample
from evaluation.trec import read_runs
from retrieval.types import Found, Hit, Query, Retriever

HIDDEN = "#hidden"
"""Ends the id of a task whose relevant passages are hidden (`--counterfactual`)."""


class CorpusTexts:
    """Looks passages up in a BEIR corpus file. Its ids are read once, when one is asked for; texts stay on disk."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._places: dict[str, int] | None = None

    def __contains__(self, name: object) -> bool:
        """Whether the corpus has a passage with this id."""
        return name in self._index()

    def _index(self) -> dict[str, int]:
        with self._lock:
            if self._places is None:
                self._places = dict(self._read())
            return self._places

    def get(self, name: str) -> Passage | None:
        """The passage with this id; None where the corpus has none."""
        place = self._index().get(name)
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
    """Gives the first passages of a corpus for every query: to estimate what prompts will hold, before any search.

    They claim to be as near to it as can be, so that a model is asked: few turns of a real run end before that.
    """

    name = "first passages"

    def __init__(self, path: Path, most: int = 20) -> None:
        rows = (row for _, row in json_lines(path, path.name) if not isinstance(row, Problem))
        self._hits = [
            Hit(passage=Passage(id=str(n), document=str(n), title=str(row.get("title") or ""),
                                text=str(row.get("text") or ""), start=0, end=1),
                score=1 / n, found={"dense": Found(rank=n, score=1.0)})
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

    def neighbours(self, passage: Passage) -> list[Passage]:
        """The passages of the same document that are not hidden, where the retriever tells them."""
        found = getattr(self._retriever, "neighbours", None)
        return [one for one in found(passage) if one.id not in self._hidden] if found else []


def samples_file(path: Path) -> Path:
    """The file that a recorded retrieval is read from: the samples of a run's folder, or the file itself."""
    return path / "predictions.jsonl" if path.is_dir() else path


def recorded(path: Path) -> dict[str, tuple[ContextRef, ...]]:
    """What a recorded retrieval found, by query, best first: a run's folder or its samples, or a TREC run.

    Of a run the samples count that are done, at the first repeat. Nothing is written there: it may be going on.

    Raises:
        RequestError: it is neither, or lines of it are wrong: all of them.
    """
    if not path.exists():
        raise RequestError(f"--passages {str(path)!r}: no such run folder or TREC run")
    file = samples_file(path)
    if not file.is_file():
        raise RequestError(f"--passages {str(path)!r} holds no predictions.jsonl; name a run folder, or a TREC run")
    if path.is_dir() or path.suffix == ".jsonl":
        return _of_samples(file, str(path))
    try:
        return dict(read_runs([path]).lists)
    except RequestError as error:
        raise RequestError([f"--passages {_without_flag(problem)}" for problem in error.problems]) from None


def _without_flag(problem: str) -> str:
    return problem.removeprefix("--predictions ")


def _of_samples(file: Path, named: str) -> dict[str, tuple[ContextRef, ...]]:
    found: dict[str, tuple[ContextRef, ...]] = {}
    wrong: list[tuple[int, str]] = []
    last = 0
    for number, row in json_lines(file, file.name):
        last = number
        try:
            sample = None if isinstance(row, Problem) else Sample.model_validate(row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            wrong.append((number, f"not a sample of a run: {'.'.join(map(str, first['loc']))}: {first['msg']}"))
            continue
        if sample is None:
            wrong.append((number, "not a JSON object"))
        elif sample.status == "done" and sample.repeat == 0:
            found[sample.id] = sample.contexts
    if wrong and wrong[-1][0] == last and not ends_a_line(file):
        wrong.pop()  # torn: the sample was not finished
    if wrong:
        raise RequestError([f"--passages {named!r}, predictions.jsonl:{number}: {what}" for number, what in wrong])
    if not found:
        raise RequestError(f"--passages {named!r}: no sample in it is done")
    return found
