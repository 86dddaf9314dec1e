"""BEIR corpora: one JSON object a line, {"_id", "title", "text"}, each a document that is one passage as it stands.

A real row: {"_id": "100045-0-277", "title": "", "text": "\\nThere are PABs (Private Activity Bonds) for …"}
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from turnmark.corpora.types import Document, Problem

MAX_ROW = 64 * 1024 * 1024  # bytes: a longer line is no passage, and one row has to fit into memory


class _BadRow(ValueError):
    """The row is skipped; the message says why."""


def read_rows(path: Path) -> Iterator[Document | Problem]:
    """The rows of a corpus in order; a row that cannot be used is a Problem with its line. Blank lines are skipped."""
    first_line: dict[str, int] = {}
    try:
        with open(path, "rb") as file:
            for number, line in _lines(file):
                if line is not None and not line.strip():
                    continue
                try:
                    document = _document(line, path.name)
                    if (first := first_line.setdefault(document.id, number)) != number:
                        raise _BadRow(f"_id {document.id!r} is already in line {first}; the first one is kept")
                    yield document
                except _BadRow as error:
                    yield Problem(file=path.name, what=str(error), line=number)
    except OSError as error:
        yield Problem(file=path.name, what=f"cannot be read ({error.strerror}); check its permissions")


def count_rows(path: Path) -> int | None:
    """How many lines a corpus has; None where it cannot be read."""
    count, last = 0, b"\n"
    try:
        with open(path, "rb") as file:
            while block := file.read(1 << 20):
                count += block.count(b"\n")
                last = block[-1:]
    except OSError:
        return None
    return count + (last != b"\n")


def _lines(file: BinaryIO) -> Iterator[tuple[int, bytes | None]]:
    """(line number, line), None for a line that is too long to be held."""
    number = 0
    while line := file.readline(MAX_ROW + 1):
        number += 1
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if len(line) > MAX_ROW and not line.endswith(b"\n"):
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_ROW)
            yield number, None
        else:
            yield number, line


def _document(line: bytes | None, file: str) -> Document:
    if line is None:
        raise _BadRow(f"a line of more than {MAX_ROW // 2**20} MB; is this a JSONL file, one object a line?")
    try:
        row = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _BadRow(f"not valid UTF-8 at byte {error.start + 1} of the line; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise _BadRow(f"not JSON ({error}); write one object a line") from error
    if not isinstance(row, dict):
        raise _BadRow(f"a JSON {_kind(row)}, not an object with _id, title and text")
    title = row.get("title")
    if not isinstance(title, str | None):
        raise _BadRow(f"title is a {_kind(title)}, not a string")
    identity, text = _string(row, "_id"), _string(row, "text")
    for key, value in (("_id", identity), ("title", title or ""), ("text", text)):
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise _BadRow(f"{key} holds half a surrogate pair (\\ud800 to \\udfff), which is no character") from error
    return Document(id=identity, title=(title or "").strip(), text=text, path=file, whole=True)


def _string(row: dict[str, object], key: str) -> str:
    if key not in row:
        raise _BadRow(f"no {key}")
    value = row[key]
    if not isinstance(value, str):
        raise _BadRow(f"{key} is a {_kind(value)}, not a string")
    if not value.strip():
        raise _BadRow(f"{key} is empty")
    return value


def _kind(value: object) -> str:
    names = {dict: "object", list: "list", bool: "truth value", type(None): "null", str: "string"}
    return names.get(type(value), "number")
