"""What an index is and how it was made: the record that is written last, when everything else is there."""

from __future__ import annotations

import json
from pathlib import Path

from pydantic import Field, ValidationError

from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.types import Record
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.served import Served

FORMAT = 1


class ModelInfo(Record):
    """Which model made a part of an index. `dimension`: of a vector; how many terms a sparse encoder has."""

    spec: str
    fingerprint: str
    dimension: int


class Manifest(Record):
    """What an index is and how it was made."""

    format: int = FORMAT
    name: str
    generation: int
    source: str
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    documents: int
    passages: int
    digest: str
    chunk_size: int
    chunk_overlap: int
    bm25: BM25Settings
    embedder: ModelInfo | None
    splade: ModelInfo | None = None
    tokens: bool = Field(default=False, description="whether the embedder's token vectors are kept too")
    exact: bool = Field(default=False, description="whether the vectors are in one file, all compared with a query")
    server: Served | None = Field(default=None, description="which server holds a part of it, as it was asked for")
    skipped: int = 0
    internal: bool = Field(default=False, description="kept for a benchmark's corpus; not offered to a person")
    created: str
    version: str


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a finished index, or None where there is none.

    Raises:
        TurnmarkError: it is there but cannot be read.
    """
    path = folder / "manifest.json"
    if not path.is_file():
        return None
    try:
        return Manifest.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise TurnmarkError(
            f"{path} cannot be read ({type(error).__name__}); build the index again: turnmark index build SOURCE "
            f"--name {folder.name}"
        ) from error
