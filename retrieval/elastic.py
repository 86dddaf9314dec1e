"""Searching an index on an Elasticsearch server, whose documents are our passages by `_id`, by the official client.

The queries are those of Elastic's reference: `match`, `knn` over a `dense_vector` of the bundled embedder, and
`sparse_vector` with an inference endpoint (ELSER).
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from turnmark.core.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.core.specs import Spec
from turnmark.retrieval.embed import open_embedder
from turnmark.retrieval.fusion import TopK
from turnmark.retrieval.index import Index
from turnmark.retrieval.servers import address, redact
from turnmark.retrieval.types import Query

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

KEY = "TURNMARK_ELASTIC_API_KEY"
CERTIFICATES = "TURNMARK_ELASTIC_CA_CERTS"
PORT = 9200
SECONDS, RETRIES = 30, 3
SEARCHES = 64
"""Searches in one request."""
LEAST_CANDIDATES, MOST_CANDIDATES = 256, 10_000
"""Neighbours that a shard looks at: twice as many as are asked for, within these."""


def index_address(spec: Spec) -> tuple[str, str]:
    """The server's address and the name of the index that a spec names."""
    role = f"retriever {spec.name!r}"
    base, name = address(spec.url, PORT, spec.name, KEY)
    # One name, for a pattern could find a passage twice.
    if not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", name):
        raise RequestError(
            f"{role}: {name!r} is not the name of one Elasticsearch index; write {base}/INDEX, whose documents have "
            "the passages' ids as _id"
        )
    if find_spec("elasticsearch") is None:
        raise MissingExtra(role, "elasticsearch")
    return base, name


def _client(url: str) -> Elasticsearch:
    """A client; nothing is sent yet. The key comes from the environment."""
    from elasticsearch import Elasticsearch

    # The client would otherwise report each request to whatever OpenTelemetry is set up in the process.
    os.environ.setdefault("OTEL_PYTHON_INSTRUMENTATION_ELASTICSEARCH_ENABLED", "false")
    return Elasticsearch(
        url,
        request_timeout=SECONDS,
        max_retries=RETRIES,
        retry_on_timeout=True,
        meta_header=False,
        api_key=os.environ.get(KEY) or None,
        **({"ca_certs": certificates} if (certificates := os.environ.get(CERTIFICATES)) else {}),
    )


@contextmanager
def _named_errors(server: str) -> Iterator[None]:
    """Elasticsearch's own errors as ours; `server` is what messages call it."""
    from elasticsearch import ApiError, TransportError

    try:
        yield
    except (ApiError, TransportError, OSError) as error:
        refused = isinstance(error, ApiError) and error.status_code in (401, 403)
        hint = f"; is the key in {KEY} right?" if refused else ""
        raise TurnmarkError(f"Elasticsearch at {server} failed: {redact(error)}{hint}") from None


class ElasticRanker:
    """Finds in one index (or alias) by `match` (the list `bm25`), `sparse_vector` (`elser`) or `knn` (`dense`)."""

    def __init__(self, spec: Spec, index: Index, options: Mapping[str, Any]) -> None:
        server, self._name = index_address(spec)
        self._query, self._options, self._index = options.get("query", "bm25"), options, index
        self.name = "dense" if self._query == "knn" else self._query
        self._client, self._address = _client(server), f"{server}/{self._name}"

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        """The `k` best rows for each text, best first; documents that are no passages of the index are left out."""
        knn = self._query == "knn"
        vectors = open_embedder("minilm").encode(texts, "query").tolist() if knn else [None] * len(texts)
        clauses = [
            self._clause(text, vector, query.where, k)
            for text, vector, query in zip(texts, vectors, queries, strict=True)
        ]
        searched = [clause for clause in clauses if clause is not None]
        found: list[TopK] = []
        for start in range(0, len(searched), SEARCHES):
            searches: list[dict[str, Any]] = []
            for clause in searched[start : start + SEARCHES]:
                searches += [{}, {"query": clause, "size": k, "_source": False, "track_total_hits": False}]
            with _named_errors(self._address):
                answers = self._client.msearch(index=self._name, searches=searches).body["responses"]
            found += map(self._rows, answers)
        remaining = iter(found)
        return [TopK.from_pairs(()) if clause is None else next(remaining) for clause in clauses]

    def _clause(self, text: str, vector: list[float] | None, where: Mapping[str, str], k: int) -> dict[str, Any] | None:
        """The query of a text; None if nothing can match."""
        matching = self._index.store.matching(where)
        if not all(matching.values()) or not (text.strip() or vector):
            return None
        filters = [{"terms": {key: values}} for key, values in matching.items()]
        if vector:
            candidates = min(MOST_CANDIDATES, max(LEAST_CANDIDATES, 2 * k))
            knn = {"field": self._options.get("vector", "vector"), "query_vector": vector, "k": k}
            # The filter holds while neighbours are looked for, so that `k` are found.
            return {"knn": {**knn, "num_candidates": candidates, **({"filter": filters} if filters else {})}}
        if self._query == "elser":
            endpoint = self._options.get("inference", ".elser-2-elasticsearch")
            field = self._options.get("sparse", "sparse")
            clause: dict[str, Any] = {"sparse_vector": {"field": field, "inference_id": endpoint, "query": text}}
        else:
            clause = {"match": {self._options.get("text", "text"): {"query": text}}}
        return {"bool": {"must": [clause], "filter": filters}} if filters else clause

    def _hits(self, answer: Mapping[str, Any]) -> list[Any]:
        try:
            return list(answer["hits"]["hits"])
        except (KeyError, TypeError):
            raise TurnmarkError(f"Elasticsearch at {self._address}: the answer is no result of a search") from None

    def _rows(self, answer: Mapping[str, Any]) -> TopK:
        """The rows that one search found, best first, equal scores by row."""
        if answer.get("error") or answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
            reason = redact(TurnmarkError(str(answer.get("error") or "a part of its shards was searched only")))
            raise TurnmarkError(f"Elasticsearch at {self._address}: {reason.removeprefix('TurnmarkError: ')}")
        found = {str(hit["_id"]): float(hit["_score"]) for hit in self._hits(answer)}
        if not all(map(math.isfinite, found.values())):
            raise TurnmarkError(f"Elasticsearch at {self._address} gave a score that is no number")
        rows = self._index.store.rows_of(list(found))
        if found and not rows:
            raise TurnmarkError(
                f"Elasticsearch index {self._address} found documents such as {next(iter(found))!r}, and none is a "
                f"passage of the index {self._index.manifest.name!r}: both must be made of the same passages"
            )
        # A field whose similarity is `cosine`, or `dot_product` of unit vectors, scores (1 + cosine) / 2.
        scores = {rows[i]: 2 * score - 1 if self._query == "knn" else score for i, score in found.items() if i in rows}
        return TopK.from_pairs(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))
