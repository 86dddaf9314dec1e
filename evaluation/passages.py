"""The texts of passages by id, from a corpus file; the passages that an earlier run found; what searches a corpus."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from turnmark.corpora.errors import RequestError
from turnmark.corpora.mtrag import canonical_id
from turnmark.corpora.rows import json_lines, non_blank, objects, string
from turnmark.corpora.types import Passage, Problem
from turnmark.evaluation.predictions import ends_a_line
from turnmark.evaluation.records import ContextRef, Sample
from turnmark.evaluation.trec import read_runs
from turnmark.retrieval.types import Found, Hit, Query, Retriever, neighbours_of

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

    def __init__(self, path: Path, limit: int = 20) -> None:
        rows = (row for _, row in json_lines(path, path.name) if not isinstance(row, Problem))
        self._hits = [
            Hit(passage=Passage(id=str(n), document=str(n), title=str(row.get("title") or ""),
                                text=str(row.get("text") or ""), start=0, end=1),
                score=1 / n, found={"dense": Found(rank=n, score=1.0)})
            for n, row in enumerate(islice(rows, limit), 1)
        ]  # fmt: skip

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        return [self._hits[:k] for _ in queries]


class OneAtATime:
    """A retriever that many threads use: they take turns, since models and databases behind it need not be safe."""

    def __init__(self, retriever: Retriever) -> None:
        self.name = retriever.name
        self._retriever, self._lock = retriever, threading.Lock()

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        with self._lock:
            return self._retriever.search(queries, k)

    def neighbours(self, passage: Passage) -> list[Passage]:
        """The passages of the same document, where the retriever tells them."""
        with self._lock:
            return neighbours_of(self._retriever, passage)


class Without:
    """A retriever over an index in which some passages are hidden."""

    def __init__(self, retriever: Retriever, hidden: Iterable[str]) -> None:
        self.name = retriever.name
        self._retriever, self._hidden = retriever, frozenset(hidden)

    def search(self, queries: Sequence[Query], k: int) -> list[list[Hit]]:
        """See `turnmark.retrieval.types.Retriever.search`."""
        lists = self._retriever.search(queries, k + len(self._hidden))
        return [[hit for hit in hits if hit.passage.id not in self._hidden][:k] for hits in lists]

    def neighbours(self, passage: Passage) -> list[Passage]:
        """The passages of the same document that are not hidden, where the retriever tells them."""
        return [neighbour for neighbour in neighbours_of(self._retriever, passage) if neighbour.id not in self._hidden]


OFFICIAL = "official"
"""The value of `--passages` that stands for the clone's own file of the setting."""
OFFICIAL_SEARCH = "official: Elser with a rewrite, over the full corpora"
"""What found the passages of these files (MTRAG section 6.1)."""


def samples_file(path: Path) -> Path:
    """The file that a recorded retrieval is read from: the samples of a run's folder, or the file itself."""
    return path / "predictions.jsonl" if path.is_dir() else path


def recorded(path: Path) -> dict[str, tuple[ContextRef, ...]]:
    """What a recorded retrieval found, by query, best first: a run's folder or its samples, official tasks, a TREC run.

    Official tasks (`RAG.jsonl`) keep their order and their texts. Of a run the samples count that are done, at the
    first repeat. Nothing is written there: it may be going on.

    Raises:
        RequestError: it is neither, or lines of it are wrong: all of them.
    """
    if not path.exists():
        raise RequestError(f"--passages {str(path)!r}: no such run folder or TREC run")
    file = samples_file(path)
    if not file.is_file():
        raise RequestError(f"--passages {str(path)!r} holds no predictions.jsonl; name a run folder, or a TREC run")
    if is_official(file):
        return _of_tasks(file, str(path))
    if path.is_dir() or path.suffix == ".jsonl":
        return _of_samples(file, str(path))
    try:
        return dict(read_runs([path]))
    except RequestError as error:
        raise RequestError(
            [f"--passages {problem.removeprefix('--predictions ')}" for problem in error.problems]
        ) from None


def is_official(path: Path) -> bool:
    """Whether a file's first line is a task in the official form, with the passages that are to be shown."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    row = next((row for _, row in json_lines(path, path.name)), None)
    return isinstance(row, dict) and "task_id" in row and "contexts" in row and "id" not in row


def _of_tasks(file: Path, path_in_words: str) -> dict[str, tuple[ContextRef, ...]]:
    lists: dict[str, tuple[ContextRef, ...]] = {}
    problems: list[str] = []
    for number, row in json_lines(file, file.name):
        try:
            if isinstance(row, Problem):
                raise ValueError(row.what)
            name = canonical_id(non_blank(row, "task_id"))
            if name in lists:
                raise ValueError(f"the task {name!r} stood before")
            lists[name] = tuple(_shown(context, rank) for rank, context in enumerate(objects(row, "contexts"), 1))
        except ValueError as error:
            problems.append(f"--passages {path_in_words!r}, {file.name}:{number}: {error}")
    if problems:
        raise RequestError(problems)
    return lists


def _shown(context: Mapping[str, Any], rank: int) -> ContextRef:
    """A passage of an official task; one without a score has that of its rank."""
    score = context.get("score")
    has_score = isinstance(score, int | float) and not isinstance(score, bool) and math.isfinite(score)
    return ContextRef(
        document_id=non_blank(context, "document_id"),
        score=float(score) if has_score else 1 / rank,  # type: ignore[arg-type]
        title=string(context, "title", "") or None,
        text=string(context, "text"),
    )


def _of_samples(file: Path, path_in_words: str) -> dict[str, tuple[ContextRef, ...]]:
    lists: dict[str, tuple[ContextRef, ...]] = {}
    problems: list[tuple[int, str]] = []
    last = 0
    for number, row in json_lines(file, file.name):
        last = number
        try:
            sample = None if isinstance(row, Problem) else Sample.model_validate(row)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            problems.append((number, f"not a sample of a run: {'.'.join(map(str, first['loc']))}: {first['msg']}"))
            continue
        if sample is None:
            problems.append((number, "not a JSON object"))
        elif sample.status == "done" and sample.repeat == 0:
            lists[canonical_id(sample.id)] = sample.contexts
    if problems and problems[-1][0] == last and not ends_a_line(file):
        problems.pop()  # torn: the sample was not finished
    if problems:
        raise RequestError(
            [f"--passages {path_in_words!r}, predictions.jsonl:{number}: {problem}" for number, problem in problems]
        )
    if not lists:
        raise RequestError(f"--passages {path_in_words!r}: no sample in it is done")
    return lists


# --- indexes of corpora ----------------------------------------------------------------------------------------------


def open_corpus(corpus: Path, retriever: str, embedder: str) -> tuple[Retriever, str]:
    """The retriever over a passage file, whose index is built once and then kept; and that index's fingerprint."""
    from turnmark.retrieval.build import corpus_index
    from turnmark.retrieval.registry import build_settings, open_retriever

    index = corpus_index(corpus, retriever, embedder)
    settings = build_settings(retriever, embedder)
    opened = open_retriever(retriever, index)
    # Loading models takes longer than a search, and is none.
    if settings.embedder or settings.component_models():
        opened.search([Query(text="load the models")], 1)
    return opened, _fingerprint(index, settings)


def kept_indexes(corpus: str, retriever: str, embedder: str) -> tuple[str, ...]:
    """Fingerprints of the kept indexes that would be searched; nothing is built, and none may be there.

    Args:
        corpus: SHA-256 of the passage file.
    """
    from turnmark.retrieval.build import cached_indexes
    from turnmark.retrieval.index import Index, indexes_folder
    from turnmark.retrieval.registry import build_settings

    settings = build_settings(retriever, embedder)
    fingerprints = (
        _fingerprint(Index(indexes_folder() / manifest.name, manifest), settings)
        for manifest in cached_indexes(corpus, settings)
    )
    return tuple(dict.fromkeys(fingerprints))


def _fingerprint(index: Index, settings: BuildSettings) -> str:
    """The fingerprint of what is searched: an index with vectors serves BM25 too, and then its vectors do not count."""
    used = {*settings.component_models(), *(["embedder"] if settings.embedder else [])}
    unused = {name: None for name in index.manifest.models() if name not in used}
    return type(index)(index.folder, index.manifest.model_copy(update=unused)).fingerprint
