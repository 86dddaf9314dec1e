"""What is put in front of a text: by request, by the model's configuration, by its card."""

from __future__ import annotations

import numpy as np
import pytest

from tests.retrieval import tiny
from tests.retrieval.conftest import write
from turnmark.corpora.errors import RequestError
from turnmark.retrieval.build import build_index
from turnmark.retrieval.embed import Prompts, card_prompts, effective_prompts, open_embedder
from turnmark.retrieval.index import open_index
from turnmark.retrieval.registry import build_settings, open_retriever

BGE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "query", "passage"),
    [
        ("BAAI/bge-base-en-v1.5", BGE, ""),
        ("/models/bge-small-en", BGE, ""),
        ("BAAI/bge-large-zh-v1.5", "为这个句子生成表示以用于检索相关文章：", ""),
        ("intfloat/e5-base-v2", "query: ", "passage: "),
        ("/c/hub/models--intfloat--multilingual-e5-small/snapshots/d13f1b2", "query: ", "passage: "),
        ("BAAI/bge-m3", None, None),
        ("intfloat/multilingual-e5-large-instruct", None, None),
        ("me/bge-base-en-v1.5-tuned", None, None),
        ("", None, None),
    ],
)
def test_cards(model, query, passage):
    assert card_prompts(model) == Prompts(query=query, passage=passage)


def test_what_is_asked_for_goes_before_the_configuration_and_that_before_the_card():
    e5, nothing = "intfloat/e5-base", {"query": "", "document": ""}
    assert effective_prompts(e5, nothing) == ("query: ", "passage: ")
    assert effective_prompts(e5, {"query": "ask ", "document": ""}) == ("ask ", "")
    assert effective_prompts(e5, {"query": "", "document": "", "passage": "told "}) == ("", "told ")
    assert effective_prompts(e5, nothing, Prompts(query="")) == ("", "passage: ")
    assert effective_prompts("a/b", {"query": "ask "}, Prompts(passage="p ")) == ("ask ", "p ")


def test_a_card_is_followed_by_a_model_of_its_name(tmp_path):
    named = open_embedder(f"sentence-transformers:{tiny.dense(tmp_path / 'a', 'e5-base-v2')}?precision=fp32")
    plain = open_embedder(f"sentence-transformers:{tiny.dense(tmp_path / 'b', 'other')}?precision=fp32")
    assert np.allclose(named.encode(["fuel"], "query"), plain.encode(["query: fuel"], "query"), atol=1e-5)
    assert np.allclose(named.encode(["fuel"], "passage"), plain.encode(["passage: fuel"], "passage"), atol=1e-5)
    assert "|'query: '|'passage: '" in named.fingerprint
    assert named.max_tokens < plain.max_tokens == 32, "the prompt takes its tokens off what a passage may have"
    assert plain.fingerprint.endswith("|16|32"), "as it was before prompts were told apart"


def test_options_say_what_is_put_in_front(tmp_path):
    model = tiny.dense(tmp_path / "a", "e5-base-v2", prompts={"query": "hull ", "document": ""})
    own = open_embedder(f"sentence-transformers:{model}?precision=fp32")
    prompted = open_embedder(f"sentence-transformers:{model}?precision=fp32&query_prompt=&passage_prompt=oil ")
    assert np.allclose(own.encode(["fuel"], "query"), prompted.encode(["hull fuel"], "query"), atol=1e-5)
    assert np.allclose(own.encode(["oil fuel"], "passage"), prompted.encode(["fuel"], "passage"), atol=1e-5)
    assert own.fingerprint != prompted.fingerprint


def test_the_dense_retriever_hands_prompts_to_its_model(tmp_path):
    notes = write(tmp_path / "notes", boat="# Boat\n\nDrain the fuel tank.\n", bees="# Bees\n\nFeed the bees sugar.\n")
    model = tiny.dense(tmp_path / "a")
    spec = f"dense:{model}?query_prompt=the &passage_prompt=oil "
    build_index(notes, "n", retriever=spec)
    index = open_index("n")
    assert index.manifest.embedder.spec == f"sentence-transformers:{model}?passage_prompt=oil%20&query_prompt=the%20"
    assert open_retriever(spec, index)
    assert open_retriever(f"dense:{model}", index), "options that are left out are the index's"
    with pytest.raises(RequestError, match="was built with the embedder"):
        open_retriever(f"dense:{model}?query_prompt=other ", index)
    with pytest.raises(RequestError, match="passage_prompt, query_prompt without a model"):
        build_settings("dense?query_prompt=a&passage_prompt=b")
