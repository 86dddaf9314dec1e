"""Searching one index on an Elasticsearch server: the queries, and the rankers that send them.

The queries are those of Elastic's reference: `match` and `multi_match`, `knn` over a `dense_vector`, and
`sparse_vector` with an inference endpoint (ELSER).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.elastic_store import Fields, connect, own_errors, place_of, rankers_of
from turnmark.retrieval.embed import Embedder, open_embedder
from turnmark.retrieval.fusion import TopK
from turnmark.retrieval.index import Index
from turnmark.retrieval.manifest import rebuild_command
from turnmark.retrieval.servers import Served, read_note, redact
from turnmark.retrieval.types import Query

if TYPE_CHECKING:
    from elasticsearch.dsl.query import Query as Clause

# Searches in one request, and how many neighbours a shard looks at for each that is asked for.
SEARCHES = 64
CANDIDATES = 2
MOST_CANDIDATES, LEAST_CANDIDATES = 10_000, 256


class ElasticIndex:
    """One index (or alias) on a server, searched in batches.

    Args:
        index: the local index whose passages its documents stand for.
        place: the server and the name of the Elasticsearch index.
    """

    def __init__(self, index: Index, place: Served) -> None:
        self.index, self.name, self._client = index, place.name, connect(place.url)
        self.where = f"{place.url}/{place.name}"

    def filters(self, where: Mapping[str, str]) -> list[Clause] | None:
        """`--where` as filters on the keyword fields of the same names; None if nothing matches."""
        from elasticsearch.dsl.query import Terms

        matching = self.index.store.matching(where)
        if not all(matching.values()):
            return None
        return [Terms(**{key: values}) for key, values in matching.items()]

    def search(self, clauses: Sequence[Clause | None], k: int) -> list[TopK]:
        """The `k` best rows for each query clause, best first, equal scores by row; nothing for None.

        Documents that are no passages of the local index are left out.

        Raises:
            TurnmarkError: the server failed, gave a part of the results only, or found nothing but other documents.
        """
        results = [TopK.from_pairs(())] * len(clauses)
        searched = [(number, clause) for number, clause in enumerate(clauses) if clause is not None]
        for start in range(0, len(searched), SEARCHES):
            batch = searched[start : start + SEARCHES]
            searches: list[Mapping[str, Any]] = []
            for _, clause in batch:
                searches += [{}, {"query": clause.to_dict(), "size": k, "_source": False, "track_total_hits": False}]
            with own_errors(self.where):
                answers = self._client.msearch(index=self.name, searches=searches).body["responses"]
            for (number, _), answer in zip(batch, answers, strict=True):
                results[number] = self._rows(_hits(answer, self.where))
        return results

    def _rows(self, hits: Sequence[tuple[str, float]]) -> TopK:
        rows = self.index.store.rows_of([identity for identity, _ in hits])
        if hits and not rows:
            raise TurnmarkError(
                f"Elasticsearch index {self.where} found documents such as {hits[0][0]!r}, and none is a passage of "
                f"the index {self.index.manifest.name!r}: both must be made of the same passages, with the same ids"
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


def match(text: str, fields: Fields) -> Clause:
    """BM25 over the text, and over the title where there is such a field."""
    from elasticsearch.dsl.query import Match, MultiMatch

    if fields.title:
        return MultiMatch(query=text, fields=[fields.text, fields.title])
    return Match(fields.text, {"query": text})


def nearest(vector: Sequence[float], fields: Fields, k: int, filters: Sequence[Clause]) -> Clause:
    """The `k` nearest vectors; the filter holds while they are looked for, so that `k` are found."""
    from elasticsearch.dsl.query import Knn

    candidates = min(MOST_CANDIDATES, max(LEAST_CANDIDATES, CANDIDATES * k))
    options: dict[str, Any] = {"filter": list(filters)} if filters else {}
    return Knn(field=fields.vector, query_vector=list(vector), k=k, num_candidates=candidates, **options)


def elser(text: str, fields: Fields) -> Clause:
    """ELSER: the inference endpoint makes terms of the text, and those are searched."""
    from elasticsearch.dsl.query import SparseVector

    return SparseVector(field=fields.sparse, inference_id=fields.inference, query=text)


class TextRanker:
    """Finds by `match` (named `bm25`) or by `sparse_vector` (named `elser`); see `turnmark.retrieval.search.Ranker`."""

    def __init__(self, name: str, elastic: ElasticIndex, fields: Fields) -> None:
        self.name, self._elastic, self._fields = name, elastic, fields

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        from elasticsearch.dsl.query import Bool

        fields = self._fields
        clauses: list[Clause | None] = []
        for text, query in zip(texts, queries, strict=True):
            filters = self._elastic.filters(query.where)
            if filters is None or not text.strip():
                clauses.append(None)
                continue
            clause = elser(text, fields) if self.name == "elser" else match(text, fields)
            clauses.append(Bool(must=[clause], filter=filters) if filters else clause)
        return self._elastic.search(clauses, k)


class VectorRanker:
    """Finds by `knn` with our embedder's query vectors; scores are cosines. See `turnmark.retrieval.search.Ranker`."""

    name = "dense"

    def __init__(self, elastic: ElasticIndex, fields: Fields, embedder: Embedder) -> None:
        self._elastic, self._fields, self._embedder = elastic, fields, embedder

    def lists(self, texts: Sequence[str], queries: Sequence[Query], k: int) -> list[TopK]:
        clauses: list[Clause | None] = []
        for vector, query in zip(self._embedder.encode(texts, "query"), queries, strict=True):
            filters = self._elastic.filters(query.where)
            clauses.append(None if filters is None else nearest(vector.tolist(), self._fields, k, filters))
        # A field whose similarity is `cosine`, or `dot_product` of unit vectors, scores (1 + cosine) / 2.
        found = self._elastic.search(clauses, k)
        return [TopK.from_pairs((row, 2 * score - 1) for row, score in rows) for rows in found]


def open_rankers(spec: Spec, index: Index) -> list[TextRanker | VectorRanker]:
    """The rankers of a retriever `elasticsearch+http(s)://HOST:PORT[/INDEX][?…]`.

    Raises:
        RequestError: no INDEX, and the index was not built for this server; or its queries need vectors it lacks.
        MissingExtra: the official client is not installed.
    """
    place, exists = place_of(spec)
    elastic = ElasticIndex(index, place if exists else _built(spec, place, index))
    fields = Fields(**{key: value for key, value in spec.options.items() if key in Fields.model_fields})
    rankers: list[TextRanker | VectorRanker] = []
    for name in rankers_of(spec):
        if name == "dense":
            # What made the vectors that are there has nothing to do with what made those of the local index.
            embedder = open_embedder(spec.options.get("embedder", "minilm")) if exists else index.embedder
            rankers.append(VectorRanker(elastic, fields, embedder))
        else:
            rankers.append(TextRanker(name, elastic, fields))
    return rankers


def _built(spec: Spec, server: Served, index: Index) -> Served:
    """The index on the server that the build of a local index wrote."""
    built = index.manifest
    lacks_vectors = built.server == server and "dense" in rankers_of(spec) and built.embedder is None
    if built.server != server or lacks_vectors:
        reason = "was written there without vectors" if lacks_vectors else f"was not written to {server.url}"
        raise RequestError(
            f"the index {built.name!r} {reason}; build it again: {index.build_command(str(spec))}; or name an index "
            f"that is there: {server.url}/INDEX"
        )
    place = read_note(index.files / "elasticsearch")
    if place is None:
        raise RequestError(f"the index {built.name!r} is damaged; build it again: {rebuild_command(built, str(spec))}")
    return place
