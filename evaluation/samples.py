"""`predictions.jsonl`: appended a line a sample, read back by place, and brought into the data's order at the end.

Only where each sample lies is kept in memory, so that a run may have any number of them. While a run goes on, a sample
that was tried again has several lines, of which the last one holds.
"""

from __future__ import annotations

import json
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from turnmark.corpora.console import valid_text
from turnmark.corpora.types import Problem, Record
from turnmark.evaluation.records import Sample

Key = tuple[str, int]

# Line ends of Unicode that readers of JSON lines may split at.
_ESCAPED = re.compile("[\x85\u2028\u2029]")


def json_line(record: Record) -> str:
    """A record as one line of JSON, with its line end; there is no other line end in it by anyone's rules.

    Half a surrogate pair, which models and files do write and no UTF-8 holds, becomes U+FFFD.
    """
    text = valid_text(json.dumps(record.model_dump(mode="json"), ensure_ascii=False, allow_nan=False))
    return _ESCAPED.sub(lambda match: f"\\u{ord(match.group()):04x}", text) + "\n"


class SampleFile:
    """The samples of a run, on file.

    A torn last line is cut off when the file is opened; a line that is no sample stays until `arrange`, and is told.

    Attributes:
        problems: the lines that could not be read.
        makers: number of finished samples by their `maker`.
        domains: the domains of samples that are done.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: tuple[Problem, ...] = ()
        self.makers: Counter[int] = Counter()
        self.domains: set[str | None] = set()
        self._places: dict[Key, int] = {}
        self._unfinished: set[Key] = set()
        self._arranged = True
        self._writing: FileIO | None = None
        self._reading: IO[bytes] | None = None
        self._end = 0
        self._load()

    def _load(self) -> None:
        if not self.path.is_file():
            return
        problems: list[Problem] = []
        with open(self.path, "rb") as file:
            for number, line in enumerate(file, 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    self._note(Sample.model_validate_json(line), self._end)
                except ValidationError:
                    what = "not a sample; dropped and tried again"
                    problems.append(Problem(file=self.path.name, line=number, what=what))
                    self._arranged = False
                self._end += len(line)
        if self._end < self.path.stat().st_size:
            os.truncate(self.path, self._end)
        self.problems = tuple(problems)

    def _note(self, sample: Sample, place: int) -> None:
        self._arranged &= sample.key not in self._places
        self._places[sample.key] = place
        if sample.status == "done":
            self._unfinished.discard(sample.key)
            self.makers[sample.maker] += 1
            self.domains.add(sample.domain)
        else:
            self._unfinished.add(sample.key)

    def __len__(self) -> int:
        """How many samples there are, whatever became of them."""
        return len(self._places)

    def __contains__(self, key: object) -> bool:
        """Whether there is a line for the sample."""
        return key in self._places

    @property
    def damaged(self) -> bool:
        """Whether a line could not be read, or stood there twice."""
        return not self._arranged

    @property
    def unfinished(self) -> int:
        """How many samples failed or were skipped."""
        return len(self._unfinished)

    def finished(self, key: Key) -> bool:
        """Whether the sample is done, and need not be tried again."""
        return key in self._places and key not in self._unfinished

    def keys(self) -> Iterator[Key]:
        """The keys of all samples, in the order in which they first came."""
        return iter(self._places)

    def get(self, key: Key) -> Sample | None:
        """The sample as it stands now; None where there is none."""
        place = self._places.get(key)
        return None if place is None else Sample.model_validate_json(self._line(place))

    def _line(self, place: int) -> bytes:
        if self._reading is None:
            self._reading = open(self.path, "rb")  # noqa: SIM115
        self._reading.seek(place)
        return self._reading.readline()

    def append(self, sample: Sample) -> None:
        """Write a sample down; it is with the operating system when this returns.

        Raises:
            ValueError: the sample is done already, or holds what JSON cannot (NaN); nothing was written.
            OSError: it cannot be written, by a full disk for one; the file is as it was before.
        """
        if self.finished(sample.key):
            raise ValueError(f"sample {sample.key} is in the run already")
        line = json_line(sample).encode("utf-8")
        if self._writing is None:
            self._writing = open(self.path, "ab", buffering=0)  # noqa: SIM115
        self._write(line)
        self._note(sample, self._end)
        self._end += len(line)

    def _write(self, line: bytes) -> None:
        """Write all of a line or, where the disk is full, nothing."""
        assert self._writing is not None, "opened before"
        rest = memoryview(line)
        try:
            while rest:
                rest = rest[self._writing.write(rest) :]
        except OSError as error:
            with suppress(OSError):  # else the torn line is cut off by whoever opens the file next
                os.truncate(self.path, self._end)
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def arrange(self, order: Iterable[Key]) -> None:
        """Rewrite the file in this order, a line a sample; samples that are not in the order follow.

        A reader sees the old file or the new one, and so does whoever continues after a kill.
        """
        wanted = {key: self._places[key] for key in order if key in self._places}
        wanted |= {key: place for key, place in self._places.items() if key not in wanted}
        if self._arranged and list(wanted.values()) == sorted(wanted.values()):
            self.path.touch()
            return
        part = self.path.with_name(f".{self.path.name}.part")
        places: dict[Key, int] = {}
        with open(part, "wb") as file:
            for key, place in wanted.items():
                places[key] = file.tell()
                file.write(self._line(place))
            file.flush()
            os.fsync(file.fileno())
            self._end = file.tell()
        self.close()
        part.replace(self.path)
        self._places, self._arranged = places, True

    def close(self) -> None:
        """Close the file, with its content on the disk."""
        if self._writing is not None:
            os.fsync(self._writing.fileno())
            self._writing.close()
        if self._reading is not None:
            self._reading.close()
        self._writing = self._reading = None
