"""A retriever with its own component is one file, such as this one, and one line of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import pytest

from tests.retrieval.conftest import write
from turnmark.corpora.chunking import Tokenizer, regex_tokens
from turnmark.corpora.home import write_json
from turnmark.corpora.specs import Entry, Spec
from turnmark.retrieval.build import build_index, cached_indexes
from turnmark.retrieval.components import BuildFiles, Component, Page
from turnmark.retrieval.fusion import TopK, top_k
from turnmark.retrieval.index import Index, open_index
from turnmark.retrieval.maintenance import verify_index
from turnmark.retrieval.registry import build_settings, default_retriever, open_retriever
from turnmark.retrieval.search import LIST_OPTIONS, FusedRetriever, Kind, Options, build_for, fuse_rankers
from turnmark.retrieval.table import RETRIEVERS
from turnmark.retrieval.types import Query


class Counter:
    """A model that counts letters."""

    name, fingerprint, dimension, max_tokens = "lengths", "lengths 1", 1, 64
    counted: ClassVar[list[str]] = []

    def pack_texts(self, texts: Sequence[str]) -> list[bytes]:
        self.counted += texts
        return [str(len(text)).encode() for text in texts]

    def tokenizer(self) -> Tokenizer:
        return regex_tokens


class Lengths(Component):
    name = key = "lengths"

    def open_model(self, spec: str) -> Counter:
        assert spec == "lengths"
        return Counter()

    def write(self, files: BuildFiles) -> None:
        (files.folder / self.name).mkdir()
        write_json(files.folder / self.name / "all.json", [int(v) for page in files.values(self.key) for v in page])

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:
        return {content: str(lengths_of(index)[row]).encode() for row, content, _ in page}


def lengths_of(index: Index) -> list[int]:
    lengths: list[int] = index.open_part("lengths", lambda path: json.loads((path / "all.json").read_text()))
    return lengths


class ShortestRanker:
    name = "shortest"

    def __init__(self, index: Index) -> None:
        self._index = index

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        scores = -np.asarray(lengths_of(self._index), dtype=np.float64)
        return [top_k(scores, k, self._index.mask(query.where)) for query in queries]


def open_shortest(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    return fuse_rankers(spec, index, options, [(ShortestRanker(index), 1.0)])


LENGTHS = Kind(
    open=open_shortest,
    settings=lambda spec, options, _: build_for(options, lengths="lengths"),
    options=LIST_OPTIONS,
    component=Lengths(),
)


@pytest.fixture(autouse=True)
def _one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(RETRIEVERS._entries, "lengths", Entry(f"{__name__}:LENGTHS", "the shortest passages"))
    monkeypatch.setattr(Counter, "counted", [])


def test_it_is_built_searched_checked_and_brought_up_to_date(notes):
    assert build_index(notes, "n", retriever="lengths").embedded == 3
    index = open_index("n")
    assert index.manifest.model("lengths").fingerprint == "lengths 1"
    assert default_retriever(index) == "lengths"
    assert "--retriever lengths" in index.build_command("lengths")
    [[first, *_]] = open_retriever("lengths?depth=5", index).search([Query(text="anything")], 3)
    assert (first.passage.document, first.found["shortest"].rank) == ("bees.md", 1)
    assert verify_index(index) == []
    assert build_index(notes, "n", retriever="lengths").unchanged
    write(notes, more="# More\n\nShort.\n")
    report = build_index(notes, "n", retriever="lengths")
    assert (report.embedded, report.kept) == (1, 3)
    assert len(Counter.counted) == 4, "what stayed is not given to the model again"
    [[first, *_]] = open_retriever("lengths", open_index("n")).search([Query(text="x", where={"path": "more*"})], 3)
    assert first.passage.document == "more.md"
    (open_index("n").files / "lengths" / "all.json").write_text("[]")
    assert verify_index(open_index("n")) == [
        "lengths/all.json is damaged: its SHA-256 differs from the one in seal.json"
    ]
    assert cached_indexes("none", build_settings("lengths")) == []
