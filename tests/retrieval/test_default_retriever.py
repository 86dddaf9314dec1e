"""An index remembers the retriever that it was built for and is searched with it by default."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.retrieval.conftest import write
from turnmark.retrieval.index.build import build_again, build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import default_retriever
from turnmark.retrieval.types import Hit, Query, Retriever

PLUGIN = f"python:{__name__}:Backwards"


class Backwards(Retriever):
    """A custom retriever that returns the passages of the index from the last to the first."""

    name = "backwards"

    def __init__(self, index: Index) -> None:
        self.passages = [passage for page in index.store.pages() for _, _, passage in page][::-1]

    def search(self, queries: list[Query], top_k: int) -> list[list[Hit]]:
        return [[Hit(passage=passage, score=1.0) for passage in self.passages[:top_k]] for _ in queries]


@pytest.fixture(autouse=True)
def notes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    return write(
        tmp_path / "notes",
        boat="# Boat\n\nDrain the fuel tank before winter.\n",
        bees="# Bees\n\nFeed the bees sugar syrup in autumn.\n",
    )


def test_search_uses_the_retriever_of_the_build(notes: Path, turnmark) -> None:
    turnmark.ok("index", "build", notes, "--name", "d", "--retriever", "dense")
    found = turnmark.json("search", "feeding bees", "--index", "d")
    assert found["retriever"] == "dense"
    assert [set(hit["found"]) for hit in found["hits"]] == [{"dense"}, {"dense"}]
    assert found["hits"] == turnmark.json("search", "feeding bees", "--index", "d", "--retriever", "dense")["hits"]
    assert turnmark.json("index", "info", "d")["retriever"] == "dense"
    other = turnmark.json("search", "feeding bees", "--index", "d", "--retriever", "hybrid")
    assert set(other["hits"][0]["found"]) == {"bm25", "dense"}, "another retriever can still be named"


def test_search_spells_words_as_in_the_documents(notes: Path, turnmark) -> None:
    turnmark.ok("index", "build", notes, "--name", "d", "--retriever", "bm25")
    ran = turnmark("search", "drain in witner", "--index", "d")
    assert "boat.md" in ran.out
    assert "searched for: drain in winter" in ran.err
    assert turnmark.json("search", "witner", "--index", "d")["searched"] == "winter"
    assert [hit.passage.document for hit in Index.open("d").search("autunm")] == ["bees.md"]
    assert "searched for" not in turnmark("search", "winter", "--index", "d").err


def test_remembers_a_plugin_with_its_options(notes: Path) -> None:
    spec = f"{PLUGIN}?rerank=none"
    index = Index.build(notes, "n", retriever=spec)
    assert default_retriever(index) == spec
    assert [hit.passage.document for hit in index.search("bees")] == ["boat.md", "bees.md"]


def test_index_of_an_earlier_version_is_searched_as_before(notes: Path) -> None:
    build_index(notes, "n", retriever="dense")
    path = open_index("n").folder / "manifest.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    del content["retriever"]
    path.write_text(json.dumps(content), encoding="utf-8")
    assert default_retriever(open_index("n")) == "conversational?rerank=none"


def test_update_keeps_the_retriever(notes: Path) -> None:
    build_index(notes, "n", retriever="dense")
    (notes / "tea.md").write_text("# Tea\n\nBoil the water.\n", encoding="utf-8")
    assert build_again(open_index("n").manifest).documents == 3
    assert default_retriever(open_index("n")) == "dense"


def test_another_retriever_with_the_same_components_changes_only_the_default(notes: Path) -> None:
    build_index(notes, "n", retriever="hybrid")
    report = build_index(notes, "n", retriever="dense")
    assert (report.unchanged, report.embedded) == (True, 0)
    assert default_retriever(open_index("n")) == "dense"
    build_index(notes, "n", retriever="bm25?k1=2")
    assert default_retriever(open_index("n")) == "bm25?k1=2"
    assert Index.open("n").search("bees")[0].passage.document == "bees.md"


def test_joint_search_uses_the_common_retriever_or_the_common_components(notes: Path) -> None:
    for name, spec in (("a", "dense"), ("b", "dense"), ("c", "hybrid")):
        build_index(notes, name, retriever=spec)
    assert default_retriever(Index.open("a", "b")) == "dense"
    assert default_retriever(Index.open("a", "c")) == "conversational?rerank=none"
    assert {hit.passage.index for hit in Index.open("a", "b").search("bees", 2)} == {"a", "b"}
