"""Searching an index on an Elasticsearch server, whose documents are our passages by `_id`, by the official client.

The queries are those of Elastic's reference: `match` and `multi_match`, `knn` over a `dense_vector`, and
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

from pydantic import Field

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.corpora.specs import Spec, one_of, up_to
from turnmark.corpora.types import Record
from turnmark.retrieval.embed import EMBEDDERS, Embedder, open_embedder
from turnmark.retrieval.fusion import TopK
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings
from turnmark.retrieval.search import (
    LIST_OPTIONS,
    FusedRetriever,
    Kind,
    Options,
    Ranker,
    build_for,
    fuse_rankers,
)
from turnmark.retrieval.servers import address, redact
from turnmark.retrieval.types import Query

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch
    from elasticsearch.dsl.query import Query as Clause

FORMS: Mapping[str, tuple[str, ...]] = {
    "bm25": ("bm25",), "knn": ("dense",), "hybrid": ("dense", "bm25"), "elser": ("elser",)
}  # fmt: skip
"""Value of the option `query` -> its rankers."""
BM25_WEIGHT = 0.3
KEYS = ("TURNMARK_ELASTIC_API_KEY", "ELASTIC_API_KEY")
CERTIFICATES = "TURNMARK_ELASTIC_CA_CERTS"
PORT = 9200
SECONDS, RETRIES = 30, 3
# Searches in one request, and how many neighbours a shard looks at for each that is asked for.
SEARCHES = 64
CANDIDATES = 2
MOST_CANDIDATES, LEAST_CANDIDATES = 10_000, 256


class Fields(Record):
    """Which fields of the index's documents are searched."""

    text: str = "text"
    title: str = Field(default="", description="searched with the text by multi_match; empty: not at all")
    vector: str = Field(default="vector", description="a dense_vector of our embedder")
    sparse: str = Field(default="sparse", description="a sparse_vector (or semantic_text) field of ELSER's terms")
    inference: str = Field(default=".elser-2-elasticsearch", description="the inference endpoint that made them")


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


def index_address(spec: Spec) -> tuple[str, str]:
    """The server's address and the name of the index that a spec names; all mistakes at once."""
    role = f"retriever {spec.name!r}"
    base, name = address(spec.url, PORT, spec.name, KEYS[0])
    problems = []
    # One name, for a pattern could find a passage twice.
    if not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", name):
        wrong = f"{name!r} is not the name of one Elasticsearch index (lower case, no '/', no '*'); " if name else ""
        problems.append(f"{role}: {wrong}write {base}/INDEX, whose documents have the passages' ids as _id")
    if "weight" in spec.options and spec.options.get("query") != "hybrid":
        problems.append(f"{role}: weight is for query=hybrid; one list has nothing to be weighed against")
    if problems:
        raise RequestError(problems)
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
        api_key=next((os.environ[name] for name in KEYS if os.environ.get(name)), None),
        **({"ca_certs": certificates} if (certificates := os.environ.get(CERTIFICATES)) else {}),
    )


@contextmanager
def _named_errors(server: str) -> Iterator[None]:
    """Elasticsearch's own errors as ours; `server` is what messages call it."""
    from elasticsearch import ApiError, TransportError

    try:
        yield
    except ApiError as error:
        hint = {
            401: f"it wants a key; set {KEYS[0]} (or {KEYS[1]}) in the environment",
            403: f"the key in {KEYS[0]} (or {KEYS[1]}) does not allow this",
        }.get(error.status_code, "")
        # Its text begins with its type, as ours does.
        raise TurnmarkError(f"Elasticsearch at {server}: {hint or redact(error).partition(': ')[2]}") from None
    except (TransportError, OSError) as error:
        raise TurnmarkError(
            f"Elasticsearch at {server} cannot be reached ({RETRIES + 1} tries): {redact(error)}"
        ) from None


class ElasticRanker:
    """Finds in one index (or alias) by `match` (named `bm25`), `sparse_vector` (`elser`) or `knn` (`dense`).

    The scores of `dense` are cosines. See `turnmark.retrieval.search.Ranker`.

    Args:
        index: the local index whose passages the documents are.
        embedder: of the vectors that are searched, for `dense`.
    """

    def __init__(
        self, name: str, index: Index, server: str, index_name: str, fields: Fields, embedder: Embedder | None
    ) -> None:
        self.name, self._index, self._index_name, self._fields = name, index, index_name, fields
        self._embedder, self._client = embedder, _client(server)
        self._address = f"{server}/{index_name}"

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        vectors = self._embedder.encode(texts, "query").tolist() if self._embedder else [None] * len(texts)
        clauses = [
            self._clause(text, vector, query.where, k)
            for text, vector, query in zip(texts, vectors, queries, strict=True)
        ]
        found = self._search(clauses, k)
        if self.name != "dense":
            return found
        # A field whose similarity is `cosine`, or `dot_product` of unit vectors, scores (1 + cosine) / 2.
        return [TopK.from_pairs((row, 2 * score - 1) for row, score in rows) for rows in found]

    def _clause(self, text: str, vector: list[float] | None, where: Mapping[str, str], k: int) -> Clause | None:
        """The query of a text; None if nothing can match."""
        from elasticsearch.dsl.query import Bool, Knn, Match, MultiMatch, SparseVector, Terms

        matching, fields = self._index.store.matching(where), self._fields
        if not all(matching.values()) or not (text.strip() or vector):
            return None
        filters = [Terms(**{key: values}) for key, values in matching.items()]
        if vector:
            candidates = min(MOST_CANDIDATES, max(LEAST_CANDIDATES, CANDIDATES * k))
            # The filter holds while neighbours are looked for, so that `k` are found.
            more: dict[str, Any] = {"filter": filters} if filters else {}
            return Knn(field=fields.vector, query_vector=vector, k=k, num_candidates=candidates, **more)
        clause: Clause
        if self.name == "elser":
            clause = SparseVector(field=fields.sparse, inference_id=fields.inference, query=text)
        elif fields.title:
            clause = MultiMatch(query=text, fields=[fields.text, fields.title])
        else:
            clause = Match(fields.text, {"query": text})
        return Bool(must=[clause], filter=filters) if filters else clause

    def _search(self, clauses: Sequence[Clause | None], k: int) -> list[TopK]:
        """The `k` best rows for each query, best first, equal scores by row; other documents are left out."""
        results = [TopK.from_pairs(())] * len(clauses)
        searched = [(number, clause) for number, clause in enumerate(clauses) if clause is not None]
        for start in range(0, len(searched), SEARCHES):
            batch = searched[start : start + SEARCHES]
            searches: list[Mapping[str, Any]] = []
            for _, clause in batch:
                searches += [{}, {"query": clause.to_dict(), "size": k, "_source": False, "track_total_hits": False}]
            with _named_errors(self._address):
                answers = self._client.msearch(index=self._index_name, searches=searches).body["responses"]
            for (number, _), answer in zip(batch, answers, strict=True):
                results[number] = self._rows(_hits(answer, self._address))
        return results

    def _rows(self, hits: Sequence[tuple[str, float]]) -> TopK:
        rows = self._index.store.rows_of([identity for identity, _ in hits])
        if hits and not rows:
            raise TurnmarkError(
                f"Elasticsearch index {self._address} found documents such as {hits[0][0]!r}, and none is a passage of "
                f"the index {self._index.manifest.name!r}: both must be made of the same passages, with the same ids"
            )
        scores: dict[int, float] = {}
        for identity, score in hits:
            if identity in rows:
                scores.setdefault(rows[identity], score)
        return TopK.from_pairs(sorted(scores.items(), key=lambda pair: (-pair[1], pair[0])))


def _hits(answer: Mapping[str, Any], server: str) -> list[tuple[str, float]]:
    """(id, score) of one search's answer, in its order."""
    if error := answer.get("error"):
        cause = (error.get("root_cause") or [error])[0]
        reason = redact(TurnmarkError(f"{cause.get('type', '')}: {cause.get('reason', '')}"))
        raise TurnmarkError(f"Elasticsearch at {server}: {reason.removeprefix('TurnmarkError: ')}")
    if answer.get("timed_out") or answer.get("_shards", {}).get("failed"):
        raise TurnmarkError(f"Elasticsearch at {server} searched a part of its shards only; ask again")
    try:
        pairs = [(str(hit["_id"]), float(hit["_score"])) for hit in answer["hits"]["hits"]]
    except (KeyError, TypeError, ValueError):
        raise TurnmarkError(f"Elasticsearch at {server} gave an answer that is no result of a search") from None
    if not all(math.isfinite(score) for _, score in pairs):
        raise TurnmarkError(f"Elasticsearch at {server} gave a score that is no number")
    return pairs


def _settings(spec: Spec, options: Options, _: str) -> BuildSettings:
    """Locally the passages and BM25."""
    index_address(spec)
    return build_for(options)


def _open_elastic(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    server, name = index_address(spec)
    fields = Fields(**{key: value for key, value in options.items() if key in Fields.model_fields})
    rankers: list[tuple[Ranker, float]] = []
    for ranker in FORMS[options.get("query", "bm25")]:
        # What made the vectors that are there has nothing to do with what made those of the local index.
        embedder = open_embedder(options.get("embedder", "minilm")) if ranker == "dense" else None
        weight = options.get("weight", BM25_WEIGHT) if options.get("query") == "hybrid" and ranker == "bm25" else 1.0
        rankers.append((ElasticRanker(ranker, index, server, name, fields, embedder), weight))
    return fuse_rankers(spec, index, options, rankers)


ELASTIC = Kind(
    open=_open_elastic,
    settings=_settings,
    options={
        **LIST_OPTIONS,
        "weight": up_to(10),
        "query": one_of(*FORMS),
        "embedder": lambda text: str(EMBEDDERS.check(text)),
        **dict.fromkeys(Fields.model_fields, _field),
    },
)
"""`elasticsearch+http(s)://HOST:PORT/INDEX[?query=…]`."""
