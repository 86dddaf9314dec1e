"""The folder of a synthesis: opened or resumed, appended to attempt by attempt.

    OUT/manifest.json     what was asked for; a folder whose manifest differs is refused
    OUT/attempts.jsonl    one line an attempt, as `predictions.jsonl` of a run: what it cost, why it failed
    OUT/items.jsonl       what passed every filter, a line each
    OUT/rejects.jsonl     what did not: the filter, the reason, what the model wrote

An attempt's line is written last: what a killed attempt left in the other two files is dropped when it is opened again.
A line of these that is whole and cannot be read is put into `items.unreadable.jsonl` or `rejects.unreadable.jsonl`.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from turnmark.corpora.home import write_json
from turnmark.corpora.text import words
from turnmark.corpora.types import Record
from turnmark.evaluation.journal import SampleJournal, json_line
from turnmark.evaluation.records import Sample
from turnmark.evaluation.rundir import another, clear_parts, disagreements, locked, read_manifest
from turnmark.evaluation.synth.records import NOT_IDENTITY, Manifest, Reject, SynthItem

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Embed = Callable[[Sequence[str]], NDArray[np.float32]]

R = TypeVar("R", bound=Record)

ITEMS, REJECTS, ATTEMPTS = "items.jsonl", "rejects.jsonl", "attempts.jsonl"
KEPT, NOTHING = "kept", "nothing kept"
ALIKE = 0.95
"""Cosine of two keys from which on they are taken to say the same."""


def _identity(manifest: Manifest) -> dict[str, Any]:
    """What of a manifest can change an item."""
    return manifest.model_dump(mode="json", exclude=set(NOT_IDENTITY))


def default_folder(manifest: Manifest) -> Path:
    """`synth/<kind>-<hash of everything that can change an item>`, under the working directory."""
    digest = hashlib.sha256(json.dumps(_identity(manifest), sort_keys=True).encode()).hexdigest()
    return Path("synth") / f"{manifest.kind}-{digest[:12]}"


def check_folder(path: Path, manifest: Manifest) -> Manifest | None:
    """The manifest that is in `path` already, if it asks for the same. Writes nothing.

    Raises:
        RequestError: something else is there, or a synthesis that differs: in what, a line each.
    """
    stored = read_manifest(path, Manifest, "synthesis")
    differences = disagreements(_identity(stored), _identity(manifest)) if stored else []
    if differences:
        raise another(path, "synthesis", differences)
    return stored


def read_lines(path: Path, kind: type[R]) -> Iterator[R]:
    """The records of a file, one at a time; none where it is not there, and none of a line that is no record."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for line in file:
            try:
                yield kind.model_validate_json(line)
            except ValidationError:
                continue


def unreadable_of(path: Path) -> Path:
    """Where the lines of a file go that cannot be read: `items.unreadable.jsonl` for `items.jsonl`."""
    return path.with_name(f"{path.stem}.unreadable{path.suffix}")


def count_unreadable(path: Path) -> int:
    """How many lines of a file were put aside."""
    aside = unreadable_of(path)
    if not aside.is_file():
        return 0
    with open(aside, "rb") as file:
        return sum(1 for _ in file)


def _put_aside(path: Path, lines: Sequence[bytes]) -> None:
    """Add lines to what is aside; they are on the disk when this returns, and there once, however often it is done."""
    before = set(path.read_bytes().splitlines(keepends=True)) if path.is_file() else set()
    with open(path, "ab") as file:
        for line in lines:
            if line not in before:
                file.write(line)
        file.flush()
        os.fsync(file.fileno())


class SynthFolder:
    """An open synthesis. Use `open_folder`; only one process has it open at a time.

    To the engine it is what a run's folder is: it has `samples`, and appends them.

    Attributes:
        kept: items in all.
        ended, failed: attempts of this call that ended, and those of them that failed.
        stopped: the engine said that it tries no more.
    """

    def __init__(self, path: Path, manifest: Manifest) -> None:
        self.path, self.manifest = path, manifest
        self.samples = SampleJournal(path / ATTEMPTS)
        self.ended, self.failed, self.stopped = 0, 0, False
        self.filters: Counter[tuple[str, str]] = Counter()
        self.duplicates = Duplicates()
        self._lock = threading.Lock()
        self._stashed: dict[str, tuple[Sequence[SynthItem], Sequence[Reject]]] = {}
        self._files: dict[str, FileIO] = {}
        self.kept = self._tidied(ITEMS, SynthItem)
        self._tidied(REJECTS, Reject)
        for reject in read_lines(path / REJECTS, Reject):
            self.filters[reject.stage, reject.reason] += 1

    def _tidied(self, name: str, kind: type[SynthItem] | type[Reject]) -> int:
        """Keep the lines of finished attempts alone, and aside what cannot be read; how many there are.

        A torn last line is what a kill leaves of an attempt, which is made again.
        """
        path, count, changed = self.path / name, 0, False
        if not path.is_file():
            return 0
        part = path.with_name(f".{name}.part")
        unreadable: list[bytes] = []
        with open(path, "rb") as input_file, open(part, "wb") as output:
            for line in input_file:
                try:
                    seed = kind.model_validate_json(line).seed
                except ValidationError:
                    changed = True
                    if line.endswith(b"\n") and line.strip():
                        unreadable.append(line)
                    continue
                if self.samples.finished((seed, 0)):
                    output.write(line if line.endswith(b"\n") else line + b"\n")
                    count += 1
                else:
                    changed = True
        if unreadable:
            _put_aside(unreadable_of(path), unreadable)
        if changed:
            part.replace(path)
        else:
            part.unlink()
        return count

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
        kept_before, rejects = self.kept, list(rejects)
        for item in items:
            twin = self.duplicates.of(item)
            if twin is None:
                self._write(ITEMS, item)
                self.kept += 1
            else:
                about = {"duplicate_of": twin, "key": item.key}
                reject = Reject(seed=item.seed, stage="duplicate", reason="says the same as another", about=about)
                rejects.append(reject)
        for reject in rejects:
            self._write(REJECTS, reject)
            self.filters[reject.stage, reject.reason] += 1
        self.samples.append(sample.model_copy(update={"decision": KEPT if self.kept > kept_before else NOTHING}))

    def _write(self, name: str, record: Record) -> None:
        if name not in self._files:
            self._files[name] = open(self.path / name, "ab", buffering=0)  # noqa: SIM115
        unwritten = memoryview(json_line(record).encode("utf-8"))
        while unwritten:
            unwritten = unwritten[self._files[name].write(unwritten) :]

    def items(self) -> Iterator[SynthItem]:
        """What was kept, in the order of the file."""
        return read_lines(self.path / ITEMS, SynthItem)

    def update(self, **fields: Any) -> None:
        """Change what is not part of the manifest's identity and write it."""
        self.manifest = self.manifest.model_copy(update=fields)
        write_json(self.path / "manifest.json", self.manifest.model_dump(mode="json"))

    def close(self) -> None:
        """Close the files, with their content on the disk."""
        self.samples.close()
        for file in self._files.values():
            os.fsync(file.fileno())
            file.close()
        self._files = {}


class Duplicates:
    """Says which kept item an item repeats: the same words, or keys whose vectors are as good as the same.

    Args:
        embed: None: nothing is a duplicate, since nothing is added.
        items: those that are kept already.
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
