"""The documents of the served index: a list with the state of their files, and the text of one document."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from turnmark.assistant.serving.request import Refusal
from turnmark.assistant.steps.retrieve import join_passages
from turnmark.retrieval.index.document_list import list_documents
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import StoredIndex
from turnmark.retrieval.storage.passage_store import DocumentEntry

MAX_LISTED_DOCUMENTS = 500

FileState = Literal["current", "changed", "missing"]


def describe_documents(index: Index, parameters: Mapping[str, str]) -> dict[str, Any]:
    """List the documents of an index, or those with a passage that contains all of the parameter `words`."""
    documents = list_documents(index, parameters.get("words", ""))
    listed = documents[:MAX_LISTED_DOCUMENTS]
    data = [{**each.model_dump(mode="json"), "state": _state(index, each)} for each in listed]
    return {"object": "list", "data": data, "total": len(documents)}


def read_document(index: Index, parameters: Mapping[str, str]) -> dict[str, Any]:
    """Return the text of a document of an index; raise Refusal if the index has no such document.

    The parameter `start` is the offset of a citation. If it is that of a row of a large table, which the text does not
    show, the rows around it are returned.
    """
    document, start = parameters.get("document", ""), parameters.get("start", "")
    rows = index.rows_around(document, int(start)) if re.fullmatch(r"[0-9]{1,15}", start) else []
    passages = rows or (index.store.of_document(document) if document else [])
    if not passages:
        raise Refusal("the index has no such document", "document", 404, "no_document")
    joined = join_passages(passages)
    return {
        "object": "document", "document": document, "title": joined.title, "path": joined.path, "date": joined.date,
        "text": joined.shown_text,
    }  # fmt: skip


def _state(index: Index, entry: DocumentEntry) -> FileState:
    """Return whether the file of a document is as it was when the index was built.

    A file that was modified after the build counts as changed. Comparing its content would read the whole folder.
    """
    part = _part_of(index, entry)
    file = part.source_file(entry.path) if part else None
    if part is None or file is None:
        return "missing"
    try:
        modified = file.stat().st_mtime
    except OSError:
        return "missing"
    return "changed" if modified > datetime.fromisoformat(part.manifest.created).timestamp() else "current"


def _part_of(index: Index, entry: DocumentEntry) -> StoredIndex | None:
    """Return the index that contains a document; if several are searched, its id begins with the name of its index."""
    name = entry.document.partition(":")[0] if len(index.parts) > 1 else ""
    return index.part(name)
