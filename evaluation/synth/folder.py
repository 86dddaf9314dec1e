"""What a synthesis leaves behind, and its folder: opened or resumed, appended to attempt by attempt.

    OUT/manifest.json     what was asked for; a folder whose manifest differs is refused
    OUT/attempts.jsonl    one line an attempt, as `predictions.jsonl` of a run: what it cost, why it failed
    OUT/items.jsonl       what passed every filter, a line each
    OUT/rejects.jsonl     what did not: the filter, the reason, what the model wrote

An attempt's line is written last: what a killed attempt left in the other two files is dropped when the folder is
opened again. A line of these that is whole and cannot be read stays where it is, and the report says so.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError

from turnmark.corpora.console import valid_text
from turnmark.corpora.home import write_atomic, write_json
from turnmark.corpora.text import words
from turnmark.corpora.types import Record
from turnmark.evaluation.journal import Journal, SampleJournal, read_records
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import another, clear_parts, disagreements, locked, read_manifest

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

ITEMS, REJECTS, ATTEMPTS = "items.jsonl", "rejects.jsonl", "attempts.jsonl"
RAW = 20_000
"""Characters that are kept of what a model wrote where it was rejected, of its end where it wrote more."""
ALIKE = 0.95
"""Cosine of two keys from which on they are taken to say the same."""


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


class Corpus(Record):
    """Which documents it was made from."""

    name: str
    fingerprint: str = Field(description="SHA-256 that changes with every passage and model of the index, or of a file")
    source: str = Field(default="", description="name of the folder or file that the index was built from")
    documents: int
    passages: int = 0


class Manifest(Record):
    """`manifest.json`. Fields outside `NOT_IDENTITY` can change an item; a folder is resumed where they all agree."""

    kind: str
    specs: dict[str, str] = Field(description="role -> spec in normal form")
    prompts: dict[str, str] = Field(description="prompt -> hash")
    corpus: Corpus
    options: dict[str, Any] = Field(default_factory=dict, description="of the kind: types, capability, thresholds")
    seed: int
    wanted: int = Field(description="items asked for by the last call; more may be asked for later")
    version: str = Field(description="of Turnmark")
    versions: dict[str, str] = Field(default_factory=dict)
    command: str = ""
    started: str
    ended: str | None = None

    @property
    def identity(self) -> dict[str, Any]:
        """What can change an item."""
        return self.model_dump(mode="json", exclude=set(NOT_IDENTITY))

    @property
    def default_folder(self) -> Path:
        """`synth/<kind>-<hash of everything that can change an item>`, under the working directory."""
        digest = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()
        return Path("synth") / f"{self.kind}-{digest[:12]}"


# How many are wanted moves no folder: the attempts come in one order, and to ask for more goes on where it stopped.
NOT_IDENTITY = frozenset({"wanted", "version", "versions", "command", "started", "ended"})


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> None:
    """Write rows as JSON lines, all of them or none."""
    lines = (valid_text(json.dumps(row, ensure_ascii=False, allow_nan=False)) + "\n" for row in rows)
    write_atomic(path, "".join(lines))


def check_folder(path: Path, manifest: Manifest) -> Manifest | None:
    """The manifest that is in `path` already, if it asks for the same. Writes nothing.

    Raises:
        RequestError: something else is there, or a synthesis that differs: in what, a line each.
    """
    stored = read_manifest(path, Manifest, "synthesis")
    differences = disagreements(stored.identity, manifest.identity) if stored else []
    if differences:
        raise another(path, "synthesis", differences)
    return stored


def _drop_unfinished(path: Path, kind: type[SynthItem | Reject], attempts: SampleJournal) -> None:
    """Take out of a file what attempts left that did not end; they are made again."""
    lines: list[bytes] = []
    changed = False
    with open(path, "rb") as file:
        for line in file:
            try:
                finished = attempts.finished((kind.model_validate_json(line).seed, 0))
            except ValidationError:
                finished = line.endswith(b"\n")  # a torn line is what a kill leaves; a whole one is somebody's
            if finished:
                lines.append(line if line.endswith(b"\n") else line + b"\n")
            changed |= not finished or not line.endswith(b"\n")
    if changed:
        part = path.with_name(f".{path.name}.part")
        part.write_bytes(b"".join(lines))
        part.replace(path)


class SynthFolder:
    """An open synthesis. Use `open_folder`; only one process has it open at a time.

    To the engine it is what a run's folder is: it has `samples`, and appends them.

    Attributes:
        ended, failed: attempts of this call that ended, and those of them that failed.
        stopped: the engine said that it tries no more.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.samples = SampleJournal(path / ATTEMPTS)
        self.ended, self.failed, self.stopped = 0, 0, False
        self.duplicates = Duplicates()
        self._lock = threading.Lock()
        self._stashed: dict[str, tuple[Sequence[SynthItem], Sequence[Reject]]] = {}
        for name, kind in ((ITEMS, SynthItem), (REJECTS, Reject)):
            if (path / name).is_file():
                _drop_unfinished(path / name, kind, self.samples)
        numbers = itertools.count()
        self._items = Journal(path / ITEMS, SynthItem, lambda item: item.id)
        self._rejects = Journal(path / REJECTS, Reject, lambda _: next(numbers))

    @property
    def kept(self) -> int:
        """Items in all."""
        return len(self._items)

    @property
    def rejected(self) -> int:
        """Lines of `rejects.jsonl`."""
        return len(self._rejects)

    def unreadable(self) -> Iterator[str]:
        """A note for each file of which lines cannot be read."""
        for name, journal in ((ITEMS, self._items), (REJECTS, self._rejects)):
            if count := len(journal.problems):
                numbers = ", ".join(str(problem.line) for problem in journal.problems[:5])
                lines = "1 line" if count == 1 else f"{count} lines"
                yield f"{lines} of {name} cannot be read and left out (line {numbers}): mend or delete them"

    def stash(self, seed: str, items: Sequence[SynthItem], rejects: Sequence[Reject]) -> None:
        """What an attempt made, from its own thread; written down when the engine appends its sample."""
        with self._lock:
            self._stashed[seed] = items, rejects

    def append(self, sample: Sample) -> None:
        """Write an attempt down with what it made; a duplicate becomes a reject.

        Raises:
            OSError: it cannot be written.
        """
        with self._lock:
            items, rejects = self._stashed.pop(sample.id, ((), ()))
        if sample.status == "skipped":
            self.stopped = True
            return
        self.ended += 1
        if sample.status == "failed":
            self.failed += 1
            self.samples.append(sample)
            return
        before = self.kept
        for item in items:
            twin = self.duplicates.of(item)
            if twin is None:
                self._items.append(item)
            else:
                about = {"duplicate_of": twin, "key": item.key}
                reject = Reject(seed=item.seed, stage="duplicate", reason="says the same as another", about=about)
                rejects = [*rejects, reject]
        for reject in rejects:
            self._rejects.append(reject)
        self.samples.append(sample.model_copy(update={"decision": "kept" if self.kept > before else "nothing kept"}))

    def items(self) -> Iterator[SynthItem]:
        """What was kept, in the order of the file."""
        return read_records(self.path / ITEMS, SynthItem)

    def update(self, **fields: Any) -> None:
        """Change what is not part of the manifest's identity and write it."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))

    def close(self) -> None:
        """Close the files, with their content on the disk."""
        for journal in (self.samples, self._items, self._rejects):
            journal.close()


class Duplicates:
    """Says which item an item repeats: the same words, or keys whose vectors are as good as the same.

    Args:
        embed: None: nothing is a duplicate, since nothing is added.
        items: those that there are already.
    """

    def __init__(self, embed: Embed | None = None, items: Iterable[SynthItem] = ()) -> None:
        self._embed = embed
        self._ids: list[str] = []
        self._by_words: dict[str, str] = {}
        self._vectors: list[NDArray[np.float32]] = []
        earlier = list(items)
        if embed is not None and earlier:
            for item, vector in zip(earlier, embed([item.key for item in earlier]), strict=True):
                self._add(item, vector)

    def of(self, item: SynthItem) -> str | None:
        """The id of an item that says the same; None, and this one is added."""
        import numpy as np

        if self._embed is None:
            return None
        twin = self._by_words.get(_bare(item.key))
        vector = self._embed([item.key])[0]
        if twin is None and self._vectors:
            cosines = np.stack(self._vectors) @ vector
            best = int(cosines.argmax())
            twin = self._ids[best] if cosines[best] >= ALIKE else None
        if twin is None:
            self._add(item, vector)
        return twin

    def _add(self, item: SynthItem, vector: NDArray[np.float32]) -> None:
        self._vectors.append(vector)
        self._ids.append(item.id)
        self._by_words.setdefault(_bare(item.key), item.id)


def _bare(text: str) -> str:
    return " ".join(words(text))


@contextmanager
def open_folder(path: Path, manifest: Manifest) -> Iterator[SynthFolder]:
    """Make the folder, or resume the synthesis that is in it.

    Raises:
        RequestError: it holds something else, or cannot be written.
        TurnmarkError: another process has it open.
    """
    check_folder(path, manifest)
    with locked(path, repr(str(path))):
        stored = check_folder(path, manifest)
        if stored is not None:
            manifest = manifest.model_copy(update={"started": stored.started})
        clear_parts(path)
        folder = SynthFolder(path, manifest)
        try:
            folder.update()
            yield folder
        finally:
            folder.close()
