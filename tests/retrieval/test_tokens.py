"""Token vectors of passages: packed and unpacked, the index on disk, the best sign of a passage by a plain loop."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.tokens import (
    TokenIndex,
    frame,
    pack_tokens,
    pack_tokens_of,
    token_embedder,
    unpack_tokens,
    write_tokens,
)

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
def test_what_is_packed_comes_back_as_signs(vectors: np.ndarray) -> None:
    ids = np.arange(len(vectors), dtype=np.int32)
    signs, back = unpack_tokens(pack_tokens(vectors, ids))
    assert back.tolist() == ids.tolist()
    assert np.unpackbits(signs, axis=1, count=vectors.shape[1]).tolist() == (vectors > 0).astype(int).tolist()


def test_the_best_sign_of_each_passage_by_a_plain_loop(tmp_path: Path) -> None:
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


def test_idf_counts_passages_not_tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Counted in stretches of a few tokens, so that a stretch ends within the texts.
    monkeypatch.setattr("turnmark.retrieval.tokens._COUNTED", 5)
    texts = made([4, 6, 0, 9, 2, 1])
    index = written(tmp_path / "tokens", texts)
    for token in range(12):
        holding = sum(token in ids for _, ids in texts)
        expected = math.log1p((6 + 0.5) / (holding + 0.5))
        assert float(index.idf(np.array([token], dtype=np.int32))[0]) == pytest.approx(expected, rel=1e-6)


def test_files_that_do_not_belong_together_are_refused(tmp_path: Path) -> None:
    written(tmp_path / "tokens", made([4, 2]))
    np.save(tmp_path / "tokens" / "starts.npy", np.array([0, 4, 7]))
    with pytest.raises(ValueError, match="belong together"):
        TokenIndex(tmp_path / "tokens")


def test_the_bundled_models_own_tokens_without_special_ones() -> None:
    embedder = token_embedder(open_embedder("minilm"))
    assert frame(embedder, "passage") == (1, 1)
    vectors, own = pack_tokens_of(embedder, ["bread and butter", ""])
    tokens = [unpack_tokens(text)[1] for text in own]
    assert [len(ids) for ids in tokens] == [3, 0]
    assert np.linalg.norm(vectors, axis=1) == pytest.approx([1, 1], abs=1e-5)
