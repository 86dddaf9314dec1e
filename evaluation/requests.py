"""What is asked for on the command line."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from corpora.mtrag import Benchmark
from corpora.types import Record


class EvalRequest(Record):
    """`turnwise eval BENCHMARK --task retrieval …`."""

    benchmark: Benchmark
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: every domain with relevance labels")
    retriever: str = "hybrid"
    embedder: str = "minilm"
    query: str | None = Field(default=None, description="query mode; None: `assistant`, unless `queries` is given")
    queries: Path | None = Field(default=None, description='a file of {"_id", "text"} lines instead of a mode')
    limit: int | None = Field(default=None, description="only the first so many queries")
    only: tuple[str, ...] = ()
    seed: int = 0
    out: Path | None = None
    command: str = ""


class ScoreRequest(Record):
    """`turnwise score BENCHMARK --task retrieval --predictions FILE …`."""

    benchmark: Benchmark
    predictions: tuple[Path, ...]
    data: Path | None = None
    domains: tuple[str, ...] = Field(default=(), description="empty: those in which the file answers a query")
    seed: int = 0
    out: Path | None = None
    command: str = ""
