"""Several indexes searched together: scores as in one index, ids that do not collide, errors that name the index."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.retrieval import tiny
from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Passage
from turnmark.retrieval.collection import Collection
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.index_api import Index
from turnmark.retrieval.search.opened_index import SearchableIndex, open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.storage.filters import parse_where
from turnmark.retrieval.types import Hit, Query

NOTES = {
    "starter": "# Sourdough starter\n\nA starter is flour and water with wild yeast. It takes a week to ripen.\n",
    "setup": "# Setup\n\nThe oven at home is set with the left knob. Water boils in four minutes.\n",
    "ferry": "# Ferry\n\nThe ferry to the island sails at nine. The crossing takes forty minutes.\n",
}
WORK = {
    "setup": "# Setup\n\nThe server in the office is set up with the installer on the red disk.\n",
    "hull": "# Boat\n\nWash the hull with water and drain the fuel tank before winter.\n",
    "bees": "# Bees\n\nFeed the bees sugar syrup in autumn, a litre of water for each hive.\n",
}
ASKED = ["How do I set up the server?", "When does the ferry sail?", "sugar water for the hive"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("joint")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        for name, documents in (("notes", NOTES), ("work", WORK)):
            build_index(write(home / "documents" / name, **documents), name)
        build_index(home / "documents", "whole")
    return home


@pytest.fixture(autouse=True)
def _home(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMARK_HOME", str(home))


def searched(
    index: SearchableIndex, spec: str | None = None, k: int = 6, where: Mapping[str, str] | None = None
) -> list[list[Hit]]:
    retriever = open_retriever(spec or default_retriever(index), index)
    return retriever.search([Query(text=text, where=where or ()) for text in ASKED], k)


def place(passage: Passage) -> str:
    """Return the path of a passage under the common folder of both sources."""
    return f"{passage.index}/{passage.path}" if passage.index else passage.path


@pytest.mark.parametrize("spec", [None, "bm25", "dense", "hybrid", "conversational?rerank=none"])
def test_two_indexes_are_scored_like_one(spec):
    joint, whole = searched(Index.open("notes,work"), spec), searched(open_index("whole"), spec)
    for found, expected in zip(joint, whole, strict=True):
        assert [place(hit.passage) for hit in found] == [place(hit.passage) for hit in expected]
        np.testing.assert_allclose([hit.score for hit in found], [hit.score for hit in expected], atol=0.05)
        assert [set(hit.found) for hit in found] == [set(hit.found) for hit in expected]


def test_idf_covers_all_indexes():
    joint, whole = Index.open("notes,work"), open_index("whole")
    notes = open_index("notes")
    ids = np.arange(2000, 12_000, dtype=np.int32)
    np.testing.assert_allclose(joint.tokens.idf(ids), whole.tokens.idf(ids))
    assert not np.allclose(notes.tokens.idf(ids), whole.tokens.idf(ids))
    # "water" is in two of three notes, in two of three of work: the mean lengths differ, and nothing else does.
    scores, expected = sorted(joint.bm25.scores("water")), sorted(whole.bm25.scores("water"))
    np.testing.assert_allclose(scores, expected, rtol=0.05)
    (row,) = joint.bm25.rows_with("red disk")
    assert joint.store.by_rows([row])[0].document == "work:setup.md"
    identifier = joint.store.by_rows([row])[0].id
    assert joint.store.rows_of([identifier]) == {identifier: row}


def test_equal_document_ids_do_not_collide():
    index = Index.open("notes,work")
    retriever = open_retriever(default_retriever(index), index)
    (hits,) = retriever.search([Query(text="setup of the server and the oven")], 6)
    setups = [hit.passage for hit in hits if hit.passage.path == "setup.md"]
    assert {passage.document for passage in setups} == {"notes:setup.md", "work:setup.md"}
    for passage in setups:
        assert retriever.neighbors(passage) == [passage]
        stored = passage.as_stored()
        assert (stored.document, stored.index) == ("setup.md", passage.index)
        assert stored.id == f"setup.md-{passage.start}-{passage.end}"
    assert len({hit.passage.id for hit in hits}) == len(hits) == 6
    entries = Collection(index.store).documents()
    assert len(entries) == 6
    assert Collection(index.store).count() == 6
    assert Collection(index.store).grep("setup").times == {"notes:setup.md": 1, "work:setup.md": 1}
    assert sorted(index.titles) == ["Bees", "Boat", "Ferry", "Setup", "Sourdough starter"]


@pytest.mark.parametrize(
    ("where", "indexes"),
    [
        ({"index": "work"}, {"work"}),
        ({"index": "n*"}, {"notes"}),
        ({"index": "other"}, set()),
        ({"document": "setup.md"}, {"notes", "work"}),
        ({"document": "work:*.md"}, {"work"}),
        ({"document": "setup.md", "index": "work"}, {"work"}),
    ],
)
def test_filters_by_index(where, indexes):
    index = Index.open("notes,work")
    for spec in ("bm25", "dense"):
        found = {hit.passage.index for hits in searched(index, spec, where=where) for hit in hits}
        assert found == indexes, spec
    assert {entry.document.partition(":")[0] for entry in index.store.documents(parse_where(where))} == indexes


def test_filters_by_index_in_a_single_index():
    assert all(searched(open_index("notes"), "dense", where={"index": "n*"}))
    assert not any(searched(open_index("notes"), "dense", where={"index": "work"}))


def test_finds_a_file_in_its_own_source(home):
    index = Index.open("notes,work")
    for name in ("notes", "work"):
        part = index.part(name)
        assert part is not None
        assert part.source_file("setup.md") == home / "documents" / name / "setup.md"
    assert index.part("other") is None
    assert index.part("") is None


def test_reports_all_missing_indexes():
    with pytest.raises(RequestError) as raised:
        Index.open("notes,gone,lost")
    assert len(raised.value.problems) == 2
    assert "no index is called 'gone'" in raised.value.problems[0]
    assert "turnmark index build SOURCE --name lost" in raised.value.problems[1]


def test_reports_an_index_with_another_embedder(home):
    model = tiny.bert(home / "model", "BertModel") if not (home / "model").exists() else home / "model"
    build_index(home / "documents" / "work", "words", retriever="bm25")
    build_index(home / "documents" / "work", "other", retriever="hybrid", embedder=f"sentence-transformers:{model}")
    with pytest.raises(RequestError) as raised:
        Index.open("notes,words,other")
    words, other = raised.value.problems
    assert "index 'words' has no embedder" in words
    assert "index 'other' has the embedder" in other
    assert "'notes' has the embedder 'minilm'" in other
    assert f"turnmark index build {home}/documents/work --name other --retriever" in other
    assert "--embedder" not in other


def test_reports_other_bm25_settings(home):
    build_index(home / "documents" / "work", "steep", retriever="bm25?k1=2")
    build_index(home / "documents" / "notes", "flat", retriever="bm25")
    with pytest.raises(RequestError, match=r"index 'steep' has the BM25 settings k1=2\.0.*and 'flat' has k1=0\.9"):
        Index.open("flat,steep")


def test_retriever_with_remote_passages_takes_one_index():
    with pytest.raises(RequestError, match="searches one index at a time; give one of notes,work"):
        open_retriever("elasticsearch+http://localhost:9/x", Index.open("notes,work"))


def test_one_index_without_tokens_disables_late_interaction(home):
    build_index(home / "documents" / "work", "hybrid", retriever="hybrid")
    index = Index.open("notes,hybrid")
    assert default_retriever(index) == "conversational?rerank=none"
    assert all(searched(index))
    with pytest.raises(RequestError, match="index 'hybrid' has no token vectors"):
        open_retriever("conversational", index)


def test_searches_a_repeated_index_once():
    notes, work = Index.open("notes"), Index.open("work")
    assert Index.join([notes, notes]).name == "notes"
    assert [part.name for part in Index.join([Index.join([notes, work]), notes]).parts] == ["notes", "work"]
    assert Index.open(" notes , notes ").name == "notes"
    assert Index.open("notes", "work,notes").name == "notes,work"


def test_refuses_to_join_no_index():
    for nothing in (lambda: Index.open(), lambda: Index.join([])):
        with pytest.raises(RequestError, match="no index is given"):
            nothing()
