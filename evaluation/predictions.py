"""Files of predictions, of any system, every line checked.

Two forms are read (`turnmark.evaluation.predictions_official`): the official one of the MTRAG family, and ours, which
is that of `predictions.jsonl`. A run's folder stands for the file in it. Of a run's file the last line of a sample
holds, and a torn last line is left out, since the run may be going on; in a file from elsewhere both are mistakes.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from turnmark.corpora.errors import ErrorCollector, RequestError
from turnmark.corpora.rows import Row, json_lines
from turnmark.corpora.text import spans
from turnmark.corpora.types import Problem
from turnmark.evaluation.predictions_official import MTRAG_FAMILY, Fault, Form, Key, form_of, quoted, read_line
from turnmark.evaluation.records import RunManifest, Sample

# What is listed of each kind of thing before it is only counted.
_KINDS, _SPANS, _DETAILS = 40, 12, 3

_FORMS: Mapping[Form, str] = {
    "official": "the official MTRAG form (`task_id`, `predictions`)",
    "turnmark": "the form of `predictions.jsonl` (`id`, `prediction`)",
}
_REMARKS = {
    "several": "more than one prediction in a line: the first is used, as by the official scripts",
    "no_contexts": "nothing is said of the passages that the answer rests on",
    "empty": "an empty answer",
    "superseded": "superseded by a later line of the same sample in the run",
    "torn": "torn at the end of a run's file: the sample was not finished",
}


@dataclass(frozen=True)
class _File:
    path: Path
    shown: str
    run: bool


@dataclass(frozen=True)
class Answers:
    """Answers that are written already, checked.

    Attributes:
        samples: in the order of the files.
        notes: what was decided on reading, for the report, such as lines that were superseded.
        paths: the files that were read.
    """

    samples: tuple[Sample, ...]
    notes: tuple[str, ...]
    paths: tuple[Path, ...]


def check_predictions(paths: Sequence[Path], benchmark: str) -> Answers:
    """Read files, and check every line.

    Args:
        paths: files, or folders of runs; several where a system wrote one for each domain. All in one form.
        benchmark: its name as on the command line.

    Raises:
        RequestError: every mistake in all of them, like ones together with their lines, and how many there are.
    """
    errors = ErrorCollector()
    files: list[_File] = []
    for path in paths:
        file = errors.collect(_file, path, paths)
        if file and any(file.path.resolve() == earlier.path.resolve() for earlier in files):
            errors.add(f"--predictions {str(path)!r} is given twice")
        elif file:
            files.append(file)
    check = _Check(benchmark)
    for file in files:
        errors.collect(check.read, file)
    if check.faults:
        errors.problems += check.in_words()
    if not paths:
        errors.add("--predictions: no file is named")
    errors.raise_all()
    return Answers(tuple(check.samples.values()), tuple(check.notes()), tuple(file.path for file in files))


def _file(path: Path, paths: Sequence[Path]) -> _File:
    """The file that a path stands for, and the name it has in messages: its own, unless another has the same."""
    unique_name = [another_path.name for another_path in set(paths)].count(path.name) == 1 and path.name
    file_name = str(unique_name or path)
    try:
        if path.is_dir():
            file_name, path = f"{file_name}/predictions.jsonl", path / "predictions.jsonl"
            if not path.is_file():
                raise RequestError(f"--predictions {str(path.parent)!r} is no run: there is no predictions.jsonl in it")
        if path.exists() and not path.is_file():
            raise RequestError(f"--predictions {str(path)!r} is no plain file")
        with open(path, "rb"):
            return _File(path, file_name, path.name == "predictions.jsonl" and _is_run(path.parent))
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise RequestError(f"--predictions {str(path)!r} cannot be read: {reason}") from None


def _is_run(folder: Path) -> bool:
    try:
        RunManifest.model_validate_json((folder / "manifest.json").read_bytes())
    except (OSError, ValidationError):
        return False
    return True


@dataclass
class _Group:
    """One kind of mistake in one file."""

    count: int
    lines: list[int]
    paths: set[str]
    details: list[str]


class _Check:
    """What the files answer, and what is wrong with them."""

    def __init__(self, benchmark: str) -> None:
        self.benchmark = benchmark
        self.form: Form | None = None
        self.samples: dict[Key, Sample] = {}
        self._places: dict[Key, tuple[int, int]] = {}  # the file's place among the files, and the line, 1-based
        self.faults = 0
        self._wrong: set[tuple[str, int]] = set()
        self._began = ""  # where the form was first seen
        self._groups: dict[tuple[str, str, str], _Group] = {}
        self._names: list[str] = []
        self._remarks: Counter[str] = Counter()

    def read(self, file: _File) -> None:
        """Check one more file.

        Raises:
            RequestError: there is no line in it, or it cannot be read.
        """
        self._names.append(file.shown)
        torn: tuple[int, Problem] | None = None
        lines = 0
        for number, row in json_lines(file.path, file.shown):
            lines += 1
            if torn:
                self._unreadable(file, *torn)
            torn = (number, row) if isinstance(row, Problem) else None
            if not isinstance(row, Problem):
                self._line(file, number, row)
        if torn and file.run and not ends_a_line(file.path):
            self._remarks["torn"] += 1
        elif torn:
            self._unreadable(file, *torn)
        if not lines or (self.form is None and not self.faults):
            raise RequestError(f"{file.shown}: no line in it; a line for each answer was expected, in {_all_forms()}")

    def _unreadable(self, file: _File, number: int, problem: Problem) -> None:
        problem_text, _, detail = problem.what.partition(" (")
        self._add(file, number, Fault("", problem_text, detail.removesuffix(")")))

    def _line(self, file: _File, number: int, row: Row) -> None:
        form = form_of(row)
        if form is None:
            ambiguous = "prediction" in row and "predictions" in row
            problem = (
                "both `prediction` and `predictions`" if ambiguous else f"in no form that is known: {_all_forms()}"
            )
            self._add(file, number, Fault("", problem))
            return
        if form == "official" and self.benchmark not in MTRAG_FAMILY:
            problem = f"in {_FORMS[form]}, which {self.benchmark} has not; write {_FORMS['turnmark']}"
            self._add(file, number, Fault("", problem))
            return
        if self.form is None:
            self.form, self._began = form, f"{file.shown}:{number}"
        if form != self.form:
            problem = f"in {_FORMS[form]}, and {self._began} is in {_FORMS[self.form]}; one form was expected"
            self._add(file, number, Fault("", problem))
            return
        line = read_line(row, form, self.benchmark, keep_order=file.run)
        for fault in line.faults:
            self._add(file, number, fault)
        if line.key is not None:
            self._answered(file, number, line.key, line.sample)
        self._remarks.update(line.remarks)

    def _answered(self, file: _File, number: int, key: Key, sample: Sample | None) -> None:
        place = len(self._names) - 1
        earlier = self._places.get(key)
        if earlier and not (file.run and earlier[0] == place):
            earlier_place = f"line {earlier[1]}" if earlier[0] == place else f"{self._names[earlier[0]]}:{earlier[1]}"
            name = quoted(key[0]) + (f", repeat {key[1]}" if key[1] else "")
            path = "task_id" if self.form == "official" else "id"
            self._add(file, number, Fault(path, "answered already by an earlier line", f"{name} in {earlier_place}"))
            return
        if earlier:
            self._remarks["superseded"] += 1
            self.samples.pop(key, None)
        self._places[key] = (place, number)
        if sample is not None:
            self.samples[key] = sample

    def _add(self, file: _File, number: int, fault: Fault) -> None:
        self.faults += 1
        self._wrong.add((file.shown, number))
        generic = re.sub(r"\[[0-9]+\]", "[]", fault.path)
        group = self._groups.get((file.shown, generic, fault.what))
        if group is None:
            group = _Group(0, [], set(), [])
            if len(self._groups) < 1000:  # beyond, they are only counted
                self._groups[file.shown, generic, fault.what] = group
        group.count += 1
        if group.lines[-1:] != [number]:
            group.lines.append(number)
        if len(group.paths) < 2:
            group.paths.add(fault.path)
        if fault.detail and len(group.details) < _DETAILS:
            group.details.append(fault.detail)

    def in_words(self) -> Iterator[str]:
        """A sentence for each kind of mistake, and how many mistakes there are."""
        for (name, generic, problem), group in list(self._groups.items())[:_KINDS]:
            path = next(iter(group.paths)) if len(group.paths) == 1 else generic
            rest_in_words = f" and {group.count - _DETAILS} more" if group.count > _DETAILS else ""
            details = f" ({'; '.join(group.details)}{rest_in_words})" if group.details else ""
            yield f"{name}{_lines(group.lines)}: {path + ': ' if path else ''}{problem}{details}"
        if len(self._groups) > _KINDS:
            yield f"and mistakes of {len(self._groups) - _KINDS:,} more kinds"
        if self.faults > 1:
            files = len({name for name, _ in self._wrong})
            lines = "1 line" if len(self._wrong) == 1 else f"{len(self._wrong):,} lines"
            place = lines if files == 1 else f"{lines} of {files} files"
            yield f"{self.faults:,} mistakes in {place}; nothing is scored before they are put right"

    def notes(self) -> Iterator[str]:
        """What was decided on reading, a sentence each."""
        for kind, words in _REMARKS.items():
            if self._remarks[kind]:
                yield f"predictions: {words} ({_counted(self._remarks[kind])})"


def _counted(count: int) -> str:
    return "1 line" if count == 1 else f"{count:,} lines"


def _all_forms() -> str:
    return " or ".join(_FORMS.values())


def ends_a_line(path: Path) -> bool:
    """Whether the last line of a file is whole; the file is not empty."""
    with open(path, "rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _lines(numbers: Iterable[int]) -> str:
    """Ascending line numbers as they follow a file's name: `:3`, `, lines 3, 7-9`."""
    ranges = spans(numbers)
    if len(ranges) == 1 and "-" not in ranges[0]:
        return f":{ranges[0]}"
    return f", lines {', '.join(ranges[:_SPANS])}{' …' if len(ranges) > _SPANS else ''}"
