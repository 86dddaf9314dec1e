"""The corpus of a synthesis (the documents of an index) and its output folder.

    OUT/manifest.json     the request; a folder with another manifest is refused
    OUT/attempts.jsonl    one line per attempt, in the form of a run's `predictions.jsonl`: usage, failure
    OUT/items.jsonl       one line per item that passed every filter
    OUT/rejects.jsonl     one line per item that did not: the filter, the reason, the model's text

The line of an attempt is written after its items and rejects. When the folder is opened, items and rejects of attempts
without such a line are dropped, because a killed process left them. A complete line that cannot be read stays in its
file, and the report mentions it.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, ValidationError

from turnmark.core.home import write_atomic
from turnmark.core.plural import count_phrase
from turnmark.core.record import Record
from turnmark.core.untrusted import valid_text
from turnmark.corpora.text.segmentation import count_words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.records import FolderManifest, Sample
from turnmark.evaluation.storage.corpus_passages import SerializedRetriever
from turnmark.evaluation.storage.journal import Journal, open_samples, read_records
from turnmark.evaluation.storage.run_folder import OutputFolder, open_folder
from turnmark.retrieval.embedding.vector_cache import Embed
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.types import Hit, Query, Retriever

T = TypeVar("T", bound=Record)
ITEMS, REJECTS, ATTEMPTS = "items.jsonl", "rejects.jsonl", "attempts.jsonl"
REVIEW = "review"
"""The stage of items that people rejected."""
DUPLICATE_COSINE = 0.95
"""Two items are duplicates if the cosine of their keys is at least this."""
MIN_DOCUMENT_WORDS = 40
"""Minimum number of words in a document to start from."""


class SynthItem(Record):
    """One line of `items.jsonl`: an item that passed every filter."""

    id: str
    seed: str = Field(description="id of its attempt in `attempts.jsonl`")
    domain: str = ""
    key: str = Field(description="short text; two items whose keys mean the same are duplicates")
    content: dict[str, Any] = Field(description="the item in the form of its benchmark; see docs/data.md")
    notes: tuple[str, ...] = Field(default=(), description="material that was cut because a prompt was too long")


class Reject(Record):
    """One line of `rejects.jsonl`: an item that did not pass a filter."""

    seed: str
    stage: str = Field(description="name of the filter, as in the report")
    reason: str
    raw: str = Field(default="", description="the model's text, its last 20,000 characters")
    about: dict[str, Any] = Field(default_factory=dict, description="further facts: the question, the document")


class CorpusInfo(Record):
    """The corpus of a synthesis."""

    name: str
    fingerprint: str = Field(description="SHA-256 that changes with every passage and model of the index, or of a file")
    source: str = Field(default="", description="name of the folder or file that the index was built from")
    documents: int
    passages: int = 0


class IndexSource:
    """The documents of an index, to make data from. Safe to use from many threads."""

    def __init__(self, index: StoredIndex, retriever: Retriever) -> None:
        self._index = index
        self._retriever = SerializedRetriever(retriever)

    def corpus(self) -> CorpusInfo:
        """Describe the corpus for the manifest."""
        manifest = self._index.manifest
        return CorpusInfo(
            name=manifest.name,
            fingerprint=hashlib.sha256(manifest.fingerprint().encode("utf-8", "surrogatepass")).hexdigest(),
            source=Path(manifest.source).name,
            documents=manifest.documents,
            passages=manifest.passages,
        )

    def draw_documents(self, seed: int) -> list[str]:
        """Return the ids of all documents with enough words, shuffled by the random seed."""
        counts: Counter[str] = Counter()
        for passage in self.passages():
            counts[passage.document] += count_words(passage.text)
        documents = sorted(name for name, count in counts.items() if count >= MIN_DOCUMENT_WORDS)
        random.Random(seed).shuffle(documents)
        return documents

    def draw_passages(self, seed: int, least_words: int, most_words: int) -> list[str]:
        """Return the ids of all distinct passages in this range of words, shuffled by the random seed."""
        by_content: dict[str, str] = {}
        for passage in self.passages():
            if least_words <= count_words(passage.text) <= most_words:
                by_content.setdefault(passage.content_hash, passage.id)
        names = sorted(by_content.values())
        random.Random(seed).shuffle(names)
        return names

    def passage(self, name: str) -> Passage:
        """Return the passage with this id."""
        return passage_of(self._index, name)

    def passages(self) -> Iterator[Passage]:
        """Yield every passage, in the order of the index."""
        for page in self._index.store.pages():
            for _, _, passage in page:
                yield passage

    def passages_of(self, document: str) -> list[Passage]:
        """Return the passages of a document, in reading order."""
        return self._index.store.of_document(document)

    def text(self, document: str) -> str:
        """Return the text of a document, joined from its passages."""
        return join_passages(self.passages_of(document))

    def search(self, text: str, history: Sequence[Message] = (), k: int = 5) -> list[Hit]:
        """Search for a message; return the best passages, best first."""
        return self._retriever.search([Query(text=text, history=tuple(history))], k)[0]


def passage_of(index: StoredIndex, name: str) -> Passage:
    """Return the passage of an index with this id."""
    return index.store.by_rows([index.store.rows_of([name])[name]])[0]


def join_passages(passages: Sequence[Passage]) -> str:
    """Join passages of one document in reading order; overlaps occur once, and a gap becomes an empty line."""
    text, end = "", 0
    for passage in passages:
        if text and passage.start > end:
            text += "\n\n"
        text += passage.text[max(0, end - passage.start) :] if text else passage.text
        end = max(end, passage.end)
    return text.strip()


class SynthManifest(FolderManifest):
    """`manifest.json` of a synthesis. The number of items is not part of the identity: a larger one continues."""

    noun = "synthesis"
    parent = "synth"
    title_field = "kind"
    not_identity = frozenset({"wanted", "version", "versions", "command", "started", "ended"})

    kind: str
    specs: dict[str, str] = Field(description="role -> spec in normal form")
    prompts: dict[str, str] = Field(description="prompt -> hash")
    corpus: CorpusInfo
    options: dict[str, Any] = Field(default_factory=dict, description="of the kind: types, capability, thresholds")
    seed: int
    wanted: int = Field(description="items asked for by the last call; more may be asked for later")
    version: str = Field(description="of Turnmark")
    versions: dict[str, str] = Field(default_factory=dict)
    command: str = ""
    started: str
    ended: str | None = None


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines; the file is replaced atomically."""
    lines = (valid_text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in rows)
    write_atomic(path, "".join(lines))


def reviewed_id(reject: Reject) -> str | None:
    """Return the id of the item that people rejected, or None if the reject comes from a filter."""
    if reject.stage != REVIEW:
        return None
    item = reject.about.get("item")
    return item.get("id") if isinstance(item, dict) else None


def _filter_lines(path: Path, kind: type[T], keep: Callable[[T], bool]) -> None:
    """Rewrite a file with only the records that `keep` accepts.

    An unreadable line stays, because it may be somebody's edit, unless it is an incomplete last line.
    """
    content = path.read_bytes() if path.is_file() else b""
    lines: list[bytes] = []
    for line in content.splitlines(keepends=True):
        try:
            is_kept = keep(kind.model_validate_json(line))
        except ValidationError:
            is_kept = line.endswith(b"\n")
        if is_kept:
            lines.append(line.removesuffix(b"\n") + b"\n")
    if b"".join(lines) != content:
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(b"".join(lines))
        part.replace(path)


class SynthFolder(OutputFolder[SynthManifest]):
    """An open synthesis, to which the run appends attempts as samples. Use `open_synthesis_folder`.

    Items and rejects of unfinished attempts are dropped; these attempts are made again.

    Args:
        rejected: item id -> reviewer -> reason, for items that people rejected; they are moved to the rejects.
    """

    def __init__(self, path: Path, manifest: SynthManifest, rejected: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(path, manifest)
        self.samples = open_samples(path / ATTEMPTS)
        self.duplicates = Duplicates()
        self._lock = threading.Lock()
        self._stashed: dict[str, tuple[Sequence[SynthItem], Sequence[Reject]]] = {}
        _filter_lines(path / ITEMS, SynthItem, self._ended)
        _filter_lines(path / REJECTS, Reject, self._ended)
        numbers = itertools.count()
        self._rejects = Journal(path / REJECTS, Reject, lambda _: next(numbers))
        self._take_out(rejected)
        self._items = Journal(path / ITEMS, SynthItem, lambda item: item.id, lambda _: False)

    def _ended(self, record: SynthItem | Reject) -> bool:
        return self.samples.finished((record.seed, 0))

    def _take_out(self, rejected: Mapping[str, Mapping[str, str]]) -> None:
        """Move items to the rejects. The rejects are written first, so that a kill of the process loses no reason."""
        if not rejected:
            return
        already_rejected = {reviewed_id(reject) for reject in self.rejects()}
        for item in self.items():
            reasons = rejected.get(item.id, {})
            if reasons and item.id not in already_rejected:
                about = {"readers": dict(reasons), "item": item.model_dump(mode="json")}
                reason = "; ".join(dict.fromkeys(reasons.values()))
                self._rejects.append(Reject(seed=item.seed, stage=REVIEW, reason=reason, about=about))
        _filter_lines(self.path / ITEMS, SynthItem, lambda item: item.id not in rejected)

    @property
    def kept(self) -> int:
        """Number of items."""
        return len(self._items)

    @property
    def rejected(self) -> int:
        """Number of rejects."""
        return len(self._rejects)

    @property
    def finished(self) -> int:
        """Number of attempts that ended without failing."""
        return len(self.samples) - self.samples.unfinished

    def unreadable(self) -> Iterator[str]:
        """Yield a note for each file with unreadable lines."""
        for name, journal in ((ITEMS, self._items), (REJECTS, self._rejects)):
            count = len(journal.problems)
            if count:
                numbers = ", ".join(str(problem.line) for problem in journal.problems[:5])
                lines = count_phrase(count, "line")
                yield f"{lines} of {name} cannot be read and were left out (line {numbers}): correct or delete them"

    def stash(self, seed: str, items: Sequence[SynthItem], rejects: Sequence[Reject]) -> None:
        """Keep the results of an attempt until its sample is appended; called in the attempt's thread."""
        with self._lock:
            self._stashed[seed] = items, rejects

    def append(self, sample: Sample) -> None:
        """Write an attempt, unless it was skipped, with its items and rejects; a duplicate item becomes a reject."""
        with self._lock:
            items, rejects = self._stashed.pop(sample.id, ((), ()))
        if sample.status == "done":
            is_kept = [self._append_item(item) for item in items]
            for reject in rejects:
                self._rejects.append(reject)
            sample = sample.model_copy(update={"decision": "kept" if any(is_kept) else "nothing kept"})
        if sample.status != "skipped":
            self.samples.append(sample)

    def _append_item(self, item: SynthItem) -> bool:
        """Write an item, or a reject if it is a duplicate; return whether it was kept."""
        twin = self.duplicates.twin_of(item)
        if twin is None:
            self._items.append(item)
            return True
        about = {"duplicate_of": twin, "key": item.key}
        reason = "duplicates another item"
        self._rejects.append(Reject(seed=item.seed, stage="duplicate", reason=reason, about=about))
        return False

    def items(self) -> Iterator[SynthItem]:
        """Read the items, in the order of the file."""
        return read_records(self.path / ITEMS, SynthItem)

    def rejects(self) -> Iterator[Reject]:
        """Read the rejects, in the order of the file."""
        return read_records(self.path / REJECTS, Reject)


class Duplicates:
    """Finds duplicates of items by the cosine of their keys.

    Args:
        embed: the embedder, or None if no item is a duplicate.
        items: the items that exist already.
    """

    def __init__(self, embed: Embed | None = None, items: Sequence[SynthItem] = ()) -> None:
        self._embed = embed
        self._ids = [item.id for item in items]
        keys = [item.key for item in items]
        self._vectors: list[NDArray[np.float32]] = list(embed(keys)) if embed is not None and keys else []

    def twin_of(self, item: SynthItem) -> str | None:
        """Return the id of the item that this one duplicates. If there is none, remember the item and return None."""
        if self._embed is None:
            return None
        vector = self._embed([item.key])[0]
        if self._vectors:
            cosines = np.stack(self._vectors) @ vector
            best = int(cosines.argmax())
            if cosines[best] >= DUPLICATE_COSINE:
                return self._ids[best]
        self._vectors.append(vector)
        self._ids.append(item.id)
        return None


@contextmanager
def open_synthesis_folder(
    path: Path, manifest: SynthManifest, rejected: Mapping[str, Mapping[str, str]]
) -> Iterator[SynthFolder]:
    """Create or resume the folder of a synthesis; see `open_folder` and `SynthFolder`."""
    with open_folder(path, manifest) as resumed:
        folder = SynthFolder(path, resumed, rejected)
        try:
            folder.update_manifest()
            yield folder
        finally:
            for journal in (folder.samples, folder._items, folder._rejects):
                journal.close()
