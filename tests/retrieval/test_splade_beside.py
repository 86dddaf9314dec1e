"""SPLADE's list beside those of embeddings and BM25: `hybrid?splade=…` and `conversational?splade=…`."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.retrieval import tiny
from turnmark.corpora.errors import RequestError
from turnmark.corpora.models import MODELS, SPLADE, ModelFile, models_folder
from turnmark.corpora.types import Message
from turnmark.retrieval.build import build_index, corpus_index
from turnmark.retrieval.index import Index, open_index
from turnmark.retrieval.registry import build_settings, default_retriever, open_retriever
from turnmark.retrieval.sparse import open_encoder
from turnmark.retrieval.types import Hit, Query

QUERY = Query(
    text="And the fuel?",
    variants=("Drain the fuel of the boat",),
    history=[Message(role="user", content="The boat?"), Message(role="assistant", content="Wash its hull.")],
)


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return tiny.splade(tmp_path_factory.mktemp("splade"))


def built(notes: Path, retriever: str) -> Index:
    build_index(notes, "n", retriever=retriever)
    return open_index("n")


def found(index: Index, retriever: str, query: Query = QUERY) -> list[Hit]:
    return open_retriever(retriever, index).search([query], 3)[0]


def order(hits: list[Hit]) -> list[tuple[str, float]]:
    return [(hit.passage.id, round(hit.score, 5)) for hit in hits]


@pytest.mark.parametrize("name", ["hybrid", "conversational?rerank=none"])
def test_its_lists_are_fused_with_the_others(notes, model, name):
    joined = f"{name}{'&' if '?' in name else '?'}splade={model}"
    index = built(notes, joined)
    lists = {name for hit in found(index, joined) for name in hit.found}
    assert {"splade", "splade+1", "bm25", "bm25+1", "dense"} <= lists
    assert order(found(index, joined)) != order(found(index, name))
    assert not any("splade" in hit.found for hit in found(index, name)), "an index that has it may do without"


def test_one_index_serves_every_way_and_names_the_widest(notes, model):
    index = built(notes, f"hybrid?splade={model}")
    for retriever in ("bm25", "dense", "hybrid", f"splade:{model}", "conversational?rerank=none"):
        assert found(index, retriever)
    assert default_retriever(index) == f"conversational?rerank=none&splade={model}"
    assert {"splade", "dense"} <= {name for hit in found(index, default_retriever(index)) for name in hit.found}
    assert index.build_command("bm25").endswith("--retriever bm25")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("hybrid?splade=m?precision=fp32", "without an address or options"),
        ("conversational?splade=m@http://there/", "without an address"),
        ("bm25?splade=m", "splade"),
    ],
)
def test_wrong_options_are_refused_before_anything_is_loaded(spec, message):
    with pytest.raises(RequestError) as error:
        build_settings(spec)
    assert message in str(error.value)


def test_a_benchmarks_index_that_holds_it_serves_those_without(notes, model):
    corpus = notes.parent / "corpus.jsonl"
    texts = [path.read_text(encoding="utf-8") for path in sorted(notes.rglob("*")) if path.is_file()]
    corpus.write_text("".join(json.dumps({"_id": str(n), "text": text}) + "\n" for n, text in enumerate(texts)))
    words = corpus_index(corpus, "bm25")
    with_terms = corpus_index(corpus, f"hybrid?splade={model}")
    assert with_terms.manifest.splade
    for retriever in ("hybrid", "dense", f"splade:{model}"):
        assert corpus_index(corpus, retriever).folder == with_terms.folder
    assert corpus_index(corpus, "bm25").folder in (words.folder, with_terms.folder), "whichever is older"
    for retriever in ("conversational", "hybrid?k1=1.2"):
        assert corpus_index(corpus, retriever).folder not in (with_terms.folder, words.folder)


@pytest.fixture
def fetched(model, monkeypatch) -> str:
    """The sparse encoder, as `turnmark model get splade-tiny` leaves it."""
    folder = models_folder() / "splade-tiny"
    shutil.copytree(model, folder)
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    pinned = tuple(ModelFile(name=str(p.relative_to(folder)), size=p.stat().st_size, sha256="") for p in files)
    monkeypatch.setitem(MODELS, "splade-tiny", SPLADE.model_copy(update={"files": pinned}))
    return "conversational?splade=splade-tiny"


def test_once_fetched_it_is_in_what_is_built_and_searched_by_default(notes, fetched, turnmark):
    build_index(notes, "n")
    index = open_index("n")
    assert default_retriever(index) == fetched
    assert {"splade", "bm25", "conversation"} <= {name for hit in found(index, fetched) for name in hit.found}
    printed = json.loads(turnmark("index", "info", "n", "--json").out)
    assert (printed["splade"]["spec"], printed["retriever"]) == ("splade:splade-tiny", fetched)


def test_an_index_built_before_it_was_fetched_stays_as_it_is_until_it_is_built_again(notes, request):
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
def test_a_default_whose_model_was_removed_says_how_to_fetch_it(notes):
    build_index(notes, "n")
    shutil.rmtree(models_folder())
    open_encoder.cache_clear()
    with pytest.raises(RequestError, match="turnmark model get splade-tiny"):
        found(open_index("n"), default_retriever(open_index("n")))
