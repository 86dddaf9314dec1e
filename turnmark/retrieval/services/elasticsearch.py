"""Searches an Elasticsearch index with the official client. The `_id` of each document is the id of a passage.

The queries follow Elastic's reference: `match`, `knn` over a `dense_vector` of the bundled embedder, and
`sparse_vector` with an inference endpoint (ELSER).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from turnmark.core.errors import TurnmarkError
from turnmark.core.grouping import batched
from turnmark.core.specs import Spec
from turnmark.core.untrusted import describe_error
from turnmark.retrieval.embedding.embedders import open_embedder
from turnmark.retrieval.ranking.fusion import RankedRows
from turnmark.retrieval.search.opened_index import SearchableIndex, StoredIndex
from turnmark.retrieval.search.retriever_factory import only_part
from turnmark.retrieval.search.retriever_kinds import Options
from turnmark.retrieval.search.retrievers import FusedRetriever
from turnmark.retrieval.storage.filters import Where
from turnmark.retrieval.storage.server_addresses import ELASTIC_KEY, elastic_address
from turnmark.retrieval.types import Query

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

CERTIFICATES_VARIABLE = "TURNMARK_ELASTIC_CA_CERTS"
REQUEST_SECONDS, MAX_RETRIES = 30, 3
SEARCHES_PER_REQUEST = 64
"""Number of searches in one request."""
MIN_CANDIDATES, MAX_CANDIDATES = 256, 10_000
"""Limits of `num_candidates`, the number of neighbors that a shard examines. It is twice the number requested."""


def _client(url: str) -> Elasticsearch:
    """Return a client; nothing is sent yet. The API key is read from the environment."""
    from elasticsearch import Elasticsearch

    # The client would otherwise report each request to the process's OpenTelemetry.
    os.environ.setdefault("OTEL_PYTHON_INSTRUMENTATION_ELASTICSEARCH_ENABLED", "false")
    certificates = os.environ.get(CERTIFICATES_VARIABLE)
    return Elasticsearch(
        url,
        request_timeout=REQUEST_SECONDS,
        max_retries=MAX_RETRIES,
        retry_on_timeout=True,
        meta_header=False,
        api_key=os.environ.get(ELASTIC_KEY) or None,
        **({"ca_certs": certificates} if certificates else {}),
    )


@contextmanager
def _named_errors(server: str) -> Iterator[None]:
    """Turn Elasticsearch's errors into TurnmarkErrors; `server` is its address in messages."""
    from elasticsearch import ApiError, TransportError

    try:
        yield
    except (ApiError, TransportError, OSError) as error:
        refused = isinstance(error, ApiError) and error.status_code in (401, 403)
        hint = f"; is the key in {ELASTIC_KEY} right?" if refused else ""
        raise TurnmarkError(f"Elasticsearch at {server} failed: {describe_error(error)}{hint}") from None


class ElasticRanker:
    """Searches one index (or alias) with `match` (the list `bm25`), `sparse_vector` (`elser`) or `knn` (`dense`)."""

    def __init__(self, spec: Spec, index: StoredIndex, options: Mapping[str, Any]) -> None:
        server, self._name = elastic_address(spec)
        self._query, self._options, self._index = options.get("query", "bm25"), options, index
        self.name = "dense" if self._query == "knn" else self._query
        self._client, self._address = _client(server), f"{server}/{self._name}"

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[RankedRows]:
        """Return the `k` best rows for each text, best first, without documents that are not passages of the index."""
        knn = self._query == "knn"
        vectors = open_embedder("minilm").encode(texts, "query").tolist() if knn else [None] * len(texts)
        clauses = [
            self._clause(text, vector, query.where, k)
            for text, vector, query in zip(texts, vectors, queries, strict=True)
        ]
        searched = [clause for clause in clauses if clause is not None]
        ranked: list[RankedRows] = []
        for batch in batched(searched, SEARCHES_PER_REQUEST):
            searches: list[dict[str, Any]] = []
            for clause in batch:
                searches += [{}, {"query": clause, "size": k, "_source": False, "track_total_hits": False}]
            with _named_errors(self._address):
                answers = self._client.msearch(index=self._name, searches=searches).body["responses"]
            ranked += map(self._rows, answers)
        remaining = iter(ranked)
        return [RankedRows.from_pairs(()) if clause is None else next(remaining) for clause in clauses]

    def _clause(self, text: str, vector: list[float] | None, where: Where, k: int) -> dict[str, Any] | None:
        """Return the query clause for a text, or None if nothing can match."""
        matching = self._index.store.matching(where)
        if not all(matching.values()) or not (text.strip() or vector):
            return None
        filters = [{"terms": {key: values}} for key, values in matching.items()]
        if vector:
            knn: dict[str, Any] = {
                "field": self._options.get("vector", "vector"),
                "query_vector": vector,
                "k": k,
                "num_candidates": min(MAX_CANDIDATES, max(MIN_CANDIDATES, 2 * k)),
            }
            if filters:
                # A filter inside `knn` applies during the search, so `k` neighbors are found.
                knn["filter"] = filters
            return {"knn": knn}
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
            raise TurnmarkError(f"Elasticsearch at {self._address}: the answer is not a search result") from None

    def _rows(self, answer: Mapping[str, Any]) -> RankedRows:
        """Return the rows found by one search, best first; rows with equal scores in ascending order."""
        if answer.get("error") or answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
            reason = describe_error(TurnmarkError(str(answer.get("error") or "only some of its shards were searched")))
            raise TurnmarkError(f"Elasticsearch at {self._address}: {reason.removeprefix('TurnmarkError: ')}")
        score_by_id = {str(hit["_id"]): float(hit["_score"]) for hit in self._hits(answer)}
        if not all(map(math.isfinite, score_by_id.values())):
            raise TurnmarkError(f"Elasticsearch at {self._address} returned a score that is not a finite number")
        rows = self._index.store.rows_of(list(score_by_id))
        if score_by_id and not rows:
            raise TurnmarkError(
                f"Elasticsearch index {self._address} found only documents that are not "
                f"passages of the index {self._index.manifest.name!r}, e.g. {next(iter(score_by_id))!r}; build both "
                "from the same passages"
            )
        scores: dict[int, float] = {}
        for identifier, score in score_by_id.items():
            if identifier in rows:
                # A field whose similarity is `cosine`, or `dot_product` of unit vectors, scores (1 + cosine) / 2.
                scores[rows[identifier]] = 2 * score - 1 if self._query == "knn" else score
        return RankedRows.from_pairs(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def open_elastic(spec: Spec, index: SearchableIndex, options: Options) -> FusedRetriever:
    """Open `elasticsearch+http` or `elasticsearch+https`."""
    return FusedRetriever(str(spec), index, [(ElasticRanker(spec, only_part(spec, index), options), 1.0)])
