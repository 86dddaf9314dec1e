"""Reads the rows of JSONL files one at a time, for the loaders of all four benchmarks.

Only `collect_rows` keeps a full file in memory. A line that cannot be read becomes a Problem with its number,
and the others are still read. A file that cannot be opened is a RequestError.
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

MAX_LINE_BYTES = 16 * 1024 * 1024
"""Longest line that is read, in bytes: a row must fit into memory."""

_USER_MARK = re.compile(r"^[ \t]*\|user\|:[ \t]*", re.MULTILINE)
_LONE_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")

T = TypeVar("T")
JsonRow = dict[str, Any]


class LoadedRows(Record, Generic[T]):
    """The contents of a file, and the rows of it that could not be read."""

    data: T
    problems: tuple[Problem, ...]
    path: Path


class Source(Record):
    """The folder that a benchmark is read from."""

    root: Path = Field(description="the folder that contains the benchmark's files")
    demo: bool = Field(description="True: the split that ships with Turnmark")

    @property
    def name(self) -> str:
        """`demo`, or the folder's name."""
        return "demo" if self.demo else self.root.resolve().name


def locate(
    data: Path | None, child: str, demo: Path, holds: Callable[[Path], bool], lacking: str, advice: str
) -> Source:
    """Find the folder to read: `data`, its folder `child`, `$TURNMARK_DATA/<child>`, or the demo split.

    Args:
        holds: whether a folder has a part of the benchmark.
        lacking: completes the message about a folder that has none ("contains no …").
        advice: ends the message: what to do.
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
        if folder.is_dir():
            fault = lacking
        elif folder.is_file():
            fault = "is a file; unpack it"
        else:
            fault = "is no folder"
    except (OSError, RuntimeError) as error:
        fault = f"cannot be read ({error})"
    raise RequestError(f"{flag}: {str(folder or configured)!r} {fault}; {advice}")


def require_file(root: Path, relative: str, description: str, advice: str) -> Path:
    """Return the path of `relative` under `root`; RequestError if there is no such file."""
    path = root / relative
    if not path.is_file():
        raise RequestError(f"{description}: expected {relative} in {str(root)!r}, where it is missing; {advice}")
    return path


def _raw_lines(path: Path, label: str) -> Iterator[tuple[int, bytes | Problem]]:
    """Yield number and bytes of each line; a Problem for a line of more than `MAX_LINE_BYTES`, which is skipped."""
    try:
        with open(path, "rb") as file:
            for number in itertools.count(1):
                line = file.readline(MAX_LINE_BYTES + 1)
                if len(line) <= MAX_LINE_BYTES or line.endswith(b"\n"):
                    if not line:
                        return
                    yield number, line
                    continue
                size = len(line)
                while piece := file.readline(1 << 20):
                    size += len(piece)
                    if piece.endswith(b"\n"):
                        break
                message = f"the line is {size:,} bytes long; at most {MAX_LINE_BYTES:,} are read"
                yield number, Problem(file=label, line=number, what=message)
    except (OSError, ValueError) as error:
        raise RequestError(f"{label}: cannot be read ({error})") from None


def json_lines(path: Path, label: str) -> Iterator[tuple[int, JsonRow | Problem]]:
    """Yield the number (from 1) and the object of each line that is not blank; a Problem if a line is not a JSON
    object.
    """
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


def parse_rows(path: Path, label: str, parse: Callable[[JsonRow], tuple[str, T]]) -> Iterator[tuple[str, T] | Problem]:
    """Yield the id and value of every row, in the file's order; a Problem for each row that cannot be read.

    `parse` returns the id and the value of a row, or raises ValueError. If several rows have the same id, the first is
    kept.
    """
    lines: dict[str, int] = {}
    for number, row in json_lines(path, label):
        if isinstance(row, Problem):
            yield row
            continue
        try:
            key, value = parse(row)
            if key in lines:
                raise ValueError(f"the id {key!r} is already in line {lines[key]}; the first is kept")
        except (ValueError, RecursionError) as error:
            what = fault_of(error) if isinstance(error, ValidationError) else str(error)
            yield Problem(file=label, line=number, what=what)
            continue
        lines[key] = number
        yield key, value


def collect_rows(items: Iterable[tuple[str, T] | Problem], path: Path) -> LoadedRows[dict[str, T]]:
    """Collect what `parse_rows` yields in memory: by id, in the file's order."""
    data: dict[str, T] = {}
    problems: list[Problem] = []
    for item in items:
        if isinstance(item, Problem):
            problems.append(item)
        else:
            data[item[0]] = item[1]
    return LoadedRows(data=data, problems=tuple(problems), path=path)


def _not_blank(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text


NonBlank = Annotated[str, AfterValidator(_not_blank)]
"""A text field of a row that must not be blank."""
OptionalText = Annotated[str, BeforeValidator(lambda value: "" if value is None else value)]
"""A text field of a row; null is read as an empty text."""


_IN_WORDS = {
    "tuple_type": "is not a list", "list_type": "is not a list", "model_type": "is not an object",
    "too_short": "has too few items", "too_long": "has too many items",
}  # fmt: skip


def fault_of(error: ValidationError) -> str:
    """Describe the faults of a row, field by field."""
    faults = []
    errors = error.errors(include_url=False)
    fields_with_item_faults = {fault["loc"][0] for fault in errors if len(fault["loc"]) > 1}
    for fault in errors:
        if fault["type"] == "too_short" and fault["loc"][0] in fields_with_item_faults:
            continue  # the faults of its items are reported instead
        head, *inside = map(str, fault["loc"])
        message = fault["msg"].removeprefix("Value error, ").removeprefix("Input ")
        if fault["type"] == "missing" or fault["input"] is None:
            message = "is missing"
        elif fault["type"] == "string_type":
            message = f"is {type(fault['input']).__name__}, not text"
        else:
            message = _IN_WORDS.get(fault["type"], message)
        location = head + "".join(f"[{name}]" for name in inside)
        faults.append(f"{location!r} {message}")
    return "; ".join(faults)


def get_string(row: Mapping[str, Any], key: str, default: str | None = None) -> str:
    """Return the text under a key; ValueError if it is missing or not a text."""
    value = row.get(key, default)
    if not isinstance(value, str):
        raise ValueError(f"{key!r} is missing" if value is None else f"{key!r} is {type(value).__name__}, not text")
    return value


def get_non_blank(row: Mapping[str, Any], key: str) -> str:
    """Return the text under a key; ValueError if it is blank."""
    value = get_string(row, key)
    if not value.strip():
        raise ValueError(f"{key!r} is empty")
    return value


def get_objects(row: Mapping[str, Any], key: str) -> Sequence[Mapping[str, Any]]:
    """Return the list of objects under a key; it may be empty."""
    value = row.get(key)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise ValueError(f"{key!r} is missing" if value is None else f"{key!r} is not a list of objects")
    return value


def strip_user_marks(row: Mapping[str, Any], key: str) -> str:
    """Return the text under a key, without `|user|: ` at the start of its lines; ValueError if nothing is left."""
    text = _USER_MARK.sub("", get_string(row, key)).strip()
    if not text:
        raise ValueError(f"{key!r} is empty")
    return text


RAW_VARIANT = "raw"
"""Name that stands for the row's own text; no variant may use it."""


class RecordedQuery(Record):
    """The search query of a turn, as recorded in a file of queries."""

    text: str
    variants: Mapping[str, str] | None = Field(
        default=None,
        description="name -> text that is searched besides `text`, the raw message, or None if only `text` is searched",
    )


def _variants(value: Any) -> dict[str, str] | None:
    """Return the variants of a query by name; the entries of a list are named 1, 2, …."""
    if value is None:
        return None
    if isinstance(value, list):
        value = {str(number): text for number, text in enumerate(value, 1)}
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise ValueError("'variants' is neither a list of texts nor an object of texts by name")
    if RAW_VARIANT in value or "" in value:
        raise ValueError(f"'variants': {RAW_VARIANT!r} is the name of the row's text; give the variant another name")
    return {name: strip_user_marks(value, name) for name in value}


def _parse_recorded(row: JsonRow) -> tuple[str, RecordedQuery]:
    text, key = strip_user_marks(row, "text"), get_non_blank(row, "_id")
    return key, RecordedQuery(text=text, variants=_variants(row.get("variants")))


def read_recorded(path: Path, label: str) -> LoadedRows[dict[str, RecordedQuery]]:
    """Read the queries of a file by id, in its order, without `|user|: ` at the start of their lines."""
    return collect_rows(parse_rows(path, label, _parse_recorded), path)
