"""Vectors in Chroma, in a folder or on a server: written once when an index is built, then only read. No telemetry.

For indexes of more passages than a flat file serves (`turnmark.retrieval.vectors`), and for servers.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.core.errors import TurnmarkError
from turnmark.retrieval.servers import Served, read_note, redact

TOKEN = "TURNMARK_CHROMA_TOKEN"
PORT = 8000
SECONDS = 60.0
"""The longest wait for an answer."""
COLLECTION = "passages"
# Chosen so that recall@10 against exact search stays above .99 on the MTRAG pools; a data test measures it.
HNSW: dict[str, Any] = {"space": "cosine", "ef_construction": 200, "max_neighbors": 32, "ef_search": 256}
PAGE = 1000


def open_client(server: Served) -> Any:
    """A client for a server, which has answered; the token comes from the environment."""
    import chromadb
    import httpx

    url, token = server.url, os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with _named_errors(f"the Chroma server at {url}"):
        # Chroma's own client waits for ever for its first answer.
        httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS, headers=headers).raise_for_status()
        client: Any = chromadb.HttpClient(
            url, port=PORT, ssl=url.startswith("https:"), headers=headers,
            settings=chromadb.Settings(anonymized_telemetry=False),
        )  # fmt: skip
    if (session := getattr(getattr(client, "_server", None), "_session", None)) is not None:
        session.timeout = SECONDS
    return client


@contextmanager
def _named_errors(owner: str) -> Iterator[None]:
    """What Chroma raises, as ours; a server's client raises a plain Exception for whatever answer it does not know."""
    try:
        yield
    except TurnmarkError:
        raise
    except Exception as error:
        message = redact(error)
        hint = f"; is the token in {TOKEN} right?" if "401" in message or "403" in message else ""
        raise TurnmarkError(f"{owner} failed: {message}{hint}") from None


def delete_collection(server: Served) -> None:
    """Delete a collection, if it is there."""
    from chromadb.errors import NotFoundError

    client = open_client(server)
    with _named_errors(f"the Chroma server at {server.url}"):
        try:
            client.delete_collection(server.name)
        except NotFoundError:
            return
        finally:
            client.close()


class ChromaVectors:
    """One Chroma collection: in a folder, or on the server that a note in that folder names.

    With `create` it is made, on `server` if one is given, where it replaces one of that name.
    """

    def __init__(self, folder: Path, create: bool = False, server: Served | None = None) -> None:
        server = server if create else read_note(folder)
        self._owner = f"the Chroma server at {server.url}" if server else f"Chroma ({folder})"
        if server is not None and create:
            delete_collection(server)
        name = server.name if server else COLLECTION
        with _named_errors(self._owner):
            self._client = open_client(server) if server else _open_files(folder)
            made = {"configuration": {"hnsw": HNSW}} if create else {}
            opener = self._client.create_collection if create else self._client.get_collection
            self._collection: Any = opener(name, embedding_function=None, **made)

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32], metadata: Sequence[dict[str, Any]]) -> None:
        """Add vectors with their passage ids and metadata, in pages that Chroma accepts."""
        for start in range(0, len(ids), PAGE):
            part = slice(start, start + PAGE)
            with _named_errors(self._owner):
                self._collection.add(ids=list(ids[part]), embeddings=vectors[part], metadatas=list(metadata[part]))

    @cached_property
    def count(self) -> int:
        """How many vectors are stored: a finished collection is only read."""
        with _named_errors(self._owner):
            return int(self._collection.count())

    def query(
        self, vectors: NDArray[np.float32], k: int, filters: Mapping[str, Any] | None = None
    ) -> list[list[tuple[str, float]]]:
        """For each vector the `k` nearest passages as (id, cosine), best first, equal cosines by id."""
        k = min(k, self.count)
        if not len(vectors) or not k:
            return [[] for _ in vectors]
        with _named_errors(self._owner):
            response = self._collection.query(
                query_embeddings=vectors, n_results=k, where=dict(filters) if filters else None, include=["distances"]
            )
        lists = []
        for ids, distances in zip(response["ids"], response["distances"], strict=True):
            pairs = ((identifier, 1.0 - float(distance)) for identifier, distance in zip(ids, distances, strict=True))
            lists.append(sorted(pairs, key=lambda pair: (-pair[1], pair[0])))
        return lists

    def get(self, ids: Sequence[str]) -> dict[str, NDArray[np.float32]]:
        """The stored vectors of passages, by id; ids that are not there are left out."""
        stored: dict[str, NDArray[np.float32]] = {}
        for start in range(0, len(ids), PAGE):
            with _named_errors(self._owner):
                page = self._collection.get(ids=list(ids[start : start + PAGE]), include=["embeddings"])
            stored.update(zip(page["ids"], np.asarray(page["embeddings"], dtype=np.float32), strict=True))
        return stored

    def rows(self) -> Iterator[tuple[str, str]]:
        """Every (passage id, content hash) stored, in pages."""
        for offset in range(0, self.count, PAGE):
            with _named_errors(self._owner):
                page = self._collection.get(limit=PAGE, offset=offset, include=["metadatas"])
            yield from ((i, str(m["hash"])) for i, m in zip(page["ids"], page["metadatas"], strict=True))

    def close(self) -> None:
        """Let go of the files. The store cannot be used afterwards."""
        self._client.close()


def _open_files(folder: Path) -> Any:
    import chromadb

    return chromadb.PersistentClient(str(folder), settings=chromadb.Settings(anonymized_telemetry=False))
