"""SPLADE with a tiny sparse encoder made here: encoding, the inverted index, and the default retriever."""

from __future__ import annotations

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval import tiny
from tests.retrieval.conftest import write
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.downloads.small_models import MODELS, SPLADE, ModelFile, models_folder
from turnmark.corpora.types import Message
from turnmark.retrieval.index.build import build_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.ranking.postings import Postings
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import default_retriever, open_retriever
from turnmark.retrieval.search.sparse import (
    SparseIndex,
    SpladeEncoder,
    Vector,
    open_encoder,
    sparse_of,
    sparse_postings,
)
from turnmark.retrieval.storage.passage_writer import SPARSE_POSTINGS, SPARSE_TYPE
from turnmark.retrieval.types import Hit, Query


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny.splade(tmp_path_factory.mktemp("splade"))


def spec(model: Path) -> str:
    return f"splade:{model}"


def stored(name: str) -> dict[str, Vector]:
    """Return passage id -> the terms that the index has of it, and their weights."""
    index = open_index(name)
    postings = Postings(index.store.select, SPARSE_POSTINGS, SPARSE_TYPE)
    by_slot: dict[int, dict[int, float]] = {}
    for term in sorted(map(int, postings.terms())):
        for slot, weight in zip(*postings.of(term), strict=True):
            by_slot.setdefault(int(slot), {})[term] = float(weight)
    ids = [passage.id for page in index.store.pages() for _, _, passage in page]
    vectors = [by_slot.get(slot, {}) for slot in index.rows.sparse_slots.tolist()]
    return {each: (np.array(list(v)), np.array(list(v.values()))) for each, v in zip(ids, vectors, strict=True)}


def test_order_equals_the_librarys_similarity(tmp_path, model):
    from sentence_transformers import SparseEncoder

    texts = [
        " ".join(tiny.WORDS[(3 * i + j) % 19] for j in range(2 + i % 7)) + f" {tiny.LETTERS[i % 16]}" for i in range(60)
    ]
    questions = ["fuel of the boat", "sugar", "bake bread at nine", ""]
    library = SparseEncoder(str(model), device="cpu")
    exact = library.similarity(library.encode_query(questions), library.encode_document(texts)).to_dense().numpy()
    (tmp_path / "c.jsonl").write_text(
        "\n".join(json.dumps({"_id": str(i), "title": "", "text": text}) for i, text in enumerate(texts)), "utf-8"
    )
    build_index(tmp_path / "c.jsonl", "n", retriever=spec(model))
    hit_lists = open_retriever(spec(model), open_index("n")).search([Query(text=text) for text in questions], 10)
    for scores, hits in zip(exact, hit_lists, strict=True):
        ours = {int(hit.passage.id): hit.score for hit in hits}
        assert len(ours) == 10
        assert list(ours.values()) == sorted(ours.values(), reverse=True)
        assert list(ours.values()) == pytest.approx([float(scores[row]) for row in ours], rel=2e-3)
        tenth = np.sort(scores)[-10]
        assert all(scores[row] >= tenth * (1 - 2e-3) for row in ours)
        assert hits[0].found["splade"].rank == 1


@pytest.mark.parametrize("activation", ["relu", "log1p_relu"])
@pytest.mark.parametrize("side", ["right", "left"])
def test_vectors_equal_the_librarys_bit_for_bit(model, tmp_path, activation, side):
    from sentence_transformers import SparseEncoder

    shutil.copytree(model, tmp_path / "model")
    (pooling,) = (tmp_path / "model").glob("*/config.json")
    pooling.write_text(json.dumps({**json.loads(pooling.read_text("utf-8")), "activation_function": activation}))
    texts = ["fuel", "", "the boat sails at nine with sugar and winter oil", "bees bees bees", "a b c d e"]
    encoder = SpladeEncoder(spec(tmp_path / "model"))
    library = SparseEncoder(str(tmp_path / "model"), device="cpu")
    for encoder_of_either in (encoder._model, library):
        encoder_of_either.tokenizer.padding_side = side
    exact = library.encode_document(texts).to_dense().numpy()
    assert (exact > 0).any(axis=1).sum() >= 3
    for row, (terms, weights) in zip(exact, encoder.encode(texts, "passage"), strict=True):
        assert np.flatnonzero(row).tolist() == terms.tolist()
        assert row[terms].tolist() == weights.tolist()


def test_splade_index_is_listed_searched_and_updated(notes, model, turnmark):
    report = build_index(notes, "n", retriever=spec(model))
    assert (report.documents, report.embedded, report.kept) == (3, 3, 0)
    index = open_index("n")
    assert verify_index(index) == []
    assert index.manifest.embedder is None
    assert index.manifest.splade.dimension == len(tiny.VOCABULARY)
    assert default_retriever(index) == spec(model)
    assert not (index.files / "chroma").exists()
    assert "splade:" in turnmark("index", "list").out
    hits = open_retriever(f"splade:{model}", index).search([Query(text="sugar for bees", where={"path": "be*"})], 3)[0]
    assert {hit.passage.document for hit in hits} == {"bees.md"}
    assert open_retriever("bm25", index).search([Query(text="hull")], 1)[0][0].passage.document == "boat.md"
    assert build_index(notes, "n", retriever=spec(model)).unchanged

    old = stored("n")
    write(notes, boat="# Boat\n\nOil the hull.\n", ferry="# Ferry\n\nThe ferry sails at nine.\n")
    report = build_index(notes, "n", retriever=spec(model))
    assert (report.embedded, report.kept, report.removed) == (2, 2, 1)
    new = stored("n")
    for passage, (terms, weights) in new.items():
        if passage in old and not passage.startswith("boat"):
            assert np.array_equal(terms, old[passage][0])
            assert np.array_equal(weights, old[passage][1])
    assert verify_index(open_index("n")) == []
    with closing(sqlite3.connect(open_index("n").files / "passages.db")) as db, db:
        db.execute("UPDATE sparse_postings SET packed = x'01020000' WHERE length(packed) = 4")
    assert any("postings" in problem for problem in verify_index(open_index("n")))


def test_index_without_splade_names_the_build_command(notes, model):
    build_index(notes, "n", retriever="bm25")
    index = open_index("n")
    with pytest.raises(RequestError, match=rf"index build \S+ --name n --retriever splade:{model}"):
        open_retriever(spec(model), index)
    with pytest.raises(RequestError, match=r"has no SPLADE terms; .*splade:MODEL"):
        sparse_of(index)
    build_index(notes, "n", retriever=spec(model))
    with pytest.raises(RequestError, match=r"with the sparse encoder 'splade:.*', not 'splade:other/model'"):
        open_retriever("splade:other/model", open_index("n"))
    with pytest.raises(RequestError, match="'n' has no vectors; build it again"):
        open_retriever("dense", open_index("n")).search([Query(text="hull")], 1)


def test_refuses_models_other_than_sparse_encoders(tmp_path, model):
    with pytest.raises(RequestError, match="cannot be loaded"):
        SpladeEncoder(spec(tmp_path / "nothing"))
    with pytest.raises(RequestError, match=r"is not a sparse encoder .* the sparse layer has no trained weights"):
        SpladeEncoder(spec(tiny.dense(tmp_path / "dense")))
    with pytest.raises(TurnmarkError, match="not finite"):
        sparse_postings(0, [(np.asarray([1], np.int32), np.asarray([1e6], np.float32))])
    broken = tmp_path / "broken"
    shutil.copytree(model, broken)
    tiny.break_weights(broken)
    with pytest.raises(TurnmarkError, match="not finite"):
        SpladeEncoder(spec(broken)).encode(["fuel"], "query")


def test_prompts_are_prepended_and_in_the_fingerprint(tmp_path):
    folder = tiny.splade(tmp_path / "m", prompts={"query": "sugar ", "passage": "hull "})
    encoder = SpladeEncoder(spec(folder))
    assert "'sugar '|'hull '" in encoder.fingerprint
    assert encoder.max_tokens == 63
    query, plain = encoder.encode(["boat"], "query"), encoder.encode(["boat"], "passage")
    encoder._prompts = {"query": "", "passage": ""}
    for (terms, weights), text in ((query[0], "sugar boat"), (plain[0], "hull boat")):
        [(again, more)] = encoder.encode([text], "query")
        assert np.array_equal(terms, again)
        assert weights == pytest.approx(more)


vectors = st.lists(
    st.dictionaries(st.integers(0, 30), st.floats(0.125, 60, width=16), max_size=8).map(
        lambda terms: (np.asarray(sorted(terms), np.int32), np.asarray([terms[n] for n in sorted(terms)], np.float32))
    ),
    min_size=1,
    max_size=12,
)


@given(vectors, st.integers(1, 5))
def test_postings_return_dot_products(vectors_drawn, page):
    db = sqlite3.connect(":memory:")
    db.execute(Postings.schema(SPARSE_POSTINGS))
    postings = Postings(lambda *statement: db.execute(*statement).fetchall(), SPARSE_POSTINGS, SPARSE_TYPE)
    for start in range(0, len(vectors_drawn), page):
        postings.add(db, sparse_postings(start, vectors_drawn[start : start + page]))
    dense = np.zeros((len(vectors_drawn), 31))
    for row, (terms, weights) in enumerate(vectors_drawn):
        dense[row, terms] = weights
    slots = np.arange(len(vectors_drawn))[::-1]
    assert SparseIndex(postings, slots).scores(vectors_drawn[0]) == pytest.approx((dense @ dense[0])[::-1], rel=1e-5)
    assert list(postings.damaged()) == []
    db.close()


# --- next to embeddings and BM25

QUERY = Query(
    text="And the fuel?",
    variants=("Drain the fuel of the boat",),
    history=[Message(role="user", content="The boat?"), Message(role="assistant", content="Wash its hull.")],
)


def built(notes: Path, retriever: str) -> StoredIndex:
    build_index(notes, "n", retriever=retriever)
    return open_index("n")


def found(index: StoredIndex, retriever: str, query: Query = QUERY) -> list[Hit]:
    return open_retriever(retriever, index).search([query], 3)[0]


def order(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.passage.id, round(hit.score, 5)) for hit in hits]


@pytest.mark.parametrize("name", ["hybrid", "conversational?rerank=none"])
def test_splade_lists_are_fused(notes, model, name):
    joined = f"{name}{'&' if '?' in name else '?'}splade={model}"
    index = built(notes, joined)
    lists = {name for hit in found(index, joined) for name in hit.found}
    assert {"splade", "splade+1", "bm25", "bm25+1", "dense"} <= lists
    assert order(found(index, joined)) != order(found(index, name))
    assert not any("splade" in hit.found for hit in found(index, name)), "an index that has it may do without"
    for retriever in ("bm25", "dense", f"splade:{model}"):
        assert found(index, retriever)
    assert default_retriever(index) == joined


@pytest.fixture
def fetched(model, monkeypatch) -> str:
    """Install the sparse encoder like `turnmark model get splade-tiny`."""
    folder = models_folder() / "splade-tiny"
    shutil.copytree(model, folder)
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    pinned = tuple(ModelFile(name=str(p.relative_to(folder)), size=p.stat().st_size, sha256="") for p in files)
    monkeypatch.setitem(MODELS, "splade-tiny", SPLADE.model_copy(update={"files": pinned}))
    return "conversational?splade=splade-tiny"


def test_fetched_model_is_used_by_default(notes, fetched, turnmark):
    build_index(notes, "n")
    index = open_index("n")
    assert default_retriever(index) == fetched
    assert {"splade", "bm25", "conversation"} <= {name for hit in found(index, fetched) for name in hit.found}
    printed = json.loads(turnmark("index", "info", "n", "--json").out)
    assert (printed["splade"]["spec"], printed["retriever"]) == ("splade:splade-tiny", fetched)


def test_older_index_stays_until_rebuilt(notes, request):
    build_index(notes, "n")
    before = open_index("n")
    hits = order(found(before, default_retriever(before)))
    request.getfixturevalue("fetched")
    index = open_index("n")
    assert default_retriever(index) == "conversational"
    assert order(found(index, default_retriever(index))) == hits
    build_index(notes, "n")
    assert default_retriever(open_index("n")) == "conversational?splade=splade-tiny"


@pytest.mark.usefixtures("fetched")
def test_removed_model_is_reported_with_the_fetch_command(notes):
    build_index(notes, "n")
    shutil.rmtree(models_folder())
    open_encoder.cache_clear()
    with pytest.raises(RequestError, match="turnmark model get splade-tiny"):
        found(open_index("n"), default_retriever(open_index("n")))
