"""What a synthesis starts from and where it goes: the documents of an index; a folder, appended to attempt by attempt.

    OUT/manifest.json     what was asked for; a folder whose manifest differs is refused
    OUT/attempts.jsonl    one line an attempt, as `predictions.jsonl` of a run: what it cost, why it failed
    OUT/items.jsonl       what passed every filter, a line each
    OUT/rejects.jsonl     what did not: the filter, the reason, what the model wrote

An attempt's line is written last: what a killed attempt left in the other two files is dropped when the folder is
opened again. A full line of these that cannot be read stays in its file, and the report says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import random
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import Field, ValidationError

from turnmark.core.console import valid_text
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.corpora.text import count_words
from turnmark.corpora.types import Message, Passage
from turnmark.evaluation.records import FolderManifest, Sample
from turnmark.evaluation.runs.journal import Journal, open_samples, read_records
from turnmark.evaluation.runs.passages import OneAtATime
from turnmark.evaluation.runs.rundir import OutputFolder, open_folder
from turnmark.retrieval.index import Index
from turnmark.retrieval.types import Hit, Query, Retriever

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

T = TypeVar("T", bound=Record)
ITEMS, REJECTS, ATTEMPTS = "items.jsonl", "rejects.jsonl", "attempts.jsonl"
REVIEW = "review"
"""The stage of what people rejected."""
ALIKE = 0.95
"""Cosine of two keys from which on they say the same."""
LEAST_WORDS = 40
"""Words below which a document holds too little to ask about."""


class SynthItem(Record):
    """One line of `items.jsonl`: something that passed every filter."""

    id: str
    seed: str = Field(description="id of the attempt that it came of, as in `attempts.jsonl`")
    domain: str = ""
    key: str = Field(description="its text in short: two items whose keys mean the same are duplicates")
    content: dict[str, Any] = Field(description="the item itself, as its benchmark has it; see docs/data.md")
    notes: tuple[str, ...] = Field(default=(), description="what was cut or skipped on the way")


class Reject(Record):
    """One line of `rejects.jsonl`: something that did not pass, with what the model wrote."""

    seed: str
    stage: str = Field(description="which filter: as the report counts them")
    reason: str
    raw: str = Field(default="", description="what the model wrote, its last 20,000 characters")
    about: dict[str, Any] = Field(default_factory=dict, description="what else is known: the question, the document")


class CorpusInfo(Record):
    """Which documents it was made from."""

    name: str
    fingerprint: str = Field(description="SHA-256 that changes with every passage and model of the index, or of a file")
    source: str = Field(default="", description="name of the folder or file that the index was built from")
    documents: int
    passages: int = 0


class IndexSource:
    """An index to make data from. Safe to use from many threads."""

    def __init__(self, index: Index, retriever: Retriever) -> None:
        self._index = index
        self._retriever = OneAtATime(retriever)

    def corpus(self) -> CorpusInfo:
        """Which documents these are."""
        manifest = self._index.manifest
        return CorpusInfo(
            name=manifest.name,
            fingerprint=hashlib.sha256(self._index.fingerprint.encode("utf-8", "surrogatepass")).hexdigest(),
            source=Path(manifest.source).name,
            documents=manifest.documents,
            passages=manifest.passages,
        )

    def drawn(self, seed: int) -> list[str]:
        """The ids of all documents that hold enough, in an order that the seed decides and nothing else."""
        counts: dict[str, int] = {}
        for passage in self.passages():
            counts[passage.document] = counts.get(passage.document, 0) + count_words(passage.text)
        documents = sorted(name for name, count in counts.items() if count >= LEAST_WORDS)
        random.Random(seed).shuffle(documents)
        return documents

    def drawn_passages(self, seed: int, least_words: int, most_words: int) -> list[str]:
        """The ids of all passages with so many words, each content once, in an order that the seed decides."""
        by_content: dict[str, str] = {}
        for passage in self.passages():
            if least_words <= count_words(passage.text) <= most_words:
                by_content.setdefault(passage.content_hash, passage.id)
        names = sorted(by_content.values())
        random.Random(seed).shuffle(names)
        return names

    def passage(self, name: str) -> Passage:
        """The passage with an id."""
        store = self._index.store
        return store.by_rows([store.rows_of([name])[name]])[0]

    def passages(self) -> Iterator[Passage]:
        """Every passage, in the order of the index."""
        for page in self._index.store.pages():
            for _, _, passage in page:
                yield passage

    def of_document(self, document: str) -> list[Passage]:
        """The passages of a document, in reading order."""
        return self._index.store.of_document(document)

    def text(self, document: str) -> str:
        """The text of a document, of which its passages may share parts."""
        return spliced(self.of_document(document))

    def search(self, text: str, history: Sequence[Message] = (), k: int = 5) -> list[Hit]:
        """What a search for a message finds, best first."""
        return self._retriever.search([Query(text=text, history=tuple(history))], k)[0]


def spliced(passages: Sequence[Passage]) -> str:
    """The text of passages of one document, in reading order, where they overlap once; a gap is an empty line."""
    text, end = "", 0
    for passage in passages:
        if text and passage.start > end:
            text += "\n\n"
        text += passage.text[max(0, end - passage.start) :] if text else passage.text
        end = max(end, passage.end)
    return text.strip()


class SynthManifest(FolderManifest):
    """`manifest.json` of a synthesis. How many are wanted moves no folder: to ask for more continues it."""

    noun = "synthesis"
    parent = "synth"
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

    @property
    def title(self) -> str:
        """See `FolderManifest.title`."""
        return self.kind

    def resume(self, stored: SynthManifest) -> SynthManifest:
        """See `FolderManifest.resume`."""
        return self.model_copy(update={"started": stored.started})


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, all of them or none."""
    lines = (valid_text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in rows)
    write_atomic(path, "".join(lines))


def reviewed_id(reject: Reject) -> str | None:
    """The id of the item, if it is one that people rejected."""
    item = reject.about.get("item") if reject.stage == REVIEW else None
    return item.get("id") if isinstance(item, dict) else None


def _keep_lines(path: Path, kind: type[T], stays: Callable[[T], bool]) -> None:
    """Take out of a file the records that do not stay.

    A line that cannot be read is what a kill tore, if it is the last and has no end; else it is somebody's, and stays.
    """
    content = path.read_bytes() if path.is_file() else b""
    lines: list[bytes] = []
    for line in content.splitlines(keepends=True):
        try:
            kept = stays(kind.model_validate_json(line))
        except ValidationError:
            kept = line.endswith(b"\n")
        if kept:
            lines.append(line.removesuffix(b"\n") + b"\n")
    if b"".join(lines) != content:
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(b"".join(lines))
        part.replace(path)


class SynthFolder(OutputFolder[SynthManifest]):
    """An open synthesis, to which the engine appends attempts as samples. Use `open_synthesis_folder`.

    What attempts left that did not end is dropped; they are made again.

    Args:
        rejected: item -> reader -> reason, of items that people rejected: they become rejects.
    """

    def __init__(self, path: Path, manifest: SynthManifest, rejected: Mapping[str, Mapping[str, str]]) -> None:
        super().__init__(path, manifest)
        self.samples = open_samples(path / ATTEMPTS)
        self.duplicates = Duplicates()
        self._lock = threading.Lock()
        self._stashed: dict[str, tuple[Sequence[SynthItem], Sequence[Reject]]] = {}
        _keep_lines(path / ITEMS, SynthItem, self._ended)
        _keep_lines(path / REJECTS, Reject, self._ended)
        numbers = itertools.count()
        self._rejects = Journal(path / REJECTS, Reject, lambda _: next(numbers))
        self._take_out(rejected)
        self._items = Journal(path / ITEMS, SynthItem, lambda item: item.id, lambda _: False)

    def _ended(self, record: SynthItem | Reject) -> bool:
        return self.samples.finished((record.seed, 0))

    def _take_out(self, rejected: Mapping[str, Mapping[str, str]]) -> None:
        """Move items to the rejects; the rejects are written first, so that a kill between loses no reason."""
        there = {reviewed_id(reject) for reject in self.rejects()}
        for item in self.items() if rejected else ():
            reasons = rejected.get(item.id, {})
            if reasons and item.id not in there:
                about = {"readers": dict(reasons), "item": item.model_dump(mode="json")}
                reason = "; ".join(dict.fromkeys(reasons.values()))
                self._rejects.append(Reject(seed=item.seed, stage=REVIEW, reason=reason, about=about))
        if rejected:
            _keep_lines(self.path / ITEMS, SynthItem, lambda item: item.id not in rejected)

    @property
    def kept(self) -> int:
        """Items in all."""
        return len(self._items)

    @property
    def rejected(self) -> int:
        """Lines of `rejects.jsonl`."""
        return len(self._rejects)

    @property
    def finished(self) -> int:
        """Attempts that ended and did not fail."""
        return len(self.samples) - self.samples.unfinished

    def unreadable(self) -> Iterator[str]:
        """A note for each file of which lines cannot be read."""
        for name, journal in ((ITEMS, self._items), (REJECTS, self._rejects)):
            if count := len(journal.problems):
                numbers = ", ".join(str(problem.line) for problem in journal.problems[:5])
                lines = "1 line" if count == 1 else f"{count} lines"
                yield f"{lines} of {name} cannot be read and left out (line {numbers}): correct or delete them"

    def stash(self, seed: str, items: Sequence[SynthItem], rejects: Sequence[Reject]) -> None:
        """Keep what an attempt made, from its own thread, until the engine appends its sample."""
        with self._lock:
            self._stashed[seed] = items, rejects

    def append(self, sample: Sample) -> None:
        """Write an attempt with what it made; a duplicate becomes a reject, and nothing is written of a skipped one."""
        with self._lock:
            items, rejects = self._stashed.pop(sample.id, ((), ()))
        if sample.status == "done":
            kept = [self._append_item(item) for item in items]
            for reject in rejects:
                self._rejects.append(reject)
            sample = sample.model_copy(update={"decision": "kept" if any(kept) else "nothing kept"})
        if sample.status != "skipped":
            self.samples.append(sample)

    def _append_item(self, item: SynthItem) -> bool:
        twin = self.duplicates.twin_of(item)
        if twin is None:
            self._items.append(item)
        else:
            about = {"duplicate_of": twin, "key": item.key}
            reason = "says the same as another"
            self._rejects.append(Reject(seed=item.seed, stage="duplicate", reason=reason, about=about))
        return twin is None

    def items(self) -> Iterator[SynthItem]:
        """What was kept, in the order of the file."""
        return read_records(self.path / ITEMS, SynthItem)

    def rejects(self) -> Iterator[Reject]:
        """What was rejected, in the order of the file."""
        return read_records(self.path / REJECTS, Reject)


class Duplicates:
    """Says which item an item repeats: one whose key means nearly the same.

    Args:
        embed: None: nothing is a duplicate, since nothing is added.
        items: those that exist already.
    """

    def __init__(self, embed: Embed | None = None, items: Sequence[SynthItem] = ()) -> None:
        self._embed = embed
        self._ids = [item.id for item in items]
        keys = [item.key for item in items]
        self._vectors: list[NDArray[np.float32]] = list(embed(keys)) if embed is not None and keys else []

    def twin_of(self, item: SynthItem) -> str | None:
        """The id of an item that says the same; None, and this one is added."""
        import numpy as np

        if self._embed is None:
            return None
        vector = self._embed([item.key])[0]
        if self._vectors:
            cosines = np.stack(self._vectors) @ vector
            best = int(cosines.argmax())
            if cosines[best] >= ALIKE:
                return self._ids[best]
        self._vectors.append(vector)
        self._ids.append(item.id)
        return None


@contextmanager
def open_synthesis_folder(
    path: Path, manifest: SynthManifest, rejected: Mapping[str, Mapping[str, str]]
) -> Iterator[SynthFolder]:
    """Make the folder of a synthesis, or resume the one that is in it; see `open_folder` and `SynthFolder`."""
    with open_folder(path, manifest) as resumed:
        folder = SynthFolder(path, resumed, rejected)
        try:
            folder.update_manifest()
            yield folder
        finally:
            for journal in (folder.samples, folder._items, folder._rejects):
                journal.close()
