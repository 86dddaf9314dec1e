"""Append-only files of records, a line of JSON each: samples of a run, judgements.

A journal keeps in memory only where each record lies, so that it may hold any number of them. The last line of a key
holds. A line that was torn by a kill is cut off when the file is opened; a whole line that is no record is passed over
and listed in `problems`. What `append` wrote is with the operating system when it returns.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import IO, Generic, TextIO, TypeVar

from pydantic import ValidationError

from turnmark.corpora.console import valid_text
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.records import Sample

K = TypeVar("K", bound=Hashable)
R = TypeVar("R", bound=Record)
Key = tuple[str, int]
"""Id and repeat of a sample."""

# Line ends of Unicode that readers of JSON lines may split at.
_LINE_ENDS = re.compile("[\x85\u2028\u2029]")


def json_line(record: Record) -> str:
    """A record as one line of JSON, with its line end; there is no other line end in it by anyone's rules.

    Half a surrogate pair, which models and files do write and no UTF-8 holds, becomes U+FFFD.
    """
    text = valid_text(json.dumps(record.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    return _LINE_ENDS.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


def read_records(path: Path, kind: type[R]) -> Iterator[R]:
    """The records of a file, one at a time; none where it is not there, and none for a line that is no record."""
    if not path.is_file():
        return
    with open(path, "rb") as file:
        for line in file:
            with suppress(ValidationError):
                yield kind.model_validate_json(line)


@contextmanager
def written_whole(path: Path) -> Iterator[TextIO]:
    """A text file that appears under its name when all of it is written; a file that was there stays until then."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8", newline="\n") as file:
            yield file
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


class Journal(Generic[K, R]):
    """Records on file, by key. Override `note` to keep more of a record in memory than its place.

    Attributes:
        problems: the lines that could not be read.
    """

    def __init__(self, path: Path, kind: type[R], key: Callable[[R], K], unreadable: str = "not readable") -> None:
        """Open a journal; the file need not be there.

        Args:
            kind: of the records.
            key: of a record.
            unreadable: what `problems` says of a line that is no record.
        """
        self.path, self._kind, self._key = path, kind, key
        self.problems: tuple[Problem, ...] = ()
        self._places: dict[K, int] = {}
        self._in_order = True  # every line is a record, no key twice, and nobody wants another order
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
                    self._place(self._kind.model_validate_json(line))
                except ValidationError:
                    problems.append(Problem(file=self.path.name, line=number, what=unreadable))
                    self._in_order = False
                self._end += len(line)
        if self._end < self.path.stat().st_size:
            os.truncate(self.path, self._end)
        self.problems = tuple(problems)

    def _place(self, record: R) -> None:
        key = self._key(record)
        self._in_order &= key not in self._places
        self._places[key] = self._end
        self.note(record)

    def note(self, record: R) -> None:
        """Called with each record that is read or appended."""

    def __len__(self) -> int:
        """How many keys there are."""
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        """Whether there is a record with this key."""
        return key in self._places

    def keys(self) -> Iterator[K]:
        """The keys, in the order in which they first came."""
        return iter(self._places)

    def get(self, key: K) -> R | None:
        """The record as it stands now; None where there is none."""
        place = self._places.get(key)
        return None if place is None else self._kind.model_validate_json(self._line(place))

    def _line(self, place: int) -> bytes:
        if self._reading is None:
            self._reading = open(self.path, "rb")  # noqa: SIM115
        self._reading.seek(place)
        return self._reading.readline()

    def append(self, record: R) -> None:
        """Write a record down.

        Raises:
            ValueError: it holds what JSON cannot (NaN); nothing was written.
            OSError: it cannot be written, by a full disk for one; the file is as it was before.
        """
        line = json_line(record).encode("utf-8")
        if self._writing is None:
            self._writing = open(self.path, "ab", buffering=0)  # noqa: SIM115
        unwritten = memoryview(line)
        try:
            while unwritten:
                unwritten = unwritten[self._writing.write(unwritten) :]
        except OSError as error:
            with suppress(OSError):  # else the torn line is cut off by whoever opens the file next
                os.truncate(self.path, self._end)
            raise OSError(error.errno, error.strerror, str(self.path)) from error
        self._place(record)
        self._end += len(line)

    def close(self) -> None:
        """Close the file, with its content on the disk."""
        if self._writing is not None:
            os.fsync(self._writing.fileno())
            self._writing.close()
        if self._reading is not None:
            self._reading.close()
        self._writing = self._reading = None


class SampleJournal(Journal[Key, Sample]):
    """`predictions.jsonl`: a line a sample while the run goes on, brought into the data's order at its end.

    Attributes:
        makers: number of finished samples by their `maker`.
        domains: the domains of samples that are done.
    """

    def __init__(self, path: Path) -> None:
        self.makers: Counter[int] = Counter()
        self.domains: set[str | None] = set()
        self._unfinished: set[Key] = set()
        super().__init__(path, Sample, lambda sample: sample.key, "not a sample; dropped and tried again")

    def note(self, record: Sample) -> None:
        """See `Journal.note`."""
        if record.status == "done":
            self._unfinished.discard(record.key)
            self.makers[record.maker] += 1
            self.domains.add(record.domain)
        else:
            self._unfinished.add(record.key)

    @property
    def damaged(self) -> bool:
        """Whether a line could not be read, or stood there twice."""
        return not self._in_order

    @property
    def unfinished(self) -> int:
        """How many samples failed or were skipped."""
        return len(self._unfinished)

    def finished(self, key: Key) -> bool:
        """Whether the sample is done, and need not be tried again."""
        return key in self._places and key not in self._unfinished

    def append(self, record: Sample) -> None:
        """See `Journal.append`.

        Raises:
            ValueError: the sample is done already, or holds what JSON cannot (NaN); nothing was written.
            OSError: as there.
        """
        if self.finished(record.key):
            raise ValueError(f"sample {record.key} is in the run already")
        super().append(record)

    def arrange(self, order: Iterable[Key]) -> None:
        """Rewrite the file in this order, a line a sample; samples that are not in the order follow.

        A reader sees the old file or the new one, and so does whoever continues after a kill.
        """
        in_order = {key: self._places[key] for key in order if key in self._places}
        in_order |= {key: place for key, place in self._places.items() if key not in in_order}
        if self._in_order and list(in_order.values()) == sorted(in_order.values()):
            self.path.touch()
            return
        part = self.path.with_name(f".{self.path.name}.part")
        places: dict[Key, int] = {}
        with open(part, "wb") as file:
            for key, place in in_order.items():
                places[key] = file.tell()
                file.write(self._line(place))
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self.close()
        part.replace(self.path)
        self._places, self._in_order = places, True
