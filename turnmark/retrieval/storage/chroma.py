"""Stores vectors on a Chroma server, without telemetry."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.core.extras import require_extra
from turnmark.core.grouping import batched
from turnmark.core.untrusted import describe_error
from turnmark.retrieval.storage.server_addresses import ServerLocation, read_note

TOKEN = "TURNMARK_CHROMA_TOKEN"
PORT = 8000
SECONDS = 60.0
"""Timeout of a request."""
# Chosen so that recall@10 against exact search stays above .99 on the MTRAG pools; a data test measures it.
HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 256}
PAGE = 1000


def open_client(server: ServerLocation) -> Any:
    """Connect to a server and return the client. The token is read from the environment."""
    require_extra("chroma", f"the Chroma server at {server.url}")
    import chromadb
    import httpx

    url, token = server.url, os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with _named_errors(f"the Chroma server at {url}"):
        # Chroma's client has no timeout for its first request.
        httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS, headers=headers).raise_for_status()
        client: Any = chromadb.HttpClient(
            url, port=PORT, ssl=url.startswith("https:"), headers=headers,
            settings=chromadb.Settings(anonymized_telemetry=False),
        )  # fmt: skip
    session = getattr(getattr(client, "_server", None), "_session", None)
    if session is not None:
        session.timeout = SECONDS
    return client


@contextmanager
def _named_errors(owner: str) -> Iterator[None]:
    """Turn Chroma's errors into TurnmarkErrors; its client raises a plain Exception for unknown answers."""
    try:
        yield
    except TurnmarkError:
        raise
    except Exception as error:
        message = describe_error(error)
        hint = f"; is the token in {TOKEN} right?" if "401" in message or "403" in message else ""
        raise TurnmarkError(f"{owner} failed: {message}{hint}") from None


def delete_collection(server: ServerLocation) -> None:
    """Delete a collection, if it exists."""
    client = open_client(server)
    from chromadb.errors import NotFoundError

    with _named_errors(f"the Chroma server at {server.url}"), closing(client), suppress(NotFoundError):
        client.delete_collection(server.name)


class ChromaVectors:
    """A Chroma collection on the server that the note in a folder names.

    With `create`, make a new collection, which replaces one of the same name.
    """

    def __init__(self, folder: Path, create: bool = False) -> None:
        server = read_note(folder)
        if server is None:
            raise TurnmarkError(f"{folder} names no Chroma server")
        self._owner = f"the Chroma server at {server.url}"
        if create:
            delete_collection(server)
        with _named_errors(self._owner):
            self._client = open_client(server)
            self._collection: Any
            if create:
                self._collection = self._client.create_collection(
                    server.name, embedding_function=None, configuration={"hnsw": HNSW}
                )
            else:
                self._collection = self._client.get_collection(server.name, embedding_function=None)
        # Chroma keeps every client, with its vectors, in memory until the client is closed.
        weakref.finalize(self, self._client.close).atexit = False

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32], metadata: Sequence[dict[str, Any]]) -> None:
        """Add vectors with their passage ids and metadata, in pages that Chroma accepts."""
        for start in range(0, len(ids), PAGE):
            part = slice(start, start + PAGE)
            with _named_errors(self._owner):
                self._collection.upsert(ids=list(ids[part]), embeddings=vectors[part], metadatas=list(metadata[part]))

    @cached_property
    def count(self) -> int:
        """Number of vectors; read once."""
        with _named_errors(self._owner):
            return int(self._collection.count())

    def query(
        self, vectors: NDArray[np.float32], k: int, filters: Mapping[str, Any] | None = None
    ) -> list[list[tuple[str, float]]]:
        """Return for each vector the `k` nearest passages as (id, cosine), best first, equal cosines by id."""
        k = min(k, self.count)
        if not len(vectors) or not k:
            return [[] for _ in vectors]
        with _named_errors(self._owner):
            response = self._collection.query(
                query_embeddings=vectors, n_results=k, where=dict(filters) if filters else None, include=["distances"]
            )
        lists = []
        for ids, distances in zip(response["ids"], response["distances"], strict=True):
            neighbors = zip(ids, (1.0 - float(distance) for distance in distances), strict=True)
            lists.append(sorted(neighbors, key=lambda neighbor: (-neighbor[1], neighbor[0])))
        return lists

    def remove(self, ids: Sequence[str]) -> None:
        """Remove passages by id."""
        for page in batched(ids, PAGE):
            with _named_errors(self._owner):
                self._collection.delete(ids=page)

    def rows(self) -> Iterator[tuple[str, str]]:
        """Yield every (passage id, content hash) stored, in pages."""
        for offset in range(0, self.count, PAGE):
            with _named_errors(self._owner):
                page = self._collection.get(limit=PAGE, offset=offset, include=["metadatas"])
            for identifier, metadata in zip(page["ids"], page["metadatas"], strict=True):
                yield identifier, str(metadata["hash"])

    def close(self) -> None:
        """Close the connection. The store cannot be used afterwards."""
        self._client.close()
