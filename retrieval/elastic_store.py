"""An index on an Elasticsearch server: its specs, the official client with our errors, our passages written there."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from pydantic import Field

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.corpora.specs import Spec, one_of
from turnmark.corpora.types import Record
from turnmark.retrieval.embed import EMBEDDERS
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.servers import Served, address, redact
from turnmark.retrieval.store import WHERE_KEYS

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

FORMS: Mapping[str, tuple[str, ...]] = {
    "bm25": ("bm25",), "knn": ("dense",), "hybrid": ("dense", "bm25"), "elser": ("elser",)
}  # fmt: skip
"""Value of the option `query` -> its rankers."""
KEYS = ("TURNMARK_ELASTIC_API_KEY", "ELASTIC_API_KEY")
CERTIFICATES = "TURNMARK_ELASTIC_CA_CERTS"
PORT = 9200
SECONDS, RETRIES = 30, 3
BULK = 500
# Snowball languages that Elasticsearch has an analyser of the same name for; others are cut into words only.
ANALYSERS = frozenset(
    "arabic armenian basque catalan danish dutch english finnish french german greek hindi hungarian indonesian irish "
    "italian lithuanian norwegian portuguese romanian russian serbian spanish swedish turkish".split()
)


class Fields(Record):
    """Which fields of the index's documents are searched."""

    text: str = "text"
    title: str = Field(default="", description="searched beside the text by multi_match; empty: not at all")
    vector: str = Field(default="vector", description="a dense_vector of our embedder")
    sparse: str = Field(default="sparse", description="a sparse_vector (or semantic_text) field of ELSER's terms")
    inference: str = Field(default=".elser-2-elasticsearch", description="the inference endpoint that made them")


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


OPTIONS: dict[str, Callable[[str], Any]] = {
    "query": one_of(*FORMS),
    "embedder": lambda text: str(EMBEDDERS.check(text)),
    **dict.fromkeys(Fields.model_fields, _field),
}
"""Beside those of BM25 and of the fusion."""


def place_of(spec: Spec) -> tuple[Served, bool]:
    """Where a spec's index is, and whether it is one that was there before: then `name` is its own name.

    Raises:
        RequestError: a wrong address, or options that do not go with it; all of it at once.
        MissingExtra: the official client is not installed.
    """
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
    if problems:
        raise RequestError(problems)
    if find_spec("elasticsearch") is None:
        raise MissingExtra(role, "elasticsearch")
    return Served(kind="elasticsearch", url=base, name=path), bool(path)


def rankers_of(spec: Spec) -> tuple[str, ...]:
    """The names of the rankers that a spec's queries need."""
    return FORMS[spec.options.get("query", "bm25")]


def connect(url: str) -> Elasticsearch:
    """A client for a server; nothing is sent yet. The key comes from the environment."""
    from elasticsearch import Elasticsearch

    # The client would otherwise report each request to whatever OpenTelemetry is set up in the process.
    os.environ.setdefault("OTEL_PYTHON_INSTRUMENTATION_ELASTICSEARCH_ENABLED", "false")
    options: dict[str, Any] = {}
    if key := next((os.environ[name] for name in KEYS if os.environ.get(name)), ""):
        options["api_key"] = key
    if certificates := os.environ.get(CERTIFICATES):
        options["ca_certs"] = certificates
    return Elasticsearch(
        url, request_timeout=SECONDS, max_retries=RETRIES, retry_on_timeout=True, meta_header=False, **options
    )


@contextmanager
def own_errors(server: str) -> Iterator[None]:
    """Elasticsearch's own errors as ours.

    Args:
        server: the server as messages name it.

    Raises:
        TurnmarkError: the server cannot be reached, or refused what was asked of it.
    """
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


def greet(place: Served) -> None:
    """Make sure that an Elasticsearch server answers; raises as `own_errors`."""
    with own_errors(place.url):
        connect(place.url).info()


def remove(place: Served) -> None:
    """Delete an index, if it is there; raises as `own_errors`."""
    with own_errors(place.url):
        connect(place.url).indices.delete(index=place.name, ignore_unavailable=True)


def count(place: Served) -> int:
    """How many documents an index has; raises as `own_errors`."""
    with own_errors(f"{place.url}/{place.name}"):
        return int(connect(place.url).count(index=place.name).body["count"])


def written(place: Served, manifest: Manifest, documents: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[str]:
    """Write an index, in place of one of that name; gives the id of each document as it is there.

    Args:
        documents: (id, fields) of each passage.
    """
    from elasticsearch.helpers import streaming_bulk

    remove(place)
    client = connect(place.url)
    actions = ({"_op_type": "index", "_id": identity, "_source": fields} for identity, fields in documents)
    with own_errors(place.url):
        client.indices.create(index=place.name, **_body(manifest))
        for _, item in streaming_bulk(client, actions, index=place.name, chunk_size=BULK, max_retries=2):
            yield item["index"]["_id"]
        client.indices.refresh(index=place.name)


def _body(manifest: Manifest) -> dict[str, Any]:
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
