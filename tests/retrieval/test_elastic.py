"""Elasticsearch: what is asked of it, by the official client's own types, over real sockets.

No Elasticsearch runs here. A scripted server writes down what the real client sends, and answers as Elastic's reference
documents it; so what a real one makes of the requests is not tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

elasticsearch = pytest.importorskip("elasticsearch")

from tests.retrieval import tiny  # noqa: E402
from tests.retrieval.scripted_elastic import Elastic, result  # noqa: E402
from tests.served import free_port  # noqa: E402
from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError  # noqa: E402
from turnmark.retrieval.build import build_index, corpus_index  # noqa: E402
from turnmark.retrieval.index import Index, open_index  # noqa: E402
from turnmark.retrieval.maintenance import remove_index, verify_index  # noqa: E402
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


def has(elastic: Elastic, name: str = "there", **properties: Any) -> None:
    elastic.indices[name] = {"mappings": {"properties": properties}}


def test_an_index_that_is_there_is_searched_as_it_is(elastic, index):
    has(elastic, body={"type": "text"}, head={"type": "text", "fields": {"raw": {"type": "keyword"}}})
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
    has(elastic, ml={"properties": {"tokens": {"type": "sparse_vector"}}})
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

    has(elastic, vector={"type": "dense_vector", "dims": 384, "similarity": similarity})
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
    has(elastic, vector={"type": "dense_vector", "dims": 384, "similarity": "cosine"})
    elastic.answer = result((ids(index)[0], 0.9))
    open_retriever(f"elasticsearch+{elastic.url}/there?query=knn", index).search([Query(text="fuel")], 1)
    [[_, search]] = elastic.sent("_msearch")
    vector = open_embedder("minilm").encode(["fuel"], "query")[0].tolist()
    assert search["query"]["knn"]["query_vector"] == pytest.approx(vector)


def test_what_a_killed_build_wrote_to_a_server_goes_when_it_is_no_longer_wanted(elastic, notes, monkeypatch):
    from turnmark.retrieval.elastic import ElasticComponent

    write = ElasticComponent.write

    def cut(self: ElasticComponent, *args: Any) -> None:
        write(self, *args)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(ElasticComponent, "write", cut)
        with pytest.raises(KeyboardInterrupt):
            build_index(notes, "n", retriever=f"elasticsearch+{elastic.url}")
    assert len(elastic.indices) == 1
    build_index(notes, "n", retriever="bm25")
    assert not elastic.indices
    assert not (open_index("n").files / "elasticsearch").exists()


def test_a_build_writes_our_passages(elastic, notes, turnmark):
    spec = f"elasticsearch+{elastic.url}?query=hybrid&k1=1.2"
    report = build_index(notes, "n", retriever=spec)
    assert report.embedded == 3
    index = open_index("n")
    [name] = elastic.indices
    assert re.fullmatch(r"turnmark-n-g0001-[0-9a-f]{8}", name)
    body = elastic.indices[name]
    assert body["settings"]["index"]["similarity"]["turnmark"] == {"type": "BM25", "k1": 1.2, "b": 0.4}
    fields = body["mappings"]["properties"]
    assert fields["text"] == {"type": "text", "analyzer": "english", "similarity": "turnmark"}
    assert fields["vector"] == {"type": "dense_vector", "dims": 384, "index": True, "similarity": "cosine"}
    assert fields["path"] == {"type": "keyword"}
    contents = {p.id: (p.indexed_text, content) for page in index.store.pages() for _, content, p in page}
    written = elastic.documents[name]
    assert {i: (document["text"], document["hash"]) for i, document in written.items()} == contents
    assert all(set(document) <= set(fields) for document in written.values())
    vectors = index.vectors_of(list(contents))
    assert all(document["vector"] == pytest.approx(vectors[i].tolist()) for i, document in written.items())
    assert verify_index(index) == []
    served, local = open_retriever(spec, index), open_retriever("hybrid?k1=1.2", index)
    for query in (Query(text="drain the tank"), Query(text="bees", where={"path": "b?e*"})):
        [served_hits], [local_hits] = (retriever.search([query], 3) for retriever in (served, local))
        assert {hit.passage.id for hit in served_hits} == {hit.passage.id for hit in local_hits}
        assert served_hits[0].passage == local_hits[0].passage
        assert served_hits[0].similarity == pytest.approx(local_hits[0].similarity, abs=1e-3)
    assert served.search([Query(text="bees", where={"path": "zzz"})], 3) == [[]]
    ran = turnmark("search", "drain the tank", "--index", "n", "--retriever", spec, "--explain")
    assert ran.code == 0, ran.err
    assert "dense: rank 1" in ran.out
    written.popitem()
    assert verify_index(index) == ["elasticsearch has 2 documents, the manifest says 3 passages"]


def test_generations_and_removal(elastic, notes):
    spec = f"elasticsearch+{elastic.url}"
    build_index(notes, "N", retriever=spec)
    assert "vector" not in next(iter(elastic.indices.values()))["mappings"]["properties"]
    assert build_index(notes, "N", retriever=spec).unchanged
    assert len(elastic.indices) == 1
    (notes / "bees.md").unlink()
    build_index(notes, "N", retriever=spec)
    assert sorted(name[:17] for name in elastic.indices) == ["turnmark-n-g0001-", "turnmark-n-g0002-"]
    with pytest.raises(RequestError, match=r"was written there without vectors; build it again: .*query=knn"):
        open_retriever(spec + "?query=knn", open_index("N"))
    remove_index("N")
    assert not elastic.indices
    assert not elastic.documents


def test_a_corpus_for_evaluation(elastic, tmp_path):
    corpus = tmp_path / "corpus.jsonl"
    corpus.write_text('{"_id": "a", "title": "Boats", "text": "Drain the tank."}\n', encoding="utf-8")
    local, served = corpus_index(corpus, "bm25"), corpus_index(corpus, f"elasticsearch+{elastic.url}")
    assert local.folder != served.folder
    assert corpus_index(corpus, f"elasticsearch+{elastic.url}/there").folder == local.folder
    retriever = open_retriever(f"elasticsearch+{elastic.url}", served)
    assert retriever.search([Query(text="tank")], 1)[0][0].passage.id == "a"


def test_keys_come_from_the_environment_and_go_nowhere_else(elastic, index, monkeypatch):
    has(elastic, text={"type": "text"})
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
    has(elastic, text={"type": "text"})
    elastic.answer = answer
    with pytest.raises(TurnmarkError, match=message):
        open_retriever(f"elasticsearch+{elastic.url}/there", index).search([Query(text="q")], 1)


def test_what_cannot_be_reached_or_is_not_there(elastic, index, notes):
    missing = {"type": "index_not_found_exception", "reason": "no such index [nowhere]"}
    has(elastic, "nowhere")
    elastic.answer = {"error": {**missing, "root_cause": [missing]}, "status": 404}
    with pytest.raises(TurnmarkError, match=r"no such index \[nowhere\]"):
        open_retriever(f"elasticsearch+{elastic.url}/nowhere", index).search([Query(text="q")], 1)
    url = f"http://127.0.0.1:{free_port()}"
    with pytest.raises(TurnmarkError, match=rf"Elasticsearch at {url} cannot be reached \(4 tries\)"):
        build_index(notes, "m", retriever=f"elasticsearch+{url}")
    with pytest.raises(RequestError, match="was not written to"):
        open_retriever(f"elasticsearch+{elastic.url}", index)


def test_passages_that_the_server_refuses_are_named(elastic, notes):
    refused = {"index": {"_id": "bread.md-0-3", "status": 400, "error": {"type": "document_parsing_exception"}}}
    elastic.fail["_bulk"] = (200, {"took": 1, "errors": True, "items": [refused] * 3})
    with pytest.raises(TurnmarkError, match=r"did not take 3 passages, such as bread\.md-0-3: .*parsing_exc"):
        build_index(notes, "n", retriever=f"elasticsearch+{elastic.url}")
    with pytest.raises(RequestError, match="no index is called 'n'"):
        open_index("n")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("http://me:hush@h/there", "no user and password"),
        ("http://h/a/b", "is not the name of one Elasticsearch index"),
        ("http://h/logs-*", "is not the name of one Elasticsearch index"),
        ("http://h?query=elser&text=body", "text are for an index that is there.*\n.*query=elser searches an index"),
        ("http://h/there?k1=2&b=0", "b, k1 belong to an index that is built"),
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
        build_settings("elasticsearch+http://h")
