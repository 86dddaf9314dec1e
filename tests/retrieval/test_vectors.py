"""Exact search and token vectors, compared with Chroma and with plain loops; damaged files."""

from __future__ import annotations

import gc
import math
import tempfile
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from chromadb.api.shared_system_client import SharedSystemClient
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from tests.retrieval.conftest import content, write
from turnmark.core.errors import TurnmarkError
from turnmark.corpora.benchmarks.mtrag import load_queries
from turnmark.retrieval.index.build import build_index, corpus_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.ranking.vectors import (
    FILE,
    FlatVectors,
    TokenIndex,
    pack_tokens,
    run_on_cores,
    unpack_tokens,
    write_tokens,
    write_vectors,
)
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
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
def test_batch_returns_the_same_as_single_queries(queries: int, rows: int, k: int, seed: int) -> None:
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


def test_chroma_finds_the_same_as_exact_search(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_index(notes, "exact", retriever="hybrid")
    with monkeypatch.context() as patched:
        patched.setattr("turnmark.retrieval.index.build.FLAT_LIMIT", 0)
        build_index(notes, "graph", retriever="hybrid")
    exact, graph = open_index("exact"), open_index("graph")
    assert (exact.manifest.exact, graph.manifest.exact) == (True, False)
    assert not (graph.files / "exact").exists()
    assert not (exact.files / "chroma").exists()
    assert exact.manifest.fingerprint() == graph.manifest.fingerprint()
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
    build_index(notes, "n", retriever="hybrid")
    before = content("n")
    for limit, flat in ((0, False), (9, True)):
        monkeypatch.setattr("turnmark.retrieval.index.build.FLAT_LIMIT", limit)
        report = build_index(notes, "n", retriever="hybrid")
        assert (report.unchanged, report.embedded, open_index("n").manifest.exact) == (False, 0, flat)
    assert before.keys() == content("n").keys()
    assert all(np.allclose(before[i], vector, atol=1e-6) for i, vector in content("n").items())


def test_released_index_is_closed(notes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmark.retrieval.index.build.FLAT_LIMIT", 0)
    build_index(notes, "n", retriever="dense")
    gc.collect()
    before = set(SharedSystemClient._identifier_to_system)
    retriever = open_retriever("dense", open_index("n"))
    assert retriever.search([Query(text="tea")], 1)
    assert len(set(SharedSystemClient._identifier_to_system) - before) == 1
    del retriever
    gc.collect()
    assert set(SharedSystemClient._identifier_to_system) == before


def test_reports_a_missing_or_wrong_file_as_damage(notes: Path) -> None:
    build_index(notes, "n", retriever="hybrid")
    path = open_index("n").files / "exact" / FILE
    good = path.read_bytes()
    for damaged in (b"", good[:300], b"\x00" * 999):
        path.write_bytes(damaged)
        with pytest.raises(TurnmarkError, match="damaged: exact"):
            open_retriever("hybrid", open_index("n")).search([Query(text="tea")], 1)
        assert any("exact" in problem for problem in verify_index(open_index("n")))


@given(st.integers(0, 500), st.integers(1, 600), st.integers(1, 90))
def test_slices_cover_every_row_once_and_begin_at_steps(rows, apiece, step):
    lock, stretches = threading.Lock(), list[slice]()

    def work(part: slice) -> None:
        with lock:
            stretches.append(part)

    run_on_cores(rows, work, rows_per_core=apiece, step=step)
    assert sorted(row for part in stretches for row in range(part.start, part.stop)) == list(range(rows))
    assert all(part.start % step == 0 for part in stretches)
    assert rows >= apiece or len(stretches) == 1, "a few rows are one core's"


@pytest.mark.data
@pytest.mark.parametrize("domain", ["clapnq", "fiqa"])
def test_hnsw_recall_against_exact_search(real_data: Path, kept_home: Path, monkeypatch, domain):
    """recall@10 of Chroma's HNSW against all cosines, over the recorded last turns, is at least .99."""
    monkeypatch.setenv("TURNMARK_HOME", str(kept_home))
    monkeypatch.setattr("turnmark.retrieval.index.build.FLAT_LIMIT", 0)
    root = real_data / "mt-rag-benchmark"
    index = corpus_index(root / "corpora" / "passage_level" / f"{domain}.jsonl", "dense")
    queries = list(load_queries(root, domain, "last-turn").data.values())
    vectors = index.embedder.encode(queries, "query")
    exact = vectors @ np.stack(list(content(index.manifest.name).values())).T
    nearest = index.chroma.query(vectors, 10)
    shares = []
    for cosines, neighbors in zip(exact, nearest, strict=True):
        tenth = np.partition(cosines, -10)[-10]
        shares.append(sum(cosine >= tenth - 1e-5 for _, cosine in neighbors) / 10)
    assert np.mean(shares) >= 0.99


# --- tokens

Texts = list[tuple[np.ndarray, np.ndarray]]


def made(lengths: list[int], dimension: int = 12, seed: int = 3) -> Texts:
    drawn = np.random.default_rng(seed)
    return [
        (drawn.normal(size=(n, dimension)).astype(np.float32), drawn.integers(0, 9, n).astype(np.int32))
        for n in lengths
    ]


def written(folder: Path, texts: Texts, page: int = 2) -> TokenIndex:
    packed = [pack_tokens(*text) for text in texts]
    write_tokens(folder, lambda: (packed[start : start + page] for start in range(0, len(packed), page)))
    return TokenIndex(folder)


@given(
    arrays.arrays(
        np.float32,
        st.tuples(st.integers(0, 6), st.integers(1, 20)),
        elements=st.floats(-1, 1, width=32, allow_nan=False),
    )
)
def test_packed_tokens_unpack_to_signs(vectors: np.ndarray) -> None:
    ids = np.arange(len(vectors), dtype=np.int32)
    signs, back = unpack_tokens(pack_tokens(vectors, ids))
    assert back.tolist() == ids.tolist()
    assert np.unpackbits(signs, axis=1, count=vectors.shape[1]).tolist() == (vectors > 0).astype(int).tolist()


def test_best_cosines_equal_a_plain_loop(tmp_path: Path) -> None:
    texts = made([4, 1, 0, 7, 3])
    index = written(tmp_path / "tokens", texts)
    query = made([5], seed=8)[0][0]
    rows = [3, 0, 2, 4]
    best_by_row = index.best(rows, query)
    for row, best in zip(rows, best_by_row, strict=True):
        for token_vector, value in zip(query, best, strict=True):
            signs = [np.where(token > 0, 1, -1) for token in texts[row][0]]
            expected = max((float(token_vector @ sign) / math.sqrt(12) for sign in signs), default=-1.0)
            assert value == pytest.approx(expected, abs=1e-5)
    assert index.best([], query).shape == (0, 5)
    assert index.best(rows, query[:0]).shape == (4, 0)


def test_writing_tokens_keeps_one_page_in_memory(tmp_path: Path) -> None:
    text = pack_tokens(np.zeros((20_000, 384), dtype=np.float32), np.zeros(20_000, dtype=np.int32))

    def pages() -> Iterator[list[bytes]]:
        for _ in range(20):
            yield [text[:1] + text[1:]]

    tracemalloc.start()
    try:
        write_tokens(tmp_path / "tokens", pages)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 6 * len(text)


def test_idf_counts_passages_not_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted in stretches of a few tokens, so that a stretch ends within the texts.
    monkeypatch.setattr("turnmark.retrieval.ranking.vectors._TOKENS_COUNTED_AT_ONCE", 5)
    texts = made([4, 6, 0, 9, 2, 1])
    index = written(tmp_path / "tokens", texts)
    for token in range(12):
        holding = sum(token in ids for _, ids in texts)
        expected = math.log1p((6 + 0.5) / (holding + 0.5))
        assert float(index.idf(np.array([token], dtype=np.int32))[0]) == pytest.approx(expected, rel=1e-6)


def test_refuses_mismatched_files(tmp_path: Path) -> None:
    written(tmp_path / "tokens", made([4, 2]))
    np.save(tmp_path / "tokens" / "starts.npy", np.array([0, 4, 7]))
    with pytest.raises(ValueError, match="do not match"):
        TokenIndex(tmp_path / "tokens")
