"""The requests that the official client sends to Elasticsearch, over real sockets.

No Elasticsearch runs here. A scripted server records what the real client sends and answers as Elastic's reference
documents it. How a real server handles the requests is not tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

elasticsearch = pytest.importorskip("elasticsearch")

from tests.retrieval.scripted_elastic import Elastic, result  # noqa: E402
from tests.served import free_port  # noqa: E402
from turnmark.core.errors import RequestError, TurnmarkError  # noqa: E402
from turnmark.retrieval.index.build import build_index  # noqa: E402
from turnmark.retrieval.search.opened_index import StoredIndex, open_index  # noqa: E402
from turnmark.retrieval.search.retriever_factory import build_settings, open_retriever  # noqa: E402
from turnmark.retrieval.types import Hit, Query  # noqa: E402


@pytest.fixture
def elastic(monkeypatch: pytest.MonkeyPatch) -> Iterator[Elastic]:
    monkeypatch.delenv("TURNMARK_ELASTIC_API_KEY", raising=False)
    server = Elastic()
    yield server
    server.server.shutdown()
    server.server.server_close()


@pytest.fixture
def index(notes: Path) -> StoredIndex:
    build_index(notes, "n", retriever="bm25")
    return open_index("n")


def ids(index: StoredIndex) -> list[str]:
    return [passage.id for page in index.store.pages() for _, _, passage in page]


def search(elastic: Elastic, index: StoredIndex, options: str = "", **query: object) -> list[Hit]:
    [hits] = open_retriever(f"elasticsearch+{elastic.url}/there{options}", index).search(
        [Query(**{"text": "fuel", **query})], 5
    )
    return hits


def test_searches_an_existing_index(elastic, index):
    boat, bees, bread = sorted(ids(index), key=lambda i: ("boat", "bees", "bread").index(i.split(".")[0]))
    elastic.answer = result((bees, 7.5), ("of another corpus", 5.0), (boat, 5.0), (bread, 5.0))
    retriever = open_retriever(f"elasticsearch+{elastic.url}/there?text=body", index)
    hits = retriever.search([Query(text="when to feed"), Query(text=" "), Query(text="q", variants=("r",))], 5)
    assert [(hit.passage.id, hit.score) for hit in hits[0]] == [(bees, 7.5), (boat, 5.0), (bread, 5.0)]
    assert hits[0][0].passage == index.store.by_rows([index.store.rows_of([bees])[bees]])[0]
    assert hits[1] == []
    assert list(hits[2][0].found) == ["bm25", "bm25+1"]
    [searches] = elastic.sent()
    assert [search["query"]["match"]["body"]["query"] for search in searches[1::2]] == ["when to feed", "q", "r"]
    assert searches[0] == {}
    assert searches[1] == {
        "query": {"match": {"body": {"query": "when to feed"}}},
        "size": 1000, "_source": False, "track_total_hits": False,
    }  # fmt: skip
    assert {method for method, _, _ in elastic.requests} == {"POST"}
    assert not any("x-elastic-client-meta" in headers for headers in elastic.headers)


def test_elser_uses_the_inference_endpoint(elastic, index):
    elastic.answer = result((ids(index)[0], 3.0))
    [hit] = search(elastic, index, "?query=elser&sparse=ml.tokens&inference=my-elser", where={"path": "boat*"})
    assert (hit.passage.id, hit.found["elser"].score, hit.similarity) == (ids(index)[0], 3.0, None)
    [[_, sent]] = elastic.sent()
    elser = {"sparse_vector": {"field": "ml.tokens", "inference_id": "my-elser", "query": "fuel"}}
    assert sent["query"] == {"bool": {"must": [elser], "filter": [{"terms": {"path": ["boat.md"]}}]}}


def test_knn_sends_the_embedders_vector_and_returns_cosines(elastic, index):
    from turnmark.retrieval.embedding.embedders import open_embedder

    elastic.answer = result((ids(index)[0], 0.9))
    [hit] = search(elastic, index, "?query=knn", where={"path": "b*"})
    assert hit.similarity == pytest.approx(0.8)
    [[_, sent]] = elastic.sent()
    knn = sent["query"]["knn"]
    assert (knn["field"], knn["k"], knn["num_candidates"], sent["size"]) == ("vector", 5, 256, 5)
    assert knn["query_vector"] == pytest.approx(open_embedder("minilm").encode(["fuel"], "query")[0].tolist())
    assert knn["filter"] == [{"terms": {"path": ["bees.md", "boat.md", "bread.md"]}}]


def test_key_from_the_environment_is_sent_only_to_the_server(elastic, index, monkeypatch):
    monkeypatch.setenv("TURNMARK_ELASTIC_API_KEY", "hush-hush")
    elastic.failure = (401, {"error": {"type": "security_exception", "reason": "bad key hush-hush"}})
    with pytest.raises(TurnmarkError, match="is the key in TURNMARK_ELASTIC_API_KEY right") as raised:
        search(elastic, index)
    assert "hush" not in str(raised.value)
    assert elastic.headers[-1]["authorization"] == "ApiKey hush-hush"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (result(timed_out=True), "only some of its shards were searched"),
        (result(_shards={"total": 2, "successful": 1, "failed": 1}), "only some of its shards"),
        ({"error": {"type": "index_not_found_exception", "reason": "no such index [there]"}}, "no such index"),
        (result(("a", float("inf"))), "a score that is not a finite number"),
        (result(("strange", 1.0)), "not passages of the index 'n', e.g. 'strange'"),
    ],
)
def test_refuses_invalid_answers(elastic, index, answer, message):
    elastic.answer = answer
    with pytest.raises(TurnmarkError, match=message):
        search(elastic, index)


def test_reports_an_unreachable_server(index):
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TurnmarkError, match=rf"Elasticsearch at {url}/there failed: ConnectionError"):
        open_retriever(f"elasticsearch+{url}/there", index).search([Query(text="q")], 1)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://me:hush@h/there", "no user and password"),
        ("http://h/logs-*", "is not the name of one Elasticsearch index"),
        ("http://h?query=elser", "write http://h:9200/INDEX, whose documents have the passages' ids"),
        ("http://h?query=bm26&k1=2", "bm25, knn or elser\n.*has no option 'k1'"),
        ("http://h/there?text=a%20b", "a name of letters"),
    ],
)
def test_refuses_wrong_specs(spec, message):
    with pytest.raises(RequestError, match=message) as raised:
        build_settings(f"elasticsearch+{spec}")
    assert "hush" not in str(raised.value)
