"""Search by vectors and token vectors, compared with plain loops; damaged files."""

from __future__ import annotations

import math
import os
import tempfile
import threading
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.retrieval.conftest import write
from turnmark.core.errors import TurnmarkError
from turnmark.corpora.benchmarks.mtrag import load_queries
from turnmark.retrieval.index.build import build_index, corpus_index
from turnmark.retrieval.index.components import verify_index
from turnmark.retrieval.index.encoded_values import EncodedValues
from turnmark.retrieval.index.encoders import Encoder
from turnmark.retrieval.ranking.vectors import (
    ID_COUNT,
    IDS_FILE,
    TOKENS_PER_VECTOR,
    VECTORS_FILE,
    FlatVectors,
    TokenIndex,
    pool_signs,
    pool_tokens,
    round_vectors,
    run_on_cores,
)
from turnmark.retrieval.search.opened_index import open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.storage.passage_writer import PassageWriter
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


def unit_vectors(seed: int, *shape: int) -> np.ndarray:
    drawn = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
    return drawn / np.linalg.norm(drawn, axis=-1, keepdims=True)


def opened(folder: Path, vectors: np.ndarray, slots: Sequence[int] | None = None) -> FlatVectors:
    """Write vectors as a build does, and open them for rows with these slots; by default each row has its own."""
    with closing(PassageWriter(folder / "passages.db", 1)) as store:
        encoder = Encoder("dense", lambda _: {}, "", vectors.shape[1])
        with closing(EncodedValues(store, folder, encoder)) as values:
            for number, vector in enumerate(vectors):
                values.add([str(number)], {"vectors": [vector]})
    every = range(len(vectors)) if slots is None else slots
    return FlatVectors(folder, np.array(every, dtype=np.int64), vectors.shape[1])


@given(st.integers(1, 70), st.integers(1, 40), st.integers(1, 50), st.integers(0, 1000))
def test_batch_returns_the_same_as_single_queries(queries: int, rows: int, k: int, seed: int) -> None:
    vectors = unit_vectors(seed, rows, 8)
    slots = np.random.default_rng(seed).integers(0, rows, rows)  # some rows have the same text
    query_vectors = unit_vectors(seed + 1, queries, 8)
    with tempfile.TemporaryDirectory() as folder:
        exact = opened(Path(folder), vectors, slots)
        tops = exact.nearest(query_vectors, k)
        for vector, top in zip(query_vectors, tops, strict=True):
            assert len(top) == min(k, rows)
            (alone,) = exact.nearest(vector[None], k)
            assert top.scores == pytest.approx(alone.scores, abs=2e-6)


def test_rows_without_a_vector_are_not_found(tmp_path: Path) -> None:
    vectors = unit_vectors(3, 4, 8)
    exact = opened(tmp_path, vectors, [2, -1, 0, -1, 3])
    (top,) = exact.nearest(vectors[:1], 9)
    assert sorted(top.rows.tolist()) == [0, 2, 4]
    assert top.rows[0] == 2
    assert exact.known(np.arange(5)).tolist() == [0, 2, 4]
    (masked,) = exact.nearest(vectors[:1], 9, np.array([True, True, False, True, False]))
    assert masked.rows.tolist() == [0]


def test_large_indexes_find_nearly_the_same_by_signs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vectors = unit_vectors(5, 3000, 96)
    # The nearest rows of a query are near, as those of a question are.
    queries = vectors[:20] + unit_vectors(6, 20, 96) * 0.7
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)
    exact = opened(tmp_path, vectors)
    monkeypatch.setattr("turnmark.retrieval.ranking.vectors.MIN_CANDIDATES", 300)
    by_signs = FlatVectors(tmp_path, np.arange(3000), 96)
    for all_rows, some in zip(exact.nearest(queries, 1), by_signs.nearest(queries, 1), strict=True):
        assert some.rows.tolist() == all_rows.rows.tolist()
        assert some.scores == pytest.approx(all_rows.scores, abs=2e-6)
    even = np.arange(3000) % 2 == 0
    (top,) = by_signs.nearest(queries[:1], 50, even)
    assert len(top) == 50
    assert all(row % 2 == 0 for row in top.rows)


def test_reports_a_missing_or_wrong_file_as_damage(notes: Path) -> None:
    build_index(notes, "n", retriever="hybrid")
    path = open_index("n").files / VECTORS_FILE
    path.write_bytes(path.read_bytes()[:300])
    with pytest.raises(TurnmarkError, match="damaged: exact"):
        open_retriever("hybrid", open_index("n")).search([Query(text="tea")], 1)
    assert any("exact" in problem for problem in verify_index(open_index("n")))
    assert not build_index(notes, "n", retriever="hybrid").unchanged
    assert verify_index(open_index("n")) == []


@given(st.integers(0, 500), st.integers(1, 600), st.integers(1, 90))
def test_blocks_cover_every_row_once(rows, apiece, block):
    lock, stretches = threading.Lock(), list[slice]()

    def work(part: slice) -> None:
        with lock:
            stretches.append(part)

    run_on_cores(rows, work, block=block, min_shared_rows=apiece)
    assert sorted(row for part in stretches for row in range(part.start, part.stop)) == list(range(rows))
    assert all(part.start % block == 0 and part.stop in (part.start + block, rows) for part in stretches)


@pytest.mark.data
@pytest.mark.parametrize("domain", ["clapnq", "fiqa"])
def test_recall_by_signs_against_exact_search(real_data: Path, kept_home: Path, monkeypatch, domain):
    """recall@100 of the candidates that signs choose, over the recorded last turns, is at least .99."""
    monkeypatch.setenv("TURNMARK_HOME", str(kept_home))
    root = real_data / "mt-rag-benchmark"
    index = corpus_index(root / "corpora" / "passage_level" / f"{domain}.jsonl", "dense")
    vectors = index.embedder.encode(list(load_queries(root, domain, "last-turn").data.values()), "query")
    exact = list(index.nearest(vectors, 100, {}))
    monkeypatch.setattr("turnmark.retrieval.ranking.vectors.MIN_CANDIDATES", 0)
    by_signs = FlatVectors(index.files, index.rows.slots, index.embedder.dimension).nearest(vectors, 100)
    pairs = zip(by_signs, exact, strict=True)
    assert np.mean([len({*ours.rows.tolist()} & {*rows.rows.tolist()}) / 100 for ours, rows in pairs]) >= 0.99


# --- tokens

Texts = list[tuple[np.ndarray, np.ndarray]]


def made(lengths: list[int], dimension: int = 12, seed: int = 3) -> Texts:
    drawn = np.random.default_rng(seed)
    return [
        (drawn.normal(size=(n, dimension)).astype(np.float32), drawn.integers(0, 9, n).astype(np.int32))
        for n in lengths
    ]


def written(folder: Path, texts: Texts, slots: Sequence[int] | None = None) -> TokenIndex:
    dimension = texts[0][0].shape[1]
    with closing(PassageWriter(folder / "passages.db", 1)) as store:
        encoder = Encoder("dense", lambda _: {}, "", dimension, tokens=True)
        with closing(EncodedValues(store, folder, encoder)) as values:
            for number, text in enumerate(texts):
                vector = np.ones(dimension, dtype=np.float32)
                values.add([str(number)], {"vectors": [vector], "tokens": [pool_tokens(*text)]})
    return TokenIndex(folder, np.array(range(len(texts)) if slots is None else slots), dimension)


@given(st.integers(0, 20), st.integers(1, 20), st.integers(0, 1000))
def test_stored_tokens_are_pooled_signs_and_distinct_ids(tokens: int, dimension: int, seed: int) -> None:
    ((vectors, ids),) = made([tokens], dimension, seed)
    signs, back = pool_tokens(vectors, ids)
    assert back.tolist() == sorted(set(ids.tolist()))
    assert len(signs) <= -(-tokens // TOKENS_PER_VECTOR)
    assert bool(len(signs)) == bool(tokens)


def test_similar_token_vectors_are_pooled() -> None:
    first, second = np.packbits([[1, 1, 1, 1, 0, 0, 0, 0], [0, 0, 0, 0, 1, 1, 1, 1]], axis=1)
    one_off = np.packbits([[1, 1, 1, 0, 0, 0, 0, 0]], axis=1)[0]
    pooled = pool_signs(np.array([first, second, one_off, first, second, second]), 8)
    assert sorted(pooled.tolist()) == sorted([first.tolist(), second.tolist()])


def test_rounded_vectors_have_length_one_and_stay_as_they_are() -> None:
    vectors = np.concatenate([unit_vectors(4, 50, 24), np.zeros((1, 24), np.float32)])
    rounded = round_vectors(vectors)
    stored = rounded["components"] * rounded["factor"][:, None]
    assert np.linalg.norm(stored[:50], axis=1) == pytest.approx(np.ones(50), abs=1e-6)
    assert stored == pytest.approx(vectors, abs=0.005)
    assert round_vectors(stored).tobytes() == rounded.tobytes()


def test_best_cosines_equal_a_plain_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmark.retrieval.ranking.vectors.TOKENS_PER_VECTOR", 1)
    texts = made([4, 1, 0, 7, 3])
    index = written(tmp_path, texts)
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


def test_idf_counts_passages_not_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("turnmark.retrieval.ranking.vectors._SLOTS_COUNTED_AT_ONCE", 2)
    texts = made([4, 6, 0, 9, 2, 1])
    slots = [0, 1, 1, -1, 3, 4, 5]  # one text is there twice, one is gone, and one is not encoded yet
    index = written(tmp_path, texts, slots)
    for token in [*range(12), ID_COUNT + 3]:
        holding = sum(token % ID_COUNT in texts[slot][1] for slot in slots if slot >= 0)
        expected = math.log1p((7 + 0.5) / (holding + 0.5))
        assert float(index.idf(np.array([token], dtype=np.int32))[0]) == pytest.approx(expected, rel=1e-6)


def test_refuses_files_that_are_too_short(tmp_path: Path) -> None:
    written(tmp_path, made([4, 2]))
    os.truncate(tmp_path / IDS_FILE, 2)
    with pytest.raises(ValueError, match="shorter"):
        TokenIndex(tmp_path, np.arange(2), 12)
