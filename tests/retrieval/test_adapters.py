"""LlamaIndex retrievers in Turnmark and Turnmark retrievers in LlamaIndex, over the demo documents."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llama_index.core import VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import Document, NodeWithScore, TextNode

from turnmark.core.errors import RequestError, TurnmarkError
from turnmark.corpora.types import Passage
from turnmark.retrieval.search.opened_index import StoredIndex, open_index
from turnmark.retrieval.search.retriever_factory import open_retriever
from turnmark.retrieval.services.llama_index import as_llama_index, node_of, passage_of
from turnmark.retrieval.storage.server_addresses import address
from turnmark.retrieval.types import Query

MODULE = "llama-index:tests.retrieval.test_adapters:"
QUESTIONS = ["how do I descale the kettle", "opening hours of the library", "what does a season ticket cost"]


class Bundled(BaseEmbedding):
    """The embedder of the index, used as a LlamaIndex embedding."""

    _embedder: Any = None

    def __init__(self, index: StoredIndex) -> None:
        super().__init__()
        self._embedder = index.embedder

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._embedder.encode([text], "passage")[0].tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return self._embedder.encode([query], "query")[0].tolist()

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)


class Scripted(BaseRetriever):
    """A LlamaIndex retriever that returns the same nodes for every query."""

    def __init__(self, *nodes: NodeWithScore) -> None:
        super().__init__()
        self.nodes, self.asked = list(nodes), []

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        self.asked.append(query_bundle.query_str)
        return self.nodes


def over_vectors(index: StoredIndex) -> VectorStoreIndex:
    nodes = [node_of(passage) for page in index.store.pages() for _, _, passage in page]
    for node, vector in zip(nodes, index.flat.of(range(len(nodes))), strict=True):
        node.embedding = vector.tolist()
    return VectorStoreIndex(nodes, embed_model=Bundled(index))


def over_documents(index: StoredIndex) -> BaseRetriever:
    documents = [
        Document(
            text="Drain the tank.", metadata={"file_path": "boats/winter.pdf", "page_label": "4", "title": "Boats"}
        ),
        Document(text="Feed the bees.", metadata={"file_name": "bees.txt"}),
    ]
    return VectorStoreIndex.from_documents(documents, embed_model=Bundled(open_index("demo"))).as_retriever()


def ours(index: StoredIndex) -> Any:
    return as_llama_index(open_retriever("hybrid", index))


def broken(index: StoredIndex) -> Any:
    raise ConnectionError("no route, key sk-abcdefghijklmnop")


def nothing(index: StoredIndex) -> Any:
    return object()


class Raising(BaseRetriever):
    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        raise ValueError("refused, token is hush-hush-hush")


def raising(index: StoredIndex) -> Any:
    return Raising()


def scripted(index: StoredIndex, *nodes: tuple[str, str, float | None]) -> Any:
    from turnmark.retrieval.services.llama_index import LlamaIndexRetriever

    inner = Scripted(*(NodeWithScore(node=TextNode(id_=i, text=text), score=score) for i, text, score in nodes))
    return LlamaIndexRetriever("llama-index:x:y", inner, index)


@pytest.fixture
def demo(in_demo_home: None) -> StoredIndex:
    return open_index("demo")


def test_vector_store_index_finds_the_same_as_dense(demo):
    theirs = open_retriever(MODULE + "over_vectors", demo)
    queries = [Query(text=text) for text in QUESTIONS]
    for adapted, direct in zip(
        theirs.search(queries, 7), open_retriever("dense", demo).search(queries, 7), strict=True
    ):
        assert len(adapted) == 7
        assert [hit.passage for hit in adapted] == [hit.passage for hit in direct]
        assert [hit.score for hit in adapted] == pytest.approx([hit.score for hit in direct], abs=0.01)
        assert [hit.found["llama-index"].rank for hit in adapted] == [1, 2, 3, 4, 5, 6, 7]


def test_round_trip_through_llama_index_keeps_hits(demo):
    hybrid, there_and_back = open_retriever("hybrid", demo), open_retriever(MODULE + "ours", demo)
    with pytest.raises(RequestError, match="takes no filter"):
        there_and_back.search([Query(text="q", where={"path": "*"})], 3)
    for text in QUESTIONS:
        # One by one: a vector depends, in its last digits, on the texts that were embedded beside it.
        [adapted], [direct] = (retriever.search([Query(text=text)], 12) for retriever in (there_and_back, hybrid))
        assert [(hit.passage, hit.score) for hit in adapted] == [(hit.passage, hit.score) for hit in direct]


def test_unknown_nodes_become_passages(demo):
    hits = open_retriever(MODULE + "over_documents", demo).search([Query(text="the tank of a boat")], 5)[0]
    boats, bees = (hit.passage for hit in hits)
    assert (boats.text, boats.title, boats.path, boats.page) == ("Drain the tank.", "Boats", "boats/winter.pdf", 4)
    assert (bees.text, bees.title, bees.path, bees.page) == ("Feed the bees.", "bees.txt", "bees.txt", None)
    assert boats.document != bees.document
    assert boats.end - boats.start == len(boats.text)


def test_orders_nodes_by_score_without_duplicates(demo):
    nodes = [("a", "one", 0.1), ("b", "two", 0.9), ("a", "one", 0.5), ("c", "  ", 0.8), ("d", "x", 0.2)]
    retriever = scripted(demo, *nodes)
    retriever._inner.retrieve = lambda text: retriever._inner.nodes  # LlamaIndex would keep the first double itself
    [hits] = retriever.search([Query(text="q")], 10)
    assert [(hit.passage.id, hit.score) for hit in hits] == [("b", 0.9), ("a", 0.5), ("d", 0.2)]
    assert len(retriever.search([Query(text="q")], 1)[0]) == 1
    for missing in (None, float("nan")):
        retriever = scripted(demo, ("a", "one", missing), ("b", "two", 0.9), ("a", "one", 0.5))
        [hits] = retriever.search([Query(text="q")], 10)
        assert [(hit.passage.id, hit.score) for hit in hits] == [("a", 1.0), ("b", 0.5)]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (MODULE + "nowhere", "has no 'nowhere'"),
        (MODULE + "nothing", "returned a object, which is neither"),
        (MODULE + "broken", r"its factory failed: ConnectionError: no route, key \*\*\*$"),
        (MODULE + "ours?depth=3", "has no option 'depth'"),
    ],
)
def test_refuses_wrong_specs(demo, spec, message):
    with pytest.raises(RequestError, match=message):
        open_retriever(spec, demo)


def test_reports_errors_of_a_retriever_without_secrets(demo, monkeypatch):
    monkeypatch.setenv("SOME_API_TOKEN", "hush-hush-hush")
    with pytest.raises(TurnmarkError, match=r"failed: ValueError: refused, token is \*\*\*$"):
        open_retriever(MODULE + "raising", demo).search([Query(text="q")], 3)


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(
    st.builds(
        Passage, id=texts, document=texts, title=texts | st.just(""), text=texts, start=st.integers(0, 10**6),
        end=st.just(0), path=texts | st.just(""), section=texts | st.just(""), page=st.none() | st.integers(1, 9999),
        date=texts | st.just(""), header=texts | st.just(""),
    )
)  # fmt: skip
def test_passage_survives_conversion_to_a_node(passage):
    passage = passage.model_copy(update={"end": passage.start + len(passage.text)})
    assert passage_of(node_of(passage)) == passage


@pytest.mark.parametrize("url", ["http://me:hush@host", "http://:80", "http://host:99999", "http://a b", "http://h#x"])
def test_parses_addresses(url):
    assert address("http://[::1]:9/a/", 8000, "chroma+http", "TOKEN") == ("http://[::1]:9", "a")
    assert address("https://h.org", 8000, "chroma+http", "TOKEN") == ("https://h.org:8000", "")
    with pytest.raises(RequestError) as raised:
        address(url, 8000, "chroma+http", "TOKEN")
    assert "hush" not in str(raised.value)
