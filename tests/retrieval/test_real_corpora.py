"""On the real corpora: how near HNSW comes to exact search. Their vectors are kept between runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from turnmark.corpora.mtrag import load_queries
from turnmark.retrieval.build import corpus_index

pytestmark = pytest.mark.data


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
