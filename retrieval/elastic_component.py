"""The passages of an index as documents on an Elasticsearch server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from turnmark.retrieval.component import VECTORS, Material, Page
from turnmark.retrieval.elastic_store import BULK, body_of, connect, named, remove
from turnmark.retrieval.manifest import Manifest
from turnmark.retrieval.served import assign, noted
from turnmark.retrieval.store import WHERE_KEYS

if TYPE_CHECKING:
    from turnmark.retrieval.index import Index


class ElasticComponent:
    """Our passages as documents of an Elasticsearch index; see `turnmark.retrieval.components.Component`."""

    name = key = "elasticsearch"

    def made_by(self, manifest: Manifest) -> str | None:
        """See `Component.made_by`."""
        return "" if manifest.server and manifest.server.kind == "elasticsearch" else None

    def write(self, material: Material) -> None:
        """See `Component.write`."""
        from elasticsearch.helpers import streaming_bulk

        manifest = material.manifest
        assert manifest.server is not None, "written where the manifest promises it"
        place = assign(material.folder / self.name, manifest.server, manifest.name)
        remove(place)
        client = connect(place.url)
        material.progress.start(self.name, manifest.passages)
        with named(place.url):
            client.indices.create(index=place.name, **body_of(manifest))
            for _ in streaming_bulk(client, self._actions(material), index=place.name, chunk_size=BULK, max_retries=2):
                material.progress.advance(1)
            client.indices.refresh(index=place.name)

    def _actions(self, material: Material) -> Iterator[dict[str, Any]]:
        import numpy as np

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
        place = noted(index.files / self.name)
        if place is None:
            yield f"{self.name} has no note of where its index is"
            return
        client = connect(place.url)
        with named(f"{place.url}/{place.name}"):
            count = int(client.count(index=place.name).body["count"])
        if count != index.manifest.passages:
            yield f"{self.name} has {count} documents, the manifest says {index.manifest.passages} passages"
