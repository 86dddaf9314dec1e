"""All vectors compared: what Chroma gives, exactly, what is said of a wrong file, and how rows are shared out."""

from __future__ import annotations

import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.conftest import write
from turnmark.corpora.errors import TurnmarkError
from turnmark.corpora.mtrag import load_queries
from turnmark.retrieval.build import build_index, corpus_index
from turnmark.retrieval.flat import FILE, FlatVectors, by_cores, write_vectors
from turnmark.retrieval.fusion import TopK, top_k
from turnmark.retrieval.index import open_index
from turnmark.retrieval.maintenance import verify_index
from turnmark.retrieval.registry import open_retriever
from turnmark.retrieval.types import Query

QUESTIONS = ("Where do the bees spend the winter?", "bread without yeast", "what a ferry costs", "xyzzy")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    texts = (
        "The bees stay in their hive in winter and eat honey.", "A hive is opened in spring.",
        "Bread rises with yeast.", "Soda bread needs no yeast but buttermilk.", "The ferry leaves at nine.",
        "A ticket for it costs four crowns.", "Honey is spun in July.", "The harbour is closed in storms.",
    )  # fmt: skip
    return write(tmp_path / "notes", **{f"{'abc'[number % 3]}{number}": text for number, text in enumerate(texts)})


def opened(folder: Path, vectors: np.ndarray) -> FlatVectors:
    write_vectors(folder, [[row.tobytes() for row in vectors]], *vectors.shape)
    return FlatVectors(folder)


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 50), st.integers(0, 1000))
def test_a_batch_gives_what_each_query_gives_alone(queries: int, rows: int, k: int, seed: int) -> None:
    dice = np.random.default_rng(seed)
    vectors = dice.normal(size=(rows, 8)).astype(np.float32)[dice.integers(0, rows, rows)]  # some are twice there
    query_vectors = dice.normal(size=(queries, 8)).astype(np.float32)
    query_vectors /= np.linalg.norm(query_vectors, axis=1, keepdims=True)
    with tempfile.TemporaryDirectory() as folder:
        exact = opened(Path(folder) / "v", vectors)
        tops = exact.nearest(query_vectors, k)
        for vector, top in zip(query_vectors, tops, strict=True):
            assert len(top) == min(k, rows)
            (alone,) = exact.nearest(vector[None], k)
            assert top.scores == pytest.approx(alone.scores, abs=2e-6)


@given(st.lists(st.sampled_from([-1.0, 0.0, 0.5, 2.0]), max_size=30), st.integers(0, 12), st.booleans(), st.data())
def test_the_best_are_those_that_sorting_gives(
    scores: list[float], k: int, positive: bool, data: st.DataObject
) -> None:
    may = data.draw(st.none() | st.lists(st.booleans(), min_size=len(scores), max_size=len(scores)))
    fits = [n for n, score in enumerate(scores) if (may is None or may[n]) and (score > 0 or not positive)]
    expected = [(n, scores[n]) for n in sorted(fits, key=lambda n: (-scores[n], n))][:k]
    mask = None if may is None else np.array(may, dtype=np.bool_)
    assert list(top_k(np.array(scores, dtype=np.float32), k, mask, positive)) == expected
    assert list(TopK.from_pairs(expected)) == expected


def test_chroma_finds_the_same(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_index(notes, "exact", retriever="hybrid")
    with monkeypatch.context() as patched:
        patched.setattr("turnmark.retrieval.build.FLAT_LIMIT", 0)
        build_index(notes, "graph", retriever="hybrid")
    exact, graph = open_index("exact"), open_index("graph")
    assert (exact.manifest.exact, graph.manifest.exact) == (True, False)
    assert not (graph.files / "exact").exists()
    assert not (exact.files / "chroma").exists()
    assert exact.fingerprint == graph.fingerprint
    only_a = {"document": "a*"}
    queries = [Query(text=text, where=flat_hits) for text in QUESTIONS for flat_hits in ({}, only_a)]
    queries.append(Query(text="tea", where={"document": "nothing-is-called-so"}))
    for name in ("dense", "hybrid", "conversational?rerank=none"):
        ours, theirs = (open_retriever(name, index).search(queries, 8) for index in (exact, graph))
        for flat_hits, graph_hits in zip(ours, theirs, strict=True):
            assert [hit.passage.id for hit in flat_hits] == [hit.passage.id for hit in graph_hits]
            assert [hit.score for hit in flat_hits] == pytest.approx([hit.score for hit in graph_hits], abs=1e-4)
    assert verify_index(exact) == verify_index(graph) == []


def test_vectors_move_between_the_stores_without_the_model(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def vectors() -> dict[str, np.ndarray]:
        index = open_index("n")
        return index.vectors_of([passage.id for page in index.store.pages() for _, _, passage in page])

    build_index(notes, "n", retriever="hybrid")
    before = vectors()
    for limit, flat in ((0, False), (9, True)):
        monkeypatch.setattr("turnmark.retrieval.build.FLAT_LIMIT", limit)
        report = build_index(notes, "n", retriever="hybrid")
        assert (report.unchanged, report.embedded, open_index("n").manifest.exact) == (False, 0, flat)
    assert before.keys() == vectors().keys()
    assert all(np.allclose(before[i], vector, atol=1e-6) for i, vector in vectors().items())


def test_a_file_that_is_none_or_another_is_damage(notes: Path) -> None:
    build_index(notes, "n", retriever="hybrid")
    path = open_index("n").files / "exact" / FILE
    good = path.read_bytes()
    for content in (b"", good[:300], b"\x00" * 999):
        path.write_bytes(content)
        with pytest.raises(TurnmarkError, match="damaged: exact"):
            open_retriever("hybrid", open_index("n")).search([Query(text="tea")], 1)
        assert any("exact" in problem for problem in verify_index(open_index("n")))


@given(st.integers(0, 500), st.integers(1, 600), st.integers(1, 90))
def test_every_row_is_in_one_stretch_and_each_begins_at_a_step(rows, apiece, step):
    lock, stretches = threading.Lock(), list[slice]()

    def work(part: slice) -> None:
        with lock:
            stretches.append(part)

    by_cores(rows, work, apiece=apiece, step=step)
    assert sorted(row for part in stretches for row in range(part.start, part.stop)) == list(range(rows))
    assert all(part.start % step == 0 for part in stretches)
    assert rows >= apiece or len(stretches) == 1, "a few rows are one core's"


@pytest.mark.data
@pytest.mark.parametrize("domain", ["clapnq", "fiqa"])
def test_hnsw_finds_what_exact_search_finds(real_data: Path, kept_home: Path, monkeypatch, domain):
    """recall@10 of Chroma's HNSW against all cosines, over the recorded last turns, is at least .99."""
    monkeypatch.setenv("TURNMARK_HOME", str(kept_home))
    monkeypatch.setattr("turnmark.retrieval.build.FLAT_LIMIT", 0)
    root = real_data / "mt-rag-benchmark"
    index = corpus_index(root / "corpora" / "passage_level" / f"{domain}.jsonl", "dense")
    queries = list(load_queries(root, domain, "last-turn").data.values())
    vectors = index.embedder.encode(queries, "query")
    ids = [passage.id for page in index.store.pages() for _, _, passage in page]
    stored = index.vectors_of(ids)
    exact = vectors @ np.stack([stored[i] for i in ids]).T
    nearest = index.chroma.query(vectors, 10)
    shares = []
    for cosines, neighbours in zip(exact, nearest, strict=True):
        tenth = np.partition(cosines, -10)[-10]
        shares.append(sum(cosine >= tenth - 1e-5 for _, cosine in neighbours) / 10)
    assert np.mean(shares) >= 0.99
