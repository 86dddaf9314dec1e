"""Append-only files of records as JSON lines: the samples or judgments of a run, the items of a synthesis.

A journal keeps only the offset of each record in memory, so it can contain any number of them. The last line of a key
counts. An incomplete last line, left by a killed process, is cut off when the file is opened; a complete line that is
not a record is skipped and listed in `problems`. When `append` returns, the line has been passed to the operating
system.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Generic, TextIO, TypeVar

from pydantic import ValidationError

from turnmark.core.record import Record
from turnmark.core.untrusted import valid_text
from turnmark.corpora.types import Problem
from turnmark.evaluation.records import Sample

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Record)
SampleKey = tuple[str, int]
"""Id and repeat of a sample."""

# Unicode line ends, at which some readers of JSON lines split.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def json_line(record: Record) -> str:
    """Return a record as one line of JSON with a line end, and without any Unicode line end inside.

    A lone surrogate, which models and files sometimes write and UTF-8 cannot encode, becomes U+FFFD.
    """
    text = valid_text(json.dumps(record.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    return _LINE_ENDS.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """Yield the records of a file; lines that are not records are skipped, and a missing file has no records."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for line in file:
            with suppress(ValidationError):
                yield kind.model_validate_json(line)


@contextmanager
def open_atomic(path: Path) -> Iterator[TextIO]:
    """Open a text file to write; it replaces the file at `path` atomically when the context ends."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Journal(Generic[K, R]):
    """A file of records by key.

    Args:
        path: the file, which need not exist.
        kind: class of the records.
        key: function from a record to its key.
        is_final: function that tells whether a record is final. A record that is not final may be followed by another
            one with the same key.
        unreadable: the text in `problems` for a line that is not a record.

    Attributes:
        problems: the lines that cannot be read.
        damaged: whether a line cannot be read or a key has several lines.
    """

    def __init__(
        self,
        path: Path,
        kind: type[R],
        key: Callable[[R], K],
        is_final: Callable[[R], bool] = lambda _: True,
        unreadable: str = "not readable",
    ) -> None:
        self.path, self._kind, self._key, self._is_final = path, kind, key, is_final
        self.problems: tuple[Problem, ...] = ()
        self.damaged = False
        self._offsets: dict[K, int] = {}
        self._open_keys: set[K] = set()
        self._writing: FileIO | None = None
        self._reading: IO[bytes] | None = None
        self._end = 0
        if path.is_file():
            self._load(unreadable)

    def _load(self, unreadable: str) -> None:
        problems: list[Problem] = []
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    record = self._kind.model_validate_json(line)
                except ValidationError:
                    problems.append(Problem(file=self.path.name, line=number, what=unreadable))
                else:
                    self._add(self._key(record), record)
                self._end += len(line)
        if self._end < self.path.stat().st_size:
            os.truncate(self.path, self._end)
        self.problems = tuple(problems)
        self.damaged |= bool(problems)

    def _add(self, key: K, record: R) -> None:
        self.damaged |= key in self._offsets
        self._offsets[key] = self._end
        change = self._open_keys.discard if self._is_final(record) else self._open_keys.add
        change(key)

    def __len__(self) -> int:
        return len(self._offsets)

    def __contains__(self, key: object) -> bool:
        return key in self._offsets

    def keys(self) -> Iterator[K]:
        """Return the keys, in the order of their first records."""
        return iter(self._offsets)

    def records(self) -> Iterator[R]:
        """Return the last record of each key."""
        return (self._kind.model_validate_json(self._line(offset)) for offset in self._offsets.values())

    def get(self, key: K) -> R | None:
        """Return the last record of a key, or None if there is no record."""
        offset = self._offsets.get(key)
        return None if offset is None else self._kind.model_validate_json(self._line(offset))

    @property
    def unfinished(self) -> int:
        """The number of keys without a final record."""
        return len(self._open_keys)

    def finished(self, key: K) -> bool:
        """Return whether the key has a final record."""
        return key in self._offsets and key not in self._open_keys

    def _line(self, offset: int) -> bytes:
        if self._reading is None:
            self._reading = open(self.path, "rb")  # noqa: SIM115
        self._reading.seek(offset)
        return self._reading.readline()

    def append(self, record: R) -> None:
        """Write a record to the end of the file.

        Raises:
            ValueError: the key has a final record already, or a value cannot be written as JSON.
            OSError: the file cannot be written; an incomplete line is cut off.
        """
        key = self._key(record)
        if self.finished(key):
            raise ValueError(f"{key} is in {self.path.name} already")
        line = json_line(record).encode("utf-8")
        if self._writing is None:
            self._writing = open(self.path, "ab", buffering=0)  # noqa: SIM115
        unwritten = memoryview(line)
        try:
            while unwritten:
                unwritten = unwritten[self._writing.write(unwritten) :]
        except OSError as error:
            with suppress(OSError):  # if this fails, the incomplete line is cut off when the file is opened next
                os.truncate(self.path, self._end)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._add(key, record)
        self._end += len(line)

    def arrange(self, order: Iterable[K]) -> None:
        """Rewrite the file in this order with one line per key; keys that are not in the order follow.

        The file is replaced atomically.
        """
        in_order = {key: self._offsets[key] for key in order if key in self._offsets}
        for key, offset in self._offsets.items():
            in_order.setdefault(key, offset)
        if not self.damaged and list(in_order.values()) == sorted(in_order.values()):
            self.path.touch()
            return
        part = self.path.with_name(f".{self.path.name}.part")
        offsets: dict[K, int] = {}
        with open(part, "wb") as file:
            for key, offset in in_order.items():
                offsets[key] = file.tell()
                file.write(self._line(offset))
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self.close()
        part.replace(self.path)
        self._offsets, self.damaged = offsets, False

    def close(self) -> None:
        """Flush the file to the disk and close it."""
        if self._writing is not None:
            os.fsync(self._writing.fileno())
            self._writing.close()
        if self._reading is not None:
            self._reading.close()
        self._writing = self._reading = None


SampleJournal = Journal[SampleKey, Sample]


def open_samples(path: Path) -> SampleJournal:
    """Open the journal of a run's samples, `predictions.jsonl`; failed and skipped samples are not final."""
    unreadable = "not a sample; dropped and tried again"
    return Journal(path, Sample, lambda sample: sample.key, lambda sample: sample.status == "done", unreadable)
