"""An index on an Elasticsearch server: the official client, its errors as ours, and writing our passages to it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np

from turnmark.corpora.errors import MissingExtra, RequestError, TurnmarkError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.bm25 import BM25Settings
from turnmark.retrieval.component import VECTORS, Material, Page
from turnmark.retrieval.manifest import BuildSettings, Manifest
from turnmark.retrieval.servers import Served, address, assign, read_note, redact
from turnmark.retrieval.store import WHERE_KEYS

if TYPE_CHECKING:
    from elasticsearch import Elasticsearch

    from turnmark.retrieval.index import Index

FORMS: Mapping[str, tuple[str, ...]] = {
    "bm25": ("bm25",), "knn": ("dense",), "hybrid": ("dense", "bm25"), "elser": ("elser",)
}  # fmt: skip
FIELDS = ("text", "title", "vector", "sparse", "inference")


def _form(text: str) -> str:
    if text not in FORMS:
        raise ValueError(f"one of {', '.join(FORMS)}")
    return text


def _field(text: str) -> str:
    if not re.fullmatch(r"[\w.@:/-]{1,200}", text):
        raise ValueError("a name of letters, digits, '.', '_' and '-'")
    return text


def _embedder(text: str) -> str:
    from turnmark.retrieval.embed import EMBEDDERS

    try:
        return str(EMBEDDERS.check(text))
    except RequestError as error:
        raise ValueError(str(error)) from error


OPTIONS: dict[str, Callable[[str], Any]] = {"query": _form, "embedder": _embedder, **dict.fromkeys(FIELDS, _field)}
"""Beside those of BM25 and of the fusion."""


def place_of(spec: Spec) -> tuple[Served, bool]:
    """Where a spec's index is, and whether it is one that was there before: then `name` is its own name.

    Raises:
        RequestError: a wrong address, or options that do not go with it; all of it at once.
    """
    host = address(spec.url, PORT, spec.name, KEYS[0])
    problems = []
    # One name, for a pattern could find a passage twice.
    if host.path and not re.fullmatch(r"[a-z0-9.][a-z0-9._+-]{0,254}", host.path):
        problems.append(
            f"retriever {spec.name!r}: {host.path!r} is not the name of one Elasticsearch index (lower case, no '/', "
            "no '*')"
        )
    if host.path and (bm25_set := sorted(spec.options.keys() & {"k1", "b", "language"})):
        problems.append(
            f"retriever {spec.name!r}: {', '.join(bm25_set)} belong to an index that is built; leave them out"
        )
    if not host.path and (given_options := sorted(spec.options.keys() & {*FIELDS, "embedder"})):
        problems.append(
            f"retriever {spec.name!r}: {', '.join(given_options)} are for an index that is there; "
            f"name it: {host.base}/INDEX"
        )
    if not host.path and spec.options.get("query") == "elser":
        problems.append(
            f"retriever {spec.name!r}: query=elser searches an index that is there, since its terms are made by the "
            f"server's own model; name it: {host.base}/INDEX"
        )
    if problems:
        raise RequestError(problems)
    if find_spec("elasticsearch") is None:
        raise MissingExtra(f"retriever {spec.name!r}", "elasticsearch")
    return Served(kind="elasticsearch", url=host.base, name=host.path), bool(host.path)


def settings_of(spec: Spec, embedder: str, bm25: BM25Settings) -> BuildSettings:
    """What an index for the spec is built with; see `turnmark.retrieval.registry.build_settings`.

    Beside an index that is there, passages and BM25 only; else what its queries need, and the documents on the server.
    """
    from turnmark.retrieval.embed import EMBEDDERS

    place, exists = place_of(spec)
    if exists:
        return BuildSettings(bm25=bm25, embedder="")
    dense = "dense" in FORMS[spec.options.get("query", "bm25")]
    return BuildSettings(bm25=bm25, embedder=str(EMBEDDERS.check(embedder)) if dense else "", server=place)


class ElasticComponent:
    """Our passages as documents of an Elasticsearch index; see `turnmark.retrieval.components.Component`."""

    name = key = "elasticsearch"

    def made_by(self, manifest: Manifest) -> str | None:
        return "" if manifest.server and manifest.server.kind == "elasticsearch" else None

    def write(self, material: Material) -> None:
        from elasticsearch.helpers import streaming_bulk

        manifest = material.manifest
        assert manifest.server is not None, "written where the manifest promises it"
        place = assign(material.folder / self.name, manifest.server, manifest.name)
        remove(place)
        client = connect(place.url)
        material.progress.start(self.name, manifest.passages)
        with own_errors(place.url):
            client.indices.create(index=place.name, **body_of(manifest))
            for _ in streaming_bulk(client, self._actions(material), index=place.name, chunk_size=BULK, max_retries=2):
                material.progress.advance(1)
            client.indices.refresh(index=place.name)

    def _actions(self, material: Material) -> Iterator[dict[str, Any]]:
        for page in material.store.pages():
            vectors: list[bytes] = []
            if material.manifest.embedder:
                vectors = material.checkpoint.get(VECTORS, [content for _, content, _ in page])
            for at, (_, content, passage) in enumerate(page):
                fields = {key: value for key in WHERE_KEYS if (value := getattr(passage, key)) is not None}
                document = {"text": passage.indexed_text, "hash": content, **fields}
                if vectors:
                    document["vector"] = np.frombuffer(vectors[at], dtype=np.float32).tolist()
                yield {"_op_type": "index", "_id": passage.id, "_source": document}

    def stored(self, index: Index, page: Page) -> Mapping[str, bytes]:  # noqa: ARG002
        """See `Component.stored`: nothing, the vectors are in a file, too."""
        return {}

    def verify(self, index: Index, sample: int) -> Iterator[str]:  # noqa: ARG002
        """See `Component.verify`: how many documents there are."""
        place = read_note(index.files / self.name)
        if place is None:
            yield f"{self.name} has no note of where its index is"
            return
        client = connect(place.url)
        with own_errors(f"{place.url}/{place.name}"):
            count = int(client.count(index=place.name).body["count"])
        if count != index.manifest.passages:
            yield f"{self.name} has {count} documents, the manifest says {index.manifest.passages} passages"


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


def greet(url: str) -> None:
    """Make sure that an Elasticsearch server answers.

    Raises:
        TurnmarkError: see `own_errors`.
    """
    client = connect(url)
    with own_errors(url):
        client.info()


def remove(place: Served) -> None:
    """Delete an index, if it is there.

    Raises:
        TurnmarkError: see `own_errors`.
    """
    client = connect(place.url)
    with own_errors(place.url):
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
