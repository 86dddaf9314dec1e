"""What clients see of the documents of an index: a list, the text of each, and why a file is not found."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import PurePosixPath
from typing import Any, Literal

from turnmark.assistant.serving.request_bodies import RejectedRequest
from turnmark.assistant.steps.retrieve.retrieve_sections import join_passages
from turnmark.assistant.turn.unread_files import unread_files
from turnmark.core.untrusted import ellipsize, one_line
from turnmark.corpora.readers import describe_left_out, readers
from turnmark.corpora.text.languages import language_name
from turnmark.corpora.types import Passage
from turnmark.retrieval.file_account import account_for, account_lines
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.storage.passage_store import DocumentEntry

MAX_LISTED_DOCUMENTS = 500
MAX_LISTED_UNREAD = 200
"""Maximum files without a document in a list."""
MAX_READ_CHARACTERS = 300_000
"""Length of the text that is returned of a longer document, around the passage that is asked for."""
MAX_NAME_CHARACTERS = 300

FileState = Literal["current", "changed", "missing"]


def describe_documents(index: Index, parameters: Mapping[str, str]) -> dict[str, Any]:
    """List the documents of an index, and the files that have none.

    With the parameter `words`, list the documents with a passage that contains all words.
    """
    words = parameters.get("words", "")
    documents = index.documents(words)
    listed = documents[:MAX_LISTED_DOCUMENTS]
    known = {part.name: _known_files(part) for part in index.parts}
    data = [_describe(index, each, known) for each in listed]
    unread = [] if words.strip() else list(_unread(index))
    return {"object": "list", "data": data, "total": len(documents), "unread": unread[:MAX_LISTED_UNREAD]}


def _describe(index: Index, entry: DocumentEntry, known: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    part = _part_of(index, entry.document)
    reader = readers().get(PurePosixPath(entry.path).suffix.lower())
    about = known[part.name].get(entry.path, {}) if part else {}
    problems = [each["what"] for each in about.get("problems", ())]
    left_out = "; ".join(filter(None, (describe_left_out(about.get("left_out", {})), *problems)))
    return {
        **entry.model_dump(mode="json"), "index": part.name if part else "", "reader": reader.what if reader else "",
        "language": language_name(entry.language), "state": _state(part, entry), "left_out": left_out,
        "remarks": list(about.get("remarks", ())),
    }  # fmt: skip


def _known_files(part: StoredIndex) -> dict[str, Any]:
    """Return what the build kept about the files that are not simply read, by path."""
    rows = part.store.select("""SELECT "path", "known" FROM files WHERE "known" != '{}'""")
    return {path: json.loads(known) for path, known in rows}


def _unread(index: Index) -> Iterator[dict[str, str]]:
    for part in index.parts:
        for file, reason in unread_files(part, "en"):
            yield {"index": part.name, "path": file, "reason": reason}


def read_document(index: Index, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the text of a document of an index, and the lines of a passage; a long text is cut around the passage.

    If a row of a large table is asked for, which the text does not contain, the rows around it are returned. The
    parameters `start` and `end` are the offsets of a citation, and `index` is its index.

    Raises:
        RejectedRequest: the index has no such document.
    """
    document = parameters.get("document", "")
    start, end = (_offset(parameters.get(name, "")) for name in ("start", "end"))
    named = index.part(parameters["index"]) if parameters.get("index") else None
    searched = named or index
    rows = searched.rows_around(document, start) if start is not None else []
    passages = rows or (searched.store.of_document(document) if document else [])
    if not passages:
        raise RejectedRequest("the index has no such document", "document", 404, "no_document")
    shown = _around(passages, start or 0)
    joined = join_passages(shown)
    part = named or _part_of(index, document)
    reader = readers().get(PurePosixPath(joined.path).suffix.lower())
    pages = max((passage.page_at(passage.end) or 0 for passage in passages), default=0)
    return {
        "object": "document", "document": document, "index": part.name if part else "", "title": joined.title,
        "path": joined.path, "date": joined.date, "reader": reader.what if reader else "", "text": joined.shown_text,
        "lines": None if start is None else _lines(joined, start, end), "cut": len(shown) < len(passages),
        "start": joined.start - len(joined.shown_text) + len(joined.text), "page": joined.page,
        "page_starts": list(joined.page_starts), "pages": pages,
    }  # fmt: skip


def _offset(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) else None


def _around(passages: Sequence[Passage], start: int) -> list[Passage]:
    """Return consecutive passages of limited length, among them the one at an offset."""
    at = max((place for place, passage in enumerate(passages) if passage.start <= start), default=0)
    first, last, length = at, at + 1, len(passages[at].text)
    while first > 0 or last < len(passages):
        if last < len(passages) and (first == 0 or last - at <= at - first):
            length, last = length + len(passages[last].text), last + 1
        else:
            length, first = length + len(passages[first - 1].text), first - 1
        if length > MAX_READ_CHARACTERS:
            break
    return list(passages[first:last])


def _lines(joined: Passage, start: int, end: int | None) -> tuple[int, int]:
    """Return the first and the last line of a passage in the shown text, from 0."""
    text = joined.shown_text
    above = len(text) - len(joined.text) - joined.start
    first = text.count("\n", 0, max(0, start + above))
    return first, max(first, text.count("\n", 0, max(0, (end or start + 1) - 1 + above)))


def explain_file(index: Index, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Say what became of a file, as `turnmark documents --why` does."""
    file = ellipsize(one_line(parameters.get("file", "")).strip(), MAX_NAME_CHARACTERS).lstrip("/~")
    if not file:
        raise RejectedRequest("file: name a file", "file")
    accounts = [account_for(part, file) for part in index.parts]
    accounts = [each for each in accounts if each.read] or accounts
    lines = [line for each in accounts for line in account_lines(each)]
    for part in index.parts:  # where the folder is on this machine concerns only the person who runs the server
        lines = [line.replace(part.manifest.source, f"the folder of {part.name}") for line in lines]
    return {"object": "file", "lines": lines, "similar": [name for each in accounts for name in each.similar]}


def _state(part: StoredIndex | None, entry: DocumentEntry) -> FileState:
    """Return whether the file of a document is as it was when the index was built.

    A file that was modified after the build counts as changed. Comparing its content would read the whole folder.
    """
    file = part.source_file(entry.path) if part else None
    if part is None or file is None:
        return "missing"
    try:
        modified = file.stat().st_mtime
    except OSError:
        return "missing"
    return "changed" if modified > datetime.fromisoformat(part.manifest.created).timestamp() else "current"


def _part_of(index: Index, document: str) -> StoredIndex | None:
    """Return the index that contains a document; if several are searched, its id begins with the name of its index."""
    return index.part(document.partition(":")[0] if len(index.parts) > 1 else "")
