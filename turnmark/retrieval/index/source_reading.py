"""Reads a source into passages. Unchanged files keep their passages from the current generation.

A file counts as unchanged if its size and modification time are those of the last build, and the readers, the models
and the size limits of passages are the same. The list of these files is `files.json` next to the manifest.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pydantic import Field, ValidationError

from turnmark.core.errors import TurnmarkError
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.corpora.readers import MAX_PROCESSES, ReadingReport, SourceFile, read_file, readers, source_items
from turnmark.corpora.types import Document, Passage, Problem
from turnmark.retrieval.index.components import Window
from turnmark.retrieval.storage.passage_store import PassageStore
from turnmark.retrieval.tables.table_writer import CurrentTables, TableWriter

FILE = "files.json"
SETTLED_NS = 2_000_000_000
"""Minimum age of a file's last change for the file to count as settled. A file that is written again within the
resolution of the file system's clock can keep its size and time, so the next build reads unsettled files again."""
MAX_WAITING_ENTRIES = 256
"""Number of files that wait behind one that is being read, so that files further on can be read ahead."""


class FileStamp(NamedTuple):
    """The size and modification time of a file."""

    size: int
    mtime_ns: int


class KnownFile(Record):
    """The stamp of a file when it was read, the ids of its documents, and what its reader reported about it."""

    stamp: FileStamp
    documents: tuple[str, ...]
    left_out: dict[str, int] = Field(default={}, description="what the readers left out: reason -> count")
    remarks: tuple[str, ...] = ()
    pictures: dict[str, FileStamp] = Field(
        default={}, description="the picture files that it shows: path relative to the source -> stamp"
    )


class KnownFiles(Record):
    """`files.json`: the files that a generation was built from, without those that could not be read.

    Attributes:
        generation: the generation. If it is not the current one, the list is out of date.
        made_by: a fingerprint of the code that made passages from the files. If it differs, all files are read again.
    """

    generation: int
    made_by: str
    files: dict[str, KnownFile]


def read_known(folder: Path, generation: int, made_by: str) -> dict[str, KnownFile]:
    """Return the files of the current generation by relative path; empty if they are not known."""
    try:
        known = KnownFiles.model_validate_json((folder / FILE).read_bytes())
    except (OSError, ValidationError):  # missing or damaged: every file is read
        return {}
    return known.files if (known.generation, known.made_by) == (generation, made_by) else {}


def write_known(folder: Path, generation: int, made_by: str, files: dict[str, KnownFile]) -> None:
    """Write the list of files of a generation that has just become current."""
    known = KnownFiles(generation=generation, made_by=made_by, files=files)
    write_atomic(folder / FILE, json.dumps(known.model_dump(mode="json"), ensure_ascii=False))


@dataclass
class SourceEntry:
    """The passages and problems of one file or one row.

    Attributes:
        path: path of the file, relative to the source; empty for a row.
        left_out: what the reader left out, by reason (`Document.left_out`).
        remarks: what the owner of the file should know about how it was read.
        changed: whether the file's passages differ from those in the current generation.
        stamp: stamp of the file, or None if the next build reads it again.
        pictures: stamps of the picture files that it shows.
        unread: 1 for the file's suffix if its type is not read.
        uncut: documents that are not cut into passages yet.
    """

    path: str = ""
    documents: list[str] = field(default_factory=list)
    passages: list[Passage] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    remarks: list[str] = field(default_factory=list)
    changed: bool = False
    stamp: FileStamp | None = None
    pictures: dict[str, FileStamp] = field(default_factory=dict)
    unread: Counter[str] = field(default_factory=Counter)
    uncut: list[Document] = field(default_factory=list)


class _ReadingStopped(Exception):
    """The build ended while a file was being read."""


@dataclass
class SourceReader:
    """A reader of a source that has a few files in memory at a time.

    Attributes:
        window: cuts passages; None until the documents that are read ahead have decided about it.
        current: the passages of the current generation, or None if there is none.
        known: the files that the current generation was built from.
        current_tables: the stored tables of the current generation, or None if there are none.
        tables: is given the tables of each document, or None if they are not stored.
        watch: the report of what is being read.
        processes: maximum number of files that are read at the same time.
        pictures: folder into which pictures are written to be described, or None if they are only counted.
    """

    source: Path
    include: Sequence[str]
    exclude: Sequence[str]
    window: Window | None
    current: PassageStore | None
    known: dict[str, KnownFile]
    watch: ReadingReport
    processes: int = MAX_PROCESSES
    pictures: Path | None = None
    current_tables: CurrentTables | None = None
    tables: TableWriter | None = None

    def __post_init__(self) -> None:
        self._entries = self._read_source()
        self._ahead: list[SourceEntry] = []

    def close(self) -> None:
        """End all reading that was begun."""
        self._entries.close()

    def read_ahead(self, documents: int, characters: int) -> list[Document]:
        """Read the first documents up to a limit of documents and of text, and return them.

        They are kept for `entries`.
        """
        read: list[Document] = []
        for entry in self._entries:
            self._ahead.append(entry)
            read += entry.uncut
            if len(read) >= documents or sum(len(document.text) for document in read) >= characters:
                break
        return read

    def entries(self) -> Iterator[SourceEntry]:
        """Yield an entry for each file or row, not cut into passages yet, in the order of the source."""
        while entry := self._ahead.pop(0) if self._ahead else next(self._entries, None):
            yield entry

    def cut(self, entry: SourceEntry) -> SourceEntry:
        """Cut the documents of an entry into passages, and return the entry."""
        assert self.window is not None, "set before passages are cut"
        uncut, entry.uncut = entry.uncut, []
        digests: list[str] = []
        for document in uncut:
            entry.passages += self.window.cut(document)
            digests += self.tables.add(document) if self.tables is not None else []
        if uncut:
            entry.changed = bool(entry.path) and (self._differs(entry) or self._tables_differ(entry, digests))
        elif self.tables is not None and self.current_tables is not None:
            for identifier in entry.documents:
                self.tables.copy(self.current_tables, identifier)
        self.watch.unread.update(entry.unread)
        return entry

    def _read_source(self) -> Generator[SourceEntry, None, None]:
        """Yield an entry for each file or row, in order. Files with a process of their own are read ahead, several at
        once.
        """
        stopping = threading.Event()

        def tell(text: str) -> None:
            if stopping.is_set():
                raise _ReadingStopped
            self.watch.tell(text)

        waiting: deque[Callable[[], SourceEntry]] = deque()
        ahead: deque[Future[SourceEntry]] = deque()
        pool = ThreadPoolExecutor(self.processes, thread_name_prefix="turnmark-reading")
        try:
            for item in source_items(self.source, self.include, self.exclude, self.watch):
                if isinstance(item, SourceFile) and self._needs_process(item):
                    ahead.append(pool.submit(self._read, item, tell))
                    waiting.append(ahead[-1].result)
                else:
                    waiting.append(partial(self._entry, item))
                while len(waiting) > MAX_WAITING_ENTRIES or len(ahead) > self.processes:
                    yield waiting.popleft()()
                    while ahead and ahead[0].done():
                        ahead.popleft()
            while waiting:
                yield waiting.popleft()()
        finally:
            stopping.set()
            pool.shutdown(cancel_futures=True)

    def _needs_process(self, file: SourceFile) -> bool:
        """Return whether a file must be read, and in a process of its own."""
        reader = readers().get(file.path.suffix.lower())
        isolated = reader is not None and (reader.isolated or self.pictures is not None)
        return isolated and not self._is_known(file)

    def _entry(self, item: SourceFile | Document | Problem) -> SourceEntry:
        if isinstance(item, SourceFile):
            return self._taken_over(item) or self._read(item, self.watch.tell)
        if isinstance(item, Document):
            return SourceEntry(documents=[item.id], uncut=[item])
        return SourceEntry(problems=[item])

    def _is_known(self, file: SourceFile) -> bool:
        known = self.known.get(file.relative)
        if known is None or self.current is None or known.stamp != _stamp(file.path):
            return False
        return all(_stamp(self._folder / path) == stamp for path, stamp in known.pictures.items())

    @property
    def _folder(self) -> Path:
        return self.source if self.source.is_dir() else self.source.parent

    def _taken_over(self, file: SourceFile) -> SourceEntry | None:
        """Return an unchanged file's passages in the current generation, or None if the file must be read."""
        if not self._is_known(file) or self.current is None:
            return None
        known = self.known[file.relative]
        try:
            passages = [passage for document in known.documents for passage in self.current.of_document(document)]
        except TurnmarkError:  # the current generation is damaged
            return None
        if not passages:
            return None
        return SourceEntry(
            path=file.relative,
            documents=list(known.documents),
            passages=passages,
            left_out=Counter(known.left_out),
            remarks=list(known.remarks),
            stamp=known.stamp,
            pictures=dict(known.pictures),
        )

    def _read(self, file: SourceFile, tell: Callable[[str], None]) -> SourceEntry:
        """Read a file; may be called from several threads at once."""
        stamp, began = _stamp(file.path), time.time_ns()
        entry = SourceEntry(path=file.relative)
        watch = ReadingReport(tell, entry.unread, entry.left_out)
        for item in read_file(file.path, file.relative, watch, only_text=file.named, pictures=self.pictures):
            if isinstance(item, Problem):
                entry.problems.append(item)
            else:
                entry.documents.append(item.id)
                entry.left_out.update(item.left_out)
                entry.remarks += item.remarks
                entry.uncut.append(item)
        shown = {picture.source for document in entry.uncut for picture in document.pictures if picture.source}
        stamps = {path: _stamp(self._folder / path) for path in sorted(shown)}
        settled = all(each is not None and began - each.mtime_ns > SETTLED_NS for each in (stamp, *stamps.values()))
        if settled and entry.documents and not entry.problems:
            entry.stamp = stamp
            entry.pictures = {path: each for path, each in stamps.items() if each is not None}
        return entry

    def _differs(self, entry: SourceEntry) -> bool:
        if self.current is None:
            return bool(entry.passages)
        try:
            old = [passage for document in entry.documents for passage in self.current.of_document(document)]
        except TurnmarkError:  # the current generation is damaged
            return True
        return old != entry.passages

    def _tables_differ(self, entry: SourceEntry, digests: Sequence[str]) -> bool:
        """Return whether the tables of a file differ from those in the current generation."""
        if self.tables is None or self.current_tables is None:
            return bool(digests)
        return [each for document in entry.documents for each in self.current_tables.digests(document)] != digests


def _stamp(path: Path) -> FileStamp | None:
    try:
        status = path.stat()
    except OSError:  # the reader reports the reason
        return None
    return FileStamp(status.st_size, status.st_mtime_ns)


def known_of(entries: Iterable[SourceEntry], is_whole: Callable[[str], bool]) -> dict[str, KnownFile]:
    """Return the files whose passages the next build may keep.

    Args:
        is_whole: returns whether the index has all passages of a document.
    """
    files: dict[str, KnownFile] = {}
    for entry in entries:
        if entry.stamp is not None and all(map(is_whole, entry.documents)):
            files[entry.path] = KnownFile(
                stamp=entry.stamp,
                documents=tuple(entry.documents),
                left_out=dict(entry.left_out),
                remarks=tuple(entry.remarks),
                pictures=entry.pictures,
            )
    return files
