"""Large batches, as on a GPU, give the vectors of small ones. There is no GPU here: the model runs on the processor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.retrieval.tiny import dense
from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, Embedder
from turnmark.retrieval.embedding.torch_runner import (
    BATCH_TOKENS,
    CPU_BATCH_TOKENS,
    MIN_BATCH_TOKENS,
    TorchRunner,
    batches_by_tokens,
    unit_vectors,
)

TEXTS = [
    "The gates are shut at ten. " * 12, "Tea.", "", "Les portes sont fermées à dix heures.", "one two three " * 200,
    "Ten o'clock.",
]  # fmt: skip


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TURNMARK_BACKEND", "torch")
        patch.setenv("TURNMARK_PRECISION", "fp32")
        embedder = Embedder(MINILM_FOLDER, "minilm")
        embedder.encode(["load"], "passage")
    return embedder


@pytest.mark.parametrize("prompt", ["", "passage: "])
@pytest.mark.parametrize("batch_tokens", [CPU_BATCH_TOKENS, BATCH_TOKENS])
def test_vectors_and_tokens_are_those_of_the_library(embedder, prompt, batch_tokens):
    model = embedder._model()
    runner = TorchRunner(model, embedder.max_tokens)
    runner._batch_tokens = batch_tokens
    vectors, tokens, ids = runner.encode(TEXTS, prompt, "document", with_tokens=True)
    expected = model.encode_document(TEXTS, prompt=prompt, normalize_embeddings=True)
    assert np.allclose(vectors, expected, atol=1e-5)
    assert np.allclose(runner.encode(TEXTS, prompt, "document")[0], expected, atol=1e-5)
    for number, row in enumerate(model.encode_document(TEXTS, prompt=prompt, output_value=None)):
        real = row["attention_mask"].bool()
        assert ids[number].tolist() == row["input_ids"][real].tolist()
        assert np.allclose(tokens[number], unit_vectors(row["token_embeddings"][real]), atol=1e-4)


def test_queries_and_documents_may_have_separate_modules(tmp_path):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Router, Transformer

    parts = []
    for name in ("query", "document"):
        dense(tmp_path / name, "plain")
        parts.append([Transformer(str(tmp_path / name / "plain"), max_seq_length=32), Pooling(16)])
    model = SentenceTransformer(modules=[Router.for_query_document(*parts)], device="cpu")
    runner = TorchRunner(model, 32)
    for task, encode in (("query", model.encode_query), ("document", model.encode_document)):
        assert np.allclose(runner.encode(TEXTS, "", task)[0], encode(TEXTS, normalize_embeddings=True), atol=1e-5)


def test_batch_that_does_not_fit_in_memory_is_halved(embedder):
    import torch

    model = embedder._model()

    class SmallMemory:
        device = model.device
        get_embedding_dimension = model.get_embedding_dimension
        preprocess = model.preprocess

        def __call__(self, features: dict[str, Any], task: str) -> Any:
            if features["input_ids"].numel() > 300:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return model(features, task=task)

    texts = [f"The gate number {number} is shut." for number in range(40)]
    runner = TorchRunner(SmallMemory(), embedder.max_tokens)
    with pytest.raises(torch.OutOfMemoryError):
        runner.encode(texts, "", "query")
    assert runner._batch_tokens == MIN_BATCH_TOKENS
    runner._batch_tokens = 200
    assert np.allclose(runner.encode(texts, "", "query")[0], embedder.encode(texts, "passage"), atol=1e-5)


def test_batches_have_a_limit_of_tokens_and_texts_of_similar_length():
    texts = ["word " * length for length in (1, 400, 30, 2, 29, 900)]
    batches = list(batches_by_tokens(texts, 600, 512))
    assert [sorted(batch) for batch in batches] == [[5], [1], [0, 2, 3, 4]]
    assert list(batches_by_tokens([], BATCH_TOKENS, 512)) == []
    assert [position for batch in batches for position in batch] == [5, 1, 2, 4, 3, 0]
