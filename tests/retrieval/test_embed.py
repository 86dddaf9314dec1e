"""The bundled model, other sentence-transformers models (a tiny one made here), and the prompts of texts."""

from __future__ import annotations

import numpy as np
import pytest

from tests.retrieval import tiny
from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.retrieval.embedding import embedders
from turnmark.retrieval.embedding.bert_files import read_bert, token_ids
from turnmark.retrieval.embedding.embedders import MINILM_FOLDER, card_prompts, open_embedder


def test_bundled_model_embeds():
    minilm = open_embedder("minilm")
    vectors = minilm.encode(["How do I bake bread?", "Baking a loaf", "The tide table of the harbour"], "query")
    assert vectors.shape == (3, minilm.dimension) == (3, 384)
    assert minilm.max_tokens == minilm._model().max_seq_length == 256
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    assert vectors[0] @ vectors[1] > 0.5 > vectors[0] @ vectors[2]


def test_token_offsets_are_those_of_the_model():
    text = "Älplermagronen, and tea."
    spans = open_embedder("minilm").tokenizer()(text)
    assert "".join(text[start:end] for start, end in spans) == text.replace(" ", "")


def test_refuses_wrong_weights(tmp_path, monkeypatch):
    content = bytearray((MINILM_FOLDER / "model.safetensors").read_bytes())
    content[-1] ^= 1
    (tmp_path / "model.safetensors").write_bytes(content)
    monkeypatch.setattr(embedders, "MINILM_FOLDER", tmp_path)
    open_embedder.cache_clear()
    with pytest.raises(TurnmarkError, match="is damaged: its SHA-256"):
        open_embedder("minilm")


def test_long_text_is_cut_as_the_library_cuts_it():
    """The last of its tokens is the one that ends every text."""
    from tokenizers import Tokenizer

    theirs = Tokenizer.from_file(str(MINILM_FOLDER / "tokenizer.json"))
    theirs.enable_truncation(256)
    theirs.no_padding()
    texts = ["word " * 253, "word " * 254, "word " * 255, "word " * 900, ""]
    ours = token_ids(read_bert(MINILM_FOLDER), texts)
    assert [ids.tolist() for ids in ours] == [encoding.ids for encoding in theirs.encode_batch(texts)]
    assert max(map(len, ours)) == 256


def test_reports_a_missing_model(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(RequestError, match="cannot be loaded"):
        open_embedder(f"sentence-transformers:{tmp_path / 'nothing'}")
    with pytest.raises(RequestError, match="there are: minilm"):
        open_embedder("minilmm")
    with pytest.raises(RequestError, match="embedder 'minilm' has no option 'backend'; it has: none"):
        open_embedder("minilm?backend=torch")


BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("BAAI/bge-base-en-v1.5", BGE, ""),
        ("/models/bge-small-en", BGE, ""),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("/c/hub/models--intfloat--multilingual-e5-small/snapshots/d13f1b2", "query: ", "passage: "),
        ("BAAI/bge-m3", "", ""),
        ("intfloat/multilingual-e5-large-instruct", "", ""),
        ("me/bge-base-en-v1.5-tuned", "", ""),
        ("", "", ""),
    ],
)
def test_prompts_from_model_cards(model, query, passage):
    assert card_prompts(model) == (query, passage)


def test_model_name_selects_its_prompts(tmp_path):
    named = open_embedder(f"sentence-transformers:{tiny.dense(tmp_path / 'a', 'e5-base-v2')}")
    plain = open_embedder(f"sentence-transformers:{tiny.dense(tmp_path / 'b', 'other')}")
    assert np.allclose(named.encode(["fuel"], "query"), plain.encode(["query: fuel"], "query"), atol=1e-5)
    assert np.allclose(named.encode(["fuel"], "passage"), plain.encode(["passage: fuel"], "passage"), atol=1e-5)
    assert "|'query: '|'passage: '" in named.fingerprint
    assert named.max_tokens < plain.max_tokens == 32, "the prompt takes its tokens off what a passage may have"
    assert plain.fingerprint.endswith("|16|32"), "as it was before prompts were told apart"
