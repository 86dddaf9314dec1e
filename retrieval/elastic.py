"""An index on an Elasticsearch server, by the official client: one that is there already, or one of our passages.

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

import numpy as np
from pydantic import Field

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.corpora.specs import Spec, one_of, up_to
from turnmark.corpora.types import Record
from turnmark.retrieval.components import VECTORS, BuildFiles, Component, where_values
from turnmark.retrieval.embed import EMBEDDERS, Embedder, open_embedder
from turnmark.retrieval.fusion import TopK
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import BuildSettings, Manifest, rebuild_command
from turnmark.retrieval.search import (
    BM25_OPTIONS,
    LIST_OPTIONS,
    FusedRetriever,
    Kind,
    Options,
    Ranker,
    build_for,
    fuse_rankers,
)
from turnmark.retrieval.servers import Served, address, assign, read_note, redact
from turnmark.retrieval.store import WHERE_KEYS
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
BULK = 500
# Searches in one request, and how many neighbours a shard looks at for each that is asked for.
SEARCHES = 64
CANDIDATES = 2
MOST_CANDIDATES, LEAST_CANDIDATES = 10_000, 256
# Snowball languages that Elasticsearch has an analyser of the same name for; others are cut into words only.
ANALYSERS = frozenset(
    "arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish "
    "italian lithuanian norwegian portuguese romanian russian serbian spanish swedish turkish".split()
)


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


def parse_server(spec: Spec) -> tuple[Served, bool]:
    """The index that a spec names, and whether it is one that is there already, under that very name."""
    role = f"retriever {spec.name!r}"
    base, path = address(spec.url, PORT, spec.name, KEYS[0])
    problems = []
    # One name, for a pattern could find a passage twice.
    if path and not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", path):
        problems.append(f"{role}: {path!r} is not the name of one Elasticsearch index (lower case, no '/', no '*')")
    if path and (of_build := sorted(spec.options.keys() & {"k1", "b", "language"})):
        problems.append(f"{role}: {', '.join(of_build)} belong to an index that is built; leave them out")
    if not path and (of_existing := sorted(spec.options.keys() & {*Fields.model_fields, "embedder"})):
        problems.append(f"{role}: {', '.join(of_existing)} are for an index that is there; name it: {base}/INDEX")
    if not path and spec.options.get("query") == "elser":
        problems.append(
            f"{role}: query=elser searches an index that is there, since its terms are made by the server's own model; "
            f"name it: {base}/INDEX"
        )
    if "weight" in spec.options and spec.options.get("query") != "hybrid":
        problems.append(f"{role}: weight is for query=hybrid; one list has nothing to be weighed against")
    if problems:
        raise RequestError(problems)
    if find_spec("elasticsearch") is None:
        raise MissingExtra(role, "elasticsearch")
    return Served(kind="elasticsearch", url=base, name=path), bool(path)


def _rankers_of(spec: Spec) -> tuple[str, ...]:
    return FORMS[spec.options.get("query", "bm25")]


# --- the server ------------------------------------------------------------------------------------------------------


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
    from elasticsearch.helpers import BulkIndexError

    try:
        yield
    except ApiError as error:
        hint = {
            401: f"it wants a key; set {KEYS[0]} (or {KEYS[1]}) in the environment",
            403: f"the key in {KEYS[0]} (or {KEYS[1]}) does not allow this",
        }.get(error.status_code, "")
        # Its text begins with its type, as ours does.
        raise TurnmarkError(f"Elasticsearch at {server}: {hint or redact(error).partition(': ')[2]}") from None
    except BulkIndexError as error:
        refused = [item for failure in error.errors for item in failure.values()]
        first = redact(TurnmarkError(f"{refused[0].get('_id')}: {refused[0].get('error')}")).partition(": ")[2]
        raise TurnmarkError(
            f"Elasticsearch at {server} did not take {len(refused)} passages, such as {first}"
        ) from None
    except (TransportError, OSError) as error:
        raise TurnmarkError(
            f"Elasticsearch at {server} cannot be reached ({RETRIES + 1} tries): {redact(error)}"
        ) from None


def check_server(server: Served) -> None:
    """Make sure that an Elasticsearch server answers."""
    with _named_errors(server.url):
        _client(server.url).info()


def delete_index(server: Served) -> None:
    """Delete an index, if it is there."""
    with _named_errors(server.url):
        _client(server.url).indices.delete(index=server.name, ignore_unavailable=True)


class ElasticComponent(Component):
    """The passages as documents of an Elasticsearch index; vectors are in a file of ours, too."""

    name = key = "elasticsearch"

    def made_by(self, manifest: Manifest) -> str | None:
        return "" if manifest.server and manifest.server.kind == self.name else None

    def write(self, files: BuildFiles) -> None:
        from elasticsearch.helpers import streaming_bulk

        manifest = files.manifest
        assert manifest.server is not None, "`made_by` says so"
        server = assign(files.folder / self.name, manifest.server, manifest.name)
        files.progress.start(self.name, manifest.passages)
        delete_index(server)
        client = _client(server.url)
        with _named_errors(server.url):
            client.indices.create(index=server.name, **_index_body(manifest))
            for _ in streaming_bulk(client, self._documents(files), index=server.name, chunk_size=BULK, max_retries=2):
                files.progress.advance(1)
            client.indices.refresh(index=server.name)

    def _documents(self, files: BuildFiles) -> Iterator[dict[str, Any]]:
        for page in files.store.pages():
            vectors: list[bytes] = []
            if files.manifest.embedder:
                vectors = files.checkpoint.get(VECTORS, [content for _, content, _ in page])
            for number, (_, content, passage) in enumerate(page):
                fields = {"text": passage.indexed_text, "hash": content, **where_values(passage)}
                if vectors:
                    fields["vector"] = np.frombuffer(vectors[number], dtype=np.float32).tolist()
                yield {"_op_type": "index", "_id": passage.id, "_source": fields}

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        """See `Component.verify`: how many documents the server has."""
        server = read_note(index.files / self.name)
        assert server is not None, "the note has a checksum"
        with _named_errors(str(server)):
            count = int(_client(server.url).count(index=server.name).body["count"])
        if count != index.manifest.passages:
            yield f"{self.name} has {count} documents, the manifest says {index.manifest.passages} passages"


def _index_body(manifest: Manifest) -> dict[str, Any]:
    """Settings and mappings of an index for our passages: BM25 as in the local index, exact fields for filters."""
    bm25 = manifest.bm25
    analyser = bm25.language if bm25.language in ANALYSERS else "standard"
    properties: dict[str, Any] = {
        "text": {"type": "text", "analyzer": analyser, "similarity": "turnmark"},
        "hash": {"type": "keyword"},
        **{key: {"type": "integer" if key == "page" else "keyword"} for key in WHERE_KEYS},
    }
    if manifest.embedder:
        dimension = manifest.embedder.dimension
        properties["vector"] = {"type": "dense_vector", "dims": dimension, "index": True, "similarity": "cosine"}
    similarity = {"turnmark": {"type": "BM25", "k1": bm25.k1, "b": bm25.b}}
    return {
        "settings": {"index": {"similarity": similarity}},
        "mappings": {"dynamic": "strict", "properties": properties},
    }


# --- searching -------------------------------------------------------------------------------------------------------


class ElasticRanker:
    """Finds in one index (or alias) by `match` (named `bm25`), `sparse_vector` (`elser`) or `knn` (`dense`).

    The scores of `dense` are cosines. See `turnmark.retrieval.search.Ranker`.

    Args:
        index: the local index whose passages the documents are.
        embedder: of the vectors that are searched, for `dense`.
    """

    def __init__(self, name: str, index: Index, server: Served, fields: Fields, embedder: Embedder | None) -> None:
        self.name, self._index, self._server, self._fields = name, index, server, fields
        self._embedder, self._client = embedder, _client(server.url)
        self._address = f"{server.url}/{server.name}"

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
                answers = self._client.msearch(index=self._server.name, searches=searches).body["responses"]
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


# --- the retriever ---------------------------------------------------------------------------------------------------


def _settings(spec: Spec, options: Options, embedder: str) -> BuildSettings:
    server, exists = parse_server(spec)
    if exists:  # locally the passages and BM25
        return build_for(options)
    return build_for(options, embedder if "dense" in _rankers_of(spec) else "", server=server)


def _open_elastic(spec: Spec, index: Index, options: Options) -> FusedRetriever:
    server, exists = parse_server(spec)
    server = server if exists else _written_index(spec, server, index)
    fields = Fields(**{key: value for key, value in spec.options.items() if key in Fields.model_fields})
    rankers: list[tuple[Ranker, float]] = []
    names = _rankers_of(spec)
    for name in names:
        embedder = None
        if name == "dense":
            # What made the vectors that are there has nothing to do with what made those of the local index.
            embedder = open_embedder(options.get("embedder", "minilm")) if exists else index.embedder
        weight = options.get("weight", BM25_WEIGHT) if name == "bm25" and len(names) > 1 else 1.0
        rankers.append((ElasticRanker(name, index, server, fields, embedder), weight))
    return fuse_rankers(spec, index, options, rankers)


def _written_index(spec: Spec, server: Served, index: Index) -> Served:
    """The index on the server that the build of a local index wrote."""
    built = index.manifest
    lacks_vectors = built.server == server and "dense" in _rankers_of(spec) and built.embedder is None
    if built.server != server or lacks_vectors:
        reason = "was written there without vectors" if lacks_vectors else f"was not written to {server.url}"
        raise RequestError(
            f"the index {built.name!r} {reason}; build it again: {index.build_command(str(spec))}; or name an index "
            f"that is there: {server.url}/INDEX"
        )
    written = read_note(index.files / "elasticsearch")
    if written is None:
        raise RequestError(f"the index {built.name!r} is damaged; build it again: {rebuild_command(built, str(spec))}")
    return written


ELASTIC = Kind(
    open=_open_elastic,
    settings=_settings,
    options={
        **BM25_OPTIONS,
        **LIST_OPTIONS,
        "weight": up_to(10),
        "query": one_of(*FORMS),
        "embedder": lambda text: str(EMBEDDERS.check(text)),
        **dict.fromkeys(Fields.model_fields, _field),
    },
    component=ElasticComponent(),
    check_server=check_server,
    delete=delete_index,
)
"""`elasticsearch+http(s)://HOST:PORT[/INDEX][?query=…]`."""
