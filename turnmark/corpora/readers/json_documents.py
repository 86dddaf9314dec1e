"""Reads JSON Lines, with one document per line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from turnmark.core.errors import RequestError
from turnmark.corpora.jsonl_rows import json_lines
from turnmark.corpora.readers.common.prose import (
    Unreadable,
    clean_text,
    date_part,
    limited_metadata,
    shorten_title,
    title_from_name,
)
from turnmark.corpora.readers.markup.markdown import parse_markdown
from turnmark.corpora.readers.registry import ProgressCallback
from turnmark.corpora.types import Document, Problem

_TEXT_FIELDS = "text content body page_content markdown passage document abstract description".split()
_TITLE_FIELDS = "title subject heading name question".split()
_DATE_FIELDS = "last_modified updated modified date published created timestamp".split()
_MAX_WRONG_LINES = 20  # at the start that are not objects; then the file is not JSON Lines


def read_json_lines(path: Path, relative: str, progress: ProgressCallback) -> Iterator[Document | Problem]:
    """Read one document per line. Its id is the file name with "#" and the line number.

    The text is the first field with text among `text`, `content`, `body`, `page_content`, `markdown`, `passage`,
    `document`, `abstract` and `description`. Otherwise it is the messages in `messages`, `conversation` or
    `conversations`, or else every field with its name; nested fields are named like `user.name`.
    """
    wrong = documents = 0
    try:
        for number, row in json_lines(path, relative):
            progress(0, 0)
            if isinstance(row, Problem):
                wrong += 1
                if wrong >= _MAX_WRONG_LINES and not documents:
                    raise Unreadable(f"not JSON Lines: the first {_MAX_WRONG_LINES} lines are not JSON objects")
                yield row
                continue
            text = _text(row)
            if text:
                documents += 1
                document = parse_markdown(clean_text(text), f"{relative}#{number}")
                title = _first(row, _TITLE_FIELDS)
                yield document.model_copy(
                    update={
                        "path": relative,
                        "title": shorten_title(clean_text(title)) or title_from_name(relative),
                        "date": date_part(_first(row, _DATE_FIELDS)) or document.date,
                        "metadata": limited_metadata(_scalars(row)),
                    }
                )
    except RequestError as error:
        raise Unreadable(str(error)) from error
    if not documents and not wrong:
        raise Unreadable("empty: there is no text in it")


def _scalars(row: dict[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """Yield the fields that have a text, a number, or a list of these."""
    for key, value in row.items():
        values = value if isinstance(value, list) else [value]
        if key not in _TEXT_FIELDS and all(isinstance(each, str | int | float) for each in values):
            yield key, [str(each) for each in values]


def _first(row: dict[str, Any], names: list[str]) -> str:
    for name in names:
        value = row.get(name)
        if isinstance(value, str) and value.strip():
            return " ".join(value.split()) if name not in _TEXT_FIELDS else value
    return ""


def _text(row: dict[str, Any]) -> str:
    text = _first(row, _TEXT_FIELDS)
    if text:
        return text
    for name in ("messages", "conversation", "conversations"):
        messages = row.get(name)
        if isinstance(messages, list):
            return "\n\n".join(filter(None, map(_message, messages)))
    return "\n".join(_fields(row))


def _message(message: Any) -> str:
    if not isinstance(message, dict):
        return ""
    text = _first(message, [*_TEXT_FIELDS, "value"])
    parts = message.get("content")
    if isinstance(parts, list):  # of a message with pictures or tool calls
        text = "\n\n".join(_first(part, _TEXT_FIELDS) for part in parts if isinstance(part, dict)).strip()
    speaker = _first(message, ["role", "speaker", "from", "author"])
    return f"{speaker}: {text}" if speaker and text else text


def _fields(row: dict[str, Any], above: str = "") -> Iterator[str]:
    for key, value in row.items():
        name = f"{above}{key}"
        if isinstance(value, dict):
            yield from _fields(value, f"{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            for number, each in enumerate(value, 1):
                yield from _fields(each, f"{name}.{number}.")
        elif isinstance(value, str | int | float) and not isinstance(value, bool) and str(value).strip():
            yield f"- {name}: {' '.join(str(value).split())}"
        elif isinstance(value, list) and value and all(isinstance(each, str | int | float) for each in value):
            yield f"- {name}: {', '.join(str(each) for each in value)}"
