"""Reads a source into passages. Files that have not changed take over their passages from the current generation.

A file has not changed if its size and its time of change are those of the last build, and the readers, the models and
the limits of passages are the same. The list of these files is `files.json` beside the manifest.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from turnmark.core.errors import TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.corpora import chunking
from turnmark.corpora.readers import read_file, source_items
from turnmark.corpora.readers.folder import SourceFile
from turnmark.corpora.readers.pdf import ocr
from turnmark.corpora.readers.registry import GROUP
from turnmark.corpora.readers.report import ReadingReport
from turnmark.corpora.types import Document, Passage, Problem
from turnmark.retrieval.components import Window
from turnmark.retrieval.store import PassageStore

FILE = "files.json"
SETTLED = 2_000_000_000
"""Nanoseconds since its last change after which a file counts as settled. One that is written again within the
resolution of the file system's clock might keep size and time; it is read again by the next build."""
_LIBRARIES = (
    "beautifulsoup4", "lxml", "markdown-it-py", "openpyxl", "pypandoc_binary", "pypdfium2", "python-calamine",
)  # fmt: skip


class FileStamp(NamedTuple):
    """Size and time of the last change of a file."""

    size: int
    mtime_ns: int


class KnownFile(Record):
    """A file as it was read, and the ids of its documents."""

    stamp: FileStamp
    documents: tuple[str, ...]


class KnownFiles(Record):
    """`files.json`: the files that a generation was built from, without those that could not be read.

    Attributes:
        generation: another generation than the current one: the list is out of date.
        made_by: what made passages of the files; another value: they are all read again.
    """

    generation: int
    made_by: str
    files: dict[str, KnownFile]


@cache
def readers_mark() -> str:
    """Return a fingerprint of the code that reads files and cuts passages."""
    digest = hashlib.sha256()
    folder = Path(chunking.__file__).parent
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.lua"))):
        digest.update(f"{path.relative_to(folder).as_posix()}\0".encode() + path.read_bytes() + b"\0")
    versions = [f"{name} {_version(name)}" for name in _LIBRARIES]
    for entry in sorted(importlib.metadata.entry_points(group=GROUP)):
        versions.append(f"{entry.name} {entry.value} {entry.dist.version if entry.dist else ''}")
    versions.append(f"rapidocr {ocr.is_installed()}")  # with it scans are read
    digest.update("\n".join(versions).encode())
    return digest.hexdigest()


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:  # pandoc, where there is no package of it
        return ""


def read_known(folder: Path, generation: int, made_by: str) -> dict[str, KnownFile]:
    """Return the files of the current generation by relative path; empty if they are not known."""
    try:
        known = KnownFiles.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):  # not there, or damaged: everything is read
        return {}
    return known.files if (known.generation, known.made_by) == (generation, made_by) else {}


def write_known(folder: Path, generation: int, made_by: str, files: dict[str, KnownFile]) -> None:
    """Write the list of files of a generation that has just become current."""
    known = KnownFiles(generation=generation, made_by=made_by, files=files)
    write_atomic(folder / FILE, json.dumps(known.model_dump(mode="json"), ensure_ascii=False))


@dataclass
class SourceEntry:
    """What one file, or one row, gives.

    Attributes:
        path: of the file, relative to the source; empty for a row.
        changed: whether the file gives other passages than in the current generation.
        stamp: None: it is to be read again by the next build.
    """

    path: str = ""
    documents: list[str] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    changed: bool = False
    stamp: FileStamp | None = None


@dataclass
class SourceReader:
    """Reads a source, one file in memory at a time.

    Attributes:
        window: cuts passages.
        current: the passages of the current generation; None: there are none to take over or to compare with.
        known: the files that the current generation was built from.
        watch: is told what is being read.
    """

    source: Path
    include: Sequence[str]
    exclude: Sequence[str]
    window: Window
    current: PassageStore | None
    known: dict[str, KnownFile]
    watch: ReadingReport

    def entries(self) -> Iterator[SourceEntry]:
        """Yield what the files and rows give, in the order of the source."""
        for item in source_items(self.source, self.include, self.exclude, self.watch):
            if isinstance(item, SourceFile):
                yield self._taken_over(item) or self._read(item)
            elif isinstance(item, Document):
                yield SourceEntry(documents=[item.id], passages=self.window.cut(item))
            else:
                yield SourceEntry(problems=[item])

    def _taken_over(self, file: SourceFile) -> SourceEntry | None:
        """Return the passages that an unchanged file has in the current generation; None if it is to be read."""
        known = self.known.get(file.relative)
        if known is None or self.current is None or known.stamp != _stamp(file.path):
            return None
        try:
            passages = [passage for document in known.documents for passage in self.current.of_document(document)]
        except TurnmarkError:  # the current generation is damaged
            return None
        if not passages:
            return None
        return SourceEntry(path=file.relative, documents=list(known.documents), passages=passages, stamp=known.stamp)

    def _read(self, file: SourceFile) -> SourceEntry:
        stamp, began = _stamp(file.path), time.time_ns()
        entry = SourceEntry(path=file.relative)
        for item in read_file(file.path, file.relative, self.watch, only_text=file.named):
            if isinstance(item, Problem):
                entry.problems.append(item)
            else:
                entry.documents.append(item.id)
                entry.passages += self.window.cut(item)
        entry.changed = self._differs(entry)
        settled = stamp is not None and began - stamp.mtime_ns > SETTLED
        if settled and entry.documents and not entry.problems:
            entry.stamp = stamp
        return entry

    def _differs(self, entry: SourceEntry) -> bool:
        if self.current is None:
            return bool(entry.passages)
        try:
            old = [passage for document in entry.documents for passage in self.current.of_document(document)]
        except TurnmarkError:  # the current generation is damaged
            return True
        return old != entry.passages


def _stamp(path: Path) -> FileStamp | None:
    try:
        status = path.stat()
    except OSError:  # the reader says why
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)


def known_of(entries: Iterable[SourceEntry], is_whole: Callable[[str], bool]) -> dict[str, KnownFile]:
    """Return the files whose passages the next build may take over.

    Args:
        is_whole: whether the index has all passages of a document.
    """
    files: dict[str, KnownFile] = {}
    for entry in entries:
        if entry.stamp is not None and all(map(is_whole, entry.documents)):
            files[entry.path] = KnownFile(stamp=entry.stamp, documents=tuple(entry.documents))
    return files
