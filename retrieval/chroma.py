"""Vectors in Chroma, in a folder or on a server: written once when an index is built, then only read. No telemetry.

For indexes of more passages than a flat file serves (`turnmark.retrieval.flat`), and for servers.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnmark.corpora.errors import RequestError, TurnmarkError
from turnmark.corpora.specs import Spec
from turnmark.retrieval.servers import Served, address, read_note, redact

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
    from chromadb.config import Settings

    url, token = server.url, os.environ.get(TOKEN)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    with _named_errors(url):
        # Chroma's own client waits for ever for its first answer.
        reply = httpx.get(f"{url}/api/v2/heartbeat", timeout=SECONDS, headers=headers)
        if not reply.is_success or "heartbeat" not in reply.text:
            raise RuntimeError(f"status {reply.status_code} for the heartbeat of a server of version 1")
        client: Any = chromadb.HttpClient(
            url, port=PORT, ssl=url.startswith("https:"), headers=headers,
            settings=Settings(anonymized_telemetry=False),
        )  # fmt: skip
    if (session := getattr(getattr(client, "_server", None), "_session", None)) is not None:
        session.timeout = SECONDS
    return client


@contextmanager
def _named_errors(url: str) -> Iterator[None]:
    """What a call to a server raises, as ours."""
    import httpx
    from chromadb.errors import NotFoundError

    try:
        yield
    except httpx.TransportError as error:
        raise TurnmarkError(f"the Chroma server at {url} cannot be reached: {redact(error)}; start it") from None
    except NotFoundError as error:
        raise TurnmarkError(
            f"the Chroma server at {url} lacks something: {redact(error)}; build the index again"
        ) from None
    except Exception as error:  # its client raises a plain Exception for whatever answer it does not know
        message = redact(error)
        refused = "401" in message or "403" in message or "Auth" in type(error).__name__
        hint = f"; set {TOKEN} in the environment" if refused else ""
        raise TurnmarkError(f"the Chroma server at {url} failed: {message}{hint}") from None


def check_server(server: Served) -> None:
    """Make sure that a Chroma server answers."""
    open_client(server).close()


def delete_collection(server: Served) -> None:
    """Delete a collection, if it is there."""
    from chromadb.errors import NotFoundError

    client = open_client(server)
    with _named_errors(server.url):
        try:
            client.delete_collection(server.name)
        except NotFoundError:
            return
        finally:
            client.close()


def server_of(spec: Spec) -> Served:
    """The server and collection that a spec names for an index's vectors."""
    base, path = address(spec.url, PORT, spec.name, TOKEN)
    if path:
        raise RequestError(f"retriever {spec.name!r}: an address ends with the port; leave {path!r} out")
    return Served(kind="chroma", url=base, name=spec.options.get("collection", ""))


def collection_option(text: str) -> str:
    """The converter of the option `collection`."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,99}", text):
        raise ValueError("2 to 100 letters, digits, '.', '_' and '-', beginning with a letter or digit")
    return text


class ChromaVectors:
    """One Chroma collection: in a folder, or on the server that a note in that folder names.

    Args:
        folder: where Chroma keeps its files; made when `create` is true, else it must be there.
        server: where the collection is created; one that is there by that name is replaced.
    """

    def __init__(self, folder: Path, create: bool = False, server: Served | None = None) -> None:
        self._count: int | None = None
        self._folder, self._server = folder, server if create else read_note(folder)
        if self._server is not None and create:
            delete_collection(self._server)
        self._client = self._files() if self._server is None else open_client(self._server)
        name = COLLECTION if self._server is None else self._server.name
        with self._asking():
            if create:
                self._collection: Any = self._client.create_collection(
                    name, configuration={"hnsw": HNSW}, embedding_function=None
                )
            else:
                self._collection = self._client.get_collection(name, embedding_function=None)

    def _files(self) -> Any:
        import chromadb
        from chromadb.config import Settings

        with self._asking():
            return chromadb.PersistentClient(str(self._folder), settings=Settings(anonymized_telemetry=False))

    @contextmanager
    def _asking(self) -> Iterator[None]:
        """Chroma's own errors as ours."""
        from chromadb.errors import ChromaError

        if self._server is not None:
            with _named_errors(self._server.url):
                yield
            return
        try:
            yield
        except ChromaError as error:
            raise TurnmarkError(f"Chroma's files are damaged: {error} ({self._folder})") from error

    def add(self, ids: Sequence[str], vectors: NDArray[np.float32], metadata: Sequence[Mapping[str, Any]]) -> None:
        """Add vectors with their passage ids and metadata, in pages that Chroma accepts."""
        self._count = None
        for start in range(0, len(ids), PAGE):
            part = slice(start, start + PAGE)
            rows = [dict(row) for row in metadata[part]]
            with self._asking():
                self._collection.add(ids=list(ids[part]), embeddings=vectors[part], metadatas=rows)

    def count(self) -> int:
        """How many vectors are stored. Asked once: a finished collection is only read."""
        if self._count is None:
            with self._asking():
                self._count = int(self._collection.count())
        return self._count

    def query(
        self, vectors: NDArray[np.float32], k: int, filters: Mapping[str, Any] | None = None
    ) -> list[list[tuple[str, float]]]:
        """For each vector the `k` nearest passages as (id, cosine), best first, equal cosines by id."""
        k = min(k, self.count())
        if not len(vectors) or not k:
            return [[] for _ in vectors]
        with self._asking():
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
            with self._asking():
                page = self._collection.get(ids=list(ids[start : start + PAGE]), include=["embeddings"])
            stored.update(zip(page["ids"], np.asarray(page["embeddings"], dtype=np.float32), strict=True))
        return stored

    def rows(self) -> Iterator[tuple[str, str]]:
        """Every (passage id, content hash) stored, in pages."""
        for offset in range(0, self.count(), PAGE):
            with self._asking():
                page = self._collection.get(limit=PAGE, offset=offset, include=["metadatas"])
            yield from ((i, str(m["hash"])) for i, m in zip(page["ids"], page["metadatas"], strict=True))

    def close(self) -> None:
        """Let go of the files. The store cannot be used afterwards."""
        self._client.close()
