"""What an index is built with."""

from __future__ import annotations

from pydantic import Field

from turnmark.corpora.types import Record
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.served import Served


class BuildSettings(Record):
    """What a retriever spec settles when an index is built for it. No embedder: no vectors; no encoder: no SPLADE."""

    bm25: BM25Settings
    embedder: str
    splade: str = ""
    tokens: bool = Field(default=False, description="the embedder's token vectors too, for late interaction")
    server: Served | None = None
