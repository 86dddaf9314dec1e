"""An index on an Elasticsearch server: the official client, its errors as ours, and writing our passages to it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from turnmark.corpora.errors import MissingExtra, TurnmarkError
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.outside import redact
from turnmark.retrieval.served import Served
from turnmark.retrieval.store import WHERE_KEYS

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

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


def connect(url: str) -> Elasticsearch:
    """A client for a server; nothing is sent yet. The key comes from the environment.

    Raises:
        MissingExtra: the official client is not installed.
    """
    try:
        from elasticsearch import Elasticsearch
    except ModuleNotFoundError as error:
        raise MissingExtra("Elasticsearch", "elasticsearch") from error
    # The client would otherwise report each request to whatever OpenTelemetry is set up in the process.
    os.environ.setdefault("OTEL_PYTHON_INSTRUMENTATION_ELASTICSEARCH_ENABLED", "false")
    options: dict[str, Any] = {}
    if key := next((os.environ[name] for name in KEYS if os.environ.get(name)), ""):
        options["api_key"] = key
    if certificates := os.environ.get(CERTIFICATES):
        options["ca_certs"] = certificates
    return Elasticsearch(
        url,
        request_timeout=SECONDS,
        max_retries=RETRIES,
        retry_on_timeout=True,
        meta_header=False,
        **options,
    )


@contextmanager
def named(where: str) -> Iterator[None]:
    """Elasticsearch's own errors as ours.

    Args:
        where: the server as messages name it.

    Raises:
        TurnmarkError: the server cannot be reached, or refused what was asked of it.
    """
    from elasticsearch import ApiError, TransportError
    from elasticsearch.helpers import BulkIndexError

    try:
        yield
    except ApiError as error:
        said = {
            401: f"it wants a key; set {KEYS[0]} (or {KEYS[1]}) in the environment",
            403: f"the key in {KEYS[0]} (or {KEYS[1]}) does not allow this",
        }.get(error.status_code, "")
        # Its text begins with its type, as ours does.
        raise TurnmarkError(f"Elasticsearch at {where}: {said or redact(error).partition(': ')[2]}") from None
    except BulkIndexError as error:
        refused = [item for one in error.errors for item in one.values()]
        first = redact(TurnmarkError(f"{refused[0].get('_id')}: {refused[0].get('error')}")).partition(": ")[2]
        raise TurnmarkError(f"Elasticsearch at {where} did not take {len(refused)} passages, such as {first}") from None
    except (TransportError, OSError) as error:
        raise TurnmarkError(
            f"Elasticsearch at {where} cannot be reached ({RETRIES + 1} tries): {redact(error)}"
        ) from None


def greet(url: str) -> None:
    """Make sure that an Elasticsearch server answers.

    Raises:
        TurnmarkError: see `named`.
    """
    client = connect(url)
    with named(url):
        client.info()


def remove(place: Served) -> None:
    """Delete an index, if it is there.

    Raises:
        TurnmarkError: see `named`.
    """
    client = connect(place.url)
    with named(place.url):
        client.indices.delete(index=place.name, ignore_unavailable=True)


def body_of(manifest: Manifest) -> dict[str, Any]:
    """Settings and mappings of an index for our passages: BM25 as in the local index, exact fields for filters."""
    bm25 = manifest.bm25
    properties: dict[str, Any] = {
        "text": {
            "type": "text",
            "analyzer": bm25.language if bm25.language in ANALYSERS else "standard",
            "similarity": "turnmark",
        },
        "hash": {"type": "keyword"},
        **{key: {"type": "integer" if key == "page" else "keyword"} for key in WHERE_KEYS},
    }
    if manifest.embedder:
        properties["vector"] = {
            "type": "dense_vector", "dims": manifest.embedder.dimension, "index": True, "similarity": "cosine"
        }  # fmt: skip
    similarity = {"turnmark": {"type": "BM25", "k1": bm25.k1, "b": bm25.b}}
    return {
        "settings": {"index": {"similarity": similarity}},
        "mappings": {"dynamic": "strict", "properties": properties},
    }
