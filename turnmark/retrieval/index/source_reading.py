"""Reads the files of a source that have changed since the index was built, and cuts them into passages.

A file counts as unchanged if its size and its times are those of the last build, and the readers, the models and the
size limits of passages are the same.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date
from functools import partial
from itertools import islice
from pathlib import Path

from pydantic import BaseModel

from turnmark.corpora.readers import MAX_PROCESSES, ReadingReport, SourceFile, read_file, readers, source_items
from turnmark.corpora.types import Document, Passage, Problem
from turnmark.retrieval.index.encoders import Window
from turnmark.retrieval.storage.filters import DATE, WHERE_KEYS, normal_date
from turnmark.retrieval.tables.table_update import TableUpdate

SETTLED_NS = 2_000_000_000
"""Minimum age of a file's last change for the file to count as settled. A file that is written again within the
resolution of the file system's clock can keep its size and time, so the next build reads unsettled files again."""
MAX_WAITING_ENTRIES = 256
"""Number of files that wait behind one that is being read, so that files further on can be read ahead."""


class FileNotes(BaseModel):
    """What a build keeps about a file as JSON, so that it reports the same about an unchanged one.

    Attributes:
        left_out: what the reader left out, by reason (`Document.left_out`).
        remarks: what the owner of the file should know about how it was read.
        unread: 1 for the file's suffix if its type is not read.
        pictures: path of each picture file that it shows, relative to the source -> stamp.
    """

    problems: list[Problem] = []
    left_out: Counter[str] = Counter()
    remarks: list[str] = []
    unread: Counter[str] = Counter()
    pictures: dict[str, str] = {}

    def kept(self) -> str:
        """Return the notes as JSON."""
        return self.model_dump_json(include=set(FileNotes.model_fields), exclude_defaults=True)


class SourceEntry(FileNotes):
    """The documents of one file or one row, and the notes on it.

    Attributes:
        path: path of the file, relative to the source; empty for a row.
        is_known: whether the index has what the file says, so it was not read; `documents` and `passages` are empty.
        documents: ids of the documents.
        passages: passages of each document.
        modified: date of the last change of the file, in the time of this machine.
        fields: the date of each document and the keys that its author wrote, to filter by.
        changed: whether its passages or tables differ from those in the index.
        holds_more: whether it has tables or pictures, which are stored when the build is complete.
        stamp: stamp of the file, or "" if the next build reads it again.
        uncut: documents that are not cut into passages yet.
    """

    path: str = ""
    is_known: bool = False
    documents: list[str] = []
    passages: dict[str, list[Passage]] = {}
    modified: str = ""
    fields: dict[str, list[tuple[str, str]]] = {}
    changed: bool = False
    holds_more: bool = False
    stamp: str = ""
    uncut: list[Document] = []


class _ReadingStopped(Exception):
    """The build ended while a file was being read."""


@dataclass
class SourceReader:
    """A reader of a source that has a few files in memory at a time.

    Attributes:
        known: path -> stamp and `FileNotes` as JSON, for the files that the index has.
        watch: the report of what is being read.
        processes: maximum number of files that are read at the same time.
        pictures: folder into which pictures are written to be described, or None if they are only counted.
    """

    source: Path
    include: Sequence[str]
    exclude: Sequence[str]
    known: Mapping[str, tuple[str, str]]
    watch: ReadingReport
    processes: int = MAX_PROCESSES
    pictures: Path | None = None

    def __post_init__(self) -> None:
        self._entries = self._read_source()
        self._ahead: list[SourceEntry] = []

    def close(self) -> None:
        """End all reading that was begun."""
        self._entries.close()

    def count(self) -> int | None:
        """Return about how many files the source has, or None if it is not a folder."""
        if self.known or not self.source.is_dir():
            return len(self.known) or None
        items = source_items(self.source, self.include, self.exclude, ReadingReport())
        return sum(isinstance(item, SourceFile) for item in items) or None

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

    def cut(self, entry: SourceEntry, window: Window, tables: TableUpdate) -> SourceEntry:
        """Cut the documents of an entry into passages, store their tables, and return the entry."""
        uncut, entry.uncut = entry.uncut, []
        for document in uncut:
            entry.passages[document.id] = window.cut(document)
            entry.fields[document.id] = _fields_of(document, entry.modified)
            entry.holds_more |= bool(document.descriptions or document.pictures)
            has_tables, differ = tables.add(document)
            entry.holds_more |= has_tables
            entry.changed |= differ
        if entry.unread:
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
                is_known = isinstance(item, SourceFile) and self._is_known(item)
                if is_known and not waiting:
                    yield self._entry(item, is_known)
                    continue
                if isinstance(item, SourceFile) and not is_known and self._needs_process(item):
                    ahead.append(pool.submit(self._read, item, tell))
                    waiting.append(ahead[-1].result)
                else:
                    waiting.append(partial(self._entry, item, is_known))
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
        """Return whether a file is read in a process of its own."""
        reader = readers().get(file.path.suffix.lower())
        return reader is not None and (reader.isolated or self.pictures is not None)

    def _entry(self, item: SourceFile | Document | Problem, is_known: bool) -> SourceEntry:
        if isinstance(item, SourceFile) and is_known:
            stamp, notes = self.known[item.relative]
            return SourceEntry(path=item.relative, is_known=True, stamp=stamp, **json.loads(notes))
        if isinstance(item, SourceFile):
            return self._read(item, self.watch.tell)
        if isinstance(item, Document):
            return SourceEntry(documents=[item.id], uncut=[item])
        return SourceEntry(problems=[item])

    def _is_known(self, file: SourceFile) -> bool:
        stamp, known = self.known.get(file.relative, ("", ""))
        if not stamp or stamp != stamp_of(file.location):
            return False
        pictures: dict[str, str] = json.loads(known).get("pictures", {})
        return all(stamp_of(self._folder / path) == stamp for path, stamp in pictures.items())

    @property
    def _folder(self) -> Path:
        return self.source if self.source.is_dir() else self.source.parent

    def _read(self, file: SourceFile, tell: Callable[[str], None]) -> SourceEntry:
        """Read a file; may be called from several threads at once."""
        stamp, began = stamp_of(file.location), time.time_ns()
        modified = f"{date.fromtimestamp(int(stamp.split()[1]) // 10**9)}" if stamp else ""
        entry = SourceEntry(path=file.relative, modified=modified)
        if file.relative in self.known and not os.access(file.path, os.R_OK):
            entry.is_known = True  # what was read when it could be opened stays
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
        stamps = {path: stamp_of(self._folder / path) for path in sorted(shown)}
        if not entry.is_known and all(_is_settled(each, began) for each in (stamp, *stamps.values())):
            entry.stamp, entry.pictures = stamp, stamps
        return entry


def _fields_of(document: Document, modified: str) -> list[tuple[str, str]]:
    """Return what a document is filtered by: keys and values, and the date that front matter or else the file says."""
    fields = [(key, value) for key, values in document.metadata.items() if key not in WHERE_KEYS for value in values]
    dates = map(normal_date, (*document.metadata.get(DATE, ()), document.date, modified))
    return [*fields, *((DATE, each) for each in islice(filter(None, dates), 1))]


def stamp_of(path: Path | str) -> str:
    """Return the size of a file, when it was written, and when it was last replaced or renamed; "" if it is missing.

    A file that is moved into place, or written with an old date, has a new third number.
    """
    try:
        status = os.stat(path)  # noqa: PTH116 -- a `Path` for each file takes longer than its status
    except OSError:  # the reader reports the reason
        return ""
    return f"{status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def _is_settled(stamp: str, began: int) -> bool:
    """Return whether a file had not changed for a while when reading it began."""
    return bool(stamp) and all(began - int(moment) > SETTLED_NS for moment in stamp.split()[1:])
