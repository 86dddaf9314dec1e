"""The configuration that `turnmark tune` found for an index: `tuned.json` in the folder of the index."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError

from turnmark.core.console import notify
from turnmark.core.grouping import group_pairs
from turnmark.core.home import write_atomic
from turnmark.core.record import Record
from turnmark.retrieval.search.opened_index import SearchableIndex, StoredIndex
from turnmark.retrieval.storage.manifest import Manifest

MAX_CHANGED_SHARE = 0.2
"""Share of changed documents from which a tuned configuration is stale."""
_DIGITS = 8
R = TypeVar("R", bound=Record)


class TunedSearch(Record):
    """A retriever that is better for the documents of an index than its default, as measured on held-out questions."""

    retriever: str = Field(description="its spec, which searches the index where no retriever is given")
    models: str = Field(description="the models of the index at that time; with others, the default is used again")
    gain: float = Field(description="difference of the mean gain from the default, on the test half")
    ci95: tuple[float, float]
    questions: dict[str, int] = Field(description="kind of question -> number of questions that it was measured on")
    created: str
    documents: tuple[str, ...] = Field(repr=False, description="a digest of each document at that time")


def read_tuned(index: SearchableIndex) -> TunedSearch | None:
    """Return the tuned configuration of an index, or None if there is none for its models, or several indexes."""
    tuned = read_tuning(index, tuned_file, TunedSearch)
    manifest = index.manifest
    return tuned if tuned and tuned.models == models_of(manifest) and not manifest.searches_by_words else None


def read_tuning(index: SearchableIndex, file_of: Callable[[StoredIndex], Path], kind: type[R]) -> R | None:
    """Return a record that `turnmark tune` wrote for an index, or None if there is none, or several indexes."""
    if len(index.parts) != 1:
        return None
    path = file_of(index.parts[0])
    try:
        return kind.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError):
        notify(f"{path} cannot be read and is not used; tune again, or: turnmark tune {index.name} --undo")
        return None


def write_tuned(index: StoredIndex, tuned: TunedSearch) -> None:
    """Write the tuned configuration of an index."""
    write_atomic(tuned_file(index), tuned.model_dump_json() + "\n")


def tuned_file(index: StoredIndex) -> Path:
    """Return the path of the tuned configuration of an index."""
    return index.folder / "tuned.json"


def models_of(manifest: Manifest) -> str:
    """Return a text that changes with what a retriever of the index can use."""
    made_by = [f"{name} {info.fingerprint}" for name, info in manifest.models().items()]
    size = [f"passages of {manifest.passage_tokens} tokens"] if manifest.passage_tokens else []
    return "; ".join([*made_by, *(["token vectors"] if manifest.tokens else []), *size])


def document_digests(index: StoredIndex) -> Iterator[str]:
    """Yield a short digest of each document, which changes with its passages."""
    passages = chain.from_iterable(index.store.pages())
    for document, hashes in group_pairs((passage.document, content) for _, content, passage in passages).items():
        text = "\0".join([document, *hashes])
        yield hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGITS]


def describe_tuned(index: StoredIndex) -> str:
    """Return since when an index is searched with a tuned configuration, and what it gains; empty if it is not."""
    tuned = read_tuned(index)
    if tuned is None:
        return ""
    low, high = tuned.ci95
    text = f"{tuned.created}: gain {tuned.gain:+.3f} ({low:+.3f} to {high:+.3f})"
    before, now = set(tuned.documents), set(document_digests(index))
    is_stale = max(len(before - now), len(now - before)) >= MAX_CHANGED_SHARE * len(before)
    return f"{text}; stale, because documents changed: turnmark tune {index.name}" if is_stale else text
