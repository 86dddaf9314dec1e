"""The default retriever in a conversation, and late interaction, over a real index of a few documents."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.retrieval import tiny
from tests.retrieval.conftest import content, write
from turnmark.core.errors import RequestError
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index, corpus_index
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import build_settings, default_retriever, open_retriever
from turnmark.retrieval.types import Hit, Query

DOCUMENTS = {
    "starter": "# Sourdough starter\n\nA starter is flour and water with wild yeast. It takes a week to ripen.\n",
    "yoghurt": "# Yoghurt\n\nYoghurt is milk in which bacteria grow. It takes eight hours to set in a warm oven.\n",
    "ferry": "# Ferry\n\nThe ferry to the island sails at nine. The crossing takes forty minutes.\n",
    "hull": "# Boat\n\nWash the hull with water and drain the fuel tank before winter.\n",
    "bees": "# Bees\n\nFeed the bees sugar syrup in autumn, a litre for each hive.\n",
}
HISTORY = (
    Message(role="user", content="What is a sourdough starter?"),
    Message(role="assistant", content="A sourdough starter is flour and water in which wild yeast lives."),
)
FERRY = (
    Message(role="user", content="When does the ferry to the island sail?"),
    Message(role="assistant", content="The ferry to the island sails at nine in the morning."),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("conversation")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_HOME", str(home))
        build_index(write(home / "notes", **DOCUMENTS), "notes")
        build_index(home / "notes", "plain", retriever="hybrid")
    return home


@pytest.fixture
def index(home: Path, monkeypatch: pytest.MonkeyPatch) -> StoredIndex:
    monkeypatch.setenv("TURNMARK_HOME", str(home))
    return open_index("notes")


def first(hits: list[Hit]) -> str:
    return hits[0].passage.document.removesuffix(".md")


def ids(hits: list[Hit]) -> list[str]:
    return [hit.passage.id for hit in hits]


@pytest.mark.parametrize("spec", ["conversational", "conversational?rerank=none"])
def test_follow_up_question_is_understood_in_context(index: StoredIndex, spec: str) -> None:
    question = "How long does it take?"
    queries = [
        Query(text=question, history=HISTORY),
        Query(text=question, history=FERRY),
        Query(text="What do bees eat in autumn?", history=HISTORY),
        Query(text=question, history=HISTORY, where={"document": "fer*"}),
    ]
    found = [first(hits) for hits in open_retriever(spec, index).search(queries, 5)]
    assert found == ["starter", "ferry", "bees", "ferry"]


def test_hits_name_the_lists_that_found_them(index: StoredIndex) -> None:
    query = Query(text="How long does it take?", history=HISTORY, variants=("How long does a sourdough starter take?",))
    best = open_retriever("conversational", index).search([query], 3)[0][0]
    assert set(best.found) == {"conversation", "dense", "bm25", "bm25+1", "late"}
    assert best.found["late"].rank == 1
    message, rewrite = (spoken.vector for spoken in index.views.of([("", query.text), ("", query.variants[0])]))
    vector = content("notes")[best.passage.id]
    assert best.similarity == pytest.approx(max(float(message @ vector), float(rewrite @ vector)), abs=1e-5)


def test_batch_returns_the_same_as_single_queries(index: StoredIndex) -> None:
    retriever = open_retriever("conversational", index)
    queries = [
        Query(text="How long does it take?", history=FERRY),
        Query(text="milk"),
        Query(text="And in winter?", history=HISTORY, variants=("a starter in winter", "yeast in winter")),
    ]
    together = retriever.search(queries, 5)
    alone = [retriever.search([query], 5)[0] for query in queries]
    assert [ids(hits) for hits in together] == [ids(hits) for hits in alone]
    for hits, hits_alone in zip(together, alone, strict=True):
        assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in hits_alone], abs=1e-3)


def test_message_without_words_is_searched(index: StoredIndex) -> None:
    retriever = open_retriever("conversational", index)
    for text in ("", "?", "\x00", "🙂"):
        hits = retriever.search([Query(text=text, history=HISTORY)], 3)[0]
        assert all(np.isfinite(hit.score) for hit in hits)


def test_reports_missing_component_with_the_build_command(index: StoredIndex) -> None:
    plain = open_index("plain")
    assert default_retriever(index) == "conversational"
    assert default_retriever(plain) == "hybrid"
    assert first(open_retriever(default_retriever(plain), plain).search([Query(text="bees")], 1)[0]) == "bees"
    with pytest.raises(RequestError, match=r"no token vectors.*turnmark index build"):
        open_retriever("conversational", plain)
    with pytest.raises(RequestError, match="rerank=late needs token vectors, and its index has none"):
        build_settings("bm25?rerank=late")


def tokens_of(index: StoredIndex) -> dict[str, tuple[list[list[int]], list[int]]]:
    """Return passage id -> its stored signs and token ids."""
    ids = [passage.id for page in index.store.pages() for _, _, passage in page]
    pooled = map(index.tokens.pooled, index.rows.slots.tolist())
    return {each: (signs.tolist(), tokens.tolist()) for each, (signs, tokens) in zip(ids, pooled, strict=True)}


def test_update_keeps_tokens_of_unchanged_passages(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    build_index(write(tmp_path / "notes", **DOCUMENTS), "notes")
    before = open_index("notes")
    tokens_before = tokens_of(before)
    (tmp_path / "notes" / "aardvark.md").write_text("# Aardvark\n\nIt eats ants at night.\n")
    report = build_index(tmp_path / "notes", "notes")
    assert (report.embedded, report.kept) == (1, len(tokens_before))
    after = open_index("notes")
    tokens_after = tokens_of(after)
    assert {each: tokens_after[each] for each in tokens_before} == tokens_before
    assert first(open_retriever("conversational", after).search([Query(text="ants")], 1)[0]) == "aardvark"


def test_corpus_index_uses_the_requested_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TURNMARK_HOME", str(tmp_path / "home"))
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"_id": n, "text": text}) + "\n" for n, text in DOCUMENTS.items()))
    default = corpus_index(corpus, "conversational")
    model = tiny.dense(tmp_path / "tiny")
    tiny_index = corpus_index(corpus, f"dense:{model}")
    assert tiny_index.embedder.dimension == 16
    assert corpus_index(corpus, "hybrid").folder == default.folder
    assert corpus_index(corpus, "bm25").folder in (default.folder, tiny_index.folder), "whichever is older"
    assert corpus_index(corpus, f"dense:{model}").folder == tiny_index.folder
