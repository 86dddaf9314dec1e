"""Rows of a JSONL file, one at a time: what the loaders of all four benchmarks share.

Nothing here reads a full file into memory. A line that cannot be read is a Problem with its number and never stops the
rest; a file that cannot be opened is a RequestError.
"""

from __future__ import annotations

import itertools
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Generic, TypeVar

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from turnmark.core.errors import RequestError
from turnmark.core.record import Record
from turnmark.corpora.types import Problem

MAX_LINE = 16 * 1024 * 1024
"""Bytes of the longest line that is read: one row has to fit into memory."""

_USER_MARK = re.compile(r"^[ \t]*\|user\|:[ \t]*", re.MULTILINE)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

T = TypeVar("T")
Row = dict[str, Any]


class Loaded(Record, Generic[T]):
    """What a file held, and what in it could not be read."""

    data: T
    problems: tuple[Problem, ...]
    path: Path


class Source(Record):
    """Where a benchmark is read from."""

    root: Path = Field(description="the folder that holds the benchmark's files")
    demo: bool = Field(description="True: the split that ships with Turnmark")

    @property
    def name(self) -> str:
        """`demo`, or the folder's name."""
        return "demo" if self.demo else self.root.resolve().name


def locate(
    data: Path | None, child: str, demo: Path, holds: Callable[[Path], bool], lacking: str, advice: str
) -> Source:
    """The folder to read: `data`, its folder `child`, `$TURNMARK_DATA/<child>`, or the demo split.

    `holds` says whether a folder has part of the benchmark; `lacking` ends the sentence about one that has none.
    """
    configured = os.environ.get("TURNMARK_DATA")
    flag, folder = "--data", data
    if folder is None and not configured:
        return Source(root=demo, demo=True)
    try:
        if folder is None:
            flag, folder = "TURNMARK_DATA", Path(configured or "").expanduser() / child
        for root in (folder, folder / child):
            if holds(root):
                return Source(root=root, demo=root.resolve() == demo.resolve())
        fault = lacking if folder.is_dir() else "is a file; unpack it" if folder.is_file() else "is no folder"
    except (OSError, RuntimeError) as error:
        fault = f"cannot be read ({error})"
    raise RequestError(f"{flag}: {str(folder or configured)!r} {fault}; {advice}")


def existing(root: Path, relative: str, description: str, advice: str) -> Path:
    """The file `relative` under `root`."""
    path = root / relative
    if not path.is_file():
        raise RequestError(f"{description}: expected {relative} in {str(root)!r}, and it is not there; {advice}")
    return path


def _raw_lines(path: Path, label: str) -> Iterator[tuple[int, bytes | Problem]]:
    """Number and bytes of each line; a line of more than MAX_LINE bytes is skipped in pieces and is a Problem."""
    try:
        with open(path, "rb") as file:
            for number in itertools.count(1):
                line = file.readline(MAX_LINE + 1)
                if len(line) <= MAX_LINE or line.endswith(b"\n"):
                    if not line:
                        return
                    yield number, line
                    continue
                size = len(line)
                while piece := file.readline(1 << 20):
                    size += len(piece)
                    if piece.endswith(b"\n"):
                        break
                message = f"the line is {size:,} bytes long; at most {MAX_LINE:,} are read"
                yield number, Problem(file=label, line=number, what=message)
    except (OSError, ValueError) as error:
        raise RequestError(f"{label}: cannot be read ({error})") from None


def json_lines(path: Path, label: str) -> Iterator[tuple[int, Row | Problem]]:
    """Line number (1-based) and object of each line that is not blank; a Problem where a line is no JSON object."""
    for number, raw in _raw_lines(path, label):
        if isinstance(raw, Problem):
            yield number, raw
            continue
        line = raw.removeprefix(b"\xef\xbb\xbf") if number == 1 else raw
        if not line.strip():
            continue
        try:
            row = json.loads(line.decode("utf-8"))
            if _LONE_SURROGATE.search(line):
                json.dumps(row, ensure_ascii=False).encode("utf-8")
        except UnicodeError as error:
            yield number, Problem(file=label, line=number, what=f"not valid UTF-8 text ({error})")
        except (ValueError, RecursionError) as error:
            yield number, Problem(file=label, line=number, what=f"not JSON ({error})")
        else:
            is_object = isinstance(row, dict)
            yield number, row if is_object else Problem(file=label, line=number, what="not a JSON object")


def parsed(path: Path, label: str, parse: Callable[[Row], tuple[str, T]]) -> Iterator[tuple[str, T] | Problem]:
    """Id and value of every row, in the file's order, one at a time; a Problem for each row that cannot be read.

    `parse` gives id and value; its ValueError says what is wrong. Of rows with the same id the first is kept.
    """
    lines: dict[str, int] = {}
    for number, row in json_lines(path, label):
        if isinstance(row, Problem):
            yield row
            continue
        try:
            key, value = parse(row)
            if key in lines:
                raise ValueError(f"the id {key!r} stood in line {lines[key]} already; the first is kept")
        except (ValueError, RecursionError) as error:
            what = fault_of(error) if isinstance(error, ValidationError) else str(error)
            yield Problem(file=label, line=number, what=what)
            continue
        lines[key] = number
        yield key, value


def collected(items: Iterable[tuple[str, T] | Problem], path: Path) -> Loaded[dict[str, T]]:
    """Everything that `parsed` gives, in memory: by id, in the file's order."""
    data: dict[str, T] = {}
    problems: list[Problem] = []
    for item in items:
        if isinstance(item, Problem):
            problems.append(item)
        else:
            data[item[0]] = item[1]
    return Loaded(data=data, problems=tuple(problems), path=path)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


NonBlank = Annotated[str, AfterValidator(_not_blank)]
"""A field of a row that must say something."""
OptionalText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A field of a row that may be null."""


_IN_WORDS = {
    "tuple_type": "is not a list", "list_type": "is not a list", "model_type": "is not an object",
    "too_short": "has too few items", "too_long": "has too many items",
}  # fmt: skip


def fault_of(error: ValidationError) -> str:
    """What is wrong with a row, field by field."""
    faults = []
    found = error.errors(include_url=False)
    inside_of = {fault["loc"][0] for fault in found if len(fault["loc"]) > 1}
    for fault in found:
        if fault["type"] == "too_short" and fault["loc"][0] in inside_of:
            continue  # what is wrong with its items is said
        head, *inside = map(str, fault["loc"])
        message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if fault["type"] == "missing" or fault["input"] is None:
            message = "is missing"
        elif fault["type"] == "string_type":
            message = f"is {type(fault['input']).__name__}, not text"
        else:
            message = _IN_WORDS.get(fault["type"], message)
        faults.append(f"{''.join((head, *(f'[{name}]' for name in inside)))!r} {message}")
    return "; ".join(faults)


def string(row: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """The text under a key; a ValueError where it is missing or no text."""
    value = row.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is missing" if value is None else f"{key!r} is {type(value).__name__}, not text")
    return value


def non_blank(row: Mapping[str, Any], key: str) -> str:
    """The text under a key, which must not be blank."""
    value = string(row, key)
    if not value.strip():
        raise ValueError(f"{key!r} is empty")
    return value


def objects(row: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """The list of objects under a key, which may be empty."""
    value = row.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{key!r} is missing" if value is None else f"{key!r} is not a list of objects")
    return value


def unmarked(row: Mapping[str, Any], key: str) -> str:
    """The text under a key, with `|user|: ` stripped from every line of it; a ValueError where none is left."""
    text = _USER_MARK.sub("", string(row, key)).strip()
    if not text:
        raise ValueError(f"{key!r} is empty")
    return text


RAW = "raw"
"""The name of the row's own text, which no variant has."""


class RecordedQuery(Record):
    """What was searched for at a turn, as a file of queries says it."""

    text: str
    variants: Mapping[str, str] | None = Field(
        default=None, description="name -> text searched with it, `text` then being the raw message; None: text alone"
    )


def _variants(value: Any) -> dict[str, str] | None:
    if value is None:
        return None
    if isinstance(value, list):
        value = {str(number): text for number, text in enumerate(value, 1)}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("'variants' is neither a list of texts nor an object of texts by name")
    if RAW in value or "" in value:
        raise ValueError(f"'variants': {RAW!r} is the row's own text; give the variant another name")
    return {name: unmarked(value, name) for name in value}


def _parse_recorded(row: Row) -> tuple[str, RecordedQuery]:
    text, key = unmarked(row, "text"), non_blank(row, "_id")
    return key, RecordedQuery(text=text, variants=_variants(row.get("variants")))


def read_recorded(path: Path, label: str) -> Loaded[dict[str, RecordedQuery]]:
    """The queries of a file by id, in its order, with `|user|: ` stripped from every line of their texts."""
    return collected(parsed(path, label, _parse_recorded), path)
