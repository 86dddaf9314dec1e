"""Elasticsearch: what is asked of it, by the official client's own types, over real sockets.

No Elasticsearch runs here. A scripted server writes down what the real client sends, and answers as Elastic's reference
documents it; so what a real one makes of the requests is not tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

elasticsearch = pytest.importorskip("elasticsearch")

from tests.retrieval import tiny  # noqa: E402
from tests.retrieval.scripted_elastic import Elastic, result  # noqa: E402
from tests.served import free_port  # noqa: E402
from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError  # noqa: E402
from turnmark.retrieval.build import build_index  # noqa: E402
from turnmark.retrieval.index import Index, open_index  # noqa: E402
from turnmark.retrieval.registry import build_settings, open_retriever  # noqa: E402
from turnmark.retrieval.types import Query  # noqa: E402


@pytest.fixture
def elastic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elastic]:
    for name in ("ELASTIC_API_KEY", "TURNMARK_ELASTIC_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    server = Elastic()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def index(notes: Path) -> Index:
    build_index(notes, "n", retriever="bm25")
    return open_index("n")


def ids(index: Index) -> list[str]:
    return [passage.id for page in index.store.pages() for _, _, passage in page]


def test_an_index_that_is_there_is_searched_as_it_is(elastic, index):
    boat, bees, bread = sorted(ids(index), key=lambda i: ("boat", "bees", "bread").index(i.split(".")[0]))
    elastic.answer = result((bees, 7.5), ("of another corpus", 5.0), (boat, 5.0), (bread, 5.0))
    retriever = open_retriever(f"elasticsearch+{elastic.url}/there?text=body&title=head", index)
    hits = retriever.search([Query(text="when to feed"), Query(text=" "), Query(text="q", variants=("r",))], 5)
    assert [(hit.passage.id, hit.score) for hit in hits[0]] == [(bees, 7.5), (boat, 5.0), (bread, 5.0)]
    assert hits[0][0].passage == index.store.by_rows([index.store.rows_of([bees])[bees]])[0]
    assert hits[1] == []
    assert list(hits[2][0].found) == ["bm25", "bm25+1"]
    [searches] = elastic.sent("/there/_msearch")
    assert [search["query"]["multi_match"]["query"] for search in searches[1::2]] == ["when to feed", "q", "r"]
    assert searches[0] == {}
    assert searches[1] == {
        "query": {"multi_match": {"query": "when to feed", "fields": ["body", "head"]}},
        "size": 1000, "_source": False, "track_total_hits": False,
    }  # fmt: skip
    assert {method for method, _, _ in elastic.requests} <= {"GET", "POST"}
    assert not any("x-elastic-client-meta" in headers for headers in elastic.headers)


def test_elser_asks_the_inference_endpoint(elastic, index):
    elastic.answer = result((ids(index)[0], 3.0))
    spec = f"elasticsearch+{elastic.url}/there?query=elser&sparse=ml.tokens&inference=my-elser"
    [[hit]] = open_retriever(spec, index).search([Query(text="when to feed")], 1)
    assert (hit.passage.id, hit.found["elser"].score, hit.similarity) == (ids(index)[0], 3.0, None)
    [[_, search]] = elastic.sent("_msearch")
    assert search["query"] == {
        "sparse_vector": {"field": "ml.tokens", "inference_id": "my-elser", "query": "when to feed"}
    }


@pytest.mark.parametrize(
    ("similarity", "score", "cosine"),
    [("cosine", 0.9, 0.8), ("dot_product", 0.9, 0.8)],
)
def test_knn_sends_our_embedders_vector_and_gives_cosines(elastic, index, similarity, score, cosine):
    from turnmark.retrieval.embed import open_embedder

    elastic.answer = result((ids(index)[0], score))
    [[hit]] = open_retriever(f"elasticsearch+{elastic.url}/there?query=knn", index).search([Query(text="fuel")], 1)
    assert hit.similarity == pytest.approx(cosine)
    [[_, search]] = elastic.sent("_msearch")
    knn = search["query"]["knn"]
    assert (knn["field"], knn["k"], knn["num_candidates"], search["size"]) == ("vector", 1, 256, 1)
    assert knn["query_vector"] == pytest.approx(open_embedder("minilm").encode(["fuel"], "query")[0].tolist())
    only = Query(text="fuel", where={"path": "b*"})
    open_retriever(f"elasticsearch+{elastic.url}/there?query=knn", index).search([only], 9000)
    knn = elastic.sent("_msearch")[-1][1]["query"]["knn"]
    assert (knn["k"], knn["num_candidates"]) == (9000, 10_000)
    assert knn["filter"] == [{"terms": {"path": ["bees.md", "boat.md", "bread.md"]}}]


def test_the_embedder_of_an_index_that_is_there_is_not_the_local_indexes(elastic, notes, tmp_path):
    """Which index happens to lie here says nothing of the vectors there."""
    from turnmark.retrieval.embed import open_embedder

    build_index(notes, "n", retriever="hybrid", embedder=f"sentence-transformers:{tiny.dense(tmp_path / 'tiny')}")
    index = open_index("n")
    elastic.answer = result((ids(index)[0], 0.9))
    open_retriever(f"elasticsearch+{elastic.url}/there?query=knn", index).search([Query(text="fuel")], 1)
    [[_, search]] = elastic.sent("_msearch")
    vector = open_embedder("minilm").encode(["fuel"], "query")[0].tolist()
    assert search["query"]["knn"]["query_vector"] == pytest.approx(vector)


def test_keys_come_from_the_environment_and_go_nowhere_else(elastic, index, monkeypatch):
    elastic.answer = result((ids(index)[0], 1.0))
    monkeypatch.setenv("ELASTIC_API_KEY", "hush-hush-general")
    open_retriever(f"elasticsearch+{elastic.url}/there", index).search([Query(text="q")], 1)
    monkeypatch.setenv("TURNMARK_ELASTIC_API_KEY", "hush-hush")
    retriever = open_retriever(f"elasticsearch+{elastic.url}/there", index)
    retriever.search([Query(text="q")], 1)
    sent = [headers.get("authorization") for headers in elastic.headers]
    assert sent[0] == "ApiKey hush-hush-general"
    assert sent[-1] == "ApiKey hush-hush"
    elastic.fail["_msearch"] = (401, {"error": {"type": "security_exception", "reason": "bad key hush-hush"}})
    with pytest.raises(TurnmarkError, match="it wants a key; set TURNMARK_ELASTIC_API_KEY") as raised:
        retriever.search([Query(text="q")], 1)
    assert "hush" not in str(raised.value)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (result(timed_out=True), "a part of its shards only"),
        (result(_shards={"total": 2, "successful": 1, "failed": 1}), "a part of its shards only"),
        (
            {"error": {"type": "x", "root_cause": [{"type": "query_shard_exception", "reason": "no\nmodel"}]}},
            "query_shard_exception: no model$",
        ),
        ({"hits": {"hits": [{"_score": 1.0}]}}, "no result of a search"),
        (result(("a", float("inf"))), "a score that is no number"),
        (result(("strange", 1.0)), "such as 'strange', and none is a passage of the index 'n'"),
    ],
)  # fmt: skip
def test_answers_that_are_none(elastic, index, answer, message):
    elastic.answer = answer
    with pytest.raises(TurnmarkError, match=message):
        open_retriever(f"elasticsearch+{elastic.url}/there", index).search([Query(text="q")], 1)


def test_what_cannot_be_reached_or_is_not_there(elastic, index):
    missing = {"type": "index_not_found_exception", "reason": "no such index [nowhere]"}
    elastic.answer = {"error": {**missing, "root_cause": [missing]}, "status": 404}
    with pytest.raises(TurnmarkError, match=r"no such index \[nowhere\]"):
        open_retriever(f"elasticsearch+{elastic.url}/nowhere", index).search([Query(text="q")], 1)
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TurnmarkError, match=rf"Elasticsearch at {url}/there cannot be reached \(4 tries\)"):
        open_retriever(f"elasticsearch+{url}/there", index).search([Query(text="q")], 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://me:hush@h/there", "no user and password"),
        ("http://h/a/b", "is not the name of one Elasticsearch index"),
        ("http://h/logs-*", "is not the name of one Elasticsearch index"),
        ("http://h?query=elser", "write http://h:9200/INDEX, whose documents have the passages' ids"),
        ("http://h/there?k1=2", "has no option 'k1'"),
        ("http://h?query=bm26&fusion=x", "bm25, knn, hybrid or elser\n.*rrf or zscore"),
        ("http://h/there?text=a%20b", "a name of letters"),
        ("http://h/there?embedder=nobody", "no embedder is called 'nobody'"),
        ("http://h/there?query=knn&weight=1", "weight is for query=hybrid"),
    ],
)
def test_wrong_specs(spec, message):
    with pytest.raises(RequestError, match=message) as raised:
        build_settings(f"elasticsearch+{spec}")
    assert "hush" not in str(raised.value)


def test_without_the_client_the_extra_is_named(monkeypatch):
    monkeypatch.setattr("turnmark.retrieval.elastic.find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"pip install 'turnmark\[elasticsearch\]'"):
        build_settings("elasticsearch+http://h/there")
